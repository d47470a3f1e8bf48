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

"""What is known of vGPUs: their types, which are free, where lost ones go.

A vGPU goes by its name: the UUID of an mdev, or, in the vendor-specific VFIO
framework, the node device name of its virtual function. What is in use is
known by the same names. There it is a function's name whether or not its type
is set at the moment: a server that is shut off keeps its function over a
reboot of the host, which clears the type.

What an mdev is has three sources: libvirt has definitions, by the id that a
type had when they were made; guests note the names of the types of their
vGPUs; and mdevs that were seen are recorded with their parent, their type and
its id.

A definition starts by its id, whatever that means by then. So an mdev that is
there by the recorded id, and is of another type, has to be created again: the
driver gave the id to another type. One that is there by another id was created
since then, and is what it is.
"""

from collections.abc import Container
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from nova_vgpu import values
from nova_vgpu.plan import type_matching


def list_idle(
    assigned: values.Assignment, in_use: Container[str]
) -> tuple[str, ...]:
    """vGPUs of the GPU's type that are there and not in use."""
    return tuple(
        vgpu.name
        for vgpu in assigned.gpu.all_vgpus
        if assigned.type is not None
        and vgpu.type_id == assigned.type.id
        and vgpu.function in assigned.functions
        and vgpu.name not in in_use
    )


def list_rooms(
    assigned: values.Assignment, in_use: Container[str]
) -> Iterator[str]:
    """The functions of the GPU that take one more vGPU of its type.

    :param in_use: names of vGPUs, and of functions.
    """
    counted = assigned.capacity
    if assigned.type is None or counted is None:
        return
    if counted.total <= counted.existing:
        return
    for function, types in list_takers(assigned.gpu):
        is_free = function == assigned.gpu.name or (
            function not in in_use and function in assigned.functions
        )
        if is_free and any(t.id == assigned.type.id for t in types):
            yield function


def list_takers(
    gpu: values.PhysicalGPU,
) -> Iterator[tuple[str, list[values.VGPUType]]]:
    """The functions that take one more vGPU now, with the types they take."""
    if gpu.offers:
        yield gpu.name, [o.type for o in gpu.offers if o.available]
    for vf in gpu.vfs:
        if vf.offers and not vf.vgpus:
            yield vf.name, [o.type for o in vf.offers if o.available]


def list_functions(gpu: values.PhysicalGPU) -> frozenset[str]:
    """The names of all functions, also of VFs that are not enabled yet."""
    if gpu.address is None or gpu.sriov is None:
        return gpu.functions
    return gpu.functions.union(
        address.node_device_name
        for address in gpu.sriov.addresses(gpu.address)
    )


def match_places(
    lost: Mapping[str, str | None], places: Sequence[values.Assignment]
) -> Iterator[tuple[str, values.Assignment]]:
    """Give each lost mdev one of the places that Placement has for the server.

    An mdev whose type was noted goes where that type is served. What is left
    goes to what is left: an mdev whose type is not known may be of any, and
    one whose type is not served any more can be reported.

    :param lost: the types that were noted, by the UUIDs of the mdevs.
    :param places: what GPUs serve, one for each vGPU that the server holds.
    """
    left, later = list(places), list[str]()
    # Those that are known first.
    for uuid in sorted(lost, key=lambda uuid: (lost[uuid] is None, uuid)):
        wanted = lost[uuid] or ''
        place = next(
            (
                place
                for place in left
                if place.type
                and type_matching.find_matches(wanted, [place.type])
            ),
            None,
        )
        if place is None:
            later.append(uuid)
        else:
            left.remove(place)
            yield uuid, place
    yield from zip(later, left, strict=False)


def list_lost(
    gpu: values.PhysicalGPU,
    functions: Container[str],
    usage: values.Usage,
) -> Iterator[values.Mdev]:
    """mdevs of a GPU that are not there and are to be, or are defined."""
    owners = usage.owners
    known = {mdev.uuid for mdev in usage.mdevs}
    known.update(vgpu.name for vgpu in gpu.all_vgpus)
    for mdev in usage.mdevs:
        if mdev.parent in functions and mdev.state is values.MdevState.DEFINED:
            yield mdev
    for uuid, record in usage.records.mdevs.items():
        wanted = uuid in owners or uuid in usage.unfinished
        if wanted and uuid not in known and record.parent in functions:
            yield values.Mdev(
                uuid,
                record.parent,
                record.type_id or record.type,
                values.MdevState.ABSENT,
            )


def type_of(
    mdev: values.Mdev, usage: values.Usage, names: Mapping[str, str]
) -> values.VGPUType:
    """What an mdev is: its id may mean another type by now."""
    known = _find_name(mdev.uuid, mdev.parent, mdev.type_id, usage)
    return values.VGPUType(mdev.type_id, known or names.get(mdev.type_id))


def find_wanted_type(
    vgpu: values.VGPU, usage: values.Usage, names: Mapping[str, str]
) -> str | None:
    """The type that a vGPU should be of, if it is there as another one.

    One that nothing names now is taken for what it should be.
    """
    if vgpu.uuid is None:
        note = usage.notes.get(vgpu.name)
        known = note.type_name if note else None
    else:
        known = _find_name(vgpu.uuid, vgpu.function, vgpu.type_id, usage)
    return None if is_of_type(vgpu, known, names) else known


def is_of_type(
    vgpu: values.VGPU, wanted: str | None, names: Mapping[str, str]
) -> bool:
    """Whether a vGPU is of a type, as far as that is known.

    :param wanted: the name of the type; None if that is not known.
    """
    current = names.get(vgpu.type_id)
    if current is None or wanted is None:
        return True
    same = values.VGPUType(vgpu.type_id, current)
    return bool(type_matching.find_matches(wanted, [same]))


def _find_name(
    uuid: str, parent: str, type_id: str, usage: values.Usage
) -> str | None:
    """The name by which the type of an mdev is known; not by its id."""
    note = usage.notes.get(uuid)
    if note is not None and note.type_name:
        return note.type_name
    record = usage.records.mdevs.get(uuid)
    if record is None or record.parent != parent:
        return None
    # Files of older releases have no ids; another one was made since then.
    return record.type if record.type_id in (None, type_id) else None
