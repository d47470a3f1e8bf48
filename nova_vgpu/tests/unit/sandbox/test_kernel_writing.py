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

"""What a simulated kernel does when its files are written to."""

import dataclasses
import errno
import typing

import testtools

from nova_vgpu import values
from nova_vgpu.host import sysfs
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import kernel
from nova_vgpu.tests import hosts

PCI = ('bus', 'pci', 'devices')
DRIVERS = ('bus', 'pci', 'drivers')
GPU = '0000:41:00.0'
FIRST, SECOND = '0000:41:00.4', '0000:41:00.5'
UUID, OTHER = (f'{n}aaaaaaa-0000-4000-8000-000000000000' for n in (1, 2))

A40_8Q, A40_24Q = 'nvidia-562', 'nvidia-565'
L40S_24Q, L40S_48Q = 1155, 1156

#: A type that needs a GPU instance, such as boards with MIG have.
MIG = dataclasses.replace(
    boards.A40,
    types=(
        boards.BoardType(
            'nvidia-475', 'NVIDIA A100-2-10C', 10240, 3, 'x', number=475
        ),
    ),
)


def a40(**changes: typing.Any) -> simulation.GPU:
    return dataclasses.replace(hosts.gpu(GPU, boards.A40), **changes)


def l40s(**changes: typing.Any) -> simulation.GPU:
    gpu = hosts.gpu(GPU, boards.L40S, vfs=32, vendor_vfio=True)
    return dataclasses.replace(gpu, **changes)


class WritingTest(testtools.TestCase):
    #: What a test is at, in a table of cases.
    case = ''

    def boot(self, *gpus: simulation.GPU) -> None:
        self.kernel = kernel.Kernel(*gpus)

    def write(self, text: str, *path: str) -> None:
        self.kernel.files.write(text, *path)

    def read_gpu(self, number: int = 0) -> values.PhysicalGPU:
        return sysfs.read_host(self.kernel.files).gpus[number]

    def assert_refused(self, number: int, text: str, *path: str) -> None:
        """The write fails with this error, and nothing happens."""
        before = list(self.kernel.gpus)
        error = self.assertRaises(OSError, self.write, text, *path)
        self.assertEqual(
            errno.errorcode[number],
            errno.errorcode[error.errno or 0],
            self.case,
        )
        self.assertEqual(before, self.kernel.gpus, self.case)

    def use(self, *devices: str) -> None:
        """Running guests have these devices."""
        self.kernel.in_use = devices.__contains__


class TestVirtualFunctions(WritingTest):
    NUMVFS = (*PCI, GPU, 'sriov_numvfs')

    def test_they_come_and_go(self) -> None:
        self.boot(a40())
        self.write('5\n', *self.NUMVFS)
        self.assertEqual('5', self.kernel.files.read(*self.NUMVFS))
        self.assertEqual(5, len(self.read_gpu().vfs))
        self.assertTrue(self.read_gpu().vfs[0].offers)
        self.write('0', *self.NUMVFS)
        self.assertEqual((), self.read_gpu().vfs)

    def test_what_is_refused(self) -> None:
        for description, gpu, text, number in (
            ('more than there can be', a40(), '33', errno.ERANGE),
            ('far more than that', a40(), '99999', errno.ERANGE),
            ('another number', a40(vfs=4), '5', errno.EBUSY),
            ('no number', a40(), 'all', errno.EINVAL),
            ('nothing', a40(), '', errno.EINVAL),
            ('fewer than none', a40(), '-1', errno.EINVAL),
            ('left to a tool', a40(raw_numvfs=False), '4', errno.ENOENT),
            ('without a driver', a40(driver=None), '4', errno.ENOENT),
            ('given to guests', a40(driver='vfio-pci'), '4', errno.ENOENT),
            ('on another driver', a40(driver='nouveau'), '4', errno.ENOENT),
        ):
            self.case = description
            self.boot(gpu)
            self.assert_refused(number, text, *self.NUMVFS)

    def test_the_same_number_again_is_nothing_new(self) -> None:
        self.boot(a40(vfs=4, raw_numvfs=False))
        before = list(self.kernel.gpus)
        self.write('4', *self.NUMVFS)
        self.assertEqual(before, self.kernel.gpus)

    def test_they_stay_while_a_guest_has_one(self) -> None:
        created = (simulation.Created(A40_8Q, 0, UUID),)
        for description, gpu, device in (
            ('an mdev', a40(vfs=4, created=created), UUID),
            ('a function', l40s(), 'pci_0000_41_00_5'),
        ):
            self.case = description
            self.boot(gpu)
            self.use(device)
            self.assert_refused(errno.EBUSY, '0', *self.NUMVFS)
            self.use()
            self.write('0', *self.NUMVFS)
            self.assertEqual((0, ()), _essence(self.kernel.gpus[0]))

    def test_a_gpu_without_them_has_no_such_file(self) -> None:
        self.boot(hosts.gpu(GPU, boards.T4))
        self.assert_refused(errno.ENOENT, '1', *self.NUMVFS)

    def test_on_the_stub_they_come_without_types(self) -> None:
        self.boot(a40(driver='pci-pf-stub', types_ready=False))
        self.write('4', *self.NUMVFS)
        self.assertEqual(4, len(self.read_gpu().vfs))
        self.assertEqual((), self.read_gpu().vfs[0].offers)


def _essence(gpu: simulation.GPU) -> tuple[int, tuple[object, ...]]:
    return gpu.vfs, gpu.created


class TestTypesOfFunctions(WritingTest):
    FILE = (*PCI, FIRST, 'nvidia', 'current_vgpu_type')

    def list_creatable(self, function: str) -> list[str]:
        text = self.kernel.files.read(
            *PCI, function, 'nvidia', 'creatable_vgpu_types'
        )
        return text.splitlines()[1:]

    def test_a_type_is_set_and_cleared(self) -> None:
        self.boot(l40s())
        self.write(f'{L40S_24Q}\n', *self.FILE)
        self.assertEqual(str(L40S_24Q), self.kernel.files.read(*self.FILE))
        self.write('0', *self.FILE)
        self.assertEqual('0', self.kernel.files.read(*self.FILE))
        self.write('0', *self.FILE)

    def test_lists_shrink_to_what_still_fits(self) -> None:
        self.boot(l40s())
        self.write(str(L40S_24Q), *self.FILE)
        self.assertEqual([], self.list_creatable(FIRST))
        self.assertEqual(
            ['1155  : NVIDIA L40S-24Q', '1165  : NVIDIA L40S-24A'],
            self.list_creatable(SECOND),
        )
        second = (*PCI, SECOND, 'nvidia', 'current_vgpu_type')
        self.write(str(L40S_24Q), *second)
        self.assertEqual([], self.list_creatable('0000:41:00.6'))

    def test_what_is_refused(self) -> None:
        full = (simulation.Created('nvidia-1156', 9),)
        set_already = (simulation.Created('nvidia-1155', 0),)
        mig = dataclasses.replace(l40s(), board=MIG)
        for description, gpu, text, number in (
            ('no such type', l40s(), '7', errno.EINVAL),
            ('no number', l40s(), 'L40S-24Q', errno.EINVAL),
            ('no room', l40s(created=full), '1155', errno.ENOSPC),
            (
                'a type over one',
                l40s(created=set_already),
                '1155',
                errno.EINVAL,
            ),
            ('no GPU instance', mig, '475', errno.EIO),
        ):
            self.case = description
            self.boot(gpu)
            self.assert_refused(number, text, *self.FILE)

    def test_with_a_gpu_instance_a_type_backed_by_mig_is_set(self) -> None:
        self.boot(dataclasses.replace(l40s(instances=True), board=MIG))
        self.write('475', *self.FILE)
        self.assertEqual('475', self.kernel.files.read(*self.FILE))

    def test_it_stays_while_a_guest_has_the_function(self) -> None:
        self.boot(l40s(created=(simulation.Created('nvidia-1155', 0),)))
        self.use('pci_0000_41_00_4')
        for text in ('0', '1156'):
            self.assert_refused(errno.EBUSY, text, *self.FILE)

    def test_with_mdevs_there_is_no_such_file(self) -> None:
        self.boot(a40(vfs=4))
        self.assert_refused(errno.ENOENT, '562', *self.FILE)


class TestMdevs(WritingTest):
    def create(self, function: str, type_id: str) -> tuple[str, ...]:
        types = (*PCI, function, 'mdev_supported_types')
        return (*types, type_id, 'create')

    def remove(self, uuid: str) -> tuple[str, ...]:
        return ('bus', 'mdev', 'devices', uuid, 'remove')

    def test_one_comes_and_goes(self) -> None:
        self.boot(a40(vfs=4))
        self.write(f'{UUID}\n', *self.create(FIRST, A40_8Q))
        vgpu = values.VGPU('pci_0000_41_00_4', A40_8Q, UUID)
        self.assertEqual((vgpu,), self.read_gpu().vfs[0].vgpus)
        self.assertEqual(
            (UUID,), self.kernel.files.list('bus', 'mdev', 'devices')
        )
        self.write('1', *self.remove(UUID))
        self.assertEqual((), self.read_gpu().vfs[0].vgpus)

    def test_the_others_keep_their_uuids(self) -> None:
        self.boot(hosts.gpu(GPU, boards.T4, 'nvidia-231', 'nvidia-231'))
        first, second = (vgpu.uuid for vgpu in self.read_gpu().vgpus)
        assert first is not None
        self.write('1', *self.remove(first))
        self.assertEqual(
            [second], [vgpu.uuid for vgpu in self.read_gpu().vgpus]
        )

    def test_what_is_refused(self) -> None:
        one = a40(vfs=4, created=(simulation.Created(A40_8Q, 1, UUID),))
        mig = a40(vfs=4, board=MIG)
        for description, gpu, text, type_id, number in (
            ('no UUID', a40(vfs=4), 'first', A40_8Q, errno.EINVAL),
            ('without dashes', a40(vfs=4), 'a' * 32, A40_8Q, errno.EINVAL),
            ('on another function', one, UUID, A40_8Q, errno.EEXIST),
            ('another size', one, OTHER, A40_24Q, errno.ENOSPC),
            ('no GPU instance', mig, UUID, 'nvidia-475', errno.EIO),
            ('no such type', one, OTHER, 'nvidia-1', errno.ENOENT),
        ):
            self.case = description
            self.boot(gpu)
            path = self.create(FIRST, type_id)
            self.assert_refused(number, text, *path)

    def test_the_same_uuid_on_another_gpu_is_refused(self) -> None:
        self.boot(
            a40(vfs=4, created=(simulation.Created(A40_8Q, 1, UUID),)),
            hosts.gpu('0000:84:00.0', boards.T4),
        )
        path = self.create('0000:84:00.0', 'nvidia-231')
        self.assert_refused(errno.EEXIST, UUID, *path)

    def test_a_function_takes_one_and_a_gpu_as_many_as_fit(self) -> None:
        self.boot(a40(vfs=4))
        self.write(UUID, *self.create(FIRST, A40_24Q))
        self.assert_refused(errno.ENOSPC, OTHER, *self.create(FIRST, A40_24Q))
        self.write(OTHER, *self.create(SECOND, A40_24Q))
        third = OTHER.replace('2', '3')
        path = self.create('0000:41:00.6', A40_24Q)
        self.assert_refused(errno.ENOSPC, third, *path)

    def test_sizes_mix_in_the_mode_for_that(self) -> None:
        self.boot(a40(vfs=4, mixed=True))
        self.write(UUID, *self.create(FIRST, A40_24Q))
        self.write(OTHER, *self.create(SECOND, A40_8Q))
        self.assertEqual(
            [A40_24Q, A40_8Q],
            [v.type_id for vf in self.read_gpu().vfs for v in vf.vgpus],
        )

    def test_removal_of_one_that_a_guest_has_never_ends(self) -> None:
        self.boot(a40(vfs=4, created=(simulation.Created(A40_8Q, 1, UUID),)))
        self.use(UUID)
        self.assertRaises(
            kernel.BlocksForever, self.write, '1', *self.remove(UUID)
        )
        self.assertFalse(issubclass(kernel.BlocksForever, Exception))

    def test_removal_wants_a_number_that_is_not_0(self) -> None:
        self.boot(a40(vfs=4, created=(simulation.Created(A40_8Q, 1, UUID),)))
        self.assert_refused(errno.EINVAL, 'yes', *self.remove(UUID))
        self.write('0', *self.remove(UUID))
        self.assertEqual(1, len(self.kernel.gpus[0].created))

    def test_one_that_is_not_there_cannot_be_removed(self) -> None:
        self.boot(a40(vfs=4))
        self.assert_refused(errno.ENOENT, '1', *self.remove(UUID))


class TestDrivers(WritingTest):
    STUB = 'pci-pf-stub'

    def test_a_gpu_on_the_stub_is_repaired(self) -> None:
        for description, path in (
            ('by a probe', ('bus', 'pci', 'drivers_probe')),
            ('by its driver', (*DRIVERS, 'nvidia', 'bind')),
        ):
            self.case = description
            self.boot(a40(driver=self.STUB, types_ready=False))
            override = (*PCI, GPU, 'driver_override')
            self.write('pci-pf-stub', *override)
            self.write(GPU, *DRIVERS, self.STUB, 'unbind')
            self.assertIsNone(self.read_gpu().driver)
            self.write('\n', *override)
            self.assertEqual('(null)', self.kernel.files.read(*override))
            self.write(GPU, *path)
            self.assertEqual('nvidia', self.read_gpu().driver)
            self.write('4', *PCI, GPU, 'sriov_numvfs')
            self.assertTrue(self.read_gpu().vfs[0].offers)

    def test_a_probe_heeds_the_override(self) -> None:
        self.boot(a40(driver=None))
        self.write(self.STUB, *PCI, GPU, 'driver_override')
        self.assert_refused(errno.ENODEV, GPU, *DRIVERS, 'nvidia', 'bind')
        self.write(GPU, 'bus', 'pci', 'drivers_probe')
        self.assertEqual(self.STUB, self.read_gpu().driver)

    def test_what_is_refused(self) -> None:
        for description, driver, path, text, number in (
            (
                'unbound from another',
                None,
                (self.STUB, 'unbind'),
                GPU,
                'ENODEV',
            ),
            ('bound twice', 'default', ('nvidia', 'bind'), GPU, 'EBUSY'),
            ('a driver for others', None, (self.STUB, 'bind'), GPU, 'ENODEV'),
            ('no such device', None, ('nvidia', 'bind'), '1:2:3.4', 'ENODEV'),
            ('no such driver', None, ('nova', 'bind'), GPU, 'ENOENT'),
        ):
            self.case = description
            self.boot(a40(driver=driver))
            self.assert_refused(getattr(errno, number), text, *DRIVERS, *path)

    def test_without_its_driver_a_gpu_has_no_types(self) -> None:
        gpu = hosts.gpu(GPU, boards.T4, 'nvidia-231')
        self.boot(gpu)
        self.write(GPU, *DRIVERS, 'nvidia', 'unbind')
        self.assertEqual(
            ((), (), None),
            (
                self.read_gpu().offers,
                self.read_gpu().vgpus,
                self.read_gpu().driver,
            ),
        )
        self.write(GPU, *DRIVERS, 'nvidia', 'bind')
        self.assertTrue(self.read_gpu().offers)

    def test_unbinding_what_a_guest_has_never_ends(self) -> None:
        self.boot(a40(vfs=4, created=(simulation.Created(A40_8Q, 1, UUID),)))
        self.use(UUID)
        self.assertRaises(
            kernel.BlocksForever,
            self.write,
            GPU,
            *(*DRIVERS, 'nvidia', 'unbind'),
        )


class TestOtherFiles(WritingTest):
    def test_what_is_refused(self) -> None:
        for description, path, number in (
            ('to be read only', (*PCI, GPU, 'vendor'), errno.EACCES),
            ('not there', (*PCI, GPU, 'colour'), errno.ENOENT),
            ('of no device', (*PCI, '0000:99:00.0', 'reset'), errno.ENOENT),
            ('a directory', PCI, errno.EISDIR),
            ('a link', (*PCI, GPU), errno.ELOOP),
        ):
            self.case = description
            self.boot(a40())
            self.assert_refused(number, '1', *path)

    def test_faults_come_as_often_as_they_were_asked_for(self) -> None:
        self.boot(a40())
        self.kernel.fail('sriov_numvfs', errno.EIO, times=2)
        path = (*PCI, GPU, 'sriov_numvfs')
        self.assert_refused(errno.EIO, '4', *path)
        self.write('', *PCI, GPU, 'driver_override')
        self.assert_refused(errno.EIO, '4', *path)
        self.write('4', *path)
        self.assertEqual(4, self.kernel.gpus[0].vfs)

    def test_nothing_is_written_where_everything_is_read_only(self) -> None:
        self.boot(a40())
        self.kernel.read_only = True
        self.assert_refused(errno.EROFS, '4', *PCI, GPU, 'sriov_numvfs')
        self.assert_refused(errno.EROFS, '', *PCI, GPU, 'driver_override')
