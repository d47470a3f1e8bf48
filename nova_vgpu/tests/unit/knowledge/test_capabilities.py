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

"""What is said of a GPU and a type, and on whose word."""

from collections.abc import Iterable

import os_traits
import testtools

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.knowledge import traits
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests import hosts

T4 = hosts.gpu('84:00.0', boards.T4)
A40 = hosts.gpu('41:00.0', boards.A40, vfs=2)
L40S = hosts.gpu('c8:00.0', boards.L40S, vfs=2, vendor_vfio=True)
HD_530 = hosts.gpu('00:02.0', boards.HD_530)

# What NVIDIA's guide promises for Q, B and A, and os-traits has a name for.
GRAPHICS = {
    'HW_GPU_API_DIRECT2D',
    *(f'HW_GPU_API_DIRECTX_V{n}' for n in (10, 11, 12)),
    'HW_GPU_API_DXVA',
    *(f'HW_GPU_API_OPENGL_V1_{n}' for n in range(1, 6)),
    *(f'HW_GPU_API_OPENGL_V2_{n}' for n in range(2)),
    *(f'HW_GPU_API_OPENGL_V3_{n}' for n in range(4)),
    *(f'HW_GPU_API_OPENGL_V4_{n}' for n in range(6)),
    'HW_GPU_API_VULKAN',
}
# Every resolution of os-traits: all of them fit on a display of 8K.
RESOLUTIONS = set(os_traits.get_traits('HW_GPU_RESOLUTION_'))


def find_type(gpu: values.PhysicalGPU, short: str) -> values.VGPUType:
    (found,) = (t for t in gpu.types if capabilities.short_name(t) == short)
    return found


def a100(name: str, description: values.TypeFacts) -> set[str]:
    gpu = values.PhysicalGPU(
        'pci_0000_41_00_0', ids=values.PciIds(0x10DE, 0x20F1)
    )
    vgpu_type = values.VGPUType('nvidia-475', name, description)
    return set(capabilities.traits_of(gpu, vgpu_type))


class TestTraits(testtools.TestCase):
    def assertTraits(
        self, expected: Iterable[str], card: simulation.GPU, short: str
    ) -> None:
        gpu = hosts.make_gpu(card)
        found = capabilities.traits_of(gpu, find_type(gpu, short))
        self.assertEqual(sorted(expected), list(found))

    def test_a_t4_2q(self) -> None:
        self.assertTraits(
            {
                'OWNER_NOVA',
                'CUSTOM_GPU_VENDOR_NVIDIA',
                'CUSTOM_GPU_MODEL_T4',
                'CUSTOM_GPU_ARCH_TURING',
                # os-traits ends at 7.2.
                'CUSTOM_GPU_CUDA_COMPUTE_CAPABILITY_V7_5',
                'CUSTOM_VGPU_TYPE_T4_2Q',
                'CUSTOM_VGPU_SERIES_Q',
                'CUSTOM_VGPU_FRAMEBUFFER_2G',
                'HW_GPU_MAX_DISPLAY_HEADS_4',
                'HW_GPU_RESOLUTION_W7680H4320',
                *RESOLUTIONS,
                *GRAPHICS,
            },
            T4,
            'T4-2Q',
        )

    def test_an_a40_8q(self) -> None:
        self.assertTraits(
            {
                'OWNER_NOVA',
                'CUSTOM_GPU_VENDOR_NVIDIA',
                'CUSTOM_GPU_MODEL_A40',
                'CUSTOM_GPU_ARCH_AMPERE',
                'CUSTOM_GPU_CUDA_COMPUTE_CAPABILITY_V8_6',
                'CUSTOM_VGPU_TYPE_A40_8Q',
                'CUSTOM_VGPU_SERIES_Q',
                'CUSTOM_VGPU_FRAMEBUFFER_8G',
                'HW_GPU_MAX_DISPLAY_HEADS_4',
                *RESOLUTIONS,
                *GRAPHICS,
            },
            A40,
            'A40-8Q',
        )

    def test_an_l40s_24q_whose_driver_says_nothing_of_displays(self) -> None:
        self.assertTraits(
            {
                'OWNER_NOVA',
                'CUSTOM_GPU_VENDOR_NVIDIA',
                'CUSTOM_GPU_MODEL_L40S',
                'CUSTOM_GPU_ARCH_ADA',
                'CUSTOM_GPU_CUDA_COMPUTE_CAPABILITY_V8_9',
                'CUSTOM_VGPU_TYPE_L40S_24Q',
                'CUSTOM_VGPU_SERIES_Q',
                'CUSTOM_VGPU_FRAMEBUFFER_24G',
                *GRAPHICS,
            },
            L40S,
            'L40S-24Q',
        )

    def test_an_a100_2_10c_on_mig(self) -> None:
        self.assertEqual(
            {
                'OWNER_NOVA',
                'CUSTOM_GPU_VENDOR_NVIDIA',
                'CUSTOM_GPU_MODEL_A100',
                'CUSTOM_GPU_ARCH_AMPERE',
                'CUSTOM_GPU_CUDA_COMPUTE_CAPABILITY_V8_0',
                'CUSTOM_VGPU_TYPE_A100_2_10C',
                'CUSTOM_VGPU_SERIES_C',
                'CUSTOM_VGPU_MIG_BACKED',
                'CUSTOM_VGPU_FRAMEBUFFER_10G',
                'HW_GPU_MAX_DISPLAY_HEADS_1',
            },
            a100('NVIDIA A100-2-10C', values.TypeFacts(10240, 3, 1)),
        )

    def test_gvt_g(self) -> None:
        self.assertTraits(
            {
                'OWNER_NOVA',
                'CUSTOM_GPU_VENDOR_INTEL',
                'CUSTOM_VGPU_TYPE_I915_GVTG_V5_8',
                'CUSTOM_VGPU_SERIES_GVTG',
                'HW_GPU_RESOLUTION_W320H240',
                'HW_GPU_RESOLUTION_W640H480',
                'HW_GPU_RESOLUTION_W800H600',
                'HW_GPU_RESOLUTION_W1024H600',
                'HW_GPU_RESOLUTION_W1024H768',
            },
            HD_530,
            'i915-GVTg_V5_8',
        )

    def test_a_sample_parent_of_no_vendor(self) -> None:
        (gpu,) = hosts.make_host(mtty=True).gpus
        self.assertEqual(
            ('CUSTOM_VGPU_TYPE_SINGLE_PORT_SERIAL', 'OWNER_NOVA'),
            capabilities.traits_of(gpu, gpu.types[0]),
        )

    def test_a_model_never_heard_of(self) -> None:
        gpu = values.PhysicalGPU('x', ids=values.PciIds(0x10DE, 0xFFFF))
        vgpu_type = values.VGPUType('nvidia-9999', 'NVIDIA Z9000-4C')
        self.assertEqual(
            (
                'CUSTOM_GPU_MODEL_Z9000',
                'CUSTOM_GPU_VENDOR_NVIDIA',
                'CUSTOM_VGPU_FRAMEBUFFER_4G',
                'CUSTOM_VGPU_SERIES_C',
                'CUSTOM_VGPU_TYPE_Z9000_4C',
                'OWNER_NOVA',
            ),
            capabilities.traits_of(gpu, vgpu_type),
        )

    def test_a_standard_trait_where_os_traits_has_one(self) -> None:
        for case, device, name, expected in (
            (
                'V100',
                0x1DB4,
                'GRID V100-8Q',
                'HW_GPU_CUDA_COMPUTE_CAPABILITY_V7_0',
            ),
            (
                'P40',
                0x1B38,
                'GRID P40-8Q',
                'HW_GPU_CUDA_COMPUTE_CAPABILITY_V6_1',
            ),
            (
                'H100',
                0x2331,
                'NVIDIA H100-20C',
                'CUSTOM_GPU_CUDA_COMPUTE_CAPABILITY_V9_0',
            ),
        ):
            gpu = values.PhysicalGPU('x', ids=values.PciIds(0x10DE, device))
            vgpu_type = values.VGPUType('nvidia-1', name)
            found = capabilities.traits_of(gpu, vgpu_type)
            self.assertIn(expected, found, case)

    def test_cuda_is_claimed_for_no_virtual_pc(self) -> None:
        gpu = hosts.make_gpu(T4)
        found = capabilities.traits_of(gpu, find_type(gpu, 'T4-2B'))
        self.assertEqual([], [t for t in found if 'CUDA' in t])

    def test_every_name_passes_the_rules_of_placement(self) -> None:
        host = hosts.make_host(T4, A40, L40S, HD_530, mtty=True)
        for gpu in host.gpus:
            for vgpu_type in gpu.types:
                for trait in capabilities.traits_of(gpu, vgpu_type):
                    self.assertTrue(traits.is_valid(trait), trait)
                    self.assertTrue(
                        trait == traits.OWNER
                        or trait.startswith(('HW_GPU_', *traits.OWN_PREFIXES)),
                        trait,
                    )

    def test_a_name_too_long_is_cut(self) -> None:
        found = traits.custom('VGPU_TYPE', 'a' * 300)
        self.assertEqual(255, len(found))
        self.assertTrue(traits.is_valid(found))


class TestOperatorsTraits(testtools.TestCase):
    def test_what_placement_takes(self) -> None:
        for trait, expected in (
            ('CUSTOM_RACK_7', True),
            ('HW_CPU_X86_AVX2', True),
            ('OWNER_NOVA', True),
            ('CUSTOM_', False),
            ('CUSTOM_rack', False),
            ('CUSTOM_RACK-7', False),
            ('CUSTOM_' + 'A' * 248, True),
            ('CUSTOM_' + 'A' * 249, False),
            ('CUSTOM_RACK\n', False),
            ('RACK_7', False),
            ('HW_GPU_SHINY', False),
            ('', False),
        ):
            self.assertEqual(expected, traits.is_valid(trait), repr(trait))
