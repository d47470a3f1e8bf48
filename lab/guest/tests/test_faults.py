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

#: vGPUs are made by apply itself.
_AHEAD = host.DECLARED.replace('[devices]', '[devices]\nvgpu_creation = ahead')


class TestFaults(host.HostTest):
    def setUp(self) -> None:
        self.declare(host.DECLARED)
        self.addCleanup(self.declare, host.DECLARED)
        self.addCleanup(self.plague)

    def bare(self) -> None:
        self.nova_vgpu('sriov', 'disable', host.A10, host.L40S)

    def plague(self, *faults: str) -> None:
        """What the vendor's program does wrong, one for each call."""
        _TOOL_FAULTS.parent.mkdir(exist_ok=True)
        _TOOL_FAULTS.write_text(''.join(f'{fault}\n' for fault in faults))

    def assert_converges(self) -> None:
        self.nova_vgpu('apply')
        for gpu in (host.A10, host.L40S):
            self.assertEqual(host.VFS, host.count_vfs(gpu))
            self.assertEqual('nvidia', host.driver_of(gpu))
        self.nova_vgpu('doctor', '--strict')

    def test_a_driver_that_refuses_vgpus(self) -> None:
        self.assert_converges()
        self.declare(_AHEAD)
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
        self.nova_vgpu('apply')
        ids = [
            host.type_of(host.virtual_function(host.L40S, number))
            for number in range(host.VFS)
        ]
        self.assertEqual(2, sum(number != '0' for number in ids))
        self.nova_vgpu('restore')
        self.declare(host.DECLARED)
        self.assert_converges()

    def test_libvirtd_that_is_restarted_in_the_middle(self) -> None:
        self.assert_converges()
        self.declare(_AHEAD)

        def restart() -> None:
            self.wait_until('a first vGPU', lambda: bool(host.mdevs()))
            host.run('systemctl', 'restart', 'libvirtd')

        with futures.ThreadPoolExecutor() as executor:
            restarted = executor.submit(restart)
            self.nova_vgpu('apply', code=2)
            restarted.result()
        self.nova_vgpu('apply')
        # 2 of the T4, 4 of GVT-g and 2 of the A10.
        self.assertEqual(8, len(host.mdevs()))
        self.nova_vgpu('restore')
        self.assertEqual([], host.mdevs())

    def test_types_that_are_late(self) -> None:
        self.bare()
        for gpu in (host.A10, host.L40S):
            host.set_knob(gpu, 'delay_ms', 4000)
            self.addCleanup(host.set_knob, gpu, 'delay_ms', 0)
        self.assert_converges()

    def test_a_program_of_the_vendor_that_fails(self) -> None:
        self.bare()
        # It passes: tried again within the same run.
        self.plague('unbindLock')
        self.assert_converges()
        self.bare()
        # The GPU is left on the stub driver; the other one is served.
        self.plague('stub')
        said = self.nova_vgpu('apply', code=2)
        self.assertIn('sriov-manage', said)
        self.assertEqual(
            {'nvidia', 'pci-pf-stub'},
            {host.driver_of(host.A10), host.driver_of(host.L40S)},
        )
        self.assert_converges()

    def test_a_program_of_the_vendor_that_hangs(self) -> None:
        self.bare()
        self.plague('hang')
        said = self.nova_vgpu('apply', '--timeout', '10', code=2)
        self.assertIn('was killed', said)
        self.assert_converges()
