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

"""Which host and which GPU are taken first."""

import testtools

from nova_vgpu import values
from nova_vgpu.scheduler import inventory
from nova_vgpu.scheduler import ordering
from nova_vgpu.tests.unit.scheduler import answered

gpu = answered.gpu
PACKED = values.SchedulingRules()
SPREAD = answered.BOTH_SPREAD


def weigh(
    rules: values.SchedulingRules, *gpus: inventory.GPU, number: int = 1
) -> float:
    """The weight of a host with GPUs, for an order of its best one."""
    by_uuid = {str(n): each for n, each in enumerate(gpus)}
    first = min(
        by_uuid, key=lambda uuid: ordering.rank({uuid: number}, by_uuid, rules)
    )
    return ordering.weigh({first: number}, by_uuid, gpus, rules)


class TestHosts(testtools.TestCase):
    def assert_falls(self, *weights: float) -> None:
        self.assertEqual(sorted(set(weights), reverse=True), list(weights))
        self.assertGreaterEqual(weights[-1], 0)
        self.assertLessEqual(weights[0], 1)

    def test_packing_opens_an_unused_gpu_late_and_an_unused_host_last(
        self,
    ) -> None:
        self.assert_falls(
            weigh(PACKED, gpu(3), gpu(4)),
            weigh(PACKED, gpu(3), gpu(0)),
            weigh(PACKED, gpu(1), gpu(0)),
            weigh(PACKED, gpu(4), gpu(0)),
            weigh(PACKED, gpu(0), gpu(0)),
            weigh(PACKED, gpu(4), gpu(4)),
        )

    def test_a_host_is_in_use_by_any_type(self) -> None:
        t4 = gpu(1, trait=answered.T4_2Q)
        of_host = [gpu(0), t4]
        gpus = dict(zip(('a40', 't4'), of_host, strict=True))
        used = ordering.weigh({'a40': 1}, gpus, of_host, PACKED)
        self.assertGreater(used, weigh(PACKED, gpu(0)))

    def test_spreading_takes_the_host_with_the_largest_share_free(
        self,
    ) -> None:
        self.assert_falls(
            weigh(SPREAD, gpu(0), gpu(0)),
            weigh(SPREAD, gpu(1), gpu(0)),
            weigh(SPREAD, gpu(3), gpu(0)),
            weigh(SPREAD, gpu(3), gpu(4)),
            weigh(SPREAD, gpu(4), gpu(4)),
        )

    def test_other_types_of_a_host_do_not_count_for_its_share(self) -> None:
        t4 = gpu(4, trait=answered.T4_2Q)
        gpus = {'a40': gpu(1), 't4': t4}
        both = ordering.weigh({'a40': 1}, gpus, [gpu(1), t4], SPREAD)
        self.assertEqual(weigh(SPREAD, gpu(1)), both)

    def test_a_type_can_have_an_order_of_its_own(self) -> None:
        rules = values.SchedulingRules(
            values.Orders(answered.PACK, {answered.T4_2Q: answered.SPREAD})
        )
        t4 = answered.T4_2Q
        self.assert_falls(
            weigh(rules, gpu(0, trait=t4)), weigh(rules, gpu(1, trait=t4))
        )
        self.assert_falls(weigh(rules, gpu(1)), weigh(rules, gpu(0)))

    def test_so_can_a_resource_class(self) -> None:
        rules = values.SchedulingRules(
            values.Orders(answered.PACK, {'VGPU': answered.SPREAD})
        )
        self.assert_falls(weigh(rules, gpu(0)), weigh(rules, gpu(1)))

    def test_plain_servers_are_not_the_weighers_business(self) -> None:
        for rules in (PACKED, SPREAD):
            for of_host in ((), [gpu(0)], [gpu(4)]):
                self.assertEqual(
                    ordering.NEUTRAL, ordering.weigh({}, {}, of_host, rules)
                )

    def test_unless_they_are_to_avoid_free_vgpus(self) -> None:
        rules = values.SchedulingRules(plain_servers_avoid_gpus=True)
        without, full, half, empty = (
            ordering.weigh({}, {}, of_host, rules)
            for of_host in ([], [gpu(4)], [gpu(2)], [gpu(0)])
        )
        self.assertEqual(without, full)
        self.assert_falls(full, half, empty)


class TestGPUs(testtools.TestCase):
    def best(
        self,
        rules: values.SchedulingRules,
        *gpus: inventory.GPU,
        number: int = 1,
    ) -> inventory.GPU:
        by_uuid = {str(n): each for n, each in enumerate(gpus)}
        return by_uuid[
            min(
                by_uuid,
                key=lambda uuid: ordering.rank({uuid: number}, by_uuid, rules),
            )
        ]

    def test_packing_takes_the_fullest_with_room(self) -> None:
        found = self.best(PACKED, gpu(0), gpu(1), gpu(3), gpu(4))
        self.assertEqual(gpu(3), found)

    def test_room_is_for_all_of_an_order(self) -> None:
        found = self.best(PACKED, gpu(0), gpu(1), gpu(3), number=2)
        self.assertEqual(gpu(1), found)

    def test_spreading_takes_the_emptiest(self) -> None:
        found = self.best(SPREAD, gpu(3), gpu(1), gpu(2, capacity=16))
        self.assertEqual(gpu(2, capacity=16), found)

    def test_two_gpus_are_taken_of_those_in_use(self) -> None:
        gpus = {'a': gpu(0), 'b': gpu(1), 'c': gpu(2)}
        pairs = [{'a': 1, 'b': 1}, {'a': 1, 'c': 1}, {'b': 1, 'c': 1}]
        found = min(pairs, key=lambda t: ordering.rank(t, gpus, PACKED))
        self.assertEqual({'b': 1, 'c': 1}, found)
