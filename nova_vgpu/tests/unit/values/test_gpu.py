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

"""What a GPU says of itself, by what sits on its functions."""

import testtools

from nova_vgpu import values
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts

SMALL = values.VGPUType('nvidia-1', 'NVIDIA X-1Q')
LARGE = values.VGPUType('nvidia-2', 'NVIDIA X-2Q')


class TestFramework(testtools.TestCase):
    def test_each_kind_of_gpu(self) -> None:
        for description, card, expected in (
            (
                'Turing',
                hosts.gpu('84:00.0', boards.T4),
                values.Framework.MDEV,
            ),
            (
                'Ampere and mdevs',
                hosts.gpu('41:00.0', boards.A40, vfs=32),
                values.Framework.MDEV_ON_VFS,
            ),
            (
                'Ada and a new kernel',
                hosts.gpu('c8:00.0', boards.L40S, vfs=32, vendor_vfio=True),
                values.Framework.VENDOR_VFIO,
            ),
            (
                'Intel',
                hosts.gpu('00:02.0', boards.HD_530),
                values.Framework.MDEV,
            ),
            ('VFs off', hosts.gpu('41:00.0', boards.A40), None),
            (
                'types late',
                hosts.gpu('41:00.0', boards.A40, vfs=32, types_ready=False),
                None,
            ),
            ('AMD', hosts.gpu('41:00.0', boards.INSTINCT_MI210), None),
        ):
            found = hosts.make_gpu(card).framework
            self.assertEqual(expected, found, description)

    def test_a_full_gpu_keeps_its_framework(self) -> None:
        address = values.PciAddress.parse('41:00.4')
        mdev = values.VGPU('x', 'nvidia-1', 'a-uuid')
        for description, gpu, expected in (
            (
                'mdev on the GPU',
                values.PhysicalGPU('x', vgpus=(mdev,)),
                values.Framework.MDEV,
            ),
            (
                'mdev on a VF',
                values.PhysicalGPU(
                    'x', vfs=(values.VirtualFunction(address, vgpus=(mdev,)),)
                ),
                values.Framework.MDEV_ON_VFS,
            ),
            (
                'a VF with nothing to choose from',
                values.PhysicalGPU(
                    'x',
                    vfs=(values.VirtualFunction(address, vendor_vfio=True),),
                ),
                values.Framework.VENDOR_VFIO,
            ),
        ):
            self.assertEqual(expected, gpu.framework, description)


class TestSums(testtools.TestCase):
    def test_offers_and_vgpus_of_all_functions(self) -> None:
        first, second = (
            values.PciAddress.parse(text) for text in ('41:00.4', '41:00.5')
        )
        on_pf = values.VGPU('pci_0000_41_00_0', 'nvidia-1', 'uuid-0')
        on_vf = values.VGPU(first.node_device_name, 'nvidia-2', 'uuid-1')
        gpu = values.PhysicalGPU(
            'pci_0000_41_00_0',
            offers=(values.Offer(SMALL, 3),),
            vgpus=(on_pf,),
            vfs=(
                values.VirtualFunction(
                    first, offers=(values.Offer(LARGE, 0),), vgpus=(on_vf,)
                ),
                values.VirtualFunction(
                    second,
                    offers=(values.Offer(LARGE, 1), values.Offer(SMALL, 1)),
                ),
            ),
        )
        self.assertEqual(
            [(SMALL, 3), (LARGE, 0), (LARGE, 1), (SMALL, 1)],
            [(offer.type, offer.available) for offer in gpu.all_offers],
        )
        self.assertEqual((on_pf, on_vf), gpu.all_vgpus)
        self.assertEqual((SMALL, LARGE), gpu.types)

    def test_an_a40_names_each_type_once(self) -> None:
        gpu = hosts.make_gpu(hosts.gpu('41:00.0', boards.A40, vfs=32))
        self.assertEqual(32 * len(boards.A40.types), len(gpu.all_offers))
        self.assertEqual(
            sorted(t.id for t in boards.A40.types), [t.id for t in gpu.types]
        )


class TestNames(testtools.TestCase):
    def test_what_an_operator_calls_it(self) -> None:
        gpu = hosts.make_gpu(hosts.gpu('84:00.0', boards.T4))
        self.assertEqual('0000:84:00.0', str(gpu))
        self.assertEqual('mtty_mtty', str(values.PhysicalGPU('mtty_mtty')))

    def test_a_vgpu_goes_by_its_uuid_or_by_its_function(self) -> None:
        mdev = values.VGPU('pci_0000_84_00_0', 'nvidia-231', 'a-uuid')
        self.assertEqual('a-uuid', mdev.name)
        vf = values.VGPU('pci_0000_c8_00_4', 'nvidia-1155')
        self.assertEqual('pci_0000_c8_00_4', vf.name)

    def test_a_type_goes_by_its_id_and_its_name(self) -> None:
        self.assertEqual('nvidia-1 (NVIDIA X-1Q)', str(SMALL))
        self.assertEqual('mtty-1', str(values.VGPUType('mtty-1')))
