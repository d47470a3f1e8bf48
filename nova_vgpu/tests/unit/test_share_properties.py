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

"""What holds for every GPU that is divided among types."""

import collections
import dataclasses
import os

import hypothesis
from hypothesis import strategies as st
import testtools

from nova_vgpu import values
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans
from nova_vgpu.tests.unit import divided
from nova_vgpu.tests.unit import test_properties

SETTINGS = hypothesis.settings(
    test_properties.SETTINGS,
    max_examples=int(os.environ.get('HYPOTHESIS_DIVISIONS', '60')),
)


def make_plan(division: divided.Division) -> values.Plan:
    """The plan, where the driver has a file with the names of all types."""
    card = division.card
    names = tuple((t.id, t.name) for t in card.board.types if t.name)
    host = dataclasses.replace(hosts.make_host(card), type_names=names)
    return plans.make_plan(division.declaration, host)


class TestPlan(testtools.TestCase):
    @SETTINGS
    @hypothesis.given(division=divided.divisions())
    def test_no_vgpu_counts_in_two_shares(
        self, division: divided.Division
    ) -> None:
        plan = make_plan(division)
        there = collections.Counter(
            created.type_id for created in division.card.created
        )
        for assigned in plan.assignments:
            if assigned.type and assigned.capacity:
                there[assigned.type.id] -= assigned.capacity.existing
                self.assertLessEqual(
                    assigned.capacity.existing, assigned.capacity.total
                )
        if not plan.problems_of(values.Severity.FATAL):
            self.assertGreaterEqual(min(there.values(), default=0), 0)

    @SETTINGS
    @hypothesis.given(data=st.data(), division=divided.divisions())
    def test_all_that_placement_gives_out_can_be_created(
        self, data: st.DataObject, division: divided.Division
    ) -> None:
        plan = make_plan(division)
        hypothesis.assume(not plan.problems_of(values.Severity.FATAL))
        free = [
            assigned
            for assigned in plan.assignments
            if assigned.capacity
            for _ in range(
                assigned.capacity.total - assigned.capacity.existing
            )
        ]
        card = division.card
        for index in data.draw(st.permutations(range(len(free)))):
            assigned = free[index]
            assert assigned.type is not None
            names = [address.node_device_name for address in card.vf_addresses]
            places = [
                vf
                for vf in divided.list_places(card)
                if vf is None or names[vf] in assigned.functions
            ]
            after = divided.create(card, assigned.type.id, places)
            assert after is not None, (
                f'{assigned.type} does not fit beside {card.created}: '
                f'{[(str(a.type), a.capacity) for a in plan.assignments]}'
            )
            card = after
