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

from nova_vgpu import exception
from nova_vgpu.cloud.gpus import type_choice
from nova_vgpu.cloud.orders import flavor_order
from nova_vgpu.tests.unit.cloud import clouds

A40_8Q = 'CUSTOM_VGPU_TYPE_A40_8Q'
SAME, DIFFERENT, ANY = flavor_order.Policy


class TestExtraSpecs(testtools.TestCase):
    def test_what_a_flavor_asks_for(self) -> None:
        one = {'resources:VGPU': '1', f'trait:{A40_8Q}': 'required'}
        groups = {
            'resources1:VGPU': '1',
            f'trait1:{A40_8Q}': 'required',
            'resources2:VGPU': '1',
            f'trait2:{A40_8Q}': 'required',
        }
        for order, expected in (
            (flavor_order.Order(A40_8Q), one),
            (flavor_order.Order(A40_8Q, policy=DIFFERENT), one),
            (
                flavor_order.Order(A40_8Q, 'CUSTOM_X'),
                {'resources:CUSTOM_X': '1', f'trait:{A40_8Q}': 'required'},
            ),
            (
                flavor_order.Order(A40_8Q, count=2),
                {'resources:VGPU': '2', f'trait:{A40_8Q}': 'required'},
            ),
            (
                flavor_order.Order(A40_8Q, count=2, policy=DIFFERENT),
                groups | {'group_policy': 'isolate'},
            ),
            (
                flavor_order.Order(A40_8Q, count=2, policy=ANY),
                groups | {'group_policy': 'none'},
            ),
            (
                flavor_order.Order(A40_8Q, page_size='large'),
                one
                | {'hw:mem_page_size': 'large', 'hw:locked_memory': 'true'},
            ),
        ):
            found = flavor_order.make_extra_specs(order)
            self.assertEqual(expected, found, str(order))

    def test_page_sizes(self) -> None:
        for text, expected in (
            ('large', True),
            ('2048', True),
            ('1GB', True),
            ('2MiB', True),
            ('huge', False),
            ('', False),
            ('1GB\n', False),
            ('-1', False),
        ):
            found = flavor_order.is_page_size(text)
            self.assertEqual(expected, found, text)


class TestCapacity(testtools.TestCase):
    """One host has two GPUs with 8 and 4 vGPUs, another one has one."""

    def setUp(self) -> None:
        super().setUp()
        self.served = type_choice.find_type(
            [
                clouds.gpu('compute1 84', 8),
                clouds.gpu('compute1 85', 4),
                clouds.gpu('compute2 84', 6, used=6),
            ],
            'T4-2Q',
        )

    def test_what_no_host_could_have_is_refused(self) -> None:
        for policy, most, lacking in (
            (SAME, 8, 'GPU has 9 vGPUs of type T4-2Q: the most is 8'),
            (DIFFERENT, 2, 'host has 3 GPUs with vGPUs of type T4-2Q'),
            (ANY, 12, 'host has 13 vGPUs of type T4-2Q: the most is 12'),
        ):
            flavor_order.require_possible(self.served, most, policy)
            error = self.assertRaises(
                exception.NotInCloud,
                *(flavor_order.require_possible, self.served),
                *(most + 1, policy),
            )
            self.assertIn(f'No {lacking}', str(error))

    def test_a_type_is_refused_only_if_all_of_its_gpus_are_fenced(
        self,
    ) -> None:
        fenced = clouds.gpu('compute1 84', 1, used=1, reserved=7)
        empty = clouds.gpu('compute1 85', 0)
        full = clouds.gpu('compute2 84', 8, used=8, reserved=0)
        for gpus, is_live in (
            ([fenced, full], True),
            ([fenced, empty], False),
            ([empty], False),
            ([clouds.gpu('compute1 84', 8, used=8)], True),
        ):
            served = type_choice.find_type(gpus, 'T4-2Q')
            if is_live:
                flavor_order.require_live(served)
                continue
            error = self.assertRaises(
                exception.NotInCloud, flavor_order.require_live, served
            )
            self.assertIn(f'{gpus[0].address} on compute1', str(error))

    def test_combinations_grow_with_groups(self) -> None:
        for count, policy, expected in (
            (4, SAME, 3),
            (1, DIFFERENT, 3),
            (2, DIFFERENT, 2),
            (2, ANY, 2**2 + 1),
            (10, ANY, 2**10 + 1),
        ):
            found = flavor_order.count_combinations(
                self.served.stocks, count, policy
            )
            self.assertEqual(expected, found, str((count, policy)))
