#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Whether nova.conf permits post-copy migration."""

import pathlib

import fixtures
import testtools

from nova_vgpu import exception
from nova_vgpu.conf import sources


class TestLockPath(testtools.TestCase):
    def load(self, text: str) -> str | None:
        directory = self.useFixture(fixtures.TempDir()).path
        file = pathlib.Path(directory, 'nova.conf')
        file.write_text(text)
        return sources.load_lock_path([str(file)], [])

    def test_table(self) -> None:
        of_state = '[oslo_concurrency]\nlock_path = $state_path/tmp\n'
        for text, expected in (
            ('', None),
            ('[oslo_concurrency]\nlock_path = /run/nova\n', '/run/nova'),
            (
                f'[DEFAULT]\nstate_path = /var/lib/nova\n{of_state}',
                '/var/lib/nova/tmp',
            ),
        ):
            self.assertEqual(expected, self.load(text), text)
        for text in (
            of_state,
            '[oslo_concurrency]\nlock_path = $lock_path/tmp\n',
        ):
            error = self.assertRaises(
                exception.ConfigFileError, self.load, text
            )
            self.assertIn('lock_path cannot be resolved', str(error))


class TestPostCopy(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.file = self.directory / 'nova.conf'

    def find(self, text: str) -> object:
        self.file.write_text(text)
        return sources.find_post_copy([str(self.file)], [])

    def test_where_it_is_permitted(self) -> None:
        for word in ('true', 'True', 'on', '1'):
            found = self.find(
                f'[libvirt]\nlive_migration_permit_post_copy = {word}\n'
            )
            self.assertEqual(
                f'{self.file}: '
                '[libvirt]live_migration_permit_post_copy = true',
                str(found),
            )

    def test_where_it_is_not(self) -> None:
        for text in (
            '',
            '[libvirt]\nlive_migration_permit_post_copy = false\n',
            '[libvirt]\nlive_migration_permit_post_copy = perhaps\n',
            '[libvirt]\nlive_migration_permit_post_copy = $nothing\n',
            '[DEFAULT]\nlive_migration_permit_post_copy = true\n',
        ):
            self.assertIsNone(self.find(text), text)

    def test_the_file_that_counts_is_named(self) -> None:
        self.find('[libvirt]\nlive_migration_permit_post_copy = false\n')
        last = self.directory / 'last.conf'
        last.write_text('[libvirt]\nlive_migration_permit_post_copy = true\n')
        found = sources.find_post_copy([str(self.file), str(last)], [])
        assert found is not None
        self.assertEqual(str(last), found.source)

    def test_a_file_that_is_not_there(self) -> None:
        self.assertRaises(
            exception.ConfigFileError,
            sources.find_post_copy,
            [str(self.file)],
            [],
        )
