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

"""The vendor's programs on a simulated kernel."""

import dataclasses
import errno
import pickle
import typing

import testtools

from nova_vgpu import values
from nova_vgpu.host import sysfs
from nova_vgpu.host import tools
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import kernel
from nova_vgpu.sandbox import modes
from nova_vgpu.sandbox import vendor_tools
from nova_vgpu.tests import hosts
from nova_vgpu.tests import migs

GPU, OTHER, T4 = '0000:41:00.0', '0001:c8:00.0', '0000:84:00.0'
UUID = '1aaaaaaa-0000-4000-8000-000000000000'
SRIOV_MANAGE = '/usr/lib/nvidia/sriov-manage'
NVIDIA_SMI = '/usr/bin/nvidia-smi'
VF_TYPE = (
    *('bus', 'pci', 'devices', migs.FIRST),
    *('nvidia', 'current_vgpu_type'),
)


class ToolsTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.boot(hosts.gpu(GPU, boards.A40), hosts.gpu(T4, boards.T4))

    def boot(self, *gpus: simulation.GPU) -> None:
        self.kernel = kernel.Kernel(*gpus)
        self.tools = vendor_tools.VendorTools(self.kernel)

    def run_tool(self, *argv: str) -> tools.Finished:
        run: tools.Run = self.tools.run
        return run(argv, 30.0)

    def read_gpu(self, number: int = 0) -> values.PhysicalGPU:
        return sysfs.read_host(self.kernel.files).gpus[number]

    def put_vgpu(self) -> None:
        """A vGPU on the first VF."""
        created = (simulation.Created('nvidia-562', 0, UUID),)
        self.kernel.update(self.kernel.gpus[0].address, created=created)


class TestSriovManage(ToolsTest):
    def enable(self, which: str = GPU) -> tools.Finished:
        return self.run_tool(SRIOV_MANAGE, '-e', which)

    def disable(self, which: str = GPU) -> tools.Finished:
        return self.run_tool(SRIOV_MANAGE, '-d', which)

    def test_all_vfs_are_enabled_and_disabled(self) -> None:
        for spelling in (GPU, '00000000:41:00.0', '41:00.0'):
            self.assertEqual(0, self.enable(spelling).code)
            gpu = self.read_gpu()
            self.assertEqual((32, 'nvidia'), (len(gpu.vfs), gpu.driver))
            self.assertTrue(gpu.vfs[31].offers)
            self.assertEqual(0, self.disable(spelling).code)
            self.assertEqual((), self.read_gpu().vfs)

    def test_also_where_the_driver_takes_no_number(self) -> None:
        gpu = simulation.GPU(
            values.PciAddress.parse(GPU), boards.A40, raw_numvfs=False
        )
        self.boot(gpu)
        self.assertEqual(0, self.enable().code)
        self.assertEqual(32, len(self.read_gpu().vfs))

    def test_the_mode_for_several_sizes_is_lost_on_the_way(self) -> None:
        self.kernel.update(self.kernel.gpus[0].address, mixed=True)
        self.enable()
        self.assertFalse(self.kernel.gpus[0].mixed)

    def test_it_can_be_run_again(self) -> None:
        self.enable()
        self.put_vgpu()
        before = list(self.kernel.gpus)
        self.assertEqual(0, self.enable().code)
        self.assertEqual(before, self.kernel.gpus)
        self.disable()
        self.assertEqual(0, self.disable().code)

    def test_all_gpus_at_once(self) -> None:
        self.boot(
            hosts.gpu(GPU, boards.A40),
            hosts.gpu(T4, boards.T4),
            hosts.gpu(OTHER, boards.L40S, vendor_vfio=True),
        )
        self.assertEqual(0, self.enable('ALL').code)
        self.assertEqual([32, 0, 32], [gpu.vfs for gpu in self.kernel.gpus])

    def test_what_is_refused(self) -> None:
        for argv in (
            ('-e', '0000:99:00.0'),
            ('-e', T4),
            ('-e', 'first'),
            ('-x', GPU),
            ('-e',),
        ):
            finished = self.run_tool(SRIOV_MANAGE, *argv)
            self.assertEqual(1, finished.code, str(argv))
            self.assertTrue(finished.output, str(argv))

    def test_a_gpu_on_another_driver_is_not_its_business(self) -> None:
        for driver in ('pci-pf-stub', 'vfio-pci', None):
            self.boot(hosts.gpu(GPU, boards.A40, driver=driver))
            self.assertEqual(1, self.enable().code)
            self.assertEqual(driver, self.read_gpu().driver)

    def test_vfs_in_use_stay(self) -> None:
        self.enable()
        self.put_vgpu()
        self.kernel.in_use = lambda device: device == UUID
        self.assertEqual(1, self.disable().code)
        self.assertEqual(32, self.kernel.gpus[0].vfs)
        self.kernel.in_use = lambda _device: False
        self.assertEqual(0, self.disable().code)
        self.assertEqual((), self.kernel.gpus[0].created)

    def test_they_come_when_it_is_time(self) -> None:
        self.kernel.delays = kernel.Delays(vfs=2, types=2)
        self.enable()
        self.assertEqual((), self.read_gpu().vfs)
        self.kernel.clock.sleep(3)
        self.assertEqual((), self.read_gpu().vfs[0].offers)
        self.kernel.clock.sleep(1)
        self.assertTrue(self.read_gpu().vfs[0].offers)

    def test_it_can_be_killed_while_the_gpu_is_on_the_stub(self) -> None:
        seen: list[tuple[bool, str | None, int]] = []

        def look(_what: str, done: bool) -> None:
            gpu = self.read_gpu()
            seen.append((done, gpu.driver, len(gpu.vfs)))

        self.kernel.observe = look
        self.enable()
        stub = 'pci-pf-stub'
        self.assertEqual(
            [
                (False, 'nvidia', 0),
                (True, stub, 0),
                (False, stub, 0),
                (True, stub, 32),
                (False, stub, 32),
                (True, 'nvidia', 32),
            ],
            seen,
        )

    def test_it_gives_up_and_leaves_the_gpu_on_the_stub(self) -> None:
        self.tools.behaviour.abandons = 1
        self.assertEqual(1, self.enable().code)
        gpu = self.read_gpu()
        self.assertEqual(('pci-pf-stub', ()), (gpu.driver, gpu.vfs))

    def test_somebody_else_holds_the_gpu_for_a_while(self) -> None:
        self.tools.behaviour.locked = 2
        for _ in range(2):
            finished = self.enable()
            self.assertEqual(1, finished.code)
            self.assertIn('Cannot obtain unbindLock', finished.output)
        self.assertEqual(0, self.enable().code)


class TestMixedSizes(ToolsTest):
    def switch(self, mode: str = '1', gpu: str = GPU) -> tools.Finished:
        return self.run_tool(NVIDIA_SMI, 'vgpu', '-shm', mode, '-i', gpu)

    def test_the_mode_is_switched(self) -> None:
        for mode, mixed in (('1', True), ('1', True), ('0', False)):
            self.assertEqual(0, self.switch(mode).code)
            self.assertEqual(mixed, self.kernel.gpus[0].mixed)
        self.assertFalse(self.kernel.gpus[1].mixed)

    def test_not_while_there_are_vgpus(self) -> None:
        self.kernel.update(self.kernel.gpus[0].address, vfs=4)
        self.put_vgpu()
        self.assertNotEqual(0, self.switch().code)
        self.assertFalse(self.kernel.gpus[0].mixed)
        self.assertEqual(0, self.switch('0').code)

    def test_what_is_refused(self) -> None:
        for argv in (
            ('vgpu', '-shm', '2', '-i', GPU),
            ('vgpu', '-shm', '1', '-i', '0000:99:00.0'),
            ('vgpu', '-shm', '1', '-i', 'first'),
            ('-L',),
        ):
            self.assertNotEqual(0, self.run_tool(NVIDIA_SMI, *argv).code)

    def test_it_does_not_see_a_gpu_on_another_driver(self) -> None:
        self.boot(hosts.gpu(GPU, boards.A40, driver='pci-pf-stub'))
        self.assertIn('No devices', self.switch().output)


class TestGPUInstances(ToolsTest):
    """Instances of all profiles share the slices of the GPU."""

    def start(self, *instances: str, **state: typing.Any) -> None:
        self.boot(dataclasses.replace(migs.gpu(*instances, vfs=8), **state))

    def run_mig(self, *action: str) -> int:
        argv = ('mig', *action, '-i', migs.ADDRESS)
        return self.run_tool(NVIDIA_SMI, *argv).code

    def list(self) -> list[tuple[int, str, int, bool]]:
        return [
            (i.id, i.profile.name, i.start, i.is_complete)
            for i in self.kernel.gpus[0].gpu_instances
        ]

    def test_they_do_not_overlap(self) -> None:
        self.start()
        self.assertEqual(0, self.run_mig('-cgi', '9,14', '-C'))
        self.assertEqual(
            [(1, 'MIG 3g.40gb', 0, True), (2, 'MIG 2g.20gb', 4, True)],
            self.list(),
        )
        for profile in ('9', '5', '14'):
            self.assertEqual(23, self.run_mig('-cgi', profile, '-C'))
        self.assertEqual(0, self.run_mig('-cgi', '19', '-C'))
        self.assertEqual((3, 'MIG 1g.10gb', 6, True), self.list()[-1])

    def test_the_compute_instance_goes_first(self) -> None:
        self.start('2g.20gb', '1g.10gb')
        self.assertEqual(19, self.run_mig('-dgi', '-gi', '1'))
        self.assertEqual(0, self.run_mig('-dci', '-gi', '1'))
        self.assertEqual(0, self.run_mig('-dgi', '-gi', '1'))
        self.assertEqual([(2, 'MIG 1g.10gb', 2, True)], self.list())
        self.assertEqual(6, self.run_mig('-dgi', '-gi', '1'))

    def test_one_in_use_stays(self) -> None:
        self.start('1g.10gb', '1g.10gb')
        self.kernel.files.write('699', *VF_TYPE)
        self.assertEqual(19, self.run_mig('-dci', '-gi', '1'))
        self.assertEqual(0, self.run_mig('-dci', '-gi', '2'))
        self.kernel.files.write('0', *VF_TYPE)
        self.assertEqual(0, self.run_mig('-dci', '-gi', '1'))

    def test_a_type_needs_a_complete_instance_of_its_profile(self) -> None:
        self.start('2g.20gb', '1g.10gb')
        self.run_mig('-dci', '-gi', '2')
        error = self.assertRaises(
            OSError, self.kernel.files.write, '699', *VF_TYPE
        )
        self.assertEqual(errno.EIO, error.errno)
        self.kernel.files.write('700', *VF_TYPE)

    def test_sriov_manage_removes_them(self) -> None:
        for vfs, action in ((0, '-e'), (8, '-d')):
            self.boot(migs.gpu('1g.10gb', vfs=vfs))
            self.run_tool(SRIOV_MANAGE, action, migs.ADDRESS)
            self.assertEqual([], self.list(), action)

    def test_without_mig_mode(self) -> None:
        self.start(mig_mode=False)
        self.assertNotEqual(0, self.run_mig('-cgi', '19', '-C'))


class TestMigMode(ToolsTest):
    """To switch it resets the GPU."""

    def switch(self, mode: int) -> tools.Finished:
        argv = ('-i', migs.ADDRESS, '-mig', str(mode))
        return self.run_tool(NVIDIA_SMI, *argv)

    def test_it_removes_gpu_instances(self) -> None:
        self.boot(migs.switchable('2g.20gb', mig_mode=True))
        self.assertEqual(0, self.switch(1).code)
        self.assertEqual(1, len(self.kernel.gpus[0].gpu_instances))
        for mode in (0, 1, 1, 0):
            self.assertEqual(0, self.switch(mode).code)
            self.assertIs(bool(mode), self.kernel.gpus[0].mig_mode)
            self.assertEqual((), self.kernel.gpus[0].gpu_instances)

    def test_not_while_vfs_are_enabled(self) -> None:
        self.boot(migs.switchable())
        self.run_tool(SRIOV_MANAGE, '-e', migs.ADDRESS)
        finished = self.switch(1)
        self.assertEqual(19, finished.code)
        self.assertIn('In use by another client', finished.output)
        self.run_tool(SRIOV_MANAGE, '-d', migs.ADDRESS)
        self.assertEqual(0, self.switch(1).code)

    def test_it_is_pending_while_something_has_the_gpu_open(self) -> None:
        for has_process in (True, False):
            self.boot(
                dataclasses.replace(migs.switchable(), has_process=has_process)
            )
            self.tools.behaviour.pends = 0 if has_process else 1
            finished = self.switch(1)
            self.assertEqual(0, finished.code)
            self.assertIn('pending enable', finished.output)
            (mode,) = (m.mig for _, m in modes.read_modes(self.kernel).modes)
            self.assertEqual(values.GPUMode(False, True), mode)
            self.kernel.reboot()
            self.assertTrue(self.kernel.gpus[0].mig_mode)

    def test_some_gpus_lose_it_with_a_reboot(self) -> None:
        for is_lost in (True, False):
            self.boot(
                dataclasses.replace(migs.switchable(), mig_is_lost=is_lost)
            )
            self.switch(1)
            self.kernel.reboot()
            self.assertIs(not is_lost, self.kernel.gpus[0].mig_mode)

    def test_not_every_gpu_has_it(self) -> None:
        self.boot(hosts.gpu(migs.ADDRESS, boards.A40))
        self.assertEqual(3, self.switch(1).code)

    def test_a_gpu_has_the_types_of_its_mode(self) -> None:
        for mode, number in ((0, '700'), (1, '697')):
            self.boot(migs.switchable())
            self.switch(mode)
            self.run_tool(SRIOV_MANAGE, '-e', migs.ADDRESS)
            self.assertRaises(
                OSError, self.kernel.files.write, number, *VF_TYPE
            )

    def test_there_is_no_heterogeneous_mode_in_it(self) -> None:
        self.boot(migs.switchable(mig_mode=True))
        argv = ('vgpu', '-shm', '0', '-i', migs.ADDRESS)
        self.assertEqual(3, self.run_tool(NVIDIA_SMI, *argv).code)


class TestPrograms(ToolsTest):
    def test_one_that_is_not_there(self) -> None:
        self.tools.behaviour.missing.add('sriov-manage')
        for argv in ((SRIOV_MANAGE, '-e', GPU), ('/usr/bin/xpu-smi',)):
            self.assertRaises(tools.MissingError, self.run_tool, *argv)

    def test_one_that_hangs_takes_all_of_its_time(self) -> None:
        self.tools.behaviour.hanging.add('nvidia-smi')
        before = list(self.kernel.gpus)
        argv = (NVIDIA_SMI, 'vgpu', '-shm', '1', '-i', GPU)
        self.assertRaises(tools.TimedOut, self.run_tool, *argv)
        self.assertEqual(30.0, self.kernel.clock.now())
        self.assertEqual(before, self.kernel.gpus)

    def test_what_they_were_told_is_part_of_the_state(self) -> None:
        self.tools.behaviour.locked = 2
        taken: typing.Any = pickle.loads(  # noqa: S301 (our own)
            pickle.dumps(self.tools.snapshot())
        )
        self.run_tool(SRIOV_MANAGE, '-e', GPU)
        self.tools.load(taken)
        self.assertEqual(2, self.tools.behaviour.locked)
