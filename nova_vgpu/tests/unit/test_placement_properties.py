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

"""What holds for every plan and whatever Placement holds before."""

import dataclasses

import hypothesis
from hypothesis import strategies as st
import testtools

from nova_vgpu import values
from nova_vgpu.knowledge import traits
from nova_vgpu.publish import decision
from nova_vgpu.publish import providers
from nova_vgpu.publish import trait_sync
from nova_vgpu.tests import plans
from nova_vgpu.tests import trees
from nova_vgpu.tests.unit import divided
from nova_vgpu.tests.unit import strategies
from nova_vgpu.tests.unit import test_properties

SETTINGS = test_properties.SETTINGS
# By hand, of no type that a provider may have served before.
BY_HAND = ('CUSTOM_RACK_7', 'COMPUTE_NODE', 'HW_GPU_API_OPENCL_V1_0')
OURS = (
    'CUSTOM_VGPU_TYPE_T4_2Q',
    'CUSTOM_VGPU_TYPE_A40_8Q',
    'CUSTOM_VGPU_TYPE_NOBODYS',
    'CUSTOM_GPU_ARCH_TURING',
    'HW_GPU_API_VULKAN',
    'OWNER_NOVA',
)


@dataclasses.dataclass(frozen=True)
class Situation:
    """A plan for a host, and what Placement holds."""

    plan: values.Plan
    host: values.Host
    tree: values.PlacementTree


@st.composite
def _held(
    draw: st.DrawFn, device: str, of_gpu: bool
) -> values.PlacementProvider:
    """By whoever; we make none of functions."""
    name = providers.name_of(trees.NODE, device)
    uuid = providers.uuid_of(trees.ROOT.uuid, name) if of_gpu else None
    totals = draw(
        st.dictionaries(
            st.sampled_from(('VGPU', 'CUSTOM_A', 'SRIOV_NET_VF')),
            st.integers(1, 9),
            max_size=2,
        )
    )
    found = trees.held(
        device,
        *draw(st.sets(st.sampled_from(BY_HAND + OURS))),
        uuid=draw(st.sampled_from((None, uuid))),
        **totals,
    )
    used = tuple(
        (name, draw(st.integers(1, total)))
        for name, total in sorted(totals.items())
        if draw(st.booleans())
    )
    return dataclasses.replace(found, used=used)


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    world = draw(strategies.worlds(sound=True) | divided.worlds())
    declaration = dataclasses.replace(
        world.declaration,
        types=tuple(
            dataclasses.replace(
                declared,
                resource_class=draw(st.sampled_from(('VGPU', 'CUSTOM_A'))),
                traits=tuple(t for t in declared.traits if traits.is_valid(t)),
            )
            for declared in world.declaration.types
        ),
    )
    plan = plans.make_plan(declaration, world.host)
    hypothesis.assume(not plan.problems_of(values.Severity.FATAL))
    devices = {'pci_0000_99_00_0': True}
    for gpu in world.host.gpus:
        functions = sorted(providers.list_functions(gpu))[:2]
        devices.update(dict.fromkeys(functions, False))
        devices[gpu.name] = True
        for assigned in plan.assignments_of(gpu.name):
            devices[assigned.device] = True
            devices[f'{gpu.name}_A40-3000Q'] = True
    there = draw(st.lists(st.sampled_from(sorted(devices)), unique=True))
    root = trees.ROOT
    if draw(st.booleans()):
        stock = draw(st.sampled_from(('VCPU', 'VGPU')))
        root = dataclasses.replace(
            root, inventories=(values.Inventory(stock, 8),)
        )
    tree = trees.make_tree(
        root, *(draw(_held(name, devices[name])) for name in there)
    )
    # Nobody made it yet, so its traits are not there either.
    if draw(st.booleans()):
        tree = trees.make_tree()
    return Situation(plan, world.host, tree)


any_situation = hypothesis.given(situation=situations())


def diff_traits(
    plan: values.Plan, tree: values.PlacementTree
) -> values.Difference:
    return decision.decide(providers.Target(plan, trees.NODE), tree)


def diff_all(
    situation: Situation, tree: values.PlacementTree, force: bool
) -> values.Difference:
    return decision.decide(
        providers.Target(
            situation.plan,
            trees.NODE,
            providers.Mode.FULL,
            create_root=True,
            force=force,
        ),
        tree,
    )


class TestAgreement(testtools.TestCase):
    @SETTINGS
    @any_situation
    def test_traits_agree_after_one_sync(self, situation: Situation) -> None:
        found = diff_traits(situation.plan, situation.tree)
        after = trees.make_changes(situation.tree, found)
        again = diff_traits(situation.plan, after)
        self.assertEqual((), again.changes)
        self.assertEqual(found.problems, again.problems)

    @SETTINGS
    @any_situation
    def test_everything_agrees_after_one_sync(
        self, situation: Situation
    ) -> None:
        for force in (False, True):
            found = diff_all(situation, situation.tree, force)
            after = trees.make_changes(situation.tree, found)
            again = diff_all(situation, after, force)
            self.assertEqual((), again.changes)
            self.assertEqual(found.problems, again.problems)

    @SETTINGS
    @any_situation
    def test_a_sync_may_end_anywhere(self, situation: Situation) -> None:
        found = diff_all(situation, situation.tree, True)
        done = trees.make_changes(situation.tree, found)
        tree = situation.tree
        for change in found.changes:
            tree = trees.make_change(tree, change)
            rest = diff_all(situation, tree, True)
            after = trees.make_changes(tree, rest)
            self.assertEqual(
                {p.uuid: p for p in done.providers},
                {p.uuid: p for p in after.providers},
            )

    @SETTINGS
    @any_situation
    def test_traits_are_all_that_the_first_mode_changes(
        self, situation: Situation
    ) -> None:
        found = diff_traits(situation.plan, situation.tree)
        allowed = (values.CreateTrait, values.SetTraits)
        for change in found.changes:
            self.assertIsInstance(change, allowed)


def publish(
    situation: Situation, mode: providers.Mode, tree: values.PlacementTree
) -> values.PlacementTree:
    """The tree after the driver or the client published the plan."""
    target = providers.Target(situation.plan, trees.NODE, mode, force=True)
    return trees.make_changes(tree, decision.diff_all(target, tree))


def as_ours(tree: values.PlacementTree) -> values.PlacementTree:
    """Only providers of GPUs that both the driver and the client change.

    These are known by name and type, and by their UUID.
    """
    root = dataclasses.replace(trees.ROOT, inventories=())
    return trees.make_tree(
        root,
        *(
            dataclasses.replace(
                held,
                uuid=providers.uuid_of(root.uuid, held.name),
                parent=root.uuid,
                traits=held.traits | {OURS[0]},
            )
            for held in tree.providers[1:]
        ),
    )


class TestOneDecision(testtools.TestCase):
    """The driver and the client of Placement publish the same."""

    @SETTINGS
    @any_situation
    def test_the_content_is_the_same(self, situation: Situation) -> None:
        names = {gpu.name for gpu in situation.plan.gpus}
        names |= {a.device for a in situation.plan.assignments}
        target = providers.Target(situation.plan, trees.NODE)
        tree = with_names(situation.plan, as_ours(situation.tree))
        tree = dataclasses.replace(
            tree,
            providers=tuple(
                held
                for held in tree.providers
                # Others may be functions: the driver moves from them first,
                # and from a GPU that is divided.
                if held.name == trees.NODE
                or (
                    held.name.removeprefix(f'{trees.NODE}_') in names
                    and not target.find_successors(held.name)
                )
            ),
        )
        by_driver, by_client = (
            {
                held.name: (held.inventories, held.traits)
                for held in publish(situation, mode, tree).providers
            }
            for mode in (providers.Mode.DRIVER, providers.Mode.FULL)
        )
        self.assertEqual(by_driver, by_client)

    @SETTINGS
    @any_situation
    def test_usage_is_only_needed_where_something_changes(
        self, situation: Situation
    ) -> None:
        target = providers.Target(
            situation.plan, trees.NODE, providers.Mode.DRIVER
        )
        tree = situation.tree
        if tree.root is None:
            return

        def hide(*uuids: str) -> values.PlacementTree:
            return dataclasses.replace(
                tree,
                providers=tuple(
                    dataclasses.replace(held, used=())
                    if held.uuid not in uuids
                    else held
                    for held in tree.providers
                ),
            )

        first = decision.diff_all(target, hide())
        dependent = decision.list_dependent(first)
        self.assertEqual(
            decision.diff_all(target, tree),
            decision.diff_all(target, hide(*dependent)),
        )

    @SETTINGS
    @any_situation
    def test_the_driver_agrees_after_one_update(
        self, situation: Situation
    ) -> None:
        """``make_change`` refuses what would harm a server."""
        if situation.tree.root is None:
            return
        mode = providers.Mode.DRIVER
        after = publish(
            situation, mode, with_names(situation.plan, situation.tree)
        )
        self.assertEqual(after, publish(situation, mode, after))


def with_names(
    plan: values.Plan, tree: values.PlacementTree
) -> values.PlacementTree:
    """The tree in a Placement where Nova has created traits and classes."""
    target = providers.Target(plan, trees.NODE)
    wanted = [provider for _, provider in target.served.values()]
    return dataclasses.replace(
        tree,
        known_traits=tree.known_traits.union(*(w.traits for w in wanted)),
        known_classes=tree.known_classes
        | {w.resource_class for w in wanted}
        | {
            i.resource_class
            for held in tree.providers
            for i in held.inventories
        },
    )


class TestSafety(testtools.TestCase):
    """``make_change`` refuses what would harm a server."""

    @SETTINGS
    @any_situation
    def test_nothing_foreign_goes(self, situation: Situation) -> None:
        target = providers.Target(
            situation.plan, trees.NODE, providers.Mode.DRIVER
        )
        tree = with_names(situation.plan, situation.tree)
        differences = [
            diff_traits(situation.plan, tree),
            diff_all(situation, tree, True),
        ]
        if tree.root is not None:
            differences.append(decision.diff_all(target, tree))
        for found in differences:
            after = {
                provider.uuid: provider
                for provider in trees.make_changes(tree, found).providers
            }
            for provider in situation.tree.providers:
                foreign = {*filter(trait_sync.is_foreign, provider.traits)}
                foreign |= provider.traits & {'OWNER_NOVA'}
                if provider.uuid in after:
                    kept = after[provider.uuid].traits
                    self.assertEqual(set(), foreign - kept)
                else:
                    self.assertTrue(
                        providers.is_ours(provider)
                        or providers.is_own(target, provider, tree)
                    )
                    self.assertEqual(
                        set(), foreign - target.traits - {'OWNER_NOVA'}
                    )

    @SETTINGS
    @any_situation
    def test_nothing_is_offered_that_is_not_there(
        self, situation: Situation
    ) -> None:
        wanted = providers.Target(situation.plan, trees.NODE).served
        found = diff_all(situation, situation.tree, False)
        left_out = any(p.code == 'counted-elsewhere' for p in found.problems)
        if found.refused or left_out:
            return
        after = trees.make_changes(situation.tree, found)
        for provider in after.providers[1:]:
            if not providers.is_ours(provider):
                continue
            offered = sum(i.total - i.reserved for i in provider.inventories)
            planned = 0
            if provider.name in wanted:
                planned = wanted[provider.name][1].total
            used = sum(amount for _, amount in provider.used)
            self.assertLessEqual(offered, max(planned, used))
