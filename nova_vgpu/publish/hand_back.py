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

"""From one provider per physical GPU back to Nova's layout of providers.

Nova's own driver has a provider for each virtual function that offers types
and knows nothing of the GPU's. What servers hold of the latter moves to the
providers of the functions that really hold their vGPUs: a guest tells its
mdevs, the host tells where they are. Only if that is clear for every server is
anything changed at all.

A GPU with its types on the GPU itself has one provider of the same name with
both drivers, so there is nothing to do unless it is divided: then its shares
become one again. Nova's driver does not serve the vendor-specific VFIO
framework; its providers go, unless they are used.
"""

import collections
from collections.abc import Iterable
from collections.abc import Iterator
import dataclasses

from nova_vgpu import values
from nova_vgpu.publish import inventories
from nova_vgpu.publish import providers
from nova_vgpu.publish import share_matching
from nova_vgpu.publish import take_over
from nova_vgpu.publish import trait_sync

_WITH_THIS_DRIVER = 'Start nova-compute with this driver again'


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    """One vGPU of a server: where it is, and what moves there.

    ``vgpus`` is the number of vGPUs that the function has.
    """

    gpu: values.PhysicalGPU
    function: str
    vgpus: int
    transfer: take_over.Transfer


def diff_hand_back(
    target: providers.Target, tree: values.PlacementTree
) -> values.Difference:
    """What to change so that Nova's own driver can go on from there.

    :param target: with the guests of the host.
    :param tree: with the consumers of :func:`list_ending`.
    """
    guests = {guest.uuid: guest for guest in target.guests}
    places: list[_Place] = []
    problems: list[values.Problem] = []
    ending = [
        (assigned, held)
        for name, assigned in list_ending(target).items()
        if (held := tree.find(name))
    ]
    for gpu in {a.gpu.name: a.gpu for a, _ in ending}.values():
        of_gpu = [(a, held) for a, held in ending if a.gpu.name == gpu.name]
        for consumer in tree.consumers:
            if any(consumer.held_of(held.uuid) for _, held in of_gpu):
                found = _find_places(gpu, of_gpu, consumer, guests, tree)
                if isinstance(found, values.Problem):
                    problems.append(found)
                else:
                    places.extend(found)
    problems.extend(_check_room(places))
    left_behind = _list_left_behind(target, tree)
    if problems:
        return values.Difference(problems=(*problems, *left_behind))
    return values.Difference(
        (
            *_make_providers(places, tree),
            *_reshape(places, tree),
            *(values.DeleteProvider(p.uuid, p.name) for _, p in ending),
        ),
        tuple(left_behind),
    )


def list_ending(
    target: providers.Target,
) -> dict[str, values.Assignment]:
    """What GPUs serve, by names of providers that Nova's does not know.

    These are the providers whose consumers have to move.
    """
    return {
        providers.name_of(target.node, assigned.device): assigned
        for assigned in target.plan.assignments
        if assigned.share is not None or not _is_novas(assigned.gpu)
    }


def _is_novas(gpu: values.PhysicalGPU) -> bool:
    """Whether Nova's driver has a provider of the GPU's own name.

    Of a GPU that shows no types now, its virtual functions tell that it has
    none on itself when it does.
    """
    if gpu.framework is None:
        return gpu.sriov is None
    return gpu.framework is values.Framework.MDEV


def _find_places(
    gpu: values.PhysicalGPU,
    ending: Iterable[tuple[values.Assignment, values.PlacementProvider]],
    consumer: values.Consumer,
    guests: dict[str, values.Guest],
    tree: values.PlacementTree,
) -> list[_Place] | values.Problem:
    """Where the vGPUs are that a consumer holds of a GPU or its shares.

    One of a type that has no share counts in one of another type.
    """
    guest = guests.get(consumer.uuid)
    if gpu.framework in values.GIVING_FUNCTIONS:
        return _not_for_nova(gpu, consumer, guest)
    if guest is None:
        return _no_guest(gpu, consumer)
    there = [vgpu for vgpu in gpu.all_vgpus if vgpu.uuid in guest.mdevs]
    # One for each vGPU.
    units = [
        (assigned, held, given.resource_class)
        for assigned, held in ending
        for given in consumer.held_of(held.uuid)
        for _ in range(given.amount)
    ]
    if len(there) != len(units):
        return _differs(gpu, guest, len(units), len(there))
    matched = share_matching.pair(
        units, there, lambda unit, vgpu: _is_of_share(vgpu, unit[0])
    )
    on_functions = collections.Counter(v.function for v in gpu.all_vgpus)
    return [
        _Place(
            gpu,
            vgpu.function,
            on_functions[vgpu.function],
            take_over.Transfer(
                consumer,
                resource_class,
                held,
                providers.find_or_make(
                    tree, providers.name_of(tree.node, vgpu.function)
                ),
            ),
        )
        for (_, held, resource_class), vgpu in matched
    ]


def _is_of_share(vgpu: values.VGPU, assigned: values.Assignment) -> bool:
    if assigned.share is None or assigned.type is None:
        return True
    return (
        vgpu.type_id == assigned.type.id
        and vgpu.function in assigned.functions
    )


def _check_room(places: Iterable[_Place]) -> Iterator[values.Problem]:
    for of_function in _by_function(places).values():
        held = of_function[0].transfer.target
        for after in _plan_inventories(of_function):
            coming = [
                place
                for place in of_function
                if place.transfer.resource_class == after.resource_class
            ]
            free = after.total - held.used_of(after.resource_class)
            if len(coming) > free:
                yield _function_taken(
                    coming[0].gpu, held, coming[0].transfer.consumer
                )


def _make_providers(
    places: Iterable[_Place], tree: values.PlacementTree
) -> Iterator[values.Change]:
    """The providers of the functions, with the traits of the GPU's."""
    for of_function in _by_function(places).values():
        first = of_function[0]
        held = first.transfer.target
        if tree.find(held.name) is None:
            yield values.CreateProvider(held.uuid, held.name, held.parent)
        yield from trait_sync.change_traits(
            first.gpu, held, first.transfer.source.traits
        )


def _reshape(
    places: list[_Place], tree: values.PlacementTree
) -> Iterator[values.Reshape]:
    """All allocations at once; the GPUs' inventories end with them."""
    if not places:
        return
    moved = [place.transfer for place in places]
    after = [
        (of_function[0].transfer.target, _plan_inventories(of_function))
        for of_function in _by_function(places).values()
    ]
    sources = {transfer.source.uuid: transfer.source for transfer in moved}
    after += [(source, ()) for source in sources.values()]
    yield take_over.make_reshape(
        tree.node,
        moved,
        (
            values.SetInventories(
                held.uuid, held.name, held.inventories, planned
            )
            for held, planned in after
        ),
    )


def _by_function(
    places: Iterable[_Place],
) -> dict[str, list[_Place]]:
    found: dict[str, list[_Place]] = {}
    for place in places:
        found.setdefault(place.function, []).append(place)
    return found


def _plan_inventories(
    of_function: list[_Place],
) -> tuple[values.Inventory, ...]:
    return inventories.plan_function(
        of_function[0].transfer.target,
        (place.transfer.resource_class for place in of_function),
        of_function[0].vgpus,
    )


def _list_left_behind(
    target: providers.Target, tree: values.PlacementTree
) -> Iterator[values.Problem]:
    """Providers of GPUs that the plan does not have, while they are used."""
    known: set[str] = set()
    for assigned in target.plan.assignments:
        known |= providers.list_names(assigned.gpu, tree.node)
        known.add(providers.name_of(tree.node, assigned.device))
    for left in target.plan.left_alone:
        known |= {
            providers.name_of(tree.node, function)
            for function in providers.list_functions(left.gpu)
        }
    for held in tree.providers[1:]:
        if (
            held.in_use
            and held.name not in known
            and providers.is_of_gpu(held, tree.node, target.classes)
        ):
            yield _left_behind(held)


def _no_guest(
    gpu: values.PhysicalGPU, consumer: values.Consumer
) -> values.Problem:
    return values.Problem(
        values.Severity.FATAL,
        'holder-not-here',
        str(gpu),
        f'{consumer.uuid} has allocations of GPU {gpu}, but it is not a guest '
        'of this host.',
        f'{_WITH_THIS_DRIVER}, and confirm or revert its resize or migration. '
        'If neither that nor the server exists: "nova-manage placement '
        'audit" finds orphaned allocations.',
    )


def _differs(
    gpu: values.PhysicalGPU, guest: values.Guest, allocated: int, there: int
) -> values.Problem:
    return values.Problem(
        values.Severity.FATAL,
        'vgpus-differ',
        str(gpu),
        f'Server {_describe(guest.uuid, guest)} has allocations of '
        f'{allocated} vGPUs of GPU {gpu}, but the functions there have '
        f'{there} of its vGPUs.',
        f'{_WITH_THIS_DRIVER}, and hard-reboot the server: it gets its vGPUs '
        'back.',
    )


def _function_taken(
    gpu: values.PhysicalGPU,
    held: values.PlacementProvider,
    consumer: values.Consumer,
) -> values.Problem:
    return values.Problem(
        values.Severity.FATAL,
        'function-taken',
        str(gpu),
        f'Server {consumer.uuid} has a vGPU of GPU {gpu} whose provider '
        f'{held.name} has allocations of another consumer.',
        'Delete or move that consumer: "openstack resource provider show '
        f'--allocations {held.uuid}".',
    )


def _not_for_nova(
    gpu: values.PhysicalGPU,
    consumer: values.Consumer,
    guest: values.Guest | None,
) -> values.Problem:
    return values.Problem(
        values.Severity.FATAL,
        'not-for-nova',
        str(gpu),
        f'Server {_describe(consumer.uuid, guest)} has vGPUs of GPU {gpu}, '
        "which has no mediated devices. Nova's driver cannot serve it.",
        'Move or delete the server first.',
    )


def _left_behind(held: values.PlacementProvider) -> values.Problem:
    return values.Problem(
        values.Severity.WARNING,
        'left-behind',
        held.name,
        f'Provider {held.name} has allocations, but no GPU of the plan. It '
        "stays as it is, and Nova's driver does not manage it.",
        'When its servers are gone: "openstack resource provider delete '
        f'{held.uuid}".',
    )


def _describe(uuid: str, guest: values.Guest | None) -> str:
    return f'{uuid} ({guest.name})' if guest else uuid
