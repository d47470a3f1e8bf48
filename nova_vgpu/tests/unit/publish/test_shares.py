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

"""The providers of GPUs that are divided, and what moves when that changes."""

import dataclasses

import testtools

from nova_vgpu import values
from nova_vgpu.publish import decision
from nova_vgpu.publish import providers
from nova_vgpu.publish import take_over
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans
from nova_vgpu.tests import trees

Mode = providers.Mode
FOUR, SIX = 'nvidia-593', 'nvidia-594'
CARD = dataclasses.replace(
    hosts.gpu('21:00.0', boards.A10, FOUR, FOUR, SIX, vfs=8), mixed=True
)
GPU = 'pci_0000_21_00_0'
#: The vGPUs of the card: two of A10-4Q, one of A10-6Q.
ON_FOUR, ON_FOUR_TOO, ON_SIX = (
    uuid for vf in range(3) for uuid, _ in CARD.mdevs(vf)
)
DIVIDED = (('A10-4Q', '21:00.0=3'), ('A10-6Q', '21:00.0=2'))
WHOLE = (('A10-4Q', '21:00.0'),)


def make_plan(
    types: tuple[tuple[str, ...], ...], card: simulation.GPU = CARD
) -> values.Plan:
    declared = tuple(
        values.DeclaredType(name, f'vgpu_{name}', tuple(addresses))
        for name, *addresses in types
    )
    return plans.make_plan(
        values.Declaration(declared, values.UnlistedGPUs.IGNORE),
        hosts.make_host(card),
    )


def guest(uuid: str, *vgpus: str | tuple[str, str]) -> values.Guest:
    notes = tuple(
        values.GuestVGPU(*((vgpu,) if isinstance(vgpu, str) else vgpu))
        for vgpu in vgpus
    )
    mdevs = frozenset(note.name for note in notes)
    return values.Guest(uuid, f'instance of {uuid}', True, mdevs, vgpus=notes)


def target(
    plan: values.Plan,
    *guests: values.Guest,
    mode: Mode = Mode.DRIVER,
    node: str = trees.NODE,
) -> providers.Target:
    return providers.Target(plan, node, mode, guests=guests)


def held_by(tree: values.PlacementTree) -> dict[str, dict[str, int]]:
    """What each consumer holds, by the devices of the providers."""
    names = {held.uuid: held.name for held in tree.providers}
    return {
        consumer.uuid: {
            names[given.provider].removeprefix(f'{trees.NODE}_'): given.amount
            for given in consumer.allocations
        }
        for consumer in tree.consumers
    }


def settle(
    wanted: providers.Target, tree: values.PlacementTree
) -> values.PlacementTree:
    """Placement after as many updates as it takes; it has all traits."""
    made = plans.list_providers(wanted.plan, trees.NODE)
    known = tree.known_traits.union(*(provider.traits for provider in made))
    tree = dataclasses.replace(tree, known_traits=known)
    for _ in range(4):
        found = decision.decide(wanted, tree)
        if found.refused:
            raise AssertionError(found.problems)
        tree = trees.make_changes(tree, found)
    return tree


def inventories(tree: values.PlacementTree) -> dict[str, tuple[int, int]]:
    """Total and reserved by device."""
    return {
        held.name.removeprefix(f'{trees.NODE}_'): (i.total, i.reserved)
        for held in tree.providers[1:]
        for i in held.inventories
    }


class TestProviders(testtools.TestCase):
    def test_there_is_one_for_each_type_with_its_own_traits(self) -> None:
        made = plans.list_providers(make_plan(DIVIDED), 'node')
        self.assertEqual(
            {f'node_{GPU}_A10-4Q': 3, f'node_{GPU}_A10-6Q': 2},
            {provider.name: provider.total for provider in made},
        )
        for provider, own, other in (
            (made[0], '4Q', '6Q'),
            (made[1], '6Q', '4Q'),
        ):
            self.assertIn(f'CUSTOM_VGPU_TYPE_A10_{own}', provider.traits)
            self.assertNotIn(f'CUSTOM_VGPU_TYPE_A10_{other}', provider.traits)

    def test_they_are_those_of_a_gpu(self) -> None:
        """Also with the name of a parent that is not a PCI device."""
        for device, devices in (
            (f'{GPU}_A10-4Q', ()),
            (f'{GPU}_nvidia 35', ()),
            ('mtty_mtty_mtty-2', ('mtty_mtty',)),
        ):
            held = trees.held(device, 'CUSTOM_VGPU_TYPE_X', VGPU=1)
            self.assertTrue(
                providers.is_of_gpu(
                    dataclasses.replace(held, inventories=()),
                    trees.NODE,
                    (),
                    devices,
                ),
                device,
            )
        for device in ('pci_0000_21_00_0x', 'pci_0000_21_00', 'mtty_mtty_x'):
            held = trees.held(device, 'CUSTOM_VGPU_TYPE_X')
            self.assertFalse(providers.is_of_gpu(held, trees.NODE, ()), device)

    def test_one_that_is_off_is_fenced_and_not_removed(self) -> None:
        shares = trees.make_tree(
            trees.ROOT,
            trees.held(f'{GPU}_A10-4Q', 'CUSTOM_VGPU_TYPE_A10_4Q', VGPU=3),
            trees.held(f'{GPU}_A10-6Q', 'CUSTOM_VGPU_TYPE_A10_6Q', VGPU=2),
        )
        off = dataclasses.replace(CARD, vfs=0, created=())
        for plan in (
            make_plan(DIVIDED, off),
            # Not on the bus any more.
            make_plan(DIVIDED, hosts.gpu('99:00.0', boards.A10)),
        ):
            after = settle(target(plan), shares)
            self.assertEqual(
                {f'{GPU}_A10-4Q': (3, 3), f'{GPU}_A10-6Q': (2, 2)},
                inventories(after),
            )

    def test_a_share_that_is_not_declared_any_more_goes(self) -> None:
        before = settle(
            target(make_plan(DIVIDED)), trees.make_tree(trees.ROOT)
        )
        three = (('A10-4Q', '21:00.0=3'), ('A10-8Q', '21:00.0=1'))
        card = dataclasses.replace(CARD, created=())
        after = settle(target(make_plan(three, card)), before)
        self.assertEqual(
            {f'{GPU}_A10-4Q': (3, 0), f'{GPU}_A10-8Q': (1, 0)},
            inventories(after),
        )


class TestMoves(testtools.TestCase):
    """Servers keep what they hold when a GPU is divided, and back."""

    def setUp(self) -> None:
        super().setUp()
        self.whole = trees.held(GPU, 'OWNER_NOVA', VGPU=6)
        self.guests = (
            guest('a', ON_FOUR),
            guest('b', ON_SIX, ON_FOUR_TOO),
        )
        self.before = trees.allocate(
            trees.make_tree(trees.ROOT, self.whole),
            trees.consumer('a', (self.whole, 'VGPU', 1)),
            trees.consumer('b', (self.whole, 'VGPU', 2)),
        )
        self.divided = {
            'a': {f'{GPU}_A10-4Q': 1},
            'b': {f'{GPU}_A10-4Q': 1, f'{GPU}_A10-6Q': 1},
        }

    def test_what_servers_hold_goes_to_the_shares_of_their_types(
        self,
    ) -> None:
        wanted = target(make_plan(DIVIDED), *self.guests)
        after = settle(wanted, self.before)
        self.assertEqual(self.divided, held_by(after))
        self.assertEqual(
            {f'{GPU}_A10-4Q': (3, 0), f'{GPU}_A10-6Q': (2, 0)},
            inventories(after),
        )
        self.assertFalse(take_over.is_needed(wanted, after))

    def test_and_back(self) -> None:
        divided = settle(target(make_plan(DIVIDED), *self.guests), self.before)
        back = settle(target(make_plan(WHOLE), *self.guests), divided)
        self.assertEqual(held_by(self.before), held_by(back))
        self.assertEqual([GPU], list(inventories(back)))

    def test_a_share_of_another_type_takes_over_what_it_can(self) -> None:
        """A10-6Q is not declared any more; its server is still there."""
        divided = settle(target(make_plan(DIVIDED), *self.guests), self.before)
        other = (('A10-4Q', '21:00.0=3'), ('A10-8Q', '21:00.0=1'))
        wanted = target(make_plan(other), *self.guests)
        found = decision.decide(wanted, divided)
        self.assertEqual((), found.problems)
        after = trees.make_changes(divided, found)
        self.assertEqual({f'{GPU}_A10-4Q': 2}, held_by(after)['b'])
        self.assertIsNone(after.find(f'{trees.NODE}_{GPU}_A10-6Q'))

    def test_what_counted_in_another_share_goes_to_its_own(self) -> None:
        """A10-6Q was not declared for a while, and is again."""
        divided = settle(target(make_plan(DIVIDED), *self.guests), self.before)
        other = (('A10-4Q', '21:00.0=3'), ('A10-8Q', '21:00.0=1'))
        between = settle(target(make_plan(other), *self.guests), divided)
        self.assertEqual({f'{GPU}_A10-4Q': 2}, held_by(between)['b'])
        # Where both are left, and where the one that it counted in is not.
        without = (('A10-6Q', '21:00.0=2'), ('A10-8Q', '21:00.0=1'))
        for types, expected in (
            (DIVIDED, self.divided),
            (
                without,
                {'a': {f'{GPU}_A10-6Q': 1}, 'b': {f'{GPU}_A10-6Q': 2}},
            ),
        ):
            wanted = target(make_plan(types), *self.guests)
            self.assertEqual(expected, held_by(settle(wanted, between)))

    def test_a_new_share_does_not_wait_for_a_server_that_is_not_clear(
        self,
    ) -> None:
        """What that server holds is of a share that stays."""
        four = trees.held(f'{GPU}_A10-4Q', 'OWNER_NOVA', VGPU=3)
        before = trees.allocate(
            trees.make_tree(trees.ROOT, four),
            trees.consumer('a', (four, 'VGPU', 1)),
        )
        after = settle(target(make_plan(DIVIDED)), before)
        self.assertEqual({'a': {f'{GPU}_A10-4Q': 1}}, held_by(after))
        self.assertEqual((2, 0), inventories(after)[f'{GPU}_A10-6Q'])

    def test_a_provider_of_others_with_such_a_name_stays(self) -> None:
        others = trees.held(f'{GPU}_audio', SRIOV_NET_VF=1)
        tree = trees.make_tree(trees.ROOT, others)
        after = settle(target(make_plan(DIVIDED), *self.guests), tree)
        self.assertEqual(others, after.find(others.name))

    def test_vgpus_of_a_server_that_is_shut_off_go_by_its_notes(
        self,
    ) -> None:
        """A reboot took the mdevs away; their aliases name the types."""
        empty = dataclasses.replace(CARD, created=())
        guests = (
            guest('a', (ON_FOUR, 'NVIDIA A10-4Q')),
            guest('b', (ON_SIX, 'A10-6Q'), (ON_FOUR_TOO, 'A10-4Q')),
        )
        after = settle(target(make_plan(DIVIDED, empty), *guests), self.before)
        self.assertEqual(self.divided, held_by(after))

    def test_nothing_moves_while_a_server_is_not_clear(self) -> None:
        for case, guests in (
            ('not on this host', self.guests[:1]),
            (
                'fewer vGPUs than it holds',
                (self.guests[0], guest('b', ON_SIX)),
            ),
        ):
            found = decision.decide(
                target(make_plan(DIVIDED), *guests), self.before
            )
            (problem,) = found.problems
            self.assertEqual((), found.changes, case)
            self.assertEqual('vgpus-not-found', problem.code, case)
            self.assertIn('b has allocations of 2 vGPUs', problem.message)
            self.assertIn('Confirm or revert', problem.cure)

    def test_meanwhile_nothing_more_is_given_out(self) -> None:
        """Else a server could get a vGPU of any type of the GPU."""
        wanted = target(make_plan(DIVIDED), self.guests[0])
        waiting = take_over.list_waiting(wanted, self.before)
        self.assertEqual({GPU}, waiting)
        found = decision.diff_all(wanted, self.before, waiting)
        after = trees.make_changes(self.before, found)
        self.assertEqual(held_by(self.before), held_by(after))
        self.assertEqual({GPU: (6, 3)}, inventories(after))
        self.assertEqual((), found.problems)
        root, held = self.before.providers
        idle = trees.make_tree(root, dataclasses.replace(held, used=()))
        found = decision.diff_all(wanted, idle, waiting)
        after = trees.make_changes(idle, found)
        self.assertEqual({GPU: (6, 6)}, inventories(after))

    def test_what_novas_driver_had_of_functions_goes_there_too(self) -> None:
        functions = [
            trees.held(address.node_device_name, VGPU=1)
            for address in CARD.vf_addresses[:3]
        ]
        before = trees.allocate(
            trees.make_tree(trees.ROOT, *functions),
            trees.consumer('a', (functions[0], 'VGPU', 1)),
            trees.consumer(
                'b', (functions[1], 'VGPU', 1), (functions[2], 'VGPU', 1)
            ),
        )
        after = settle(target(make_plan(DIVIDED), *self.guests), before)
        self.assertEqual(self.divided, held_by(after))
        self.assertEqual(2, len(inventories(after)))

    def test_hand_back_gives_each_function_its_own(self) -> None:
        divided = settle(target(make_plan(DIVIDED), *self.guests), self.before)
        found = decision.decide(
            target(make_plan(DIVIDED), *self.guests, mode=Mode.HAND_BACK),
            divided,
        )
        self.assertEqual((), found.problems)
        after = trees.make_changes(divided, found)
        first, second, third = (
            address.node_device_name for address in CARD.vf_addresses[:3]
        )
        self.assertEqual(
            {'a': {first: 1}, 'b': {second: 1, third: 1}}, held_by(after)
        )
        self.assertEqual({first, second, third}, set(inventories(after)))

    def test_hand_back_knows_what_counts_in_another_share(self) -> None:
        other = (('A10-4Q', '21:00.0=3'), ('A10-8Q', '21:00.0=1'))
        plan = make_plan(other)
        between = settle(target(plan, *self.guests), self.before)
        found = decision.decide(
            target(plan, *self.guests, mode=Mode.HAND_BACK), between
        )
        self.assertFalse(found.refused)
        first, second, third = (
            address.node_device_name for address in CARD.vf_addresses[:3]
        )
        self.assertEqual(
            {'a': {first: 1}, 'b': {second: 1, third: 1}},
            held_by(trees.make_changes(between, found)),
        )

    def test_hand_back_makes_one_of_the_shares_of_a_gpu_with_mdevs(
        self,
    ) -> None:
        card = hosts.gpu('84:00.0', boards.T4, 'nvidia-231', 'nvidia-231')
        types = (('T4-2Q', '84:00.0=4'), ('T4-2B', '84:00.0=4'))
        gpu = 'pci_0000_84_00_0'
        plan = make_plan(types, card)
        server = guest('a', *(uuid for uuid, _ in card.mdevs(None)))
        share = trees.held(f'{gpu}_T4-2Q', 'OWNER_NOVA', VGPU=4)
        before = trees.allocate(
            trees.make_tree(trees.ROOT, share),
            trees.consumer('a', (share, 'VGPU', 2)),
        )
        found = decision.decide(
            target(plan, server, mode=Mode.HAND_BACK), before
        )
        self.assertEqual((), found.problems)
        after = trees.make_changes(before, found)
        self.assertEqual({'a': {gpu: 2}}, held_by(after))
        self.assertIsNone(after.find(share.name))


class TestCommands(testtools.TestCase):
    """Beside a nova-compute, and without one."""

    def test_functions_of_novas_driver_get_the_traits_of_their_types(
        self,
    ) -> None:
        """Nova's driver divides a GPU by lists of functions."""
        four, six = (
            address.node_device_name for address in CARD.vf_addresses[3:5]
        )
        plan = make_plan((('A10-4Q', '21:00.7'), ('A10-6Q', '21:01.0')))
        tree = trees.make_tree(
            trees.ROOT, trees.held(four, VGPU=1), trees.held(six, VGPU=1)
        )
        found = decision.decide(target(plan, mode=Mode.TRAITS), tree)
        self.assertEqual((), found.problems)
        after = trees.make_changes(tree, found)
        for device, own, other in ((four, '4Q', '6Q'), (six, '6Q', '4Q')):
            held = after.find(f'{trees.NODE}_{device}')
            assert held is not None
            self.assertIn(f'CUSTOM_VGPU_TYPE_A10_{own}', held.traits)
            self.assertNotIn(f'CUSTOM_VGPU_TYPE_A10_{other}', held.traits)

    def test_vgpus_that_count_elsewhere_are_not_counted_twice(self) -> None:
        first = CARD.vf_addresses[0].node_device_name
        tree = trees.make_tree(trees.ROOT, trees.held(first, VGPU=1))
        wanted = dataclasses.replace(
            target(make_plan(DIVIDED), mode=Mode.FULL), force=True
        )
        found = decision.decide(wanted, tree)
        self.assertEqual(
            {'counted-elsewhere'}, {p.code for p in found.problems}
        )
        self.assertEqual((), found.changes)

    def test_one_sync_is_enough_if_nothing_is_used(self) -> None:
        """Also if the GPU was divided, or not, by an earlier one."""
        root = dataclasses.replace(trees.ROOT, inventories=())
        tree = trees.make_tree(root)
        for types, expected in (
            (WHOLE, {GPU: (4, 0)}),
            (DIVIDED, {f'{GPU}_A10-4Q': (3, 0), f'{GPU}_A10-6Q': (2, 0)}),
            (WHOLE, {GPU: (4, 0)}),
        ):
            wanted = target(make_plan(types), mode=Mode.FULL)
            found = decision.decide(wanted, tree)
            self.assertEqual((), found.problems)
            tree = trees.make_changes(tree, found)
            self.assertEqual(expected, inventories(tree))

    def test_what_is_used_as_before_is_not_counted_twice(self) -> None:
        root = dataclasses.replace(trees.ROOT, inventories=())
        wanted = target(make_plan(WHOLE), mode=Mode.FULL)
        tree = trees.make_tree(root)
        tree = trees.make_changes(tree, decision.decide(wanted, tree))
        whole = tree.providers[1]
        tree = trees.allocate(tree, trees.consumer('a', (whole, 'VGPU', 1)))
        wanted = target(make_plan(DIVIDED), mode=Mode.FULL)
        found = decision.decide(wanted, tree)
        self.assertEqual(
            {'counted-elsewhere', 'retired-but-in-use'},
            {p.code for p in found.problems},
        )
        after = trees.make_changes(tree, found)
        self.assertEqual({GPU: (4, 3)}, inventories(after))
