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


"""What mdevs are known to be, also those that are not there.

Three sources have a word: libvirt has definitions, by the id that a type had
when they were made; guests note the names of the types of their vGPUs; and it
is remembered where mdevs were that were seen, of which type, and by which id.

A definition starts by its id, whatever that means by then. So one that is
there by the id that is remembered, and is of another type, is so by mistake:
the driver gave the id to another type. One that is there by another id was
made anew, and is what it is.
"""

from collections.abc import Container
from collections.abc import Iterator
from collections.abc import Mapping

from nova_vgpu import values
from nova_vgpu.plan import type_matching


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
    for uuid, kept in usage.records.mdevs.items():
        wanted = uuid in owners or uuid in usage.unfinished
        if wanted and uuid not in known and kept.parent in functions:
            yield values.Mdev(
                uuid,
                kept.parent,
                kept.type_id or kept.type,
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
    """The type that an mdev is to be of, if it is there as another one.

    One that nothing names now is taken for what it is to be.
    """
    current = names.get(vgpu.type_id)
    if vgpu.uuid is None or current is None:
        return None
    known = _find_name(vgpu.uuid, vgpu.function, vgpu.type_id, usage)
    if known is None:
        return None
    same = values.VGPUType(vgpu.type_id, current)
    return None if type_matching.find_matches(known, [same]) else known


def _find_name(
    uuid: str, parent: str, type_id: str, usage: values.Usage
) -> str | None:
    """The name by which the type of an mdev is known; not by its id."""
    owner = usage.owners.get(uuid)
    noted = {v.name: v.type_name for v in owner.vgpus} if owner else {}
    kept = usage.records.mdevs.get(uuid)
    # Files of older releases have no ids.
    if kept and (kept.parent, kept.type_id or type_id) != (parent, type_id):
        kept = None  # somebody made it anew
    return noted.get(uuid) or (kept.type if kept else None)
