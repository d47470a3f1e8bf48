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

from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.cloud.orders import host_fitting
from nova_vgpu.cloud.orders import vgpu_requests
from nova_vgpu.tests.unit.cloud import clouds

IS_T4 = 'CUSTOM_VGPU_TYPE_T4_2Q'
IS_A40 = 'CUSTOM_VGPU_TYPE_A40_8Q'


def fits(
    gpus: list[fleet.GPU], policy: str | None, *groups: tuple[int, str]
) -> bool:
    """Whether a flavor fits: numbers of vGPUs, and a trait for each."""
    specs = {}
    for number, (amount, trait) in enumerate(groups):
        specs[f'resources{number}:VGPU'] = str(amount)
        if trait:
            specs[f'trait{number}:{trait}'] = 'required'
    requests = vgpu_requests.list_requests(
        flavors.parse('f', specs), frozenset()
    )
    return host_fitting.fits(requests, policy, gpus)


class TestFitting(testtools.TestCase):
    T4 = clouds.gpu('compute1 84', 8, 8)
    OTHER = clouds.gpu('compute1 85', 4)
    A40 = clouds.gpu('compute1 41', 6, 0, None, clouds.A40)

    def test_what_is_in_use_counts_as_room(self) -> None:
        self.assertTrue(fits([self.T4], None, (8, '')))

    def test_groups_may_share_a_gpu(self) -> None:
        self.assertTrue(fits([self.T4], 'none', (4, IS_T4), (4, '')))
        self.assertFalse(fits([self.T4], 'none', (4, IS_T4), (5, '')))

    def test_groups_that_are_isolated_have_gpus_of_their_own(self) -> None:
        both = [self.T4, self.OTHER]
        self.assertFalse(fits([self.T4], 'isolate', (1, ''), (1, '')))
        self.assertTrue(fits(both, 'isolate', (1, ''), (1, '')))
        self.assertTrue(fits(both, 'isolate', (4, ''), (8, '')))
        self.assertFalse(fits(both, 'isolate', (5, ''), (5, '')))
        self.assertFalse(fits(both, 'isolate', *[(1, '')] * 3))

    def test_a_group_without_a_name_may_share(self) -> None:
        specs = {'resources:VGPU': '1', 'resources1:VGPU': '1'}
        requests = vgpu_requests.list_requests(
            flavors.parse('f', specs), frozenset()
        )
        self.assertTrue(host_fitting.fits(requests, 'isolate', [self.T4]))

    def test_each_group_gets_what_it_asks_for(self) -> None:
        gpus = [self.T4, self.A40]
        # The first would fit both, the second only one of them.
        self.assertTrue(fits(gpus, 'isolate', (1, ''), (1, IS_T4)))
        self.assertTrue(fits(gpus, 'isolate', (1, ''), (1, IS_A40)))
        self.assertFalse(fits(gpus, 'isolate', (1, IS_A40), (1, IS_A40)))

    def test_more_isolated_groups_than_gpus_take_no_search(self) -> None:
        gpus = [
            clouds.gpu(f'compute1 {bus}', traits=(IS_T4, f'CUSTOM_{bus}'))
            for bus in range(10, 50)
        ]
        self.assertFalse(fits(gpus, 'isolate', *[(1, IS_T4)] * 41))

    def test_the_traits_of_a_host(self) -> None:
        gold = frozenset({'CUSTOM_GOLD'})
        for extra_specs, with_it, without in (
            ({}, True, True),
            ({'trait:CUSTOM_GOLD': 'required'}, True, False),
            ({'trait:CUSTOM_GOLD': 'forbidden'}, False, True),
            ({'trait1:CUSTOM_GOLD': 'required'}, True, True),
            # The GPU may have it, or what else gives the resource.
            (
                {'trait:CUSTOM_GOLD': 'required', 'resources:VGPU': '1'},
                True,
                True,
            ),
        ):
            flavor = flavors.parse('f', extra_specs)
            self.assertEqual(
                (with_it, without),
                (
                    host_fitting.has_traits(flavor, gold),
                    host_fitting.has_traits(flavor, frozenset()),
                ),
                str(extra_specs),
            )

    def test_a_host_with_many_gpus_takes_no_long_search(self) -> None:
        gpus = [clouds.gpu(f'compute1 {bus}', 8) for bus in range(10, 26)]
        self.assertFalse(fits(gpus, 'none', *[(5, '')] * 17))
        self.assertFalse(fits(gpus, 'isolate', *[(1, '')] * 17))
        self.assertTrue(fits(gpus, 'none', *[(1, '')] * 32))
