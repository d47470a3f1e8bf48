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


"""mdevs that are there as another type than they are to be.

mdevctl starts definitions by their ids as soon as their GPU is there. If a
release of the driver gave an id to another type, the mdev is of that one: a
server would start with it, and it may be of a size that keeps its GPU from
serving. So it is removed and made again, by the name of its type, while the
guest that has it does not run.

All that is removed goes first, because a GPU may take one size only. For the
same reason one is left as it is where others stay with which it would not fit.
"""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import type_matching
from nova_vgpu.reconcile import mdev_records
from nova_vgpu.reconcile import steps


@dataclasses.dataclass(frozen=True, slots=True)
class RecreateInput:
    """A GPU, its functions that are ours to manage, and who has what.

    ``is_declared`` is whether a type is the one that the GPU is to serve.
    """

    gpu: values.PhysicalGPU
    functions: Collection[str]
    usage: values.Usage
    names: Mapping[str, str]
    is_declared: Callable[[values.VGPUType], bool]


@dataclasses.dataclass(frozen=True, slots=True)
class Mended:
    """What is done about mistakes; ``decided`` are the vGPUs in question."""

    removals: tuple[values.SetMdev, ...] = ()
    creations: tuple[values.SetMdev, ...] = ()
    refusals: tuple[values.Refusal, ...] = ()
    decided: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class _Mistake:
    """An mdev that is there, and the name of the type that it is to be of."""

    vgpu: values.VGPU
    uuid: str
    wanted: str
    owner: values.Guest | None


def mend(scene: RecreateInput) -> Mended:
    """What to do about the mdevs of a GPU that are of a wrong type.

    One that nobody has is made again only if it is of the type that the GPU is
    to serve; else it is as any other that nobody has.
    """
    found = list(_find(scene))
    if not found:
        return Mended()
    able = [m for m in found if _is_off(m) and _is_offered(scene, m)]
    while True:
        going = {mistake.uuid for mistake in able}
        fitting = [m for m in able if _fits(scene, m, going)]
        if len(fitting) == len(able):
            break
        able = fitting
    owned = [m for m in found if m.owner is not None and m not in able]
    return Mended(
        tuple(_remove(scene, mistake) for mistake in able),
        tuple(_create(scene, mistake) for mistake in able),
        tuple(_refuse(scene, m, m.owner) for m in owned if m.owner),
        frozenset(m.uuid for m in (*able, *owned)),
    )


def size_of(gpu: values.PhysicalGPU, name: str) -> int | None:
    """The framebuffer of a type in MiB, if that is known."""
    matches = type_matching.find_matches(name, gpu.types)
    found = matches[0] if matches else values.VGPUType(name, name)
    return capabilities.facts_of(gpu, found).framebuffer_mib


def _find(scene: RecreateInput) -> Iterator[_Mistake]:
    for vgpu in scene.gpu.all_vgpus:
        wanted = mdev_records.find_wanted_type(vgpu, scene.usage, scene.names)
        if (
            wanted is None
            or vgpu.uuid is None
            or vgpu.function not in scene.functions
        ):
            continue
        owner = scene.usage.owners.get(vgpu.uuid)
        is_declared = scene.is_declared(values.VGPUType(wanted, wanted))
        if owner is not None or is_declared:
            yield _Mistake(vgpu, vgpu.uuid, wanted, owner)


def _is_off(mistake: _Mistake) -> bool:
    return mistake.owner is None or not mistake.owner.running


def _is_offered(scene: RecreateInput, mistake: _Mistake) -> bool:
    return (
        len(type_matching.find_matches(mistake.wanted, scene.gpu.types)) == 1
    )


def _fits(
    scene: RecreateInput, mistake: _Mistake, going: Collection[str]
) -> bool:
    """Whether there is room for it beside what stays.

    What stays was there together with it all the time, but perhaps only
    because both were of the wrong size.
    """
    wanted = type_matching.find_matches(mistake.wanted, scene.gpu.types)
    if any(o.available and o.type in wanted for o in scene.gpu.all_offers):
        return True
    sizes = {
        size_of(scene.gpu, vgpu.type_id)
        for vgpu in scene.gpu.all_vgpus
        if vgpu.name not in going and not _is_in_the_way(scene, vgpu)
    }
    return sizes <= {size_of(scene.gpu, mistake.wanted)}


def _is_in_the_way(scene: RecreateInput, vgpu: values.VGPU) -> bool:
    """Whether a vGPU is removed because nobody has it or is to have it."""
    vgpu_type = values.VGPUType(vgpu.type_id, scene.names.get(vgpu.type_id))
    return (
        vgpu.function in scene.functions
        and vgpu.name not in scene.usage.owners
        and not scene.is_declared(vgpu_type)
    )


def _remove(scene: RecreateInput, mistake: _Mistake) -> values.SetMdev:
    return values.SetMdev(
        str(scene.gpu),
        mistake.vgpu.function,
        mistake.uuid,
        scene.names[mistake.vgpu.type_id],
        scene.usage.state_of(mistake.uuid),
        values.MdevState.ABSENT,
    )


def _create(scene: RecreateInput, mistake: _Mistake) -> values.SetMdev:
    return values.SetMdev(
        str(scene.gpu),
        mistake.vgpu.function,
        mistake.uuid,
        mistake.wanted,
        values.MdevState.ABSENT,
        values.MdevState.PERSISTENT,
    )


def _refuse(
    scene: RecreateInput, mistake: _Mistake, owner: values.Guest
) -> values.Refusal:
    current = scene.names[mistake.vgpu.type_id]
    noted = (
        f', and it is noted as {mistake.wanted}: ids of types mean other '
        'types than when it was made'
    )
    cure = 'Shut that server down'
    if not owner.running and not _is_offered(scene, mistake):
        noted += ', and the GPU does not offer that type now'
        cure = 'Delete, resize or move that server'
    elif not owner.running:
        noted += ', and that type does not fit beside the vGPUs that stay'
        cure = 'Shut down the servers that have those'
    return steps.refuse(
        str(scene.gpu),
        f'vGPU {mistake.uuid} of {current}',
        owner,
        noted,
        cure,
    )
