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

"""After a reboot the unit has brought everything back."""

import pathlib

from lab.guest.tests import domains
from lab.guest.tests import host
from lab.guest.tests import kept

_MODPROBE = pathlib.Path('/etc/modprobe.d/upgrade.conf')


class TestAfterReboot(host.HostTest):
    has_a100 = True

    def test_the_same_vgpus_are_there_and_their_guests_start(self) -> None:
        unit = 'nova-vgpu-apply'
        self.wait_until(
            'applied', lambda: self.show_unit(unit, 'ActiveState') == 'active'
        )
        self.assertEqual('success', self.show_unit(unit, 'Result'))
        self.assertEqual(kept.read('devices'), self.rows('device', 'list'))
        self.nova_vgpu('doctor', '--strict')
        said = self.nova_vgpu(
            *('provider', 'diff', '--mode', 'full', '--node', kept.NODE)
        )
        self.assertIn('Placement agrees', said)
        for name in kept.GUESTS:
            domains.start(name)
        vf = host.virtual_function(host.L40S, 0)
        self.assertEqual('nvidia', host.driver_of(vf))
        agent = 'nova-vgpu-agent'
        self.wait_until(
            'up', lambda: self.show_unit(agent, 'ActiveState') == 'active'
        )
        self.assertEqual('0', self.show_unit(agent, 'NRestarts'))
        for name in kept.GUESTS:
            domains.stop(name)
        self.prepare_upgrade()

    def prepare_upgrade(self) -> None:
        """The next boot has a driver that counts its types otherwise.

        The type of one GPU is declared by its id, which is not recommended.
        """
        (type_id,) = (
            row['ID']
            for row in self.rows('type', 'list', '--gpu', host.T4)
            if row['Name'].endswith('T4-8Q')
        )
        kept.write('id', type_id)
        self.declare(kept.DECLARED.replace('T4-8Q', type_id))
        self.nova_vgpu('apply')
        kept.write('devices', self.rows('device', 'list'))
        _MODPROBE.write_text('options fakevgpu id_offset=1\n')
