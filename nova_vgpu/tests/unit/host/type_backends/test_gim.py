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

"""The back-end for AMD's SR-IOV, on a kernel with the rules of GIM."""

import dataclasses
import errno

import testtools

from nova_vgpu import values
from nova_vgpu.host import sysfs
from nova_vgpu.host.type_backends import gim
from nova_vgpu.sandbox import kernel as kernels
from nova_vgpu.tests import hosts

GPU = '0000:0c:00.0'


class TestReading(testtools.TestCase):
    def test_what_is_read_of_every_card(self) -> None:
        for case, card, expected in (
            ('eight VFs', hosts.mi300x(GPU), ('CPX/NPS4', ('CPX',))),
            (
                'one VF',
                hosts.mi300x(GPU, 1, 'CPX/NPS1'),
                ('CPX/NPS1', ('SPX', 'CPX')),
            ),
            ('not partitioned', hosts.mi300x(GPU, 4, ''), (None, ())),
        ):
            found = sysfs.read_host(kernels.Kernel(card).files)
            self.assertEqual(hosts.make_host(card), found, case)
            (gpu,) = found.gpus
            self.assertEqual((), found.faults)
            assert gpu.vf_profiles is not None
            self.assertEqual(
                values.Partitions(*expected), gpu.vf_profiles.partitions, case
            )

    def test_with_another_driver_nothing_is_read(self) -> None:
        card = dataclasses.replace(hosts.mi300x(GPU, 0), driver='amdgpu')
        (gpu,) = sysfs.read_host(kernels.Kernel(card).files).gpus
        self.assertIsNone(gpu.vf_profiles)

    def test_no_other_file_is_read_for_a_user(self) -> None:
        tree = kernels.Kernel(hosts.mi300x(GPU)).files
        self.assertRaises(ValueError, gim.read, tree, GPU, 'reset_gpu')
        self.assertRaises(
            values.MalformedAddress,
            *(gim.read, tree, '../x', 'memory_partition_mode'),
        )
        text = gim.read(tree, GPU, 'memory_partition_mode')
        self.assertIn('NPS4', text)
        self.assertEqual(
            '', gim.read(tree, '0000:01:00.0', 'memory_partition_mode')
        )


class TestRules(testtools.TestCase):
    """The simulated driver, as GIM does it."""

    def test_the_driver_enables_vfs_when_it_is_loaded(self) -> None:
        card = dataclasses.replace(hosts.mi300x(GPU, 1, 'SPX/NPS1'), vf_num=8)
        kernel = kernels.Kernel(card)
        for number in ('0', '8'):
            error = self.assertRaises(
                OSError,
                kernel.files.write,
                number,
                *('bus', 'pci', 'devices', GPU, 'sriov_numvfs'),
            )
            self.assertEqual(errno.ENOENT, error.errno)
        kernel.reboot()
        gpu = kernel.get(values.PciAddress.parse(GPU))
        self.assertEqual((8, 'CPX/NPS1'), (gpu.vfs, gpu.partition))

    def test_it_keeps_the_partition_and_takes_vfs_with_it(self) -> None:
        kernel = kernels.Kernel(hosts.mi300x(GPU))
        address = values.PciAddress.parse(GPU)
        kernel.detach(address)
        self.assertEqual(0, kernel.get(address).vfs)
        kernel.reattach(address)
        gpu = kernel.get(address)
        self.assertEqual((8, 'CPX/NPS4'), (gpu.vfs, gpu.partition))

    def test_partitions_are_not_written(self) -> None:
        kernel = kernels.Kernel(hosts.mi300x(GPU))
        for name in gim.FILES:
            self.assertRaises(
                PermissionError,
                kernel.files.write,
                '0',
                *('bus', 'pci', 'devices', GPU, name),
            )
