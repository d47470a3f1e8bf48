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
from nova_vgpu.tests.unit.cloud import clouds

T4_2Q = 'CUSTOM_VGPU_TYPE_T4_2Q'
AVX2 = 'HW_CPU_X86_AVX2'


class TestFlavors(testtools.TestCase):
    def test_what_a_flavor_asks_for(self) -> None:
        gpu = clouds.gpu('compute1 84', host_traits=frozenset({AVX2}))
        for extra_specs, expected in (
            ({}, False),
            ({'resources:VGPU': '1'}, True),
            ({'resources:VGPU': '0'}, False),
            ({'resources:VGPU': 'one'}, False),
            ({'resources:CUSTOM_X': '1'}, False),
            ({'resources:VGPU': '1', f'trait:{T4_2Q}': 'required'}, True),
            ({'resources:VGPU': '1', f'trait:{T4_2Q}': 'forbidden'}, False),
            ({'resources:VGPU': '1', 'trait:CUSTOM_A': 'required'}, False),
            # The node gives processors and memory to the same group.
            ({'resources:VGPU': '1', f'trait:{AVX2}': 'required'}, True),
            ({'resources:VGPU': '1', f'trait:{AVX2}': 'forbidden'}, False),
            ({'resources1:VGPU': '1', f'trait1:{AVX2}': 'forbidden'}, True),
            # Of a group with a name, the GPU itself has to.
            ({'resources1:VGPU': '1', f'trait1:{AVX2}': 'required'}, False),
            ({'resources1:VGPU': '1', f'trait1:{T4_2Q}': 'required'}, True),
            ({'resources_A:VGPU': '1', f'trait_A:{T4_2Q}': 'required'}, True),
            # Traits of another group are about another provider.
            ({'resources1:VGPU': '1', 'trait2:CUSTOM_A': 'required'}, True),
            ({'resourcesA:VGPU': '1', f'traitA:{T4_2Q}': 'required'}, True),
            ({'hw:cpu_policy': 'dedicated', 'trait:': 'required'}, False),
        ):
            flavor = flavors.parse('small', extra_specs)
            found = flavor.asks_for(gpu, 'VGPU')
            self.assertEqual(expected, found, str(extra_specs))
