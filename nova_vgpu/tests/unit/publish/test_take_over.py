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

"""From Nova's layout of providers to one per GPU."""

import dataclasses

import testtools

from nova_vgpu import values
from nova_vgpu.publish import decision
from nova_vgpu.publish import providers
from nova_vgpu.publish import take_over
from nova_vgpu.tests import trees
from nova_vgpu.tests.unit.publish import test_hand_back as back

Mode = providers.Mode
PLAN, ROOT, A40, T4 = back.PLAN, back.ROOT, back.A40, back.T4
MDEVS = back.MDEVS
OLD_ROOT = dataclasses.replace(
    ROOT, inventories=(*ROOT.inventories, values.Inventory('VGPU', 9))
)
GUESTS = (
    back.guest('a', MDEVS[2]),
    back.guest('b', MDEVS[0], MDEVS[1], back.ON_T4),
)


def make_target(mode: Mode = Mode.DRIVER) -> providers.Target:
    return providers.Target(PLAN, trees.NODE, mode, guests=GUESTS)


def usage_of(tree: values.PlacementTree) -> dict[str, dict[str, int]]:
    return {held.name: dict(held.used) for held in tree.providers if held.used}


class TestFromFunctions(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.ours = back.tree_of(
            A40,
            T4,
            consumers=(
                trees.consumer('a', (ROOT, 'VCPU', 2), (A40, 'VGPU', 1)),
                trees.consumer('b', (A40, 'VGPU', 2), (T4, 'VGPU', 1)),
            ),
        )
        handed_back = decision.decide(make_target(Mode.HAND_BACK), self.ours)
        self.assertEqual((), handed_back.problems)
        self.novas = trees.make_changes(self.ours, handed_back)

    def test_what_was_handed_back_comes_back(self) -> None:
        self.assertNotIn(A40.name, usage_of(self.novas))
        self.assertTrue(take_over.is_needed(make_target(), self.novas))
        found = decision.decide(make_target(), self.novas)
        self.assertEqual(
            ['CreateProvider', 'Reshape', *['DeleteProvider'] * 3],
            back.kinds(found),
        )
        after = trees.make_changes(self.novas, found)
        self.assertEqual(usage_of(self.ours), usage_of(after))
        self.assertFalse(take_over.is_needed(make_target(), after))
        (offered,) = (
            change.after
            for change in decision.decide(make_target(), after).changes
            if isinstance(change, values.SetInventories)
            and change.name == A40.name
        )
        self.assertEqual([(4, 0)], [(i.total, i.reserved) for i in offered])

    def test_functions_of_gpus_that_do_not_serve_wait(self) -> None:
        idle = dataclasses.replace(
            PLAN,
            assignments=tuple(
                dataclasses.replace(assigned, capacity=None)
                for assigned in PLAN.assignments
            ),
        )
        target = providers.Target(idle, trees.NODE, Mode.DRIVER)
        self.assertFalse(take_over.is_needed(target, self.novas))

    def test_those_that_are_off_now_move_too(self) -> None:
        """Nova made a provider of a function that was disabled since then."""
        off = trees.held('pci_0000_41_01_3', VGPU=1)
        before = trees.allocate(
            trees.make_tree(ROOT, off), trees.consumer('x', (off, 'VGPU', 1))
        )
        after = trees.make_changes(
            before, decision.decide(make_target(), before)
        )
        self.assertEqual({A40.name: {'VGPU': 1}}, usage_of(after))
        self.assertIsNone(after.find(off.name))


class TestFromRoot(testtools.TestCase):
    """As Nova had it before Stein."""

    def tree(self, *consumers: values.Consumer) -> values.PlacementTree:
        return trees.allocate(trees.make_tree(OLD_ROOT, T4), *consumers)

    def test_vgpus_go_to_the_gpus_that_hold_them(self) -> None:
        before = self.tree(
            trees.consumer('a', (ROOT, 'VCPU', 2), (ROOT, 'VGPU', 1)),
            trees.consumer('b', (ROOT, 'VGPU', 3)),
            trees.consumer('c', (T4, 'VGPU', 1)),
        )
        found = decision.decide(make_target(), before)
        after = trees.make_changes(before, found)
        self.assertEqual(
            {
                ROOT.name: {'VCPU': 2},
                A40.name: {'VGPU': 3},
                T4.name: {'VGPU': 2},
            },
            usage_of(after),
        )
        self.assertEqual(ROOT.inventories, after.providers[0].inventories)

    def test_nothing_moves_unless_every_vgpu_is_found(self) -> None:
        for case, consumer in (
            ('no guest', trees.consumer('x', (ROOT, 'VGPU', 1))),
            ('fewer mdevs', trees.consumer('a', (ROOT, 'VGPU', 2))),
            ('more mdevs', trees.consumer('b', (ROOT, 'VGPU', 1))),
        ):
            found = decision.decide(make_target(), self.tree(consumer))
            self.assertTrue(found.refused, case)
            self.assertEqual((), found.changes, case)
            self.assertEqual('vgpus-not-found', found.problems[0].code, case)

    def test_the_root_keeps_what_is_held_and_gives_no_more(self) -> None:
        old = OLD_ROOT.inventories
        (kept,) = take_over.keep_on_root(old, (('VCPU', 1), ('VGPU', 2)))
        self.assertEqual(
            ('VGPU', 9, 7), (kept.resource_class, kept.total, kept.reserved)
        )
        self.assertEqual((), take_over.keep_on_root(old, (('VCPU', 1),)))
