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
from nova_vgpu.publish import decision
from nova_vgpu.publish import providers
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans
from nova_vgpu.tests import trees
from nova_vgpu.tests.unit import divided
from nova_vgpu.tests.unit import test_properties

SETTINGS = hypothesis.settings(
    test_properties.SETTINGS,
    max_examples=int(os.environ.get('HYPOTHESIS_DIVISIONS', '60')),
)


def make_plan(division: divided.Division) -> values.Plan:
    host = divided.read_host(division.card)
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
    @hypothesis.given(division=divided.divisions())
    def test_providers_have_the_same_names_while_functions_are_off(
        self, division: divided.Division
    ) -> None:
        off = dataclasses.replace(division.card, created=())
        if off.board.total_vfs:
            off = dataclasses.replace(off, vfs=0)
        now, later = (
            [assigned.device for assigned in make_plan(each).assignments]
            for each in (dataclasses.replace(division, card=off), division)
        )
        self.assertEqual(now, later)
        self.assertEqual(len(set(now)), len(now))

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


@st.composite
def guests(draw: st.DrawFn, card: simulation.GPU) -> tuple[values.Guest, ...]:
    """Servers that have all the vGPUs of a card."""
    host = hosts.make_host(card)
    kinds = {t.id: t.name for t in card.board.types}
    by_server: dict[str, list[values.VGPU]] = {}
    for gpu in host.gpus:
        for vgpu in gpu.all_vgpus:
            server = draw(st.sampled_from(('a', 'b', 'c')))
            by_server.setdefault(server, []).append(vgpu)
    return tuple(
        values.Guest(
            server,
            f'instance of {server}',
            True,
            frozenset(vgpu.uuid for vgpu in vgpus if vgpu.uuid),
            frozenset(),
            tuple(
                values.GuestVGPU(
                    vgpu.name,
                    draw(st.sampled_from((None, kinds[vgpu.type_id]))),
                )
                for vgpu in vgpus
            ),
        )
        for server, vgpus in by_server.items()
    )


def held_by(tree: values.PlacementTree) -> dict[str, int]:
    """How many vGPUs each server holds."""
    return {
        consumer.uuid: sum(given.amount for given in consumer.allocations)
        for consumer in tree.consumers
    }


class TestMoves(testtools.TestCase):
    """A GPU is divided, in other ways, and becomes whole, beside servers."""

    def settle(
        self, wanted: providers.Target, tree: values.PlacementTree
    ) -> values.PlacementTree:
        """Placement after some updates: it refuses what is not legal."""
        made = plans.list_providers(wanted.plan, trees.NODE)
        known = tree.known_traits.union(*(p.traits for p in made))
        tree = dataclasses.replace(tree, known_traits=known)
        before = held_by(tree)
        for _ in range(3):
            found = decision.decide(wanted, tree)
            self.assertFalse(found.refused, found.problems)
            for change in found.changes:
                tree = trees.make_change(tree, change)
                self.assertEqual(before, held_by(tree))
        self.assertEqual((), decision.decide(wanted, tree).changes)
        return tree

    def check_free(
        self, division: divided.Division, tree: values.PlacementTree
    ) -> None:
        """What is free in Placement can be created beside what is there."""
        card = division.card
        for assigned in make_plan(division).assignments:
            held = tree.find(f'{trees.NODE}_{assigned.device}')
            if held is None or assigned.type is None:
                continue
            total = sum(i.total - i.reserved for i in held.inventories)
            used = sum(amount for _, amount in held.used)
            names = [a.node_device_name for a in card.vf_addresses]
            places = [
                vf
                for vf in divided.list_places(card)
                if vf is None or names[vf] in assigned.functions
            ]
            for _ in range(total - used):
                after = divided.create(card, assigned.type.id, places)
                assert after is not None, (
                    f'{held.name} has {total - used} left: {card.created}'
                )
                card = after

    @SETTINGS
    @hypothesis.given(data=st.data(), card=divided.cards())
    def test_no_allocation_is_lost_or_made(
        self, data: st.DataObject, card: simulation.GPU
    ) -> None:
        servers = data.draw(guests(card))
        whole = trees.held(
            divided.GPU, 'OWNER_NOVA', VGPU=max(len(card.created), 1)
        )
        tree = trees.allocate(
            trees.make_tree(trees.ROOT, whole),
            *(
                trees.consumer(server.uuid, (whole, 'VGPU', len(server.vgpus)))
                for server in servers
            ),
        )
        for _ in range(3):
            declared = data.draw(divided.declarations(card))
            division = divided.Division(card, declared)
            plan = make_plan(division)
            if not plan.problems_of(values.Severity.FATAL):
                wanted = providers.Target(
                    plan, trees.NODE, providers.Mode.DRIVER, guests=servers
                )
                tree = self.settle(wanted, tree)
                self.check_free(division, tree)
                if not card.vendor_vfio:
                    self.check_hand_back(wanted, tree)

    def check_hand_back(
        self, wanted: providers.Target, tree: values.PlacementTree
    ) -> None:
        """Every server holds as much of the functions as it has there."""
        back = dataclasses.replace(wanted, mode=providers.Mode.HAND_BACK)
        found = decision.decide(back, tree)
        # A share that cannot serve does not take over.
        codes = {problem.code for problem in found.problems}
        self.assertEqual(set(), codes - {'left-behind'})
        after = trees.make_changes(tree, found)
        self.assertEqual(held_by(tree), held_by(after))
