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

"""From a bare host to the declared state, and back."""

import pathlib

from lab.guest.tests import host

_MDEVCTL = pathlib.Path('/usr/sbin/mdevctl')
_UNITS = '/opt/nova-vgpu/lib/systemd/system'


class TestLife(host.HostTest):
    def findings(self, code: int = 0) -> dict[str, set[str]]:
        """Errors and warnings of doctor: subjects by code."""
        found: dict[str, set[str]] = {}
        for row in self.rows('doctor', code=code):
            if row['Severity'] != 'note':
                found.setdefault(row['Code'], set()).add(row['Subject'])
        return found

    def test_from_a_bare_host_to_the_declared_state_and_back(self) -> None:
        self.declare(host.DECLARED)
        self.assertEqual(0, host.count_vfs(host.A10))
        found = self.findings(code=2)
        self.assertEqual({host.A10, host.L40S}, found.pop('vfs-off'), found)
        # Debian 13 has it in /usr/bin; the cure is the one that doctor names.
        self.assertIn('mdevctl-not-called', found)
        _MDEVCTL.unlink(missing_ok=True)
        _MDEVCTL.symlink_to('/usr/bin/mdevctl')

        steps = self.rows('apply', '--dry-run')
        self.assertEqual(0, host.count_vfs(host.A10))
        done = self.rows('apply')
        # GPUs take turns, in which order is for nobody to say.
        self.assertCountEqual(
            [row['Step'] for row in steps], [row['Step'] for row in done]
        )
        for gpu in (host.A10, host.L40S):
            self.assertEqual(host.VFS, host.count_vfs(gpu))
        self.assertEqual({}, self.findings())
        self.nova_vgpu('check')
        self.assertIn('Nothing to do', self.nova_vgpu('apply', '--dry-run'))
        plan = {row['GPU']: row for row in self.rows('plan')}
        self.assertEqual(
            {host.T4: 2, host.A10: 2, host.L40S: 2, host.GVTG: 4},
            {gpu: row['Total'] for gpu, row in plan.items()},
        )

        self.nova_vgpu('restore')
        for gpu in (host.A10, host.L40S):
            self.assertEqual(0, host.count_vfs(gpu))
        # The rest is for the units.
        host.run('systemctl', 'enable', f'{_UNITS}/nova-vgpu-apply.service')
        host.run('systemctl', 'enable', f'{_UNITS}/nova-vgpu-agent.service')
        host.run('systemctl', 'start', 'nova-vgpu-apply')
        for gpu in (host.A10, host.L40S):
            self.assertEqual(host.VFS, host.count_vfs(gpu))
