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

"""The plan against what Placement holds, with providers and inventories.

This is for the driver, and for trees that Nova does not look after. A command
that changes a tree which Nova does look after would undo what Nova did, and
Nova would undo what the command did, so it is refused unless the operator
insists. Even then nothing that Nova made is deleted, and a GPU whose vGPUs
Nova counts under other providers is not counted a second time.
"""

from collections.abc import Iterator

from nova_vgpu import values
from nova_vgpu.publish import inventories
from nova_vgpu.publish import ownership
from nova_vgpu.publish import providers
from nova_vgpu.publish import target as publish_target
from nova_vgpu.publish import trait_sync

_VGPU = 'VGPU'
_DRIVER = publish_target.Mode.DRIVER

Target = publish_target.Target
#: What comes of one provider.
_Part = tuple[list[values.Change], list[values.Problem]]


def diff_all(target: Target, tree: values.PlacementTree) -> values.Difference:
    """What to change so that Placement holds the plan and nothing else."""
    if tree.root is None and not target.create_root:
        return values.Difference(problems=(trait_sync.no_root(tree.node),))
    if target.mode is not _DRIVER and not target.force:
        novas = ownership.find_novas(target, tree)
        if novas:
            return values.Difference(problems=(_nova_owns(tree.node, novas),))
    parts = [
        _make_root(tree),
        *_publish_served(target, tree),
        *_retire_others(target, tree),
    ]
    changes = [change for made, _ in parts for change in made]
    problems = [problem for _, found in parts for problem in found]
    return values.Difference(
        (*_create_names(target, changes, tree), *changes),
        tuple(dict.fromkeys(problems)),
    )


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


def list_own(
    target: Target, tree: values.PlacementTree
) -> tuple[values.PlacementProvider, ...]:
    """The providers below the root whose inventories are for us to set."""
    return tuple(
        held
        for held in tree.providers[1:]
        if held.name in target.served or ownership.is_own(target, held, tree)
    )


def _make_root(tree: values.PlacementTree) -> _Part:
    if tree.root is not None:
        return [], []
    uuid = providers.uuid_of(None, tree.node)
    return [values.CreateProvider(uuid, tree.node, None)], []


def _publish_served(
    target: Target, tree: values.PlacementTree
) -> Iterator[_Part]:
    there = {held.name: held for held in tree.providers}
    root = tree.root.uuid if tree.root else providers.uuid_of(None, tree.node)
    for gpu, wanted in target.served.values():
        elsewhere = _find_counted_elsewhere(target, gpu, wanted, tree)
        if elsewhere:
            yield [], [_counted_twice(gpu, elsewhere)]
            continue
        held = there.get(wanted.name) or providers.make_held(
            wanted.name, root, is_novas=target.mode is _DRIVER
        )
        changes, problems = _publish(target, gpu, wanted, held, tree)
        if held.name not in there:
            changes.insert(
                0, values.CreateProvider(held.uuid, held.name, root)
            )
        yield changes, problems


def _retire_others(
    target: Target, tree: values.PlacementTree
) -> Iterator[_Part]:
    """Providers of GPUs that do not serve."""
    for held in tree.providers[1:]:
        if held.name not in target.served and ownership.is_own(
            target, held, tree
        ):
            yield _retire(target, held, tree)


def _publish(
    target: Target,
    gpu: values.PhysicalGPU,
    wanted: values.Provider,
    held: values.PlacementProvider,
    tree: values.PlacementTree,
) -> _Part:
    """One GPU that serves."""
    managed: frozenset[str] | None = None
    if target.mode is not _DRIVER and not providers.is_ours(held):
        managed = frozenset({_VGPU, wanted.resource_class})
    traits = frozenset(wanted.traits)
    problems = list(_check_usage(gpu, wanted, held, managed))
    if target.mode is not _DRIVER:
        traits, unknown = trait_sync.split_known(traits, tree)
        problems = [*unknown, *problems]
    after = inventories.plan_inventories(wanted, held, managed)
    stock = list(_change_inventories(held, after))
    labels = list(trait_sync.change_traits(gpu, held, traits))
    # Less of a type first and then its name, its name first and then more:
    # in between, nothing is given out that is not there.
    if _offered(after) <= _offered(held.inventories):
        return [*stock, *labels], problems
    return [*labels, *stock], problems


def _retire(
    target: Target,
    held: values.PlacementProvider,
    tree: values.PlacementTree,
) -> _Part:
    """One that no GPU serves.

    If its GPU is to serve and cannot now, it stays with what others set on
    it. The driver removes one with traits of an operator, too: traits of the
    option ``traits`` are among these.
    """
    if held.name in target.awaited or held.in_use:
        after = inventories.fence(held)
        problems = [] if held.name in target.awaited else [_kept(held)]
        return [*_change_inventories(held, after)], problems
    above_others = any(p.parent == held.uuid for p in tree.providers)
    foreign = target.mode is not _DRIVER and any(
        ownership.is_foreign(trait) for trait in held.traits
    )
    if not above_others and not foreign:
        return [values.DeleteProvider(held.uuid, held.name)], []
    # Something of others is there. What is ours goes.
    device = held.name.removeprefix(f'{tree.node}_')
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
    target: Target,
    changes: list[values.Change],
    tree: values.PlacementTree,
) -> tuple[values.Change, ...]:
    """The traits and classes that have to be there before the changes."""
    if target.mode is _DRIVER:
        return ()
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
    gpu: values.PhysicalGPU,
    wanted: values.Provider,
    tree: values.PlacementTree,
) -> tuple[str, ...]:
    """Other providers that give out the vGPUs of this GPU.

    The driver moves what they have, see :mod:`nova_vgpu.publish.take_over`.
    """
    if target.mode is _DRIVER:
        return ()
    names = providers.list_names(gpu, tree.node) - {wanted.name}
    found = [
        held.name
        for held in tree.providers
        if held.name in names and held.inventories
    ]
    root = tree.root
    if root is not None and root.inventory_of(wanted.resource_class):
        found.append(root.name)
    return tuple(found)


def _nova_owns(node: str, found: tuple[str, ...]) -> values.Problem:
    shown = ', '.join(found[:2]) + (' and others' * (len(found) > 2))
    return values.Problem(
        values.Severity.FATAL,
        'nova-owns-tree',
        node,
        f'Nova looks after the tree of {node}. Not made by nova-vgpu: '
        f'{shown}.',
        'Let Nova keep its providers: sync without "--mode full". If no '
        'nova-compute looks after vGPUs there, insist with --force.',
    )


def _counted_twice(
    gpu: values.PhysicalGPU, found: tuple[str, ...]
) -> values.Problem:
    return values.Problem(
        values.Severity.ERROR,
        'counted-elsewhere',
        str(gpu),
        f'The vGPUs of GPU {gpu} are counted under {", ".join(found[:3])}'
        f'{" and others" if len(found) > 3 else ""}; under a provider of '
        'their own they would count twice.',
        'Keep these providers and sync their traits alone, or take their '
        'inventory away first.',
    )


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
            'Placement allocates no more of it until enough servers are '
            'deleted or moved away.',
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
