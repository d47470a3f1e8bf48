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
    def setUp(self) -> None:
        # One that is still at work is waited for.
        host.run('systemctl', 'start', 'nova-vgpu-apply')

    def test_names_go_on_working(self) -> None:
        former, now = kept.read('devices'), self.rows('device', 'list')
        self.assertNotEqual(former, now)
        for row in (*former, *now):
            del row['Type ID']
        self.assertEqual(former, now)
        domains.start('kept-vfio')
        self.nova_vgpu('check')
