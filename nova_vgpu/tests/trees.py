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

"""Trees of providers as values, and what a change makes of them.

:func:`make_change` is Placement in a few lines: what it refuses is an error
here, too.
"""

import collections
from collections.abc import Iterable
import dataclasses

import os_traits

from nova_vgpu import values

NODE = 'compute1'
ROOT = values.PlacementProvider('root-uuid', NODE, 1)
# Those that are about GPUs are enough, and can be shown.
KNOWN = frozenset(
    (*os_traits.get_traits('HW_GPU_'), 'OWNER_NOVA', 'COMPUTE_NODE')
)
CLASSES = frozenset({'VGPU', 'VCPU', 'MEMORY_MB', 'SRIOV_NET_VF'})


def make_tree(*providers: values.PlacementProvider) -> values.PlacementTree:
    traits = KNOWN.union(*(provider.traits for provider in providers))
    return values.PlacementTree(NODE, providers, traits, CLASSES)


def held(
    device: str,
    *traits: str,
    uuid: str | None = None,
    used: int = 0,
    **totals: int,
) -> values.PlacementProvider:
    """A provider below the root, as Nova would make it."""
    return values.PlacementProvider(
        uuid or f'uuid of {device}',
        f'{NODE}_{device}',
        1,
        ROOT.uuid,
        tuple(
            values.Inventory(name, total, max_unit=total)
            for name, total in sorted(totals.items())
        ),
        tuple((name, used) for name in sorted(totals) if used),
        frozenset(traits),
    )


def consumer(
    name: str, *given: tuple[values.PlacementProvider, str, int]
) -> values.Consumer:
    """Somebody who holds that much of these classes of these providers."""
    return values.Consumer(
        name,
        1,
        'project',
        'user',
        tuple(
            values.Allocation(provider.uuid, resource_class, amount)
            for provider, resource_class, amount in given
        ),
    )


def allocate(
    tree: values.PlacementTree, *consumers: values.Consumer
) -> values.PlacementTree:
    """The tree with these consumers and no others."""
    used: dict[str, collections.Counter[str]] = collections.defaultdict(
        collections.Counter
    )
    for given in _list_allocations(consumers):
        used[given.provider][given.resource_class] += given.amount
    return dataclasses.replace(
        tree,
        providers=tuple(
            dataclasses.replace(
                provider, used=tuple(sorted(used[provider.uuid].items()))
            )
            for provider in tree.providers
        ),
        consumers=consumers,
    )


def make_changes(
    tree: values.PlacementTree, difference: values.Difference
) -> values.PlacementTree:
    for change in difference.changes:
        tree = make_change(tree, change)
    return tree


def make_change(
    tree: values.PlacementTree, change: values.Change
) -> values.PlacementTree:
    by_uuid = {provider.uuid: provider for provider in tree.providers}
    match change:
        case values.CreateTrait():
            assert os_traits.is_custom(change.name), change
            known = tree.known_traits | {change.name}
            return dataclasses.replace(tree, known_traits=known)
        case values.CreateResourceClass():
            assert change.name.startswith('CUSTOM_'), change
            classes = tree.known_classes | {change.name}
            return dataclasses.replace(tree, known_classes=classes)
        case values.CreateProvider():
            assert change.uuid not in by_uuid, change
            assert tree.find(change.name) is None, change
            assert change.parent is None or change.parent in by_uuid, change
            by_uuid[change.uuid] = values.PlacementProvider(
                change.uuid, change.name, 0, change.parent
            )
        case values.DeleteProvider():
            assert not by_uuid[change.uuid].in_use, change
            assert all(p.parent != change.uuid for p in tree.providers)
            del by_uuid[change.uuid]
        case values.SetTraits():
            provider = by_uuid[change.uuid]
            assert change.before == provider.traits, change
            assert change.after <= tree.known_traits, change
            by_uuid[change.uuid] = dataclasses.replace(
                provider, traits=change.after
            )
        case values.SetInventories():
            provider = by_uuid[change.uuid]
            _check_inventories(tree, provider, change)
            by_uuid[change.uuid] = dataclasses.replace(
                provider, inventories=change.after
            )
        case values.Reshape():
            return _reshape(tree, change)
    return dataclasses.replace(tree, providers=tuple(by_uuid.values()))


def _reshape(
    tree: values.PlacementTree, change: values.Reshape
) -> values.PlacementTree:
    """The allocations first, because the inventories have to suit them."""
    consumers = {consumer.uuid: consumer for consumer in tree.consumers}
    consumers.update(
        {consumer.uuid: consumer for consumer in change.consumers}
    )
    moved = allocate(tree, *consumers.values())
    there = {provider.uuid for provider in tree.providers}
    assert {a.provider for a in _list_allocations(change.consumers)} <= there
    for part in change.inventories:
        moved = make_change(moved, part)
    for provider in moved.providers:
        offered = {i.resource_class for i in provider.inventories}
        assert {name for name, _ in provider.used} <= offered, provider
    return moved


def _list_allocations(
    consumers: Iterable[values.Consumer],
) -> list[values.Allocation]:
    return [a for consumer in consumers for a in consumer.allocations]


def _check_inventories(
    tree: values.PlacementTree,
    provider: values.PlacementProvider,
    change: values.SetInventories,
) -> None:
    after = {i.resource_class: i for i in change.after}
    assert set(after) <= tree.known_classes, change
    for name, used in provider.used:
        assert after[name].total >= used, change
    for inventory in change.after:
        assert 0 <= inventory.reserved <= inventory.total, change
        assert inventory.total >= 1, change
        assert inventory.max_unit >= 1, change
