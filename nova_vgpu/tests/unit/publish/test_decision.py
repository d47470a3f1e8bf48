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

"""Providers and inventories against the plan."""

import dataclasses

import testtools

from nova_vgpu import values
from nova_vgpu.publish import decision
from nova_vgpu.publish import inventories
from nova_vgpu.publish import providers
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans
from nova_vgpu.tests import trees

HOST = hosts.make_host(
    hosts.gpu('84:00.0', boards.T4), hosts.gpu('85:00.0', boards.T4)
)
FIRST = 'pci_0000_84_00_0'
SECOND = 'pci_0000_85_00_0'
DECLARATION = values.Declaration(
    (values.DeclaredType('T4-2Q', 'x', ('84:00.0',)),),
    values.UnlistedGPUs.IGNORE,
)
PLAN = plans.make_plan(DECLARATION, HOST)
FULL = providers.Mode.FULL
DRIVER = providers.Mode.DRIVER


def ours(device: str) -> str:
    """The UUID of a provider that we made."""
    return providers.uuid_of(trees.ROOT.uuid, f'{trees.NODE}_{device}')


def diff(
    *below: values.PlacementProvider,
    root: values.PlacementProvider = trees.ROOT,
    plan: values.Plan = PLAN,
    mode: providers.Mode = FULL,
    force: bool = False,
) -> values.Difference:
    target = providers.Target(plan, trees.NODE, mode, force=force)
    return decision.decide(target, trees.make_tree(root, *below))


def kinds(found: values.Difference, name: str) -> list[str]:
    return [
        type(change).__name__
        for change in found.changes
        if change.name == f'{trees.NODE}_{name}'
    ]


class TestOrder(testtools.TestCase):
    def test_a_new_provider_has_traits_before_it_has_anything(self) -> None:
        self.assertEqual(
            ['CreateProvider', 'SetTraits', 'SetInventories'],
            kinds(diff(), FIRST),
        )

    def test_one_that_shrinks_does_so_before_it_changes_its_name(self) -> None:
        before = trees.held(FIRST, uuid=ours(FIRST), VGPU=16)
        self.assertEqual(
            ['SetInventories', 'SetTraits'], kinds(diff(before), FIRST)
        )


class TestRoot(testtools.TestCase):
    def test_a_missing_root_is_refused(self) -> None:
        found = decision.decide(
            providers.Target(PLAN, trees.NODE, FULL), trees.make_tree()
        )
        self.assertEqual('no-root-provider', found.problems[0].code)
        self.assertEqual((), found.changes)

    def test_unless_it_is_to_be_made(self) -> None:
        found = decision.decide(
            providers.Target(PLAN, trees.NODE, FULL, create_root=True),
            trees.make_tree(),
        )
        made = [
            change
            for change in found.changes
            if isinstance(change, values.CreateProvider)
        ]
        self.assertEqual(
            [None, made[0].uuid], [change.parent for change in made]
        )


class TestNovasTree(testtools.TestCase):
    def test_who_owns_the_tree(self) -> None:
        with_cpus = dataclasses.replace(
            trees.ROOT, inventories=(values.Inventory('VCPU', 8),)
        )
        for case, found, refused in (
            ('nobody', diff(), False),
            ('we do', diff(trees.held(FIRST, uuid=ours(FIRST))), False),
            ('a compute node', diff(root=with_cpus), True),
            ('a GPU that serves', diff(trees.held(FIRST)), True),
            ('a GPU that does not', diff(trees.held(SECOND)), True),
            ('something else', diff(trees.held('numa0')), False),
        ):
            self.assertEqual(refused, found.refused, case)
            self.assertEqual(refused, found.changes == (), case)

    def test_nothing_of_novas_goes_even_if_insisted_on(self) -> None:
        found = diff(
            trees.held(FIRST, CUSTOM_OTHER=3, VGPU=2),
            trees.held(SECOND, VGPU=2),
            force=True,
        )
        self.assertEqual([], kinds(found, SECOND))
        (change,) = (
            c for c in found.changes if isinstance(c, values.SetInventories)
        )
        self.assertEqual(
            {'CUSTOM_OTHER': 3, 'VGPU': 8},
            {i.resource_class: i.total for i in change.after},
        )

    def test_vgpus_on_the_root_are_not_counted_twice(self) -> None:
        root = dataclasses.replace(
            trees.ROOT, inventories=(values.Inventory('VGPU', 8),)
        )
        found = diff(root=root, force=True)
        self.assertEqual((), found.changes)
        self.assertEqual('counted-elsewhere', found.problems[0].code)


class TestRetirement(testtools.TestCase):
    def retire(
        self, *traits: str, used: int = 0, plan: values.Plan = PLAN
    ) -> list[str]:
        there = trees.held(
            SECOND, *traits, uuid=ours(SECOND), VGPU=4, used=used
        )
        by_command, by_driver = (
            diff(there, plan=plan, mode=mode) for mode in (FULL, DRIVER)
        )
        self.assertEqual(kinds(by_command, SECOND), kinds(by_driver, SECOND))
        return kinds(by_driver, SECOND)

    def test_traits_of_the_configuration_go_with_the_provider(self) -> None:
        (declared,) = DECLARATION.types
        types = (dataclasses.replace(declared, traits=('CUSTOM_GOLD',)),)
        plan = plans.make_plan(
            dataclasses.replace(DECLARATION, types=types), HOST
        )
        self.assertEqual(
            ['DeleteProvider'], self.retire('CUSTOM_GOLD', plan=plan)
        )
        self.assertEqual(
            ['SetInventories'],
            self.retire('CUSTOM_GOLD', 'CUSTOM_RACK', plan=plan),
        )

    def test_table(self) -> None:
        self.assertEqual(['DeleteProvider'], self.retire())
        self.assertEqual(
            ['DeleteProvider'],
            self.retire('OWNER_NOVA', 'CUSTOM_VGPU_TYPE_T4_4Q'),
        )
        self.assertEqual(['SetInventories'], self.retire(used=1))
        self.assertEqual(['SetInventories'], self.retire('CUSTOM_RACK'))
        self.assertEqual(
            ['SetInventories', 'SetTraits'],
            self.retire('CUSTOM_RACK', 'CUSTOM_VGPU_TYPE_T4_4Q'),
        )

    def test_one_with_something_below_it_stays(self) -> None:
        there = trees.held(SECOND, uuid=ours(SECOND), VGPU=4)
        below = values.PlacementProvider('below', 'below', 1, there.uuid)
        self.assertEqual(['SetInventories'], kinds(diff(there, below), SECOND))

    def test_one_that_could_not_be_read_stays(self) -> None:
        there = trees.held(SECOND, uuid=ours(SECOND), VGPU=4)
        fault = values.ReadFault(SECOND, 'vendor', 'is broken')
        host = values.Host(HOST.gpus[:1], faults=(fault,))
        plan = plans.make_plan(DECLARATION, host)
        self.assertEqual(
            ['SetInventories'], kinds(diff(there, plan=plan), SECOND)
        )

    def test_one_that_fell_off_the_bus_goes_unless_it_is_listed(self) -> None:
        there = trees.held(SECOND, uuid=ours(SECOND), VGPU=4)
        host = values.Host(HOST.gpus[:1])
        plan = plans.make_plan(DECLARATION, host)
        self.assertEqual(
            ['DeleteProvider'], kinds(diff(there, plan=plan), SECOND)
        )
        listed = dataclasses.replace(
            DECLARATION,
            types=(values.DeclaredType('T4-2Q', 'x', ('84:00.0', '85:00.0')),),
        )
        plan = plans.make_plan(listed, host, seen=frozenset({'85:00.0'}))
        (change,) = (
            c
            for c in diff(there, plan=plan).changes
            if c.name == f'{trees.NODE}_{SECOND}'
        )
        self.assertEqual(
            [(4, 4)],
            [(i.total, i.reserved) for i in change.after]
            if isinstance(change, values.SetInventories)
            else change,
        )


class TestInventories(testtools.TestCase):
    """Total and reserved: what is free is what is planned.

    What is used is not reserved, so that its servers can be moved.
    """

    def test_table(self) -> None:
        wanted = values.Provider('x', 'y', 'VGPU', 4)
        for case, there, expected in (
            ('nothing there', {}, {'VGPU': (4, 0)}),
            ('as it is', {'VGPU': (4, 0)}, {'VGPU': (4, 0)}),
            ('in use', {'VGPU': (4, 4)}, {'VGPU': (4, 0)}),
            ('too much in use', {'VGPU': (8, 6)}, {'VGPU': (6, 0)}),
            ('another class', {'CUSTOM_A': (4, 0)}, {'VGPU': (4, 0)}),
            (
                'another class in use',
                {'CUSTOM_A': (4, 3)},
                {'CUSTOM_A': (4, 1), 'VGPU': (4, 3)},
            ),
            (
                'both in use',
                {'CUSTOM_A': (4, 3), 'VGPU': (4, 2)},
                {'CUSTOM_A': (4, 1), 'VGPU': (4, 2)},
            ),
            (
                'another class in use for more than there is',
                {'CUSTOM_A': (9, 9)},
                {'CUSTOM_A': (9, 0), 'VGPU': (4, 4)},
            ),
        ):
            held = values.PlacementProvider(
                'uuid',
                'x',
                1,
                inventories=tuple(
                    values.Inventory(name, total)
                    for name, (total, _) in there.items()
                ),
                used=tuple((name, used) for name, (_, used) in there.items()),
            )
            found = inventories.plan_inventories(wanted, held)
            self.assertEqual(
                expected,
                {i.resource_class: (i.total, i.reserved) for i in found},
                case,
            )


class TestMakeRoom(testtools.TestCase):
    """For allocations that move, what is used is all that there is."""

    def test_table(self) -> None:
        def vgpus(total: int, reserved: int = 0) -> values.Inventory:
            return values.Inventory('VGPU', total, reserved, max_unit=total)

        for case, there, used, expected in (
            ('a new provider', (), 2, (vgpus(2),)),
            ('room enough', (vgpus(6),), 2, (vgpus(6),)),
            ('less than is used', (vgpus(1),), 3, (vgpus(3),)),
            ('all reserved', (vgpus(6, 6),), 2,
             (values.Inventory('VGPU', 2, max_unit=6),)),
            ('nothing used', (vgpus(6, 6),), 0, (vgpus(6, 6),)),
        ):  # fmt: skip
            held = values.PlacementProvider(
                'uuid',
                'name',
                1,
                inventories=there,
                used=(('VGPU', used),) if used else (),
            )
            self.assertEqual(expected, inventories.make_room(held), case)


class TestFunctions(testtools.TestCase):
    """For Nova's driver a function offers at least what is on it."""

    def test_table(self) -> None:
        for case, held, vgpus, expected in (
            ('a new provider', trees.held(FIRST), 1, 1),
            ('several vGPUs', trees.held(FIRST), 2, 2),
            ('less than is on it', trees.held(FIRST, VGPU=1), 2, 2),
            ('more than is on it', trees.held(FIRST, VGPU=4), 2, 4),
        ):
            (found,) = inventories.plan_function(held, ('VGPU',), vgpus)
            self.assertEqual(
                (expected, 0), (found.total, found.reserved), case
            )


class TestDependent(testtools.TestCase):
    """Whose usage the driver has to ask for."""

    def test_what_ends_and_what_changes(self) -> None:
        former = trees.held(SECOND, VGPU=4)
        changed = trees.held(FIRST, VGPU=4)
        for case, below, expected in (
            ('one that is deleted', (former,), {former.uuid}),
            ('one that changes', (changed,), {changed.uuid}),
            ('one that offered nothing', (), set()),
        ):
            found = diff(*below, mode=DRIVER)
            self.assertNotEqual((), found.changes, case)
            self.assertEqual(expected, decision.list_dependent(found), case)
