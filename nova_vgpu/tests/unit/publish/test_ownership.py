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

"""Which traits of a provider may be taken away."""

import testtools

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.publish import ownership
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests import trees

T4 = hosts.make_gpu(hosts.gpu('84:00.0', boards.T4))
A40 = hosts.make_gpu(hosts.gpu('41:00.0', boards.A40, vfs=2))
T4_2Q = 'CUSTOM_VGPU_TYPE_T4_2Q'
T4_8C = 'CUSTOM_VGPU_TYPE_T4_8C'
VULKAN = 'HW_GPU_API_VULKAN'
UHD = 'HW_GPU_RESOLUTION_W7680H4320'

#: What it is about, the GPU, what there is, what is wanted, what is stale.
CASES: tuple[
    tuple[str, values.PhysicalGPU, set[str], set[str], set[str]], ...
] = (
    ('nothing there', T4, set(), {T4_2Q}, set()),
    ('all as wanted', T4, {T4_2Q, VULKAN}, {T4_2Q, VULKAN}, set()),
    ('ours by its prefix', T4, {'CUSTOM_GPU_ARCH_PASCAL'}, set(),
     {'CUSTOM_GPU_ARCH_PASCAL'}),
    ("an operator's own", T4, {'CUSTOM_RACK_7', 'CUSTOM_GPU'}, set(), set()),
    ('set by hand', T4, {VULKAN}, set(), set()),
    ('follows from the type before', T4, {T4_2Q, VULKAN, UHD}, set(),
     {T4_2Q, VULKAN, UHD}),
    ('wanted by the type now, too', T4, {T4_2Q, VULKAN}, {VULKAN}, {T4_2Q}),
    ('does not follow from the type before', T4, {T4_8C, VULKAN}, set(),
     {T4_8C}),
    ('of either type before', T4, {T4_8C, T4_2Q, VULKAN}, set(),
     {T4_8C, T4_2Q, VULKAN}),
    ('of a type that the GPU does not offer', A40, {T4_2Q, VULKAN}, set(),
     {T4_2Q, VULKAN}),
    ('only the driver would know', A40, {T4_2Q, UHD}, set(), {T4_2Q}),
    ('of a type that nobody knows', T4, {'CUSTOM_VGPU_TYPE_X', VULKAN},
     set(), {'CUSTOM_VGPU_TYPE_X'}),
    ("Nova's", T4, {'OWNER_NOVA', T4_2Q}, set(), {T4_2Q}),
)  # fmt: skip


class TestStale(testtools.TestCase):
    def test_table(self) -> None:
        for case, gpu, there, wanted, stale in CASES:
            self.assertEqual(
                stale, ownership.find_stale(gpu, there, wanted), case
            )

    def test_all_that_a_type_brought_goes_with_it(self) -> None:
        for gpu in (T4, A40):
            for vgpu_type in gpu.types:
                brought = {*capabilities.traits_of(gpu, vgpu_type)}
                self.assertEqual(
                    brought - {'OWNER_NOVA'},
                    ownership.find_stale(gpu, brought, ()),
                )


class TestOfGPU(testtools.TestCase):
    """Which providers below a node may be taken out of service."""

    def test_table(self) -> None:
        pci, mdev_parent = 'pci_0000_84_00_0', 'mtty_mtty'
        for case, held, expected in (
            ('of this driver', trees.held(pci, 'OWNER_NOVA', VGPU=8), True),
            ('of Nova 33', trees.held(pci, VGPU=8), True),
            ('in a long PCI domain',
             trees.held('pci_10000_01_00_0', VGPU=8), True),
            ('of a declared class', trees.held(pci, CUSTOM_BIG=1), True),
            ('a class declared before',
             trees.held(pci, T4_2Q, CUSTOM_OLD=1), True),
            ('without inventory', trees.held(pci, T4_2Q), True),
            ('with a class of provider.yaml',
             trees.held(pci, VGPU=8, CUSTOM_LICENCE=9), True),
            ('parent of mdevs', trees.held(mdev_parent, VGPU=8), True),
            ('parent that is gone',
             trees.held('mtty_gone', T4_2Q, VGPU=8), True),
            ('AMD SEV',
             trees.held('amd_sev', 'OWNER_NOVA', MEM_ENCRYPTION_CONTEXT=5),
             False),
            ('a PCI device that Nova tracks',
             trees.held('0000:84:00.0', 'OWNER_NOVA',
                        'COMPUTE_MANAGED_PCI_DEVICE', CUSTOM_BIG=1), False),
            ('the same with the name of a node device',
             trees.held(pci, 'COMPUTE_MANAGED_PCI_DEVICE', VGPU=1), False),
            ("Cyborg's", trees.held('0000:84:00.0', VGPU=8), False),
            ("Cyborg's by its owner",
             trees.held(pci, 'OWNER_CYBORG', VGPU=8), False),
            ('a PCI device of another class',
             trees.held(pci, 'OWNER_NOVA', CUSTOM_FPGA=1), False),
            ('a PCI device that offers nothing', trees.held(pci), False),
            ('a network', trees.held('br_ex', NET_BW_EGR_KILOBIT_PER_SEC=1),
             False),
        ):  # fmt: skip
            self.assertEqual(
                expected,
                ownership.is_of_gpu(
                    held, trees.NODE, {'CUSTOM_BIG'}, {mdev_parent}
                ),
                case,
            )

    def test_of_another_node(self) -> None:
        self.assertFalse(
            ownership.is_of_gpu(
                trees.held('pci_0000_84_00_0', VGPU=8), 'compute2', ()
            )
        )


class TestForeign(testtools.TestCase):
    def test_table(self) -> None:
        for trait, foreign in (
            ('CUSTOM_RACK_7', True),
            ('COMPUTE_NODE', True),
            ('OWNER_NOVA', False),
            (T4_2Q, False),
            (VULKAN, False),
        ):
            self.assertEqual(foreign, ownership.is_foreign(trait), trait)


class TestTypeOfTrait(testtools.TestCase):
    def test_every_type_is_known_again_by_its_trait(self) -> None:
        for name in (
            'GRID T4-2Q',
            'NVIDIA A100-2-10C',
            'NVIDIA A100-1-5CME',
            'NVIDIA RTX6000-Ada-48Q',
            'NVIDIA RTX Pro 6000 Blackwell DC-4-96Q',
            'GRID T4-2B4',
        ):
            wanted = values.VGPUType('nvidia-1', name)
            trait = capabilities.trait_of_type(wanted)
            found = capabilities.type_of_trait(trait)
            assert found is not None
            self.assertEqual(
                capabilities.short_name(wanted), capabilities.short_name(found)
            )

    def test_others_are_none(self) -> None:
        for trait in ('CUSTOM_VGPU_TYPE_', 'CUSTOM_VGPU_TYPE_X', 'CUSTOM_8Q'):
            self.assertIsNone(capabilities.type_of_trait(trait), trait)
