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


import os
import pathlib

import fixtures
import testtools

from nova_vgpu import exception
from nova_vgpu.host import state


class TestStateDirectory(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.path = self.root / 'lib' / 'nova-vgpu'
        self.state = state.StateDirectory(str(self.path))

    def record(self) -> list[str]:
        """The calls that put data on the disk, as they are made."""
        calls: list[str] = []

        def wrap(name: str) -> None:
            real = getattr(os, name)

            def call(*args: object, **kwargs: object) -> object:
                calls.append(name)
                return real(*args, **kwargs)

            self.useFixture(fixtures.MonkeyPatch(f'os.{name}', call))

        for name in ('write', 'fsync', 'replace'):
            wrap(name)
        return calls

    def test_what_was_never_written_is_none(self) -> None:
        self.assertIsNone(self.state.read('types.json'))

    def test_a_file_is_replaced_as_a_whole(self) -> None:
        self.state.replace('types.json', 'one')
        self.state.replace('types.json', 'two')
        self.assertEqual('two', self.state.read('types.json'))
        self.assertEqual(['types.json'], os.listdir(self.path))

    def test_a_replaced_file_is_on_the_disk_before_its_name(self) -> None:
        self.state.replace('types.json', 'one')
        calls = self.record()
        self.state.replace('types.json', 'two')
        self.assertEqual(['write', 'fsync', 'replace', 'fsync'], calls)

    def test_a_line_is_on_the_disk(self) -> None:
        self.state.append('journal', 'one')
        calls = self.record()
        self.state.append('journal', 'two')
        self.assertEqual(['write', 'fsync'], calls)
        self.assertEqual('one\ntwo', self.state.read('journal'))

    def test_a_new_file_is_on_the_disk_with_its_name(self) -> None:
        calls = self.record()
        self.state.append('journal', 'one')
        self.assertEqual(['write', 'fsync', 'fsync'], calls)

    def test_set_aside(self) -> None:
        self.state.append('journal', 'one')
        aside = self.state.set_aside('journal', '.broken')
        self.assertIsNone(self.state.read('journal'))
        self.assertEqual('one\n', pathlib.Path(aside).read_text())

    def test_a_name_leads_nowhere_else(self) -> None:
        (self.root / 'secret').write_text('secret')
        self.path.mkdir(parents=True)
        for name in ('../../secret', '/etc/passwd', '..', ''):
            self.assertRaises(exception.StateUnusable, self.state.read, name)
            self.assertRaises(
                exception.StateUnusable, self.state.replace, name, 'x'
            )
            self.assertRaises(
                exception.StateUnusable, self.state.append, name, 'x'
            )

    def test_not_through_a_link(self) -> None:
        self.path.mkdir(parents=True)
        (self.root / 'elsewhere').write_text('theirs')
        (self.path / 'journal').symlink_to(self.root / 'elsewhere')
        self.assertRaises(
            exception.StateUnusable, self.state.append, 'journal', 'ours'
        )
        self.assertEqual('theirs', (self.root / 'elsewhere').read_text())

    def test_a_full_disk_says_so_and_keeps_the_file(self) -> None:
        self.state.replace('types.json', 'one')

        def full(descriptor: int, data: bytes) -> int:
            raise OSError(28, 'No space left on device')

        self.useFixture(fixtures.MonkeyPatch('os.write', full))
        error = self.assertRaises(
            exception.StateUnusable, self.state.replace, 'types.json', 'two'
        )
        self.assertIn('no space left on device', str(error))
        self.assertIn('Free space', str(error))
        self.assertEqual('one', self.state.read('types.json'))
