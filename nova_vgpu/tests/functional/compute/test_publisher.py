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

"""Nova's provider tree gets what was decided, as values, for any tree."""

import types
import typing

import fixtures
from nova.compute import provider_config
from nova.compute import provider_tree
import testtools

from nova_vgpu import values
from nova_vgpu.compute import log
from nova_vgpu.compute import publisher
from nova_vgpu.publish import decision
from nova_vgpu.publish import providers
from nova_vgpu.tests import trees
from nova_vgpu.tests.unit import test_placement_properties as properties
from nova_vgpu.tests.unit.publish import test_decision

DRIVER = providers.Mode.DRIVER
FIRST, SECOND = test_decision.FIRST, test_decision.SECOND
PLAN = test_decision.PLAN


def unused(*_args: object) -> typing.NoReturn:
    raise AssertionError


class Client:
    """As much of Nova's client of Placement as tells usage."""

    def __init__(self, tree: values.PlacementTree) -> None:
        self.used = {held.uuid: dict(held.used) for held in tree.providers}
        self.asked: list[str] = []

    def get_allocations_for_resource_provider(
        self, _context: object, uuid: str
    ) -> typing.Any:
        self.asked.append(uuid)
        return types.SimpleNamespace(
            allocations={'somebody': {'resources': self.used[uuid]}}
        )


def make_novas(tree: values.PlacementTree) -> provider_tree.ProviderTree:
    """A tree of values as Nova has it."""
    made = provider_tree.ProviderTree()
    for held in tree.providers:
        if held.parent is None:
            made.new_root(held.name, held.uuid, generation=held.generation)
        else:
            made.new_child(held.name, held.parent, held.uuid, held.generation)
        made.update_inventory(
            held.uuid,
            {
                i.resource_class: {
                    field: getattr(i, field)
                    for field in i.__dataclass_fields__
                    if field != 'resource_class'
                }
                for i in held.inventories
            },
        )
        made.update_traits(held.uuid, held.traits)
    return made


def content_of(tree: values.PlacementTree) -> dict[str, typing.Any]:
    return content_of_novas(make_novas(tree))


def content_of_novas(
    novas: provider_tree.ProviderTree,
) -> dict[str, typing.Any]:
    """What each provider holds, by their names."""
    found = map(novas.data, novas.get_provider_uuids())
    return {p.name: (p.parent_uuid, p.inventory, p.traits) for p in found}


class PublisherTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.configs = self.useFixture(
            fixtures.MockPatchObject(
                provider_config, 'get_provider_configs', return_value={}
            )
        ).mock

    def publish(
        self,
        plan: values.Plan,
        tree: values.PlacementTree,
        novas: provider_tree.ProviderTree,
    ) -> list[str]:
        """An update; returns whose usage was asked for."""
        client: typing.Any = Client(tree)
        made = publisher.Publisher(log.FailureLog(), lambda: client, tuple)
        made.prepare(novas, trees.NODE)
        made.update(novas, trees.NODE, plan)
        asked: list[str] = client.asked
        return asked

    @properties.SETTINGS
    @properties.any_situation
    def test_the_tree_gets_what_is_decided_with_all_usage(
        self, situation: properties.Situation
    ) -> None:
        tree = properties.as_ours(situation.tree)
        target = providers.Target(situation.plan, trees.NODE, DRIVER)
        if any(target.find_successors(held.name) for held in tree.providers):
            return  # moves first
        tree = properties.with_names(situation.plan, tree)
        decided = decision.decide(target, tree)
        novas = make_novas(tree)
        self.publish(situation.plan, tree, novas)
        after = trees.make_changes(tree, decided)
        self.assertEqual(content_of(after), content_of_novas(novas))

    def test_it_says_why_a_provider_goes_or_stays(self) -> None:
        logged = self.useFixture(fixtures.FakeLogger())
        for traits, expected in (
            ((), 'Removing provider '),
            (('CUSTOM_RACK_7',), 'Removing the inventory of provider '),
        ):
            tree = trees.make_tree(
                trees.ROOT, trees.held(SECOND, *traits, VGPU=4)
            )
            novas = make_novas(tree)
            self.publish(PLAN, tree, novas)
            self.assertIn(f'{expected}{tree.providers[1].name}', logged.output)
            self.assertEqual(
                bool(traits), novas.exists(tree.providers[1].uuid)
            )

    def test_an_update_that_changes_nothing_asks_nothing(self) -> None:
        tree = trees.make_tree(trees.ROOT, trees.held(SECOND, VGPU=4))
        novas = make_novas(tree)
        second = tree.providers[1].uuid
        self.assertEqual([second], self.publish(PLAN, tree, novas))
        before = content_of_novas(novas)
        self.assertEqual({trees.NODE, f'{trees.NODE}_{FIRST}'}, set(before))
        self.assertEqual([], self.publish(PLAN, tree, novas))
        self.assertEqual(before, content_of_novas(novas))

    def test_nothing_is_decided_again_for_the_same_tree_and_plan(self) -> None:
        tree = trees.make_tree(trees.ROOT, trees.held(FIRST, VGPU=8))
        novas = make_novas(tree)
        client: typing.Any = Client(tree)
        made = publisher.Publisher(log.FailureLog(), lambda: client, unused)
        made.update(novas, trees.NODE, PLAN)
        made.update(novas, trees.NODE, PLAN)
        with fixtures.MockPatchObject(decision, 'decide', unused):
            made.update(novas, trees.NODE, PLAN)
        before = content_of_novas(novas)
        novas.update_traits(f'{trees.NODE}_{FIRST}', [])
        made.update(novas, trees.NODE, PLAN)
        self.assertEqual(before, content_of_novas(novas))
        made.update(novas, trees.NODE, PLAN)
        made.update(novas, trees.NODE, values.Plan())
        self.assertEqual({trees.NODE}, set(content_of_novas(novas)))

    def test_a_provider_goes_when_its_last_server_is_gone(self) -> None:
        """Although the tree is the same as when it was in use."""
        tree = trees.make_tree(trees.ROOT, trees.held(SECOND, VGPU=4, used=1))
        client: typing.Any = Client(tree)
        novas = make_novas(tree)
        made = publisher.Publisher(log.FailureLog(), lambda: client, tuple)
        for _ in range(3):
            made.update(novas, trees.NODE, PLAN)
        self.assertTrue(novas.exists(f'{trees.NODE}_{SECOND}'))
        client.used = {held.uuid: {} for held in tree.providers}
        made.update(novas, trees.NODE, PLAN)
        self.assertFalse(novas.exists(f'{trees.NODE}_{SECOND}'))

    def test_classes_of_provider_yaml_are_those_of_one_provider(self) -> None:
        """Nova adds them later, and refuses those that are there already.

        The same class of another provider may be one of ours from before.
        """
        one = trees.held(FIRST, VGPU=8, CUSTOM_A=3)
        other = trees.held(SECOND, VGPU=4, CUSTOM_A=2, used=1)
        inventories = {'additional': [{'CUSTOM_A': {'total': 3}}]}
        for name in (one.name, one.uuid):
            self.configs.return_value = {name: {'inventories': inventories}}
            tree = trees.make_tree(trees.ROOT, one, other)
            novas = make_novas(tree)
            self.publish(PLAN, tree, novas)
            self.assertEqual({'VGPU'}, set(novas.data(one.name).inventory))
            self.assertEqual(
                {'VGPU': (4, 3), 'CUSTOM_A': (2, 1)},
                {
                    of_class: (given['total'], given['reserved'])
                    for of_class, given in novas.data(
                        other.name
                    ).inventory.items()
                },
            )
