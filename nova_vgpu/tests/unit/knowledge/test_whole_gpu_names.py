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

"""The names that a host and a flavor have to agree on for a whole GPU."""

import testtools

from nova_vgpu import values
from nova_vgpu.knowledge import whole_gpu_names

A100D = values.PciIds(0x10DE, 0x20B5)
RTX6000 = values.PciIds(0x10DE, 0x1E30, 0x10DE, 0x12BA)
UNKNOWN = values.PciIds(0x10DE, 0xABCD)


class TestNames(testtools.TestCase):
    def test_a_known_model_has_its_own_class_and_alias(self) -> None:
        self.assertEqual(
            whole_gpu_names.WholeGPUNames(
                'A100D', 'gpu-A100D', 'CUSTOM_GPU_A100D'
            ),
            whole_gpu_names.name_ids(A100D),
        )
        self.assertEqual(
            'CUSTOM_GPU_RTX6000',
            whole_gpu_names.name_ids(RTX6000).resource_class,
        )

    def test_an_unknown_model_has_the_class_that_nova_gives(self) -> None:
        for ids in (UNKNOWN, values.PciIds(0x10DE, 0x1E30)):
            names = whole_gpu_names.name_ids(ids)
            device = f'{ids.device:04X}'
            self.assertEqual(f'CUSTOM_PCI_10DE_{device}', names.resource_class)
            self.assertEqual(f'gpu-10de-{device.lower()}', names.alias)

    def test_a_flavor_finds_what_the_host_declares(self) -> None:
        declared = whole_gpu_names.name_ids(A100D)
        for text in (
            'A100D',
            'a100d',
            'NVIDIA A100D',
            '10de:20b5',
            '10DE:20B5',
        ):
            found = whole_gpu_names.find_names(text)
            self.assertEqual(declared, found, text)
        for text in ('A100X5', '', 'NVIDIA', '10de:20b', '10de:20b5:1'):
            self.assertIsNone(whole_gpu_names.find_names(text), text)

    def test_an_alias_has_no_separator_of_flavors(self) -> None:
        names = whole_gpu_names.find_names('RTX Pro 6000 Blackwell DC')
        assert names is not None
        self.assertEqual('gpu-RTX-Pro-6000-Blackwell-DC', names.alias)
        self.assertEqual('a-b-c', whole_gpu_names.make_alias('a:b,c'))

    def test_a_model_is_found_as_its_trait_has_it(self) -> None:
        for text in (
            'RTX_PRO_6000_BLACKWELL_DC',
            'rtx pro 6000-blackwell dc',
            'NVIDIA RTX Pro 6000 Blackwell DC',
        ):
            names = whole_gpu_names.find_names(text)
            assert names is not None
            self.assertEqual('RTX Pro 6000 Blackwell DC', names.title)

    def test_each_name_leads_to_the_others(self) -> None:
        for ids in (A100D, RTX6000, UNKNOWN):
            names = whole_gpu_names.name_ids(ids)
            self.assertEqual(
                (names, names),
                (
                    whole_gpu_names.find_by_alias(names.alias),
                    whole_gpu_names.find_by_class(names.resource_class),
                ),
            )
        for text in ('network-card', 'gpu-', 'gpu-10de-20b5', 'CUSTOM_GPU_X'):
            self.assertIsNone(whole_gpu_names.find_by_alias(text), text)
            self.assertIsNone(whole_gpu_names.find_by_class(text), text)

    def test_models_that_share_pci_ids(self) -> None:
        for device, models in (
            (0x1E30, ('RTX6000', 'RTX8000')),
            (0x20B5, ('A100D',)),
            (0xABCD, ()),
        ):
            ids = values.PciIds(0x10DE, device)
            self.assertEqual(models, whole_gpu_names.list_models(ids))
        self.assertEqual(
            (), whole_gpu_names.list_models(values.PciIds(0x1234, 0x20B5))
        )

    def test_traits_tell_the_model_as_those_of_vgpus_do(self) -> None:
        self.assertEqual(
            (
                'CUSTOM_GPU_ARCH_AMPERE',
                'CUSTOM_GPU_CUDA_COMPUTE_CAPABILITY_V8_0',
                'CUSTOM_GPU_MODEL_A100D',
                'CUSTOM_GPU_VENDOR_NVIDIA',
            ),
            whole_gpu_names.traits_of(A100D),
        )
        self.assertEqual(
            ('CUSTOM_GPU_VENDOR_NVIDIA',), whole_gpu_names.traits_of(UNKNOWN)
        )
        self.assertEqual(
            (), whole_gpu_names.traits_of(values.PciIds(0x1234, 0x1111))
        )
