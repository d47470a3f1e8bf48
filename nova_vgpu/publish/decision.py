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

"""What has to change so that Placement holds what it shall.

The one decision for whatever publishes: the driver in Nova's provider tree,
the commands through the client of Placement.

A command that sets inventories in a tree which Nova manages would undo what
Nova did, and Nova would undo what the command did, so it is refused without
``--force``. Even then nothing that Nova created is deleted, and a GPU whose
vGPUs Nova counts under other providers is not counted a second time.
"""

from collections.abc import Container
from collections.abc import Iterator

from nova_vgpu import values
from nova_vgpu.publish import hand_back
from nova_vgpu.publish import inventories
from nova_vgpu.publish import providers
from nova_vgpu.publish import take_over
from nova_vgpu.publish import trait_sync

_VGPU = 'VGPU'

Mode = providers.Mode
Target = providers.Target
#: What comes of one provider.
_Part = tuple[list[values.Change], list[values.Problem]]


def decide(target: Target, tree: values.PlacementTree) -> values.Difference:
    """What to change, in this order, and what must not or cannot be.

    :param tree: with the consumers of the providers concerned, if allocations
        have to move.
    """
    if tree.root is None and not target.create_root:
        return values.Difference(problems=(_no_root(tree.node),))
    match target.mode:
        case Mode.TRAITS:
            return trait_sync.diff_traits(target, tree)
        case Mode.HAND_BACK:
            return hand_back.diff_hand_back(target, tree)
        case Mode.DRIVER if take_over.is_needed(target, tree):
            return take_over.diff_take_over(target, tree)
        case Mode.FULL if not target.force:
            novas = providers.find_novas(target, tree)
            if novas:
                problem = _nova_owns(tree.node, novas)
                return values.Difference(problems=(problem,))
    return diff_all(target, tree)


def diff_all(
    target: Target,
    tree: values.PlacementTree,
    waiting: Container[str] = (),
) -> values.Difference:
    """What to change so that Placement holds the plan and nothing else.

    :param waiting: the names of GPUs whose allocations have to move first.
        Their providers stay as they are; those that end give out nothing more.
    """
    # What ends first: what was there is not offered twice.
    parts = [
        *(
            _retire(target, held, tree, waiting)
            for held in tree.providers[1:]
            if held.name not in target.served
            and providers.is_own(target, held, tree)
        ),
        *(
            _publish(target, assigned, wanted, tree)
            for assigned, wanted in target.served.values()
            if assigned.gpu.name not in waiting
        ),
    ]
    changes = [change for made, _ in parts for change in made]
    problems = [problem for _, found in parts for problem in found]
    if tree.root is None:
        root = providers.uuid_of(None, tree.node)
        changes.insert(0, values.CreateProvider(root, tree.node, None))
    if target.mode is not Mode.DRIVER:
        changes = [*_create_names(changes, tree), *changes]
    return values.Difference(tuple(changes), tuple(dict.fromkeys(problems)))


def list_dependent(difference: values.Difference) -> frozenset[str]:
    """UUIDs of the providers whose usage the changes depend on.

    What was decided without any usage is right if there are none. Decide
    again with the usage of these otherwise: usage is a reason to keep
    something, never one to change what is as planned.
    """
    return frozenset(
        change.uuid
        for change in difference.changes
        if isinstance(change, values.DeleteProvider)
        # Nothing can be allocated of nothing.
        or (isinstance(change, values.SetInventories) and change.before)
    )


def _publish(
    target: Target,
    assigned: values.Assignment,
    wanted: values.Provider,
    tree: values.PlacementTree,
) -> _Part:
    """The provider of a GPU that serves, or of its share for a type."""
    gpu = assigned.gpu
    by_driver = target.mode is Mode.DRIVER
    problems: list[values.Problem] = []
    traits = frozenset(wanted.traits)
    managed: frozenset[str] | None = None
    held = providers.find_or_make(tree, wanted.name, for_nova=by_driver)
    if not by_driver:
        elsewhere = _find_counted_elsewhere(target, assigned, wanted, tree)
        if elsewhere:
            return [], [_counted_twice(gpu, elsewhere)]
        traits, unknown = trait_sync.split_known(traits, tree)
        problems += unknown
        if not providers.is_ours(held):
            managed = frozenset({_VGPU, wanted.resource_class})
    problems += _check_usage(gpu, wanted, held, managed)
    after = inventories.plan_inventories(wanted, held, managed)
    changes: list[values.Change] = [
        *trait_sync.change_traits(gpu, held, traits),
        *_change_inventories(held, after),
    ]
    # Less of a type first and then its name, its name first and then more:
    # in between, nothing is given out that is not there.
    if _offered(after) <= _offered(held.inventories):
        changes.reverse()
    if tree.find(held.name) is None:
        created = values.CreateProvider(held.uuid, held.name, held.parent)
        changes.insert(0, created)
    return changes, problems


def _retire(
    target: Target,
    held: values.PlacementProvider,
    tree: values.PlacementTree,
    waiting: Container[str],
) -> _Part:
    """The provider of a GPU that does not serve.

    While its GPU is to serve and cannot, or waits, or servers use it, nothing
    more is given out of it. Otherwise it is deleted, unless something of
    others would go with it: providers below it, or traits that neither this
    project nor the configuration sets. Then it only loses what is ours.
    """
    is_awaited = target.is_awaited(held.name) or any(
        successor.gpu.name in waiting
        for successor in target.find_successors(held.name)
    )
    if is_awaited or held.in_use:
        after = inventories.fence(held)
        problems = [] if is_awaited else [_kept(held)]
        return [*_change_inventories(held, after)], problems
    above_others = any(p.parent == held.uuid for p in tree.providers)
    foreign = any(map(trait_sync.is_foreign, held.traits - target.traits))
    if not above_others and not foreign:
        return [values.DeleteProvider(held.uuid, held.name)], []
    device, _ = values.split_device(
        held.name.removeprefix(f'{tree.node}_'), target.devices
    )
    gpu = target.devices.get(device) or values.PhysicalGPU(device)
    return [
        *_change_inventories(held, ()),
        *trait_sync.change_traits(gpu, held, frozenset()),
    ], []


def _change_inventories(
    held: values.PlacementProvider, after: tuple[values.Inventory, ...]
) -> Iterator[values.SetInventories]:
    before = inventories.in_order(held.inventories)
    if before != after:
        yield values.SetInventories(held.uuid, held.name, before, after)


def _create_names(
    changes: list[values.Change], tree: values.PlacementTree
) -> tuple[values.Change, ...]:
    """The traits and classes that have to be there before the changes."""
    needed = {
        inventory.resource_class
        for change in changes
        if isinstance(change, values.SetInventories)
        for inventory in change.after
    }
    return (
        *trait_sync.create_traits(changes, tree),
        *(
            values.CreateResourceClass(name)
            for name in sorted(needed - tree.known_classes)
        ),
    )


def _offered(of_provider: tuple[values.Inventory, ...]) -> int:
    return sum(i.total - i.reserved for i in of_provider)


def _find_counted_elsewhere(
    target: Target,
    assigned: values.Assignment,
    wanted: values.Provider,
    tree: values.PlacementTree,
) -> list[str]:
    """Other providers that offer the vGPUs of this GPU, and go on to."""
    found = [
        held.name
        for held in tree.providers[1:]
        if held.inventories
        and assigned in target.find_successors(held.name)
        and not (providers.is_own(target, held, tree) and not held.in_use)
    ]
    root = tree.root
    if root is not None and root.inventory_of(wanted.resource_class):
        found.append(root.name)
    return found


def _check_usage(
    gpu: values.PhysicalGPU,
    wanted: values.Provider,
    held: values.PlacementProvider,
    managed: frozenset[str] | None,
) -> Iterator[values.Problem]:
    used = sum(
        amount
        for name, amount in held.used
        if managed is None or name in managed
    )
    if used > wanted.total:
        yield values.Problem(
            values.Severity.ERROR,
            'more-used-than-planned',
            str(gpu),
            f'{used} vGPUs are allocated from {held.name}, and GPU {gpu} is '
            f'to serve {wanted.total}. The inventory is not made smaller than '
            'that.',
            'Delete servers that use it or move them away, until it has as '
            'many as planned.',
        )


def _no_root(node: str) -> values.Problem:
    return values.Problem(
        values.Severity.FATAL,
        'no-root-provider',
        node,
        f'Placement has no provider {node}.',
        'nova-compute creates it when it first starts. If Nova has another '
        'name for the node, give it with --node.',
    )


def _nova_owns(node: str, found: tuple[str, ...]) -> values.Problem:
    shown = ', '.join(found[:2]) + (' and others' * (len(found) > 2))
    return values.Problem(
        values.Severity.FATAL,
        'nova-owns-tree',
        node,
        f'Nova manages the providers of {node}. Not created by nova-vgpu: '
        f'{shown}.',
        'Sync only the traits, without "--mode full". If no nova-compute '
        'manages vGPUs there, use --force.',
    )


def _counted_twice(
    gpu: values.PhysicalGPU, found: list[str]
) -> values.Problem:
    return values.Problem(
        values.Severity.ERROR,
        'counted-elsewhere',
        str(gpu),
        f'The vGPUs of GPU {gpu} are counted under {", ".join(found[:3])}'
        f'{" and others" if len(found) > 3 else ""}; under a provider of '
        'their own they would count twice.',
        'Keep these providers and sync their traits alone, or remove their '
        'inventory first.',
    )


def _kept(held: values.PlacementProvider) -> values.Problem:
    return values.Problem(
        values.Severity.WARNING,
        'retired-but-in-use',
        held.name,
        f'No GPU serves {held.name} any more, but servers have vGPUs of it. '
        'It stays, with its free inventory reserved.',
        'Delete or move these servers. The next update or sync removes it.',
    )
