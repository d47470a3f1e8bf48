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

from nova_vgpu.cloud.orders import flavors
from nova_vgpu.cloud.orders import vgpu_requests


class TestVGPURequests(testtools.TestCase):
    def test_what_of_a_flavor_is_about_vgpus(self) -> None:
        for extra_specs, expected in (
            ({}, []),
            ({'resources:VGPU': '2'}, [('', 'VGPU', 2)]),
            ({'resources:VGPU': '0'}, []),
            ({'resources:CUSTOM_GOLD': '1'}, [('', 'CUSTOM_GOLD', 1)]),
            ({'resources:CUSTOM_A40_8Q': '1'}, [('', 'CUSTOM_A40_8Q', 1)]),
            ({'resources:CUSTOM_VGPU_BIG': '1'}, [('', 'CUSTOM_VGPU_BIG', 1)]),
            ({'resources:CUSTOM_FPGA': '1'}, []),
            ({'resources:CUSTOM_GPU_T4': '1'}, []),
            ({'resources:PGPU': '1', 'resources:VCPU': '1'}, []),
            (
                {
                    'resources1:CUSTOM_OTHER': '1',
                    'trait1:CUSTOM_VGPU_TYPE_A40_8Q': 'required',
                    'resources2:CUSTOM_FPGA': '1',
                },
                [('1', 'CUSTOM_OTHER', 1)],
            ),
            (
                {
                    'resources:VGPU': '1',
                    'resources:CUSTOM_LICENSE': '1',
                    'trait:CUSTOM_VGPU_TYPE_A40_8Q': 'required',
                },
                [('', 'VGPU', 1)],
            ),
        ):
            found = vgpu_requests.list_requests(
                flavors.parse('f', extra_specs), frozenset({'CUSTOM_GOLD'})
            )
            self.assertEqual(
                expected,
                [(r.group.name, r.resource_class, r.vgpus) for r in found],
                str(extra_specs),
            )
