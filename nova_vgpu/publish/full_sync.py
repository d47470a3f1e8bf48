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

This is for trees that Nova does not look after. On one that it does, Nova and
this project would each put right what the other one did, so it is refused
unless the operator insists. Even then nothing goes that Nova made, and a GPU
whose vGPUs Nova counts under other providers is not counted a second time.
"""

from collections.abc import Iterator

from nova_vgpu import values
from nova_vgpu.publish import inventories
from nova_vgpu.publish import ownership
from nova_vgpu.publish import providers
from nova_vgpu.publish import trait_sync

#: What a root has that a nova-compute looks after.
_NOVAS = frozenset({'VCPU', 'PCPU', 'MEMORY_MB', 'DISK_GB'})
_VGPU = 'VGPU'

#: What comes of one provider.
_Part = tuple[list[values.Change], list[values.Problem]]


def diff_all(
    plan: values.Plan,
    host: values.Host,
    tree: values.PlacementTree,
    *,
    create_root: bool = False,
    force: bool = False,
) -> values.Difference:
    """What to change so that Placement holds the plan and nothing else.

    :param create_root: make the node's own provider if it is missing.
    :param force: go on although Nova looks after the tree.
    """
    root = tree.root
    if root is None and not create_root:
        return values.Difference(problems=(trait_sync.no_root(tree.node),))
    nova = _find_novas(plan, tree)
    if nova and not force:
        return values.Difference(problems=(_nova_owns(tree.node, nova),))
    parts = [
        _make_root(tree),
        *_publish_served(plan, tree),
        *_retire_others(plan, host, tree),
    ]
    changes = [change for made, _ in parts for change in made]
    problems = [problem for _, found in parts for problem in found]
    return values.Difference(
        (
            *trait_sync.create_traits(changes, tree),
            *_create_classes(changes, tree),
            *changes,
        ),
        tuple(dict.fromkeys(problems)),
    )


def _make_root(tree: values.PlacementTree) -> _Part:
    if tree.root is not None:
        return [], []
    uuid = providers.uuid_of(None, tree.node)
    return [values.CreateProvider(uuid, tree.node, None)], []


def _publish_served(
    plan: values.Plan, tree: values.PlacementTree
) -> Iterator[_Part]:
    root_uuid = providers.uuid_of(None, tree.node)
    if tree.root is not None:
        root_uuid = tree.root.uuid
    for assigned in plan.assignments:
        wanted = providers.make_provider(assigned, tree.node)
        if wanted is not None:
            yield _publish(assigned.gpu, wanted, tree, root_uuid)


def _retire_others(
    plan: values.Plan, host: values.Host, tree: values.PlacementTree
) -> Iterator[_Part]:
    """Those that we made, of GPUs that serve no more."""
    served = {
        provider.name for provider in providers.list_providers(plan, tree.node)
    }
    waiting = providers.list_awaited(plan)
    waiting |= {fault.device for fault in host.faults}
    gpus = {providers.name_of(tree.node, g.name): g for g in host.gpus}
    for held in tree.providers[1:]:
        if held.name in served or not providers.is_ours(held):
            continue
        gpu = gpus.get(held.name) or values.PhysicalGPU(held.name)
        names = {providers.name_of(tree.node, device) for device in waiting}
        yield _retire(held, gpu, tree, held.name in names)


def _publish(
    gpu: values.PhysicalGPU,
    wanted: values.Provider,
    tree: values.PlacementTree,
    root_uuid: str,
) -> _Part:
    """One GPU that serves."""
    elsewhere = _find_counted_elsewhere(gpu, wanted, tree)
    if elsewhere:
        return [], [_counted_twice(gpu, elsewhere)]
    changes: list[values.Change] = []
    held = tree.find(wanted.name)
    if held is None:
        uuid = providers.uuid_of(root_uuid, wanted.name)
        changes.append(values.CreateProvider(uuid, wanted.name, root_uuid))
        held = values.PlacementProvider(uuid, wanted.name, 0, root_uuid)
    managed: frozenset[str] | None = None
    if not providers.is_ours(held):
        managed = frozenset({_VGPU, wanted.resource_class})
    known, problems = trait_sync.split_known(frozenset(wanted.traits), tree)
    after = inventories.plan_inventories(wanted, held, managed)
    stock = list(_change_inventories(held, after))
    labels = list(trait_sync.change_traits(gpu, held, known))
    # Less of a type first and then its name, its name first and then more:
    # in between, nobody gets what is not there.
    if _offered(after) <= _offered(held.inventories):
        changes += [*stock, *labels]
    else:
        changes += [*labels, *stock]
    return changes, [*problems, *_check_usage(gpu, wanted, held, managed)]


def _retire(
    held: values.PlacementProvider,
    gpu: values.PhysicalGPU,
    tree: values.PlacementTree,
    waiting: bool,
) -> _Part:
    """One of them; ``waiting`` if the GPU is to serve and cannot (yet)."""
    if held.in_use:
        after = inventories.retire_inventories(held)
        return list(_change_inventories(held, after)), [_kept(held)]
    if waiting:
        return list(_change_inventories(held, ())), []
    above_others = any(p.parent == held.uuid for p in tree.providers)
    foreign = any(ownership.is_foreign(trait) for trait in held.traits)
    if not above_others and not foreign:
        return [values.DeleteProvider(held.uuid, held.name)], []
    # Somebody else put something there. What is ours goes.
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


def _create_classes(
    changes: list[values.Change], tree: values.PlacementTree
) -> tuple[values.CreateResourceClass, ...]:
    needed = {
        inventory.resource_class
        for change in changes
        if isinstance(change, values.SetInventories)
        for inventory in change.after
    }
    return tuple(
        values.CreateResourceClass(name)
        for name in sorted(needed - tree.known_classes)
    )


def _offered(of_provider: tuple[values.Inventory, ...]) -> int:
    return sum(i.total - i.reserved for i in of_provider)


def _find_novas(
    plan: values.Plan, tree: values.PlacementTree
) -> tuple[str, ...]:
    """The providers that say that Nova looks after the tree."""
    root = tree.root
    if root is None:
        return ()
    found = []
    if any(i.resource_class in _NOVAS for i in root.inventories):
        found.append(root.name)
    names: set[str] = set()
    for gpu in _list_gpus(plan):
        names |= providers.list_names(gpu, tree.node)
    found += [
        held.name
        for held in tree.providers[1:]
        if held.name in names and not providers.is_ours(held)
    ]
    return tuple(found)


def _list_gpus(plan: values.Plan) -> Iterator[values.PhysicalGPU]:
    for assigned in plan.assignments:
        yield assigned.gpu
    for left in plan.left_alone:
        yield left.gpu


def _find_counted_elsewhere(
    gpu: values.PhysicalGPU,
    wanted: values.Provider,
    tree: values.PlacementTree,
) -> tuple[str, ...]:
    """Other providers that give out the vGPUs of this GPU."""
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
            'that; what is too much is reserved.',
            'Nothing more is given out until enough servers are gone or moved '
            'away. Sync again then.',
        )


def _kept(held: values.PlacementProvider) -> values.Problem:
    return values.Problem(
        values.Severity.WARNING,
        'retired-but-in-use',
        held.name,
        f'{held.name} serves no more, but servers have vGPUs of it. It stays, '
        'with all of its inventory reserved.',
        'Delete or move these servers, and sync again.',
    )
