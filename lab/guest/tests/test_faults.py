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

"""Whatever the driver does, the next run brings the host there."""

from concurrent import futures
import errno
import pathlib

from lab.guest.tests import host

_TOOL_FAULTS = pathlib.Path('/run/fakevgpu/sriov-manage')


class TestFaults(host.HostTest):
    def setUp(self) -> None:
        host.cure_mdevctl()
        self.declare(host.DECLARED)
        self.addCleanup(self.declare, host.DECLARED)
        self.addCleanup(self.plague)
        self.addCleanup(self.remove_vgpus)
        for gpu in (host.A10, host.L40S):
            self.addCleanup(host.set_knob, gpu, 'create_errno', 0)
            self.addCleanup(host.set_knob, gpu, 'delay_ms', 0)

    def plague(self, *faults: str) -> None:
        """What the vendor's program does wrong, one for each call."""
        _TOOL_FAULTS.parent.mkdir(exist_ok=True)
        _TOOL_FAULTS.write_text(''.join(f'{fault}\n' for fault in faults))

    def remove_vgpus(self) -> None:
        """Those of a test that failed."""
        for row in self.rows('device', 'list'):
            if row['State'] == 'vGPU':
                self.nova_vgpu('device', 'disable', row['Device'])

    def plug(self) -> None:
        host.rescan()
        host.unplug(host.A100)

    def bare(self) -> None:
        self.nova_vgpu('sriov', 'disable', host.A10, host.L40S)

    def test_what_is_late_is_waited_for(self) -> None:
        self.bare()
        for gpu in (host.A10, host.L40S):
            host.set_knob(gpu, 'delay_ms', 4000)
        # This passes as well: tried again within the same run.
        self.plague('unbindLock')
        self.assert_declared()

    def test_a_program_of_the_vendor_that_hangs_or_fails(self) -> None:
        self.bare()
        # One GPU is left on the stub driver.
        self.plague('hang', 'stub')
        said = self.nova_vgpu('apply', '--timeout', '10', code=2)
        self.assertIn('was killed', said)
        self.assertIn('Failed to enable VFs', said)
        self.assertEqual(
            {'nvidia', 'pci-pf-stub'},
            {host.driver_of(host.A10), host.driver_of(host.L40S)},
        )
        self.assert_declared()

    def test_a_driver_that_refuses_vgpus(self) -> None:
        self.assert_declared()
        self.declare(host.AHEAD)
        for number, words in (
            (errno.ENOSPC, 'o space left'),
            (errno.EIO, 'nput/output error'),
            (errno.EBUSY, 'busy'),
        ):
            host.set_knob(host.L40S, 'create_errno', number)
            said = self.nova_vgpu('apply', '--gpu', host.L40S, code=2)
            self.assertIn(words, said)
            self.assertIn(host.L40S, said)
            host.set_knob(host.L40S, 'create_errno', 0)
        self.nova_vgpu('apply', '--gpu', host.L40S)
        self.assertEqual(2, len(host.typed_functions()))
        self.nova_vgpu('restore')

    def test_libvirtd_that_is_restarted_in_the_middle(self) -> None:
        self.assert_declared()
        self.declare(host.AHEAD)

        def restart() -> None:
            self.wait_until('a first vGPU', lambda: bool(host.mdevs()))
            host.run('systemctl', 'restart', 'libvirtd')

        with futures.ThreadPoolExecutor() as executor:
            restarted = executor.submit(restart)
            said = self.nova_vgpu('apply', code=2)
            restarted.result()
        self.assertIn('libvirt', said)
        self.nova_vgpu('apply')
        # 2 of the T4, 4 of GVT-g and 2 of the A10.
        self.assertEqual(8, len(host.mdevs()))
        self.nova_vgpu('restore')
        self.assertEqual([], host.mdevs())

    def test_a_gpu_that_is_unplugged(self) -> None:
        host.unplug(host.T4)
        self.addCleanup(self.plug)
        said = self.nova_vgpu('check', code=2)
        self.assertIn(host.T4, said)
        shown = {row['GPU'] for row in self.rows('device', 'list')}
        self.assertNotIn(host.T4, shown)
        self.plug()
        self.assert_declared()
