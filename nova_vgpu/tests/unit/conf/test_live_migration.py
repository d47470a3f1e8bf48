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

"""Nova's options about live migrations."""

import pathlib

import fixtures
import testtools

from nova_vgpu import configuration
from nova_vgpu import values


class LiveMigrationTest(testtools.TestCase):
    def read(self, text: str) -> values.MigrationSettings:
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        path = directory / 'nova.conf'
        path.write_text(f'[devices]\n[libvirt]\n{text}')
        return configuration.load([str(path)], []).migration_settings

    def test_novas_defaults(self) -> None:
        self.assertEqual(
            values.MigrationSettings(False, 500, 10, 75, 0), self.read('')
        )

    def test_what_is_set(self) -> None:
        self.assertEqual(
            values.MigrationSettings(True, 500000, 3, 4, 1024),
            self.read(
                'live_migration_permit_post_copy = true\n'
                'live_migration_downtime = 500000\n'
                'live_migration_downtime_steps = 3\n'
                'live_migration_downtime_delay = 4\n'
                'live_migration_bandwidth = 1024\n'
            ),
        )

    def test_an_invalid_value_counts_as_the_default(self) -> None:
        """Nova itself reports it."""
        found = self.read('live_migration_downtime = long\n')
        self.assertEqual(500, found.downtime)
