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

import testtools

from nova_vgpu.cloud.orders import flavor_totals
from nova_vgpu.cloud.orders import flavors

A40 = {'trait:CUSTOM_VGPU_TYPE_A40_8Q': 'required'}
TWO_GROUPS = {
    'resources1:VGPU': '1',
    'trait1:CUSTOM_VGPU_TYPE_A40_8Q': 'required',
    'resources2:VGPU': '1',
    'trait2:CUSTOM_VGPU_TYPE_A40_8Q': 'required',
}
HALF_GIB = {'trait:CUSTOM_VGPU_FRAMEBUFFER_512M': 'required'}


class TestWords(testtools.TestCase):
    def test_what_a_flavor_asks_for(self) -> None:
        for extra_specs, expected in (
            ({'resources:VGPU': '1', **A40}, '1 vGPU of A40-8Q, 8 GiB'),
            (
                {'resources:VGPU': '2', **A40},
                '2 vGPUs of A40-8Q, 8 GiB each, on one GPU',
            ),
            (
                {**TWO_GROUPS, 'group_policy': 'isolate'},
                '2 vGPUs of A40-8Q, 8 GiB each, on 2 different GPUs',
            ),
            (
                {**TWO_GROUPS, 'group_policy': 'none'},
                '2 vGPUs of A40-8Q, 8 GiB each, on up to 2 GPUs',
            ),
            ({'resources:VGPU': '1'}, '1 vGPU of any type'),
            (
                {'resources:VGPU': '1', **HALF_GIB},
                '1 vGPU of any type, 512 MiB',
            ),
            (
                {
                    'resources:VGPU': '1',
                    'pci_passthrough:alias': 'gpu-A40:2,nic:1',
                },
                '1 vGPU of any type; 2 whole GPUs of model A40',
            ),
            ({'resources:CUSTOM_FPGA': '1'}, ''),
        ):
            flavor = flavors.parse('f', extra_specs)
            self.assertEqual(expected, flavor_totals.describe(flavor))
