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

"""After a reboot with a driver whose type ids mean something else."""

from lab.guest.tests import domains
from lab.guest.tests import host
from lab.guest.tests import kept


class TestAfterUpgrade(host.HostTest):
    has_a100 = True

    def test_an_id_is_stopped_and_names_go_on_working(self) -> None:
        former = kept.read('devices')
        unit = 'nova-vgpu-apply'
        self.wait_until(
            'ended',
            lambda: self.show_unit(unit, 'ActiveState') == 'failed',
        )
        for command in (('check',), ('apply',), ('doctor',)):
            said = self.nova_vgpu(*command, code=2)
            for word in (kept.read('id'), 'T4-8Q', 'T4-4Q'):
                self.assertIn(word, said)
        # Nothing was done for the others either.
        self.assertEqual(0, host.count_vfs(host.A10))
        # mdevctl has started this one, by its old id.
        self.assertEqual(
            [(host.T4, 'T4-4Q')],
            [
                (row['GPU'], row['Type'])
                for row in self.rows('device', 'list')
                if row['State'] == 'vGPU'
            ],
        )

        self.declare(kept.DECLARED)
        host.run('systemctl', 'restart', unit)
        now = self.rows('device', 'list')
        self.assertNotEqual(former, now)
        for row in (*former, *now):
            del row['Type ID']
        self.assertEqual(former, now)
        self.nova_vgpu('doctor', '--strict')
        for name in kept.GUESTS:
            domains.start(name)
