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

"""What a guest has is touched by no command."""

from lab.guest.tests import domains
from lab.guest.tests import host

#: Another type for every GPU.
_OTHERWISE = (
    host.DECLARED.replace('T4-8Q', 'T4-4Q')
    .replace('A10-12Q', 'A10-8Q')
    .replace('L40S-24Q', 'L40S-12Q')
)


class TestInUse(host.HostTest):
    def setUp(self) -> None:
        self.declare(host.DECLARED)
        self.nova_vgpu('apply')
        self.vf = host.virtual_function(host.L40S, 0)
        self.held = {
            'on-pf': self.make_vgpu(host.T4, 'T4-8Q'),
            'on-vf': self.make_vgpu(host.A10, 'A10-12Q'),
            'vfio': self.make_vgpu(self.vf, 'L40S-24Q'),
        }
        for name, device in self.held.items():
            domains.define(name, device)
            domains.start(name)
            self.addCleanup(self.nova_vgpu, 'device', 'disable', device)
            self.addCleanup(domains.remove, name)

    def kernel(self) -> tuple[object, ...]:
        return (
            host.mdevs(),
            host.type_of(self.vf),
            host.driver_of(self.vf),
            host.count_vfs(host.A10),
            host.count_vfs(host.L40S),
            [domains.state(name) for name in self.held],
        )

    def test_nothing_that_a_guest_has_is_touched(self) -> None:
        before = self.kernel()
        self.assertEqual(['paused'] * 3, before[-1])
        self.assertEqual('nvidia', before[2])
        for name, device in self.held.items():
            said = self.nova_vgpu('device', 'disable', device, code=3)
            self.assertIn(name, said)
            self.assertEqual(before, self.kernel())
        for gpu, name in ((host.A10, 'on-vf'), (host.L40S, 'vfio')):
            said = self.nova_vgpu('sriov', 'disable', gpu, code=3)
            self.assertIn(name, said)
            self.assertEqual(before, self.kernel())
        self.nova_vgpu(
            'device', 'enable', self.vf, '--type', 'L40S-24A', code=2
        )
        self.declare(_OTHERWISE)
        said = self.nova_vgpu('apply', code=3)
        for name in self.held:
            self.assertIn(name, said)
        self.nova_vgpu('restore', code=3)
        self.assertEqual(before, self.kernel())
        self.declare(host.DECLARED)
