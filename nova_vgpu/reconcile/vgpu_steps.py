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

"""The vGPUs of a GPU that go, come, or stay because they are in use.

What a guest has is never in the way; but a vGPU that is of another type than
its guest was given is created again while the guest does not run
(:mod:`nova_vgpu.reconcile.vgpus_to_recreate`). vGPUs that are not in use and
of another type than their GPU is to serve are in the way. Where vGPUs are
created when a server needs them, functions that are not in use lose their
types as well: a type that is set takes away from what its GPU can serve. What
comes back is what a reboot of the host takes away: the types of functions, and
mdevs that nothing defines or starts.
"""

from collections.abc import Callable
from collections.abc import Container
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses

from nova_vgpu import values
from nova_vgpu.plan import type_matching
from nova_vgpu.reconcile import idle_vgpus
from nova_vgpu.reconcile import policy as policies
from nova_vgpu.reconcile import steps
from nova_vgpu.reconcile import vgpu_facts
from nova_vgpu.reconcile import vgpus_to_recreate


@dataclasses.dataclass(slots=True)
class VGPUSteps:
    """What becomes of the vGPUs of a GPU."""

    removals: tuple[steps.VGPUStep, ...] = ()
    creations: tuple[steps.VGPUStep, ...] = ()
    refusals: tuple[values.Refusal, ...] = ()


def plan(of_gpu: Iterable[policies.GPUInput]) -> VGPUSteps:
    """The vGPUs that go and come, but for those that are made ahead."""
    planned = VGPUSteps()
    for found in of_gpu:
        recreated = vgpus_to_recreate.plan(found)
        lost = tuple(_settle_lost(found)) if found.policy.restores_all else ()
        planned.removals += (
            *recreated.removals,
            *_remove(found, recreated.decided),
            *(step for step in lost if not step.after.is_started),
        )
        planned.creations += (
            *recreated.creations,
            *(step for step in lost if step.after.is_started),
            *_set_functions(found),
        )
        planned.refusals += (
            *recreated.refusals,
            *_refuse(found, recreated.decided),
        )
    # A function that is not in use may be one of several types.
    planned.removals = tuple(dict.fromkeys(planned.removals))
    return planned


def create_ahead(
    found: policies.GPUInput,
    planned: Sequence[steps.VGPUStep],
    new_uuid: Callable[[], str],
) -> tuple[steps.VGPUStep, ...]:
    """As many as the GPU serves, if it is declared so.

    :param planned: those that are created anyway.
    """
    assigned = found.assigned
    if not found.policy.creates_ahead or assigned is None:
        return ()
    vgpu_type, counted = assigned.type, assigned.capacity
    if vgpu_type is None or counted is None:
        return ()
    declared = [
        step
        for step in planned
        if type_matching.find_matches(steps.type_in(step), [vgpu_type])
    ]
    missing = counted.total - counted.existing - len(declared)
    reserved = {steps.function_in(step) for step in planned}
    free = _list_free(found, missing, reserved)[: max(missing, 0)]
    label = steps.label(vgpu_type)
    return tuple(
        steps.create(found.gpu, function, label, new_uuid) for function in free
    )


def _list_free(
    found: policies.GPUInput, missing: int, reserved: set[str]
) -> list[str]:
    """Functions that would take a vGPU each; a GPU itself takes many."""
    if found.gpu.framework is values.Framework.MDEV:
        return [found.gpu.name] * missing
    return [
        vf.name
        for vf in found.gpu.vfs
        if vf.name in found.functions
        and not vf.vgpus
        and vf.name not in reserved
        and vf.name not in found.usage.owners
    ]


# -- vGPUs that go, or stay ---------------------------------------------------


def _remove(
    found: policies.GPUInput, decided: Container[str]
) -> Iterator[steps.VGPUStep]:
    """The vGPUs that are not in use and go.

    :param decided: the vGPUs that are created again, or cannot be.
    """
    kept = {*found.usage.owners, *found.usage.claimed}
    idle = [
        vgpu
        for vgpu in found.gpu.all_vgpus
        if vgpu.name not in kept and vgpu.name not in decided
    ]
    surplus = idle_vgpus.list_surplus(found, idle)
    for vgpu in idle:
        if vgpu.name in surplus or _goes(found, vgpu):
            yield found.remove(vgpu)


def _goes(found: policies.GPUInput, vgpu: values.VGPU) -> bool:
    """Whether a vGPU goes that is not in use."""
    policy, is_function = found.policy, vgpu.uuid is None
    if is_function:
        is_manual = found.is_manual(vgpu)
        if vgpu.function not in found.functions:
            return vgpu.name in found.usage.released and not is_manual
        if policy.clears_idle_functions and not is_manual:
            return True
    elif policy.removes_blocking_only and found.serves:
        return False
    return found.is_other(vgpu)


def _refuse(
    found: policies.GPUInput, decided: Container[str]
) -> Iterator[values.Refusal]:
    """What stays because it is in use, although it is of another type."""
    for vgpu in found.gpu.all_vgpus:
        owner = found.usage.owners.get(vgpu.name)
        if (
            owner is None
            or vgpu.name in decided
            or vgpu.name in found.usage.claimed
            or not found.is_other(vgpu)
        ):
            continue
        label = steps.label(found.type_of(vgpu))
        yield steps.refuse(
            str(found.gpu),
            f'vGPU {steps.spell(vgpu.name)} of {label}',
            owner,
            f', and the GPU is to serve {" and ".join(found.declared_names)}',
        )


# -- vGPUs that come back -----------------------------------------------------


def _settle_lost(found: policies.GPUInput) -> Iterator[values.SetMdev]:
    """mdevs that are not there: those to be there start.

    Definitions of another type than the GPU is to serve are removed, and those
    that are more than the share of their type.
    """
    usage, assigned = found.usage, found.assigned
    is_type_known = assigned is not None and (
        assigned.type is not None or found.may_hide_type
    )
    lost = vgpu_facts.list_lost(found.gpu, found.functions, usage)
    room = idle_vgpus.count_room(found)
    for mdev in sorted(lost, key=lambda m: m.uuid not in usage.owners):
        vgpu_type = vgpu_facts.type_of(mdev, usage, found.names)
        if not found.decides_on(mdev.parent, vgpu_type):
            continue
        is_declared = found.is_declared(vgpu_type)
        is_wanted = is_declared and room > 0 and _has_place(found, mdev)
        if mdev.uuid in usage.owners or is_wanted:
            after = values.MdevState.PERSISTENT
            room -= is_declared
        elif mdev.state.is_defined and is_type_known and not is_wanted:
            after = values.MdevState.ABSENT
        else:
            continue
        yield values.SetMdev(
            str(found.gpu),
            mdev.parent,
            mdev.uuid,
            steps.label(vgpu_type),
            mdev.state,
            after,
        )


def _has_place(found: policies.GPUInput, mdev: values.Mdev) -> bool:
    """Whether no other mdev has the place of one that is not in use.

    Or is to have it again, because a server has it or libvirt defines it.
    """
    if mdev.state.is_defined:
        return True
    if mdev.parent != found.gpu.name:
        usage = found.usage
        taken = {vgpu.function for vgpu in found.gpu.all_vgpus}
        taken.update(other.parent for other in usage.mdevs)
        taken.update(
            record.parent
            for uuid, record in usage.records.mdevs.items()
            if uuid in usage.owners
        )
        return mdev.parent not in taken
    counted = found.assigned.capacity if found.assigned else None
    is_full = counted and 0 < counted.existing >= counted.total
    return not is_full


def _set_functions(found: policies.GPUInput) -> Iterator[values.SetType]:
    there = {vf.name: vf for vf in found.gpu.vfs}
    # All of them if the VFs are enabled, and those to come if not.
    for function in there or sorted(found.functions - {found.gpu.name}):
        vf = there.get(function)
        if vf is not None and (vf.vgpus or not vf.vendor_vfio):
            continue
        wanted = _find_wanted(found, function)
        if (
            wanted is not None
            and found.decides_on(function, values.VGPUType(wanted, wanted))
            and (found.policy.prepares_gpus or found.is_offered(wanted))
        ):
            yield values.SetType(
                str(found.gpu), steps.spell(function), '', wanted
            )


def _find_wanted(found: policies.GPUInput, function: str) -> str | None:
    """The type that a function is to have; None if it need not have one.

    One that a guest has without a note that it is a vGPU is one where all of
    them are made ahead, for Nova's PCI passthrough, or where an operator
    enabled it.
    """
    usage = found.usage
    if function not in found.restorable:
        return None
    if function in usage.notes:
        noted = usage.notes[function].type_name
        return noted or found.find_default(function)
    is_owned = function in usage.owners
    if is_owned and found.policy.creates_ahead:
        return found.find_default(function)
    wanted = usage.records.functions.get(steps.spell(function))
    if wanted is None or not found.policy.restores_all:
        return None
    vgpu_type = values.VGPUType(wanted, wanted)
    is_declared = found.is_declared_on(function, vgpu_type)
    return wanted if is_owned or is_declared else None
