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

"""From other providers to one provider per physical GPU and type.

Nova's own driver makes a provider of every function that offers types: of the
GPU, which has the same name here, or of each of its virtual functions. Before
Stein it had everything on the provider of the node. What servers hold there
moves to the providers of the GPUs: the name of a function tells its GPU; for
what is on the node's, a guest tells its mdevs and the host where these are.

So it is if a GPU was divided among types, or is not any more. Where several
providers take over, the type of each vGPU tells which one.

:mod:`nova_vgpu.publish.hand_back` is the way back.
"""

import collections
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses

from nova_vgpu import values
from nova_vgpu.publish import inventories
from nova_vgpu.publish import providers
from nova_vgpu.publish import share_matching

_VGPU = 'VGPU'
Target = providers.Target


@dataclasses.dataclass(frozen=True, slots=True)
class Transfer:
    """One vGPU of a consumer: whose it is counted as, and whose it shall be.

    ``source`` and ``target`` are as Placement holds them, or will.
    """

    consumer: values.Consumer
    resource_class: str
    source: values.PlacementProvider
    target: values.PlacementProvider


def is_needed(target: Target, tree: values.PlacementTree) -> bool:
    """Whether something is, or may be, where it does not belong."""
    if not target.served or tree.root is None:
        return False
    return (
        tree.root.inventory_of(_VGPU) is not None
        or any(True for _ in _list_former(target, tree))
        or any(True for _ in _list_new_shares(target, tree))
    )


def _list_former(
    target: Target, tree: values.PlacementTree
) -> Iterator[values.PlacementProvider]:
    """The providers that others take over."""
    for held in tree.providers[1:]:
        # Usually there are no others, and nothing has to be computed for them.
        if (
            held.name not in target.served
            and target.find_successors(held.name)
            and not _is_of_others(target, held, tree)
        ):
            yield held


def _is_of_others(
    target: Target, held: values.PlacementProvider, tree: values.PlacementTree
) -> bool:
    """Whether a provider has a name like that of a share, by chance."""
    device = held.name.removeprefix(f'{tree.node}_')
    _, label = values.split_device(device, target.devices)
    return bool(label) and not (
        providers.is_of_gpu(held, tree.node, target.classes, target.devices)
        or held.uuid
        == providers.uuid_of(held.parent, held.name, for_nova=True)
    )


def _list_new_shares(
    target: Target, tree: values.PlacementTree
) -> Iterator[values.Assignment]:
    """Shares without a provider whose vGPUs may count in another share.

    A type was not declared for the GPU, and now it is.
    """
    for name, (assigned, _) in target.served.items():
        if (
            assigned.share is not None
            and assigned.capacity is not None
            and assigned.capacity.existing
            and tree.find(name) is None
            and any(
                tree.find(providers.name_of(tree.node, other.device))
                for other in target.plan.assignments_of(assigned.gpu.name)
            )
        ):
            yield assigned


def list_waiting(target: Target, tree: values.PlacementTree) -> frozenset[str]:
    """The GPUs whose providers stay as they are while allocations do not move.

    To offer more of them would be to offer vGPUs that are held elsewhere.
    """
    if tree.root is not None and tree.root.inventory_of(_VGPU) is not None:
        return frozenset(a.gpu.name for a, _ in target.served.values())
    return _list_gpus(
        target, _list_former(target, tree), _list_new_shares(target, tree)
    )


def _list_gpus(
    target: Target,
    former: Iterable[values.PlacementProvider],
    new: Iterable[values.Assignment],
) -> frozenset[str]:
    """The GPUs that providers are taken over for, and those of new shares."""
    return frozenset(
        (
            *(
                target.find_successors(held.name)[0].gpu.name
                for held in former
            ),
            *(assigned.gpu.name for assigned in new),
        )
    )


def diff_take_over(
    target: Target, tree: values.PlacementTree
) -> values.Difference:
    """What to move, and which providers end with that.

    What the providers of GPUs are to offer beyond that follows with the next
    update. Unless all is clear for every server, nothing moves, and the GPUs
    of :func:`list_waiting` wait.

    :param target: with the guests of the host, if the node's own provider
        has vGPUs, or a GPU is divided.
    :param tree: with all consumers of the node.
    """
    moved: list[Transfer] = []
    problems: list[values.Problem] = []
    former = list(_list_former(target, tree))
    new = list(_list_new_shares(target, tree))
    gpus = _list_gpus(target, former, new)
    for consumer in tree.consumers:
        for found in (
            *(
                _move_on_gpu(target, gpu, former, consumer, tree)
                for gpu in sorted(gpus)
            ),
            _move_from_root(target, consumer, tree),
        ):
            if isinstance(found, values.Problem):
                problems.append(found)
            else:
                moved.extend(found)
    if problems:
        return values.Difference(problems=tuple(problems))
    targets = {transfer.target.uuid: transfer.target for transfer in moved}
    there = {held.uuid for held in tree.providers}
    stock = (
        *_make_room(moved, targets.values(), tree),
        *_empty(former, tree.providers[0]),
    )
    # Those of new shares also if nothing moves there: it is decided now.
    to_be = targets | {
        held.uuid: held
        for held in (_find_provider(tree, assigned) for assigned in new)
    }
    return values.Difference(
        (
            *(
                values.CreateProvider(held.uuid, held.name, held.parent)
                for held in to_be.values()
                if held.uuid not in there
            ),
            *([make_reshape(tree.node, moved, stock)] if stock else ()),
            *(values.DeleteProvider(held.uuid, held.name) for held in former),
        )
    )


def keep_on_root(
    before: tuple[values.Inventory, ...], used: tuple[tuple[str, int], ...]
) -> tuple[values.Inventory, ...]:
    """What the node's provider has to keep of vGPUs that did not move yet.

    :param before: what it offers.
    :param used: how much of each class is allocated from it.
    """
    root = values.PlacementProvider('', '', 0, None, before, used)
    if not root.used_of(_VGPU):
        return ()
    return tuple(
        i for i in inventories.fence(root) if i.resource_class == _VGPU
    )


def make_reshape(
    node: str,
    transfers: Sequence[Transfer],
    stock: Iterable[values.SetInventories],
) -> values.Reshape:
    """The request that moves allocations.

    :param stock: inventories of the providers that they leave or move to.
    """
    return values.Reshape(
        node,
        tuple(stock),
        tuple(_list_moved(transfers)),
        tuple(
            values.Move(t.consumer.uuid, t.resource_class, t.target.name)
            for t in transfers
        ),
    )


def _list_moved(transfers: Iterable[Transfer]) -> Iterator[values.Consumer]:
    """The consumers with their allocations as they are to be."""
    by_consumer: dict[str, list[Transfer]] = collections.defaultdict(list)
    for transfer in transfers:
        by_consumer[transfer.consumer.uuid].append(transfer)
    for of_consumer in by_consumer.values():
        consumer = of_consumer[0].consumer
        amounts = collections.Counter(
            {
                (given.provider, given.resource_class): given.amount
                for given in consumer.allocations
            }
        )
        for moved in of_consumer:
            amounts[moved.source.uuid, moved.resource_class] -= 1
            amounts[moved.target.uuid, moved.resource_class] += 1
        yield dataclasses.replace(
            consumer,
            allocations=tuple(
                values.Allocation(provider, resource_class, amount)
                for (provider, resource_class), amount in amounts.items()
                if amount
            ),
        )


def _move_on_gpu(
    target: Target,
    gpu: str,
    former: Iterable[values.PlacementProvider],
    consumer: values.Consumer,
    tree: values.PlacementTree,
) -> list[Transfer] | values.Problem:
    """What moves of that which a consumer holds of a GPU."""
    shares = target.plan.assignments_of(gpu)
    ending = [
        held
        for held in former
        if target.find_successors(held.name)[0].gpu.name == gpu
    ]
    staying = [_find_provider(tree, assigned) for assigned in shares]
    units = [
        share_matching.Unit(held, given.resource_class)
        for held in (*ending, *staying)
        for given in consumer.held_of(held.uuid)
        for _ in range(given.amount)
    ]
    takers = [shares[0]] * len(units)
    if units and len(shares) > 1:
        takers = share_matching.list_shares(target, units, consumer, shares)
    if len(takers) != len(units):
        for held in ending:
            if consumer.held_of(held.uuid):
                return _not_divided(
                    consumer, held, shares[0].gpu, len(units), len(takers)
                )
        return []
    return [
        Transfer(consumer, unit.resource_class, unit.held, place)
        for unit, taker in zip(units, takers, strict=True)
        if (place := _find_provider(tree, taker)).uuid != unit.held.uuid
    ]


def _find_provider(
    tree: values.PlacementTree, assigned: values.Assignment
) -> values.PlacementProvider:
    name = providers.name_of(tree.node, assigned.device)
    return providers.find_or_make(tree, name)


def _move_from_root(
    target: Target, consumer: values.Consumer, tree: values.PlacementTree
) -> list[Transfer] | values.Problem:
    root = tree.providers[0]
    allocated = sum(
        given.amount
        for given in consumer.held_of(root.uuid)
        if given.resource_class == _VGPU
    )
    if not allocated:
        return []
    mdevs = {
        mdev
        for guest in target.guests
        if guest.uuid == consumer.uuid
        for mdev in guest.mdevs
    }
    gpus = {
        assigned.gpu.name: assigned.gpu
        for assigned, _ in target.served.values()
    }
    found = [
        share_matching.find_share(
            target.plan.assignments_of(name), vgpu, None, vgpu.function
        )
        for name, gpu in gpus.items()
        for vgpu in gpu.all_vgpus
        if vgpu.uuid in mdevs
    ]
    if len(found) != allocated:
        return _not_found(consumer, root, allocated, len(found))
    return [
        Transfer(consumer, _VGPU, root, _find_provider(tree, assigned))
        for assigned in found
    ]


def _make_room(
    moved: list[Transfer],
    targets: Iterable[values.PlacementProvider],
    tree: values.PlacementTree,
) -> Iterator[values.SetInventories]:
    """Let the providers of GPUs have what will be allocated from them."""
    consumers = {consumer.uuid: consumer for consumer in tree.consumers}
    consumers |= {c.uuid: c for c in _list_moved(moved)}
    used: dict[str, collections.Counter[str]] = collections.defaultdict(
        collections.Counter
    )
    for consumer in consumers.values():
        for given in consumer.allocations:
            used[given.provider][given.resource_class] += given.amount
    for held in targets:
        to_be = tuple(sorted(used[held.uuid].items()))
        after = inventories.make_room(dataclasses.replace(held, used=to_be))
        yield values.SetInventories(
            held.uuid, held.name, held.inventories, after
        )


def _empty(
    former: Iterable[values.PlacementProvider], root: values.PlacementProvider
) -> Iterator[values.SetInventories]:
    """Nothing of what Nova's layout had for vGPUs stays."""
    for held in former:
        yield values.SetInventories(held.uuid, held.name, held.inventories, ())
    if root.inventory_of(_VGPU):
        after = tuple(i for i in root.inventories if i.resource_class != _VGPU)
        yield values.SetInventories(
            root.uuid, root.name, root.inventories, after
        )


def _not_found(
    consumer: values.Consumer,
    root: values.PlacementProvider,
    allocated: int,
    found: int,
) -> values.Problem:
    return values.Problem(
        values.Severity.FATAL,
        'vgpus-not-found',
        root.name,
        f'{consumer.uuid} has allocations of {allocated} vGPUs of {root.name} '
        f'itself, from before Stein, but the GPUs that serve hold {found} of '
        'its vGPUs. The providers of GPUs wait until that is clear.',
        'Delete or move that server. If there is none: "nova-manage placement '
        'audit" finds allocations that have no server.',
    )


def _not_divided(
    consumer: values.Consumer,
    held: values.PlacementProvider,
    gpu: values.PhysicalGPU,
    allocated: int,
    found: int,
) -> values.Problem:
    return values.Problem(
        values.Severity.FATAL,
        'vgpus-not-found',
        held.name,
        f'{consumer.uuid} has allocations of {allocated} vGPUs of GPU {gpu}, '
        f'some of them of {held.name}, but {found} of its vGPUs are in the '
        'guest of that server on this host, so their types are unknown. The '
        'free vGPUs of that GPU are not offered until that is clear.',
        'Confirm or revert its resize or migration, or hard-reboot the '
        'server: it gets its vGPUs back. If there is no such server: '
        '"nova-manage placement audit" finds orphaned allocations.',
    )
