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

"""The weigher in Nova's scheduler, on each supported Nova."""

import collections
from collections.abc import Callable
import inspect
import typing

import fixtures
from nova import context
from nova import objects
from nova.scheduler.client import report
import oslo_messaging as messaging
import testtools

from nova_vgpu.scheduler import answers
from nova_vgpu.tests.functional.compute import scheduling

A40, T4 = scheduling.A40_8Q, scheduling.T4_2Q
TWO_A40 = ((A40, 4), (A40, 4))
OURS = (scheduling.NOVAS, scheduling.WEIGHER)


def asking(trait: str) -> dict[str, str]:
    return {**scheduling.ONE_VGPU, f'trait:{trait}': 'required'}


class WeigherTest(scheduling.SchedulerTestBase):
    def start_hosts(
        self, number: int = 3, layout: scheduling.Layout = TWO_A40
    ) -> None:
        for n in range(number):
            self.start_host(f'host{n}', layout)

    def order_each(self, number: int, **options: typing.Any) -> list[int]:
        """Order one after the other; how many each host got, in order."""
        found = collections.Counter(
            self.order(**options)[0] for _ in range(number)
        )
        return sorted(found.values(), reverse=True)

    def test_packing_fills_hosts_and_gpus_one_after_the_other(self) -> None:
        self.start_hosts()
        self.start_scheduler(*OURS)
        self.assertEqual([8, 2], self.order_each(10))
        used = sorted(self.used(f'host{n}', 2) for n in range(3))
        self.assertEqual([0, 0], used[0])
        self.assertEqual([[0, 2], [4, 4]], [sorted(u) for u in used[1:]])

    def test_spreading_goes_round(self) -> None:
        self.start_hosts()
        self.start_scheduler(
            *OURS, vgpu_host_order='spread', vgpu_gpu_order='spread'
        )
        self.assertEqual([4, 4, 4], self.order_each(12))
        for n in range(3):
            self.assertEqual([2, 2], self.used(f'host{n}', 2))

    def test_hosts_can_be_spread_over_and_their_gpus_packed(self) -> None:
        self.start_hosts(2)
        self.start_scheduler(*OURS, vgpu_host_order='spread')
        self.assertEqual([3, 3], self.order_each(6))
        for n in range(2):
            self.assertEqual([0, 3], sorted(self.used(f'host{n}', 2)))

    def test_each_type_has_its_order(self) -> None:
        self.start_hosts(2, ((A40, 4), (T4, 4)))
        self.start_scheduler(
            *OURS, vgpu_host_order_of_types={'T4-2Q': 'spread'}
        )
        a40 = self.order_each(4, extra_specs=asking(A40))
        t4 = self.order_each(4, extra_specs=asking(T4))
        self.assertEqual(([4], [2, 2]), (a40, t4))

    def test_a_large_order_finds_what_was_kept_free(self) -> None:
        whole = {'resources:VGPU': '4'}
        self.start_hosts(2)
        self.start_scheduler(*OURS)
        self.order_each(5)
        for _ in range(2):
            self.order(whole)
        self.assertRaises(messaging.ExpectedException, self.order, whole)
        self.assertEqual([3], self.order_each(3))

    def test_a_request_for_ten_servers(self) -> None:
        self.start_hosts()
        self.start_scheduler(*OURS)
        before = len(self.requests)
        found = collections.Counter(self.order(number=10))
        self.assertEqual([2, 8], sorted(found.values()))
        # Nova reads allocations before each claim; no claim is refused.
        asked = self.requests[before:]
        self.assertEqual(('GET', '/allocation_candidates'), asked[0])
        methods = [method for method, _ in asked[1:]]
        self.assertEqual(['GET', 'PUT'] * 10, methods)

    def test_a_request_for_ten_servers_spreads_as_well(self) -> None:
        self.start_hosts()
        self.start_scheduler(
            *OURS, vgpu_host_order='spread', vgpu_gpu_order='spread'
        )
        found = collections.Counter(self.order(number=10))
        self.assertEqual([3, 3, 4], sorted(found.values()))
        for n in range(3):
            self.assertIn(sorted(self.used(f'host{n}', 2)), [[1, 2], [2, 2]])

    def test_placement_is_asked_as_often_as_without_it(self) -> None:
        self.start_hosts()
        asked = []
        for weighers in ((scheduling.NOVAS,), OURS):
            self.start_scheduler(*weighers)
            before = len(self.requests)
            self.order()
            asked.append(
                [
                    (method, url.split('/')[1])
                    for method, url in self.requests[before:]
                ]
            )
        self.assertEqual(
            [
                ('GET', 'allocation_candidates'),
                ('GET', 'allocations'),
                ('PUT', 'allocations'),
            ],
            asked[0],
        )
        self.assertEqual(asked[0], asked[1])

    def test_the_gpus_of_a_host_that_is_alone_are_sorted_too(self) -> None:
        """Nova does not weigh one host."""
        layout = tuple((A40, 4) for _ in range(3))
        self.start_hosts(1, layout)
        self.start_scheduler(*OURS)
        self.order_each(5)
        self.assertEqual([0, 1, 4], sorted(self.used('host0', 3)))
        self.start_scheduler(*OURS, vgpu_gpu_order='spread')
        self.order_each(4)
        self.assertEqual([2, 3, 4], sorted(self.used('host0', 3)))

    def test_two_gpus_of_one_host(self) -> None:
        two = {
            'resources1:VGPU': '1',
            'resources2:VGPU': '1',
            'group_policy': 'isolate',
        }
        self.start_hosts(2)
        self.start_scheduler(*OURS)
        self.assertEqual([4], self.order_each(4, extra_specs=two))
        self.assertEqual([1], self.order_each(1, extra_specs=two))

    def test_aggregates_have_multipliers_of_their_own(self) -> None:
        self.start_hosts(2)
        self.start_scheduler(*OURS)
        first, *_ = self.order()
        admin = context.get_admin_context()
        aggregate = objects.Aggregate(admin, name='gpus')
        aggregate.create()
        aggregate.update_metadata({'vgpu_weight_multiplier': '0'})
        aggregate.add_host(first)
        self.start_scheduler(*OURS)
        self.assertNotEqual([first], self.order())

    def test_plain_servers_are_spread_by_nova_as_before(self) -> None:
        self.start_hosts(2)
        self.start_host('plain', ())
        self.start_scheduler(*OURS)
        self.assertEqual([2, 2, 2], self.order_each(6, extra_specs={}))

    def test_plain_servers_can_keep_off_gpu_hosts(self) -> None:
        self.start_hosts(2)
        self.start_host('plain', ())
        self.start_scheduler(*OURS, plain_servers_avoid_gpus=True)
        for _ in range(4):
            self.assertEqual(['plain'], self.order({}))


class BrokenTest(scheduling.SchedulerTestBase):
    """What Placement tells is never a reason not to schedule."""

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        for n in range(2):
            self.start_host(f'host{n}', TWO_A40)

    def change_answers(
        self, change: Callable[[dict[str, typing.Any]], None]
    ) -> None:
        """Change the summaries of GPUs before the weigher has them."""
        ask = getattr(report.SchedulerReportClient, answers.METHOD)

        def ask_and_change(
            client: typing.Any, *args: typing.Any
        ) -> typing.Any:
            answer = ask(client, *args)
            change(answer[1])
            return answer

        self.useFixture(
            fixtures.MockPatchObject(
                report.SchedulerReportClient, answers.METHOD, ask_and_change
            )
        )
        self.start_scheduler(*OURS)

    def test_summaries_that_are_broken(self) -> None:
        broken: list[object] = [
            None,
            {},
            {'VGPU': None},
            {'VGPU': {'capacity': -1, 'used': -1}},
            {'VGPU': {'capacity': 'many', 'used': None}},
            {'VGPU': {'capacity': 0, 'used': 0}},
            {'VGPU': {'capacity': 1, 'used': 10**30}},
        ]

        def put_in(summaries: dict[str, typing.Any]) -> None:
            for summary in summaries.values():
                if summary['parent_provider_uuid']:
                    summary['resources'] = broken[-1]

        self.change_answers(put_in)
        while broken:
            self.assertEqual(2, len(self.order(number=2)), broken.pop())
        self.assertEqual(1, self.log.output.count('neutral weight'))

    def test_summaries_that_are_missing(self) -> None:
        def drop(summaries: dict[str, typing.Any]) -> None:
            for uuid in list(summaries):
                if summaries[uuid]['parent_provider_uuid']:
                    del summaries[uuid]

        self.change_answers(drop)
        self.assertEqual(3, len(self.order(number=3)))

    def test_an_answer_that_the_weigher_does_not_see(self) -> None:
        """A later Nova may ask in another way."""
        ask = getattr(report.SchedulerReportClient, answers.METHOD)
        self.start_scheduler(*OURS)
        setattr(report.SchedulerReportClient, answers.METHOD, ask)
        for _ in range(2):
            self.order()
        said = self.log.output.count('did not see the answer')
        self.assertEqual(1, said)


class NovaTest(testtools.TestCase):
    def test_novas_method_is_what_is_expected(self) -> None:
        method = getattr(report.SchedulerReportClient, answers.METHOD)
        found = inspect.signature(inspect.unwrap(method)).parameters
        self.assertEqual(['self', 'context', 'resources'], list(found))
