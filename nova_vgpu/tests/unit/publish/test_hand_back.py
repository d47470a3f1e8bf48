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

"""What Nova's own driver is left with."""

import dataclasses

import testtools

from nova_vgpu import values
from nova_vgpu.publish import decision
from nova_vgpu.publish import hand_back
from nova_vgpu.publish import providers
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans
from nova_vgpu.tests import trees

CARD = hosts.gpu('41:00.0', boards.A40, *['nvidia-562'] * 3, vfs=4)
HOST = hosts.make_host(
    CARD,
    hosts.gpu('84:00.0', boards.T4, 'nvidia-231'),
    hosts.gpu('c1:00.0', boards.A40),
    hosts.gpu('c8:00.0', boards.L40S, 'nvidia-1155', vfs=2, vendor_vfio=True),
    hosts.gpu('c9:00.0', boards.A40, vfs=2),
)
PLAN = plans.make_plan(
    values.Declaration(
        (
            values.DeclaredType('T4-2Q', 'x', ('84:00.0',)),
            values.DeclaredType('A40-8Q', 'x', ('41:00.0', 'c1:00.0')),
            values.DeclaredType('L40S-24Q', 'x', ('c8:00.0',)),
        ),
        values.UnlistedGPUs.IGNORE,
    ),
    HOST,
)
TRAITS = ('OWNER_NOVA', 'CUSTOM_VGPU_TYPE_A40_8Q', 'CUSTOM_RACK_7')
A40 = trees.held('pci_0000_41_00_0', *TRAITS, VGPU=6)
T4 = trees.held('pci_0000_84_00_0', 'OWNER_NOVA', VGPU=8)
OFF = trees.held('pci_0000_c1_00_0', *TRAITS, VGPU=6)
L40S = trees.held('pci_0000_c8_00_0', 'OWNER_NOVA', VGPU=2)
LEFT = trees.held('pci_0000_c9_00_0', 'OWNER_NOVA', VGPU=6)
GONE = trees.held('pci_0000_99_00_0', 'OWNER_NOVA', VGPU=6)
ROOT = dataclasses.replace(
    trees.ROOT, inventories=(values.Inventory('VCPU', 8, max_unit=8),)
)
FUNCTIONS = [
    f'{trees.NODE}_{address.node_device_name}' for address in CARD.vf_addresses
]
MDEVS = [uuid for vf in range(3) for uuid, _ in CARD.mdevs(vf)]
ON_T4 = HOST.gpus[1].vgpus[0].name


def guest(uuid: str, *mdevs: str) -> values.Guest:
    return values.Guest(uuid, f'instance of {uuid}', True, frozenset(mdevs))


def tree_of(
    *below: values.PlacementProvider,
    consumers: tuple[values.Consumer, ...] = (),
) -> values.PlacementTree:
    return trees.allocate(trees.make_tree(ROOT, *below), *consumers)


def diff(
    guests: tuple[values.Guest, ...], tree: values.PlacementTree
) -> values.Difference:
    mode = providers.Mode.HAND_BACK
    target = providers.Target(PLAN, trees.NODE, mode, guests=guests)
    return decision.decide(target, tree)


def kinds(found: values.Difference) -> list[str]:
    return [type(change).__name__ for change in found.changes]


def reshape_of(found: values.Difference) -> values.Reshape:
    (change,) = (c for c in found.changes if isinstance(c, values.Reshape))
    return change


def held_by(
    tree: values.PlacementTree, consumer: str
) -> dict[str, dict[str, int]]:
    """What a consumer holds, by the names of providers."""
    names = {provider.uuid: provider.name for provider in tree.providers}
    (found,) = (c for c in tree.consumers if c.uuid == consumer)
    held: dict[str, dict[str, int]] = {}
    for given in found.allocations:
        of_provider = held.setdefault(names[given.provider], {})
        of_provider[given.resource_class] = given.amount
    return held


class TestMoves(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.tree = tree_of(
            A40,
            T4,
            consumers=(
                trees.consumer('a', (ROOT, 'VCPU', 2), (A40, 'VGPU', 1)),
                trees.consumer('b', (A40, 'VGPU', 2), (T4, 'VGPU', 1)),
                trees.consumer('c', (T4, 'VGPU', 1)),
            ),
        )
        # The second guest has the first vGPU.
        self.guests = (
            guest('a', MDEVS[2]),
            guest('b', MDEVS[0], MDEVS[1], ON_T4),
            guest('c', 'of the other one'),
        )
        self.found = diff(self.guests, self.tree)
        self.after = trees.make_changes(self.tree, self.found)

    def test_everybody_holds_the_function_that_has_their_vgpu(self) -> None:
        self.assertEqual((), self.found.problems)
        self.assertEqual(
            {trees.NODE: {'VCPU': 2}, FUNCTIONS[2]: {'VGPU': 1}},
            held_by(self.after, 'a'),
        )
        self.assertEqual(
            {
                T4.name: {'VGPU': 1},
                FUNCTIONS[0]: {'VGPU': 1},
                FUNCTIONS[1]: {'VGPU': 1},
            },
            held_by(self.after, 'b'),
        )

    def test_who_holds_nothing_of_such_a_gpu_is_not_touched(self) -> None:
        moved = [c.uuid for c in reshape_of(self.found).consumers]
        self.assertEqual(['a', 'b'], moved)

    def test_the_gpu_is_gone_and_others_stay(self) -> None:
        self.assertIsNone(self.after.find(A40.name))
        self.assertIsNotNone(self.after.find(T4.name))
        self.assertIsNone(self.after.find(FUNCTIONS[3]))

    def test_functions_are_like_novas_with_the_traits_of_the_gpu(self) -> None:
        for name in FUNCTIONS[:3]:
            made = self.after.find(name)
            assert made is not None
            self.assertEqual(ROOT.uuid, made.parent)
            self.assertEqual((values.Inventory('VGPU', 1),), made.inventories)
            self.assertEqual(frozenset(TRAITS), made.traits)
            # "sync --mode full" is to leave it to Nova.
            self.assertFalse(providers.is_ours(made))

    def test_there_is_nothing_for_sync_to_take_away(self) -> None:
        found = decision.decide(providers.Target(PLAN, trees.NODE), self.after)
        removed = [
            trait
            for change in found.changes
            if isinstance(change, values.SetTraits)
            and change.name in FUNCTIONS
            for trait in change.removed
        ]
        self.assertEqual([], removed)

    def test_allocations_move_at_once_and_the_inventory_ends(self) -> None:
        made = ['CreateProvider', 'SetTraits'] * 3
        self.assertEqual(
            [*made, 'Reshape', 'DeleteProvider'], kinds(self.found)
        )
        ended = [
            p.name for p in reshape_of(self.found).inventories if not p.after
        ]
        self.assertEqual([A40.name], ended)

    def test_a_second_run_has_nothing_to_do(self) -> None:
        again = diff(self.guests, self.after)
        self.assertEqual(values.Difference(), again)

    def test_it_may_end_anywhere(self) -> None:
        tree = self.tree
        for change in self.found.changes:
            tree = trees.make_change(tree, change)
            rest = diff(self.guests, tree)
            after = trees.make_changes(tree, rest)
            self.assertEqual(
                {p.uuid: p for p in self.after.providers},
                {p.uuid: p for p in after.providers},
            )
            self.assertEqual(self.after.consumers, after.consumers)

    def test_providers_that_nova_made_already_are_used(self) -> None:
        # Its driver was started before.
        devices = [a.node_device_name for a in CARD.vf_addresses[:3]]
        there = [trees.held(d, 'OWNER_NOVA', VGPU=1) for d in devices]
        tree = dataclasses.replace(
            self.tree, providers=(*self.tree.providers, *there)
        )
        found = diff(self.guests, tree)
        self.assertEqual(
            ['SetTraits'] * 3 + ['Reshape', 'DeleteProvider'], kinds(found)
        )
        after = trees.make_changes(tree, found)
        self.assertEqual(
            {'VCPU': 2, 'VGPU': 1},
            {
                name: amount
                for held in held_by(after, 'a').values()
                for name, amount in held.items()
            },
        )

    def test_the_resource_class_stays(self) -> None:
        gpu = trees.held('pci_0000_41_00_0', CUSTOM_WORKSTATION=6)
        tree = tree_of(
            gpu,
            consumers=(trees.consumer('a', (gpu, 'CUSTOM_WORKSTATION', 1)),),
        )
        found = diff(self.guests, tree)
        known = frozenset({'CUSTOM_WORKSTATION'})
        after = trees.make_changes(
            dataclasses.replace(tree, known_classes=known), found
        )
        self.assertEqual(
            {FUNCTIONS[2]: {'CUSTOM_WORKSTATION': 1}}, held_by(after, 'a')
        )


class TestNothingToMove(testtools.TestCase):
    def test_what_becomes_of_providers_that_nobody_uses(self) -> None:
        for case, held, expected in (
            ('vGPUs on functions', A40, ['DeleteProvider']),
            ('functions that are off', OFF, ['DeleteProvider']),
            ('no mediated devices', L40S, ['DeleteProvider']),
            ("the name is Nova's too", T4, []),
            ('not in the plan', LEFT, []),
            ('not on the host', GONE, []),
        ):
            found = diff((), tree_of(held))
            self.assertEqual(expected, kinds(found), case)
            self.assertEqual((), found.problems, case)

    def test_a_node_that_is_not_there(self) -> None:
        found = diff((), trees.make_tree())
        self.assertTrue(found.refused)
        self.assertEqual('no-root-provider', found.problems[0].code)

    def test_which_consumers_have_to_be_known(self) -> None:
        self.assertEqual(
            {A40.name, OFF.name, L40S.name},
            {*hand_back.list_ending(providers.Target(PLAN, trees.NODE))},
        )


class TestProblems(testtools.TestCase):
    def test_nothing_is_changed_unless_all_is_clear(self) -> None:
        server = guest('a', MDEVS[0])
        fine = trees.consumer('a', (A40, 'VGPU', 1))
        for case, guests, consumer, code, words in (
            (
                'a resize or an evacuation',
                (server,),
                trees.consumer('m', (A40, 'VGPU', 1)),
                'holder-not-here',
                ('m ', '41:00.0', 'confirm or revert'),
            ),
            (
                'fewer than allocated',
                (server, guest('b', MDEVS[1])),
                trees.consumer('b', (A40, 'VGPU', 2)),
                'vgpus-differ',
                ('b (instance of b)', '41:00.0', '2 vGPUs', 'have 1', 'hard'),
            ),
            (
                'more than allocated',
                (server, guest('b', MDEVS[1], MDEVS[2])),
                trees.consumer('b', (A40, 'VGPU', 1)),
                'vgpus-differ',
                ('have 2',),
            ),
            (
                'a vGPU that is not on the host',
                (server, guest('b', 'nowhere')),
                trees.consumer('b', (A40, 'VGPU', 1)),
                'vgpus-differ',
                ('have 0',),
            ),
            (
                'a vGPU of another GPU',
                (server, guest('b', ON_T4)),
                trees.consumer('b', (A40, 'VGPU', 1)),
                'vgpus-differ',
                ('have 0',),
            ),
            (
                'functions that are off',
                (server, guest('b', MDEVS[1])),
                trees.consumer('b', (OFF, 'VGPU', 1)),
                'vgpus-differ',
                ('c1:00.0', 'have 0'),
            ),
            (
                'one vGPU for two',
                (server, guest('b', MDEVS[0])),
                trees.consumer('b', (A40, 'VGPU', 1)),
                'function-taken',
                (FUNCTIONS[0], '41:00.0'),
            ),
            (
                'a server without mediated devices',
                (server, guest('b')),
                trees.consumer('b', (L40S, 'VGPU', 1)),
                'not-for-nova',
                ('b (instance of b)', 'c8:00.0', 'Move or delete'),
            ),
            (
                'somebody else without mediated devices',
                (server,),
                trees.consumer('m', (L40S, 'VGPU', 1)),
                'not-for-nova',
                ('m ', 'c8:00.0'),
            ),
        ):
            tree = tree_of(A40, OFF, L40S, T4, consumers=(fine, consumer))
            found = diff(guests, tree)
            self.assertEqual((), found.changes, case)
            self.assertTrue(found.refused, case)
            (problem,) = found.problems
            self.assertEqual(code, problem.code, case)
            for word in words:
                self.assertIn(word, str(problem), case)

    def test_a_function_that_is_given_to_somebody_else(self) -> None:
        device = CARD.vf_addresses[0].node_device_name
        function = trees.held(device, 'OWNER_NOVA', VGPU=1)
        tree = tree_of(
            A40,
            function,
            consumers=(
                trees.consumer('a', (A40, 'VGPU', 1)),
                trees.consumer('b', (function, 'VGPU', 1)),
            ),
        )
        found = diff((guest('a', MDEVS[0]),), tree)
        self.assertEqual(
            ['function-taken'], [problem.code for problem in found.problems]
        )
        self.assertEqual((), found.changes)

    def test_all_of_them_come_at_once(self) -> None:
        tree = tree_of(
            A40,
            L40S,
            consumers=(
                trees.consumer('m', (A40, 'VGPU', 1)),
                trees.consumer('n', (L40S, 'VGPU', 1)),
            ),
        )
        found = diff((), tree)
        self.assertEqual(2, len(found.problems))

    def test_what_is_used_and_not_in_the_plan_is_mentioned(self) -> None:
        for case, held, expected in (
            ('a GPU that is not listed', LEFT, ['left-behind']),
            ('a GPU that is not there', GONE, ['left-behind']),
            ("a function of Nova's", 'pci_0000_c9_00_4', []),
            ('a GPU of the plan', T4, []),
        ):
            if isinstance(held, str):
                held = trees.held(held, 'OWNER_NOVA', VGPU=1)
            tree = tree_of(
                A40,
                held,
                consumers=(
                    trees.consumer('a', (A40, 'VGPU', 1)),
                    trees.consumer('b', (held, 'VGPU', 1)),
                ),
            )
            guests = (guest('a', MDEVS[0]), guest('b', MDEVS[1]))
            found = diff(guests, tree)
            self.assertEqual(expected, [p.code for p in found.problems], case)
            self.assertFalse(found.refused, case)
            self.assertIn('Reshape', kinds(found), case)
            after = trees.make_changes(tree, found)
            self.assertEqual({held.name: {'VGPU': 1}}, held_by(after, 'b'))

    def test_providers_of_others_are_not_mentioned(self) -> None:
        for held in (
            trees.held('amd_sev', 'OWNER_NOVA', MEM_ENCRYPTION_CONTEXT=5),
            trees.held('0000:99:00.0', 'OWNER_CYBORG', VGPU=1),
            trees.held(
                'pci_0000_99_00_0',
                'OWNER_NOVA',
                'COMPUTE_MANAGED_PCI_DEVICE',
                VGPU=1,
            ),
        ):
            (offered,) = held.inventories
            consumers = (
                trees.consumer('b', (held, offered.resource_class, 1)),
            )
            found = diff((), tree_of(held, consumers=consumers))
            self.assertEqual(values.Difference(), found)
