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

from nova_vgpu.cloud.orders import demands
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.tests.unit.cloud import clouds

SIZE = 'CUSTOM_VGPU_FRAMEBUFFER_2G'
T4 = clouds.gpu('compute1 84', 8, 3, None, (*clouds.T4, SIZE))
A40 = clouds.gpu('compute2 41', 6, 1, None, clouds.A40)
UNKNOWN = clouds.gpu('compute3 41', 6, 1, None, ())
OWN = clouds.gpu('compute4 41', 6, 0, None, clouds.T4, 'CUSTOM_T4')
GPUS = (T4, A40, UNKNOWN, OWN)


class TestDemands(testtools.TestCase):
    def find(self, **extra_specs: str) -> tuple[tuple[str | None, int], ...]:
        specs = {
            key.replace('__', ':'): value for key, value in extra_specs.items()
        }
        found = demands.find([flavors.parse('f', specs)], GPUS)
        return tuple((d.kind.name, d.vgpus) for d in found['f'])

    def test_a_type_by_its_trait(self) -> None:
        self.assertEqual(
            (('A40-8Q', 2),),
            self.find(
                resources__VGPU='2',
                trait__CUSTOM_VGPU_TYPE_A40_8Q='required',
            ),
        )

    def test_a_type_by_its_class(self) -> None:
        self.assertEqual((('T4-2Q', 1),), self.find(resources__CUSTOM_T4='1'))

    def test_each_group_counts(self) -> None:
        self.assertEqual(
            (('A40-8Q', 1), ('T4-2Q', 3)),
            self.find(
                resources1__VGPU='1',
                trait1__CUSTOM_VGPU_TYPE_A40_8Q='required',
                resources_GPU__VGPU='3',
                trait_GPU__CUSTOM_VGPU_TYPE_T4_2Q='required',
            ),
        )

    def test_groups_that_ask_for_the_same_are_added_up(self) -> None:
        self.assertEqual(
            (('A40-8Q', 3),),
            self.find(
                resources1__VGPU='1',
                trait1__CUSTOM_VGPU_TYPE_A40_8Q='required',
                resources2__VGPU='2',
                trait2__CUSTOM_VGPU_TYPE_A40_8Q='required',
            ),
        )

    def test_a_provider_without_the_trait_of_the_size(self) -> None:
        specs = {
            'resources:VGPU': '1',
            'trait:CUSTOM_VGPU_TYPE_T4_2Q': 'required',
        }
        without = clouds.gpu('compute5 84', 8, 0, None, clouds.T4)
        found = demands.find([flavors.parse('f', specs)], (T4, without))
        (demand,) = found['f']
        self.assertEqual(
            demands.Kind('T4-2Q', T4.facts.framebuffer_mib), demand.kind
        )
        self.assertIsNone(without.facts.framebuffer_mib)

    def test_a_flavor_that_fits_several_types(self) -> None:
        self.assertEqual(
            ((demands.SEVERAL, 1),), self.find(resources__VGPU='1')
        )

    def test_a_type_that_no_gpu_has_any_more(self) -> None:
        specs = {
            'resources:VGPU': '1',
            'trait:CUSTOM_VGPU_TYPE_L40S_24Q': 'required',
        }
        found = demands.find([flavors.parse('f', specs)], GPUS)
        kind = demands.Kind('L40S-24Q', 24 * 1024)
        self.assertEqual((demands.Demand(kind, 'VGPU', 1),), found['f'])

    def test_a_class_that_no_gpu_has_any_more(self) -> None:
        specs = {'resources:CUSTOM_L40S_24Q': '2'}
        found = demands.find([flavors.parse('f', specs)], GPUS)
        kind = demands.Kind('L40S-24Q', 24 * 1024)
        demand = demands.Demand(kind, 'CUSTOM_L40S_24Q', 2)
        self.assertEqual((demand,), found['f'])

    def test_other_resources_do_not_count(self) -> None:
        self.assertEqual((), self.find(resources__CUSTOM_FPGA='1'))
