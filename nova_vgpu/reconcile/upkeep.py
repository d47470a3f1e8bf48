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


"""Which vGPU a server gets of a GPU, and what to do with those of nobody.

A vGPU goes by its name: the UUID of an mdev, or, in the vendor-specific VFIO
framework, the node device name of its virtual function. What is taken is known
by the same names. There it is a function's name whether or not its type is set
at the moment: a server that is shut off keeps its function over a reboot of
the host, which clears the type.
"""

from collections.abc import Container
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses

from nova_vgpu import values
from nova_vgpu.plan import type_matching


@dataclasses.dataclass(frozen=True, slots=True)
class SetType:
    """Make a vGPU of a virtual function that a guest has."""

    function: values.VirtualFunction
    type: values.VGPUType

    def __str__(self) -> str:
        return f'set virtual function {self.function.address} to {self.type}'


@dataclasses.dataclass(frozen=True, slots=True)
class ClearType:
    """Take back the type of a virtual function that nobody has."""

    function: values.VirtualFunction

    def __str__(self) -> str:
        return f'clear the type of virtual function {self.function.address}'


@dataclasses.dataclass(frozen=True, slots=True)
class RemoveMdev:
    """Remove an mdev that nobody has and that is in the way.

    Or one that is of another type than the guest that has it was given; it is
    made again when that starts.
    """

    uuid: str

    def __str__(self) -> str:
        return f'remove mdev {self.uuid}'


Step = SetType | ClearType | RemoveMdev


def list_idle(
    assigned: values.Assignment, taken: Container[str]
) -> tuple[str, ...]:
    """vGPUs of the GPU's type that are there and that nobody has."""
    return tuple(
        vgpu.name
        for vgpu in assigned.gpu.all_vgpus
        if assigned.type is not None
        and vgpu.type_id == assigned.type.id
        and vgpu.function in assigned.functions
        and vgpu.name not in taken
    )


def list_rooms(
    assigned: values.Assignment, taken: Container[str]
) -> Iterator[str]:
    """The functions of the GPU that take one more vGPU of its type.

    :param taken: names of vGPUs, and of functions, that somebody has.
    """
    gpu, counted = assigned.gpu, assigned.capacity
    if assigned.type is None or counted is None:
        return
    if counted.total <= counted.existing:
        return
    if _takes_one(gpu.offers, assigned.type):
        yield gpu.name
    for vf in gpu.vfs:
        if (
            not vf.vgpus
            and vf.name not in taken
            and vf.name in assigned.functions
            and _takes_one(vf.offers, assigned.type)
        ):
            yield vf.name


def _takes_one(
    offers: Iterable[values.Offer], vgpu_type: values.VGPUType
) -> bool:
    return any(
        offer.type.id == vgpu_type.id and offer.available for offer in offers
    )


def is_concerned(plan: values.Plan) -> bool:
    """Whether there can be anything to do, whoever has what."""
    return any(vf.vendor_vfio for gpu in plan.gpus for vf in gpu.vfs) or any(
        not assigned.serves or vgpu.type_id != assigned.type.id
        for assigned in plan.assignments
        if assigned.type is not None
        for vgpu in assigned.gpu.all_vgpus
    )


def plan_upkeep(
    plan: values.Plan,
    names: Mapping[str, str],
    taken: Container[str],
    guests: Iterable[values.Guest],
    released: Container[str] = (),
    kept: Container[str] | None = (),
) -> Iterator[Step]:
    """What brings the vGPUs of the host back in line with its guests.

    :param names: the names of types, also of those that no GPU offers now.
    :param taken: names of vGPUs, and of functions, that somebody has.
    :param released: functions that servers had, also of GPUs that are not in
        the plan.
    :param kept: functions that are to be vGPUs of their GPU's type also while
        nobody has them; None is all of them.
    """
    owners = {
        vgpu.name: (guest, vgpu) for guest in guests for vgpu in guest.vgpus
    }
    assigned = {a.gpu.name: a for a in plan.assignments}
    for assignment in plan.assignments:
        yield from _make_way(assignment, taken)
        yield from _clear_mistakes(assignment, owners, names)
    for gpu in plan.gpus:
        placed = assigned.get(gpu.name)
        for vf in gpu.vfs:
            if not vf.vendor_vfio:
                continue
            if vf.name in owners:
                guest, vgpu = owners[vf.name]
                yield from _restore(vf, guest, vgpu, gpu, placed, names)
            elif vf.vgpus and vf.name not in taken:
                ours = placed is not None and vf.name in placed.functions
                if ours and _is_kept(vf, placed, kept):
                    continue
                by_hand = kept is not None and vf.name in kept
                if ours or (vf.name in released and not by_hand):
                    yield ClearType(vf)


def _is_kept(
    vf: values.VirtualFunction,
    assigned: values.Assignment | None,
    kept: Container[str] | None,
) -> bool:
    """Whether a function is what it is to be while nobody has it.

    A type that nothing names, on a card that is full, may well be that.
    """
    wanted = assigned.type if assigned else None
    is_right = wanted is None or all(
        vgpu.type_id == wanted.id for vgpu in vf.vgpus
    )
    return is_right and (kept is None or vf.name in kept)


def has_its_type(
    vf: values.VirtualFunction,
    vgpu: values.GuestVGPU,
    names: Mapping[str, str],
) -> bool:
    """Whether a function is the vGPU that a guest was given."""
    return any(is_as_noted(current, vgpu, names) for current in vf.vgpus)


def is_as_noted(
    current: values.VGPU, noted: values.GuestVGPU, names: Mapping[str, str]
) -> bool:
    """Whether a vGPU is of the type that its guest was given.

    A type that nothing names now, or that was not noted, is taken for it.
    """
    name = names.get(current.type_id)
    if name is None or noted.type_name is None:
        return True
    same = values.VGPUType(current.type_id, name)
    return bool(type_matching.find_matches(noted.type_name, [same]))


def _restore(
    vf: values.VirtualFunction,
    guest: values.Guest,
    vgpu: values.GuestVGPU,
    gpu: values.PhysicalGPU,
    assigned: values.Assignment | None,
    names: Mapping[str, str],
) -> Iterator[Step]:
    """The type that a guest's function lost, as with a reboot of the host.

    What the GPU serves to others now may be another one; a guest whose type
    was not noted gets that.
    """
    if vf.vgpus:
        if not guest.running and not has_its_type(vf, vgpu, names):
            yield ClearType(vf)  # and then it gets its own
        return
    if vgpu.type_name is None:
        vgpu_type = assigned.type if assigned else None
    else:
        matches = type_matching.find_matches(vgpu.type_name, gpu.types)
        vgpu_type = matches[0] if len(matches) == 1 else None
    if vgpu_type is not None:
        yield SetType(vf, vgpu_type)


def _make_way(
    assigned: values.Assignment, taken: Container[str]
) -> Iterator[Step]:
    """Idle mdevs of another type, where they keep a GPU from serving."""
    if assigned.type is None or assigned.serves:
        return
    for vgpu in assigned.gpu.all_vgpus:
        if (
            vgpu.uuid is not None
            and vgpu.uuid not in taken
            and vgpu.function in assigned.functions
            and vgpu.type_id != assigned.type.id
        ):
            yield RemoveMdev(vgpu.uuid)


def _clear_mistakes(
    assigned: values.Assignment,
    owners: Mapping[str, tuple[values.Guest, values.GuestVGPU]],
    names: Mapping[str, str],
) -> Iterator[Step]:
    """mdevs of guests that do not run, and were given what is declared.

    mdevctl starts an mdev by the id in its definition, which a release of the
    driver may have given to another type.
    """
    if assigned.type is None:
        return
    for vgpu in assigned.gpu.all_vgpus:
        if vgpu.uuid is None or vgpu.uuid not in owners:
            continue
        guest, noted = owners[vgpu.uuid]
        if (
            not guest.running
            and vgpu.function in assigned.functions
            and not is_as_noted(vgpu, noted, names)
            and type_matching.find_matches(
                noted.type_name or '', [assigned.type]
            )
        ):
            yield RemoveMdev(vgpu.uuid)
