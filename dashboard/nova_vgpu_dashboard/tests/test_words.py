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

import unittest

from nova_vgpu_dashboard.content.vgpu_flavors import words
from nova_vgpu_dashboard.tests import clouds


def describe(**extra_specs: str) -> str:
    return words.describe(clouds.flavor('f', **extra_specs))


class TestWords(unittest.TestCase):
    """What a flavor brings, by its extra specs."""

    def test_one_vgpu(self) -> None:
        found = describe(
            resources__VGPU='1', trait__CUSTOM_VGPU_TYPE_A40_8Q='required'
        )
        self.assertEqual('1 vGPU of A40-8Q, 8 GiB', found)

    def test_several_of_one_group_are_on_one_gpu(self) -> None:
        found = describe(
            resources__VGPU='2', trait__CUSTOM_VGPU_TYPE_A40_8Q='required'
        )
        self.assertEqual('2 vGPUs of A40-8Q, 8 GiB each, on one GPU', found)

    def groups(self, **more: str) -> str:
        return describe(
            resources1__VGPU='1',
            trait1__CUSTOM_VGPU_TYPE_A40_8Q='required',
            resources2__VGPU='1',
            trait2__CUSTOM_VGPU_TYPE_A40_8Q='required',
            **more,
        )

    def test_groups_that_are_isolated_are_on_different_gpus(self) -> None:
        self.assertEqual(
            '2 vGPUs of A40-8Q, 8 GiB each, on 2 different GPUs',
            self.groups(group_policy='isolate'),
        )

    def test_other_groups_may_share_a_gpu(self) -> None:
        self.assertEqual(
            '2 vGPUs of A40-8Q, 8 GiB each, on up to 2 GPUs',
            self.groups(group_policy='none'),
        )

    def test_several_types(self) -> None:
        found = describe(
            resources1__VGPU='1',
            trait1__CUSTOM_VGPU_TYPE_A40_8Q='required',
            resources2__CUSTOM_L40S_24Q='2',
            group_policy='none',
        )
        self.assertEqual(
            '1 vGPU of A40-8Q, 8 GiB; '
            '2 vGPUs of L40S-24Q, 24 GiB each, on one GPU',
            found,
        )

    def test_any_type(self) -> None:
        found = describe(resources__VGPU='1')
        self.assertEqual('1 vGPU of any type', found)
        found = describe(resources__VGPU='3')
        self.assertEqual('3 vGPUs of any type, on one GPU', found)

    def test_any_type_of_a_size(self) -> None:
        found = describe(
            resources__VGPU='1', trait__CUSTOM_VGPU_FRAMEBUFFER_512M='required'
        )
        self.assertEqual('1 vGPU of any type, 512 MiB', found)

    def test_whole_gpus(self) -> None:
        found = describe(pci_passthrough__alias='gpu-A40:1')
        self.assertEqual('1 whole GPU of model A40', found)

    def test_vgpus_beside_whole_gpus(self) -> None:
        found = describe(
            resources__VGPU='1', pci_passthrough__alias='gpu-A40:2'
        )
        self.assertEqual(
            '1 vGPU of any type; 2 whole GPUs of model A40', found
        )

    def test_other_devices_and_resources(self) -> None:
        found = describe(
            pci_passthrough__alias='nic:1', resources__CUSTOM_FPGA='1'
        )
        self.assertEqual('', found)
