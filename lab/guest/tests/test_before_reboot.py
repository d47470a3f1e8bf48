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

"""What is to be there again after a reboot."""

from lab.guest.tests import domains
from lab.guest.tests import host
from lab.guest.tests import kept

_UNITS = '/opt/nova-vgpu/lib/systemd/system'


class TestBeforeReboot(host.HostTest):
    has_a100 = True

    def test_guests_with_vgpus(self) -> None:
        host.cure_mdevctl()
        host.run('nvidia-smi', '-i', host.A100, '-mig', '1')
        self.declare(kept.DECLARED + host.PLACEMENT)
        for unit in ('nova-vgpu-apply', 'nova-vgpu-agent'):
            host.run('systemctl', 'enable', f'{_UNITS}/{unit}.service')
        host.run('systemctl', 'start', 'nova-vgpu-apply')
        for gpu in (host.A10, host.L40S):
            self.assertEqual(host.VFS, host.count_vfs(gpu))
        for name, (gpu, of_type) in kept.GUESTS.items():
            domains.define(name, self.make_vgpu(gpu, of_type))
        rows = self.rows('device', 'list')
        types = {row['Type'] for row in rows if row['State'] == 'vGPU'}
        self.assertEqual(
            {of_type for _, of_type in kept.GUESTS.values()}, types
        )
        kept.write('devices', rows)
        node = ('--node', kept.NODE)
        self.nova_vgpu(
            *('provider', 'sync', '--mode', 'full', '--create-root', *node)
        )
        shown = self.nova_vgpu('provider', 'show', *node)
        for gpu, total in kept.TOTALS.items():
            name = host.node_device(gpu)
            self.assertRegex(shown, rf'{name} *\| VGPU: 0 of {total} ')
