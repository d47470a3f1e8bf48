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
    def setUp(self) -> None:
        # One that is still at work is waited for.
        host.run('systemctl', 'start', 'nova-vgpu-apply')

    def show(self, unit: str, what: str) -> str:
        return host.run('systemctl', 'show', '-P', what, unit).strip()

    def test_the_same_vgpus_are_there_and_their_guests_start(self) -> None:
        self.assertEqual('success', self.show('nova-vgpu-apply', 'Result'))
        self.assertEqual('active', self.show('nova-vgpu-apply', 'ActiveState'))
        self.assertEqual(kept.read('devices'), self.rows('device', 'list'))
        self.nova_vgpu('doctor', '--strict')
        for name in kept.GUESTS:
            domains.start(name)
        vf = host.virtual_function(host.L40S, 0)
        self.assertEqual('nvidia', host.driver_of(vf))
        for name in kept.GUESTS:
            domains.virsh('destroy', name)
        self.prepare_upgrade()

    def prepare_upgrade(self) -> None:
        """The next boot has a driver that counts its types otherwise.

        Not yet with mdevs: mdevctl starts them by their old ids, and apply
        makes them again, which is tested on the simulated machine only.
        """
        for row in self.rows('device', 'list'):
            if row['Kind'] == 'mdev':
                name = 'kept-on-pf' if row['GPU'] == host.T4 else 'kept-on-vf'
                domains.remove(name)
                self.nova_vgpu('device', 'disable', row['Device'])
        kept.write('devices', self.rows('device', 'list'))
        _MODPROBE.write_text('options fakevgpu id_offset=1\n')

    def test_the_agent_is_up_and_finds_no_drift(self) -> None:
        self.wait_until(
            'up',
            lambda: self.show('nova-vgpu-agent', 'ActiveState') == 'active',
        )
        self.assertEqual('0', self.show('nova-vgpu-agent', 'NRestarts'))
