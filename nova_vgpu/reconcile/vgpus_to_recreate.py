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

"""vGPUs that are there as another type than they should be.

mdevctl starts definitions by their ids as soon as their GPU is there. If a
release of the driver gave an id to another type, the mdev is of that one: a
server would start with it, and it may be of a size that keeps its GPU from
serving. So it is removed and created again, by the name of its type, while the
guest that has it does not run. The type of a function is set by the name that
its guest notes; if it is another one, it was set by hand since then.

All that is removed goes first, because a GPU may take one size only. For the
same reason an mdev is left as it is where others stay with which it would not
fit. A function only loses a type that its guest cannot use.
"""

from collections.abc import Collection
from collections.abc import Iterator
import dataclasses

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import type_matching
from nova_vgpu.reconcile import policy
from nova_vgpu.reconcile import steps
from nova_vgpu.reconcile import vgpu_facts


@dataclasses.dataclass(frozen=True, slots=True)
class Recreation:
    """What is removed and created again, and what cannot be.

    ``decided`` are the names of the vGPUs in question.
    """

    removals: tuple[steps.VGPUStep, ...] = ()
    creations: tuple[steps.VGPUStep, ...] = ()
    refusals: tuple[values.Refusal, ...] = ()
    decided: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class _Wrong:
    """A vGPU that is there, and the name of the type that it should be of."""

    vgpu: values.VGPU
    wanted: str
    owner: values.Guest | None

    @property
    def is_mdev(self) -> bool:
        return self.vgpu.uuid is not None

    @property
    def is_off(self) -> bool:
        return self.owner is None or not self.owner.running


def plan(found: policy.GPUInput) -> Recreation:
    """What to do about the vGPUs of a GPU that are of a wrong type."""
    wrong = list(_find(found))
    if not wrong:
        return Recreation()
    able = _list_able(found, wrong)
    owned = [w for w in wrong if w.owner is not None and w not in able]
    return Recreation(
        tuple(found.remove(w.vgpu) for w in able),
        tuple(_create(found, w) for w in able if _is_created(found, w)),
        tuple(_refuse(found, w, w.owner) for w in owned if w.owner),
        frozenset(w.vgpu.name for w in (*able, *owned)),
    )


def size_of(gpu: values.PhysicalGPU, name: str) -> int | None:
    """The framebuffer of a type in MiB, if that is known."""
    matches = type_matching.find_matches(name, gpu.types)
    found = matches[0] if matches else values.VGPUType(name, name)
    return capabilities.facts_of(gpu, found).framebuffer_mib


def _find(found: policy.GPUInput) -> Iterator[_Wrong]:
    """An mdev that is not in use is created again only if it is declared.

    Else it goes as any other that is not in use. Where mdevs are created with
    their servers, that is so for all of them.
    """
    for vgpu in found.gpu.all_vgpus:
        places = found.functions if vgpu.uuid else found.restorable
        if vgpu.function not in places:
            continue
        wanted = vgpu_facts.find_wanted_type(vgpu, found.usage, found.names)
        if wanted is None:
            continue
        wrong = _Wrong(vgpu, wanted, found.usage.owners.get(vgpu.name))
        wanted_type = values.VGPUType(wanted, wanted)
        if not found.decides_on(vgpu.function, wanted_type):
            continue
        is_declared = found.is_declared(wanted_type)
        if wrong.owner is None:
            is_ours = (
                found.policy.restores_all
                and is_declared
                and vgpu.name not in found.usage.claimed
            )
        else:
            is_ours = (
                found.policy.restores_all or is_declared or not wrong.is_mdev
            )
        if is_ours:
            yield wrong


def _list_able(
    found: policy.GPUInput, wrong: Collection[_Wrong]
) -> list[_Wrong]:
    """Those that can be removed and created again."""
    able = [
        w
        for w in wrong
        if w.is_off and (not w.is_mdev or found.is_offered(w.wanted))
    ]
    while True:
        going = {w.vgpu.name for w in able}
        fitting = [w for w in able if not w.is_mdev or _fits(found, w, going)]
        if len(fitting) == len(able):
            return able
        able = fitting


def _fits(
    found: policy.GPUInput, wrong: _Wrong, going: Collection[str]
) -> bool:
    """Whether there is room for it beside what stays.

    What stays was there together with it all the time, but perhaps only
    because both were of the wrong size.
    """
    wanted = type_matching.find_matches(wrong.wanted, found.gpu.types)
    if any(o.available and o.type in wanted for o in found.gpu.all_offers):
        return True
    sizes = {
        size_of(found.gpu, vgpu.type_id)
        for vgpu in found.gpu.all_vgpus
        if vgpu.name not in going and not _is_in_the_way(found, vgpu)
    }
    return sizes <= {size_of(found.gpu, wrong.wanted)}


def _is_in_the_way(found: policy.GPUInput, vgpu: values.VGPU) -> bool:
    """Whether a vGPU is removed because it is not in use."""
    return (
        vgpu.function in found.functions
        and vgpu.name not in found.usage.owners
        and vgpu.name not in found.usage.claimed
        and not found.is_declared_on(vgpu.function, found.type_of(vgpu))
    )


def _is_created(found: policy.GPUInput, wrong: _Wrong) -> bool:
    """Whether it is created by a step, and not with its server.

    What hides the type of a function may go first; then it is set when the
    host is read again.
    """
    if wrong.is_mdev:
        return found.policy.restores_all
    return found.policy.prepares_gpus or found.is_offered(wrong.wanted)


def _create(found: policy.GPUInput, wrong: _Wrong) -> steps.VGPUStep:
    return steps.create(
        found.gpu,
        wrong.vgpu.function,
        wrong.wanted,
        lambda: wrong.vgpu.name,
    )


def _refuse(
    found: policy.GPUInput, wrong: _Wrong, owner: values.Guest
) -> values.Refusal:
    current = found.names[wrong.vgpu.type_id]
    because = f', and it is noted as {wrong.wanted}'
    if wrong.is_mdev:
        because += ': ids of types mean other types than when it was made'
    cure = 'Shut that server down'
    if not owner.running and not found.is_offered(wrong.wanted):
        because += ', and the GPU does not offer that type now'
        cure = 'Delete, resize or move that server'
    elif not owner.running:
        because += ', and that type does not fit beside the vGPUs that stay'
        cure = 'Shut down the servers that have those'
    return steps.refuse(
        str(found.gpu),
        f'vGPU {steps.spell(wrong.vgpu.name)} of {current}',
        owner,
        because,
        cure,
    )
