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

from nova_vgpu.cloud.gpus import types
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.tests.unit.cloud import clouds

GPUS = (
    clouds.gpu('compute1 84', 8, 5),
    clouds.gpu('compute1 85', 8, 0),
    clouds.gpu('compute2 84', 2, 2, 6),
    clouds.gpu('compute2 41', 6, 1, None, clouds.A40),
    clouds.gpu('compute3 41', 3, 0, None, clouds.A40, 'CUSTOM_X'),
    clouds.gpu('compute4 84', 4, 0, None, ()),
)


class TestTypes(testtools.TestCase):
    def test_numbers_of_each_type_and_class(self) -> None:
        found = [
            (
                usage.name,
                usage.resource_class,
                (usage.gpus, usage.hosts),
                (usage.total, usage.used, usage.reserved, usage.free),
                usage.largest,
            )
            for usage in types.list_types(GPUS)
        ]
        self.assertEqual(
            [
                (None, 'VGPU', (1, 1), (4, 0, 0, 4), 4),
                ('A40-8Q', 'CUSTOM_X', (1, 1), (3, 0, 0, 3), 3),
                ('A40-8Q', 'VGPU', (1, 1), (6, 1, 0, 5), 5),
                ('T4-2Q', 'VGPU', (3, 2), (24, 7, 6, 11), 11),
            ],
            found,
        )

    def test_a_flavor_is_with_each_type_that_it_can_get(self) -> None:
        made = [
            flavors.parse('b', {'resources:VGPU': '1'}),
            flavors.parse('a', {'resources:VGPU': '2'}),
            flavors.parse('x', {'resources:CUSTOM_X': '1'}),
        ]
        self.assertEqual(
            [('a', 'b'), ('x',), ('a', 'b'), ('a', 'b')],
            [usage.flavors for usage in types.list_types(GPUS, made)],
        )

    def test_a_cloud_without_gpus_has_no_types(self) -> None:
        self.assertEqual((), types.list_types(()))
