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


"""mdevs that are not there, and what is known of them.

Three sources have a word: libvirt has definitions, by the id that a type had
when they were made; guests note the names of the types of their vGPUs; and it
is remembered where mdevs were that were seen, and of which type.
"""

from collections.abc import Container
from collections.abc import Iterator
from collections.abc import Mapping

from nova_vgpu import values


def list_lost(
    gpu: values.PhysicalGPU,
    functions: Container[str],
    held: values.Holdings,
) -> Iterator[values.Mdev]:
    """mdevs of a GPU that are not there and are to be, or are defined."""
    owners = held.owners
    known = {mdev.uuid for mdev in held.mdevs}
    known.update(vgpu.name for vgpu in gpu.all_vgpus)
    for mdev in held.mdevs:
        if mdev.parent in functions and mdev.state is values.MdevState.DEFINED:
            yield mdev
    for uuid, kept in held.kept.mdevs.items():
        wanted = uuid in owners or uuid in held.unfinished
        if wanted and uuid not in known and kept.parent in functions:
            yield values.Mdev(
                uuid, kept.parent, kept.type, values.MdevState.ABSENT
            )


def type_of(
    mdev: values.Mdev, held: values.Holdings, names: Mapping[str, str]
) -> values.VGPUType:
    """What an mdev is: its id may mean another type by now."""
    owner = held.owners.get(mdev.uuid)
    noted = {v.name: v.type_name for v in owner.vgpus} if owner else {}
    kept = held.kept.mdevs.get(mdev.uuid)
    name = (
        noted.get(mdev.uuid)
        or (kept.type if kept else None)
        or names.get(mdev.type_id)
    )
    return values.VGPUType(mdev.type_id, name)
