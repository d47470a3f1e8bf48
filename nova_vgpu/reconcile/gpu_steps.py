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

"""From the plan to steps: what has to be done to each GPU, in which order.

::

    driver -> MIG mode -> VFs -> GPU instances -> types are there
           -> what is in the way goes -> sizes may mix
           -> vGPUs that are to be there come back

That is the order in which hardware wants it: a GPU has no types without VFs,
and its mode cannot be changed while it has a vGPU. GPUs do not wait for each
other.

What a guest has is never in the way; but a vGPU that is of another type than
its guest was given is created again while the guest does not run
(:mod:`nova_vgpu.reconcile.vgpus_to_recreate`). vGPUs that are not in use and
of another type than their GPU is to serve are in the way. Where vGPUs are
created when a server needs them, functions that are not in use lose their
types as well: a type that is set takes away from what its GPU can serve. What
comes back is what a reboot of the host takes away: the types of functions, and
mdevs that nothing defines or starts.

This is the one decision for ``apply``, ``plan``, the agent and nova-compute.
What each of them leaves out is in its :class:`~nova_vgpu.reconcile.policy.
Policy`.
"""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Container
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import itertools

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import readiness
from nova_vgpu.plan import type_matching
from nova_vgpu.reconcile import gpu_instance_steps
from nova_vgpu.reconcile import idle_vgpus
from nova_vgpu.reconcile import mig_mode_steps
from nova_vgpu.reconcile import policy as policies
from nova_vgpu.reconcile import steps
from nova_vgpu.reconcile import vf_profile_steps
from nova_vgpu.reconcile import vgpu_facts
from nova_vgpu.reconcile import vgpus_to_recreate

#: What a step does away with.
_PREPARED = ('on-stub-driver', 'no-driver', 'vfs-off', 'no-types-yet')


@dataclasses.dataclass(slots=True)
class _VGPUSteps:
    """What becomes of the vGPUs of a GPU."""

    removals: tuple[steps.VGPUStep, ...] = ()
    creations: tuple[steps.VGPUStep, ...] = ()
    refusals: tuple[values.Refusal, ...] = ()


def plan_steps(
    plan: values.Plan,
    names: Mapping[str, str],
    usage: values.Usage,
    policy: policies.Policy,
    new_uuid: Callable[[], str],
) -> tuple[values.GPUSteps, ...]:
    """What brings every GPU to its declared state, as far as a policy goes.

    :param names: the names of types by their ids, also of types that no GPU
        offers now.
    :param new_uuid: names the mdevs that are made ahead of use.
    """
    by_gpu: dict[str, list[policies.GPUInput]] = {}
    for found in _list_inputs(plan, names, usage, policy):
        by_gpu.setdefault(found.gpu.name, []).append(found)
    return tuple(_plan_gpu(of_gpu, new_uuid) for of_gpu in by_gpu.values())


def may_need_steps(plan: values.Plan) -> bool:
    """Whether nova-compute can have anything to do, whatever is in use.

    If not, it need not wait for a lock.
    """
    return any(vf.vendor_vfio for gpu in plan.gpus for vf in gpu.vfs) or any(
        not assigned.serves or vgpu.type_id != assigned.type.id
        for assigned in plan.assignments
        if assigned.type is not None
        for vgpu in assigned.gpu.all_vgpus
    )


def prepare(gpu: values.PhysicalGPU) -> Iterator[values.Step]:
    """Bind a GPU to its driver, enable its VFs, wait for its types."""
    if gpu.driver in (None, readiness.STUB_DRIVER):
        yield values.RepairDriver(str(gpu))
    if gpu.sriov is not None and not gpu.vfs:
        yield values.SetVFs(str(gpu), 0, gpu.sriov.total)
    made_by = capabilities.vendor_of(gpu)
    if gpu.types or gpu.vf_profiles is not None or made_by is None:
        return  # or it never has any
    if made_by.type_prefixes:
        yield values.AwaitTypes(str(gpu))


def _list_inputs(
    plan: values.Plan,
    names: Mapping[str, str],
    usage: values.Usage,
    policy: policies.Policy,
) -> Iterator[policies.GPUInput]:
    codes = {(problem.subject, problem.code) for problem in plan.problems}
    by_gpu: dict[str, list[policies.GPUInput]] = {}
    for assigned in plan.assignments:
        functions = assigned.functions
        if policy.prepares_gpus:
            functions = _list_functions(assigned)
        of_gpu = by_gpu.setdefault(assigned.gpu.name, [])
        of_gpu.append(
            policies.GPUInput(
                assigned.gpu,
                assigned,
                functions,
                usage,
                names,
                policy,
                len(of_gpu),
            )
        )
    for alone in itertools.chain.from_iterable(by_gpu.values()):
        found = dataclasses.replace(
            alone, all_of_gpu=tuple(by_gpu[alone.gpu.name])
        )
        assigned = plan.assignments_of(alone.gpu.name)[alone.index]
        is_in_vain = (
            not policy.goes_beyond_plan
            and _is_in_vain(assigned, codes, policy)
            and not found.may_hide_type
        )
        if not is_in_vain or policy.switches_mig_mode:
            yield dataclasses.replace(found, is_in_vain=is_in_vain)
    if policy.goes_beyond_plan:
        for left in plan.left_alone:
            yield policies.GPUInput(
                left.gpu, None, frozenset(), usage, names, policy
            )


def _list_functions(assigned: values.Assignment) -> frozenset[str]:
    """The names of the functions that vGPUs may be on.

    Those that will be there once the VFs are enabled as well.
    """
    gpu = assigned.gpu
    if gpu.address is None:
        return frozenset((gpu.name,))
    every = vgpu_facts.list_functions(gpu) - assigned.pci_devices
    if gpu.name not in assigned.functions:
        return every & assigned.functions
    for other in assigned.beside:
        if gpu.name not in other.functions:
            every -= other.functions
    return every


def _is_in_vain(
    assigned: values.Assignment,
    codes: Container[tuple[str, str]],
    policy: policies.Policy,
) -> bool:
    """Whether no vGPU of its type can be created on the GPU.

    While the type is not known, what the GPU lost can be created again.
    """
    gpu = str(assigned.gpu)
    if assigned.type is None:
        return (gpu, 'type-not-offered') in codes
    told = assigned.modes.find_mig_type(assigned.type.id)
    is_created = policy.prepares_gpus and assigned.modes.gpu_instances
    has_no_instance = told and not told.instances and not is_created
    return bool(has_no_instance) or (gpu, 'mig-off') in codes


def _plan_gpu(
    of_gpu: Sequence[policies.GPUInput], new_uuid: Callable[[], str]
) -> values.GPUSteps:
    """The steps of a GPU, whether it is to serve one type or several."""
    gpu, owner = of_gpu[0].gpu, of_gpu[0].usage.owners.get(of_gpu[0].gpu.name)
    if owner is not None and gpu.address is not None:
        refused = steps.refuse(str(gpu), 'the GPU as a whole', owner)
        return values.GPUSteps(str(gpu), (), (refused,))
    switch = mig_mode_steps.plan(of_gpu, _plan_vgpus(of_gpu).removals)
    if switch is not None and switch.steps:
        return values.GPUSteps(str(gpu), switch.steps)
    refused_switch = (switch.refusal,) if switch and switch.refusal else ()
    of_gpu = [found for found in of_gpu if not found.is_in_vain]
    if not of_gpu or (switch and not switch.keeps_mode):
        return values.GPUSteps(str(gpu), (), refused_switch)
    found = (
        vf_profile_steps.plan(of_gpu[0])
        if gpu.vf_profiles is not None
        else _plan_in_mode(of_gpu, new_uuid)
    )
    return dataclasses.replace(
        found, refusals=(*refused_switch, *found.refusals)
    )


def _plan_vgpus(of_gpu: Iterable[policies.GPUInput]) -> _VGPUSteps:
    """The vGPUs that go and come, but for those that are made ahead."""
    planned = _VGPUSteps()
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


def _plan_in_mode(
    of_gpu: Sequence[policies.GPUInput], new_uuid: Callable[[], str]
) -> values.GPUSteps:
    """The steps of a GPU that stays in its MIG mode."""
    first, gpu = of_gpu[0], of_gpu[0].gpu
    planned = _plan_vgpus(of_gpu)
    removals, creations = planned.removals, planned.creations
    refusals = planned.refusals
    for found in of_gpu:
        creations += _create_ahead(found, creations, new_uuid)
    in_order: list[values.Step] = [*removals, *creations]
    if first.policy.prepares_gpus:
        repair = [
            s for s in prepare(gpu) if isinstance(s, values.RepairDriver)
        ]
        if repair and (
            gpu_instance_steps.is_declared(of_gpu)
            or first.policy.switches_mig_mode
        ):
            # MIG mode and GPU instances are not known before.
            return values.GPUSteps(str(gpu), (*repair,), refusals)
        instances = gpu_instance_steps.plan(of_gpu, removals, creations)
        if instances is not None and instances.refusals and not gpu.vfs:
            return values.GPUSteps(
                str(gpu), (), (*refusals, *instances.refusals)
            )
        if _is_mixed(first) is False and _is_to_mix(first, creations):
            removals += (*idle_vgpus.list_in_the_way(first, removals),)
        prepared = _prepare(gpu, instances, removals)
        mix = _mix_sizes(first, creations, removals)
        in_order = [*prepared, *mix, *creations]
        refusals += instances.refusals if instances is not None else ()
    return values.GPUSteps(str(gpu), tuple(in_order), refusals)


def _prepare(
    gpu: values.PhysicalGPU,
    instances: gpu_instance_steps.InstanceSteps | None,
    removals: tuple[steps.VGPUStep, ...],
) -> list[values.Step]:
    """What comes before vGPUs are created.

    A GPU in MIG mode shows no types while it has no GPU instances.
    """
    obstacle = readiness.find_obstacle(gpu)
    is_prepared = obstacle is not None and obstacle.code in _PREPARED
    preparation = [*prepare(gpu)] if is_prepared else []
    if instances is None:
        return [*preparation, *removals]
    awaited = [s for s in preparation if isinstance(s, values.AwaitTypes)]
    enabled = [s for s in preparation if s not in awaited]
    if instances.creations and not gpu.types:
        awaited = [values.AwaitTypes(str(gpu))]
    elif not instances.will_be:
        awaited = []
    if enabled:
        made = [*instances.removals, *enabled, *instances.creations]
        return [*made, *awaited, *removals]
    return [*removals, *instances.removals, *instances.creations, *awaited]


def _mix_sizes(
    found: policies.GPUInput,
    creations: tuple[steps.VGPUStep, ...],
    removals: tuple[steps.VGPUStep, ...],
) -> Iterator[values.Step]:
    """Let sizes mix, unless a vGPU stays: that leaves no choice."""
    removed = {steps.vgpu_in(step) for step in removals}
    if _is_to_mix(found, creations) and all(
        vgpu.name in removed for vgpu in found.gpu.all_vgpus
    ):
        yield values.SetHeterogeneous(str(found.gpu), False, True)


def _is_to_mix(
    found: policies.GPUInput, creations: Collection[steps.VGPUStep]
) -> bool:
    """Whether what is to be there, and what is served, differ in size.

    A GPU that holds vGPUs of different sizes already stays so.
    """
    is_mixed = _is_mixed(found)
    # A GPU that is divided is prepared for what servers will have.
    is_early = len(found.declared_names) > 1 and is_mixed is False
    if is_mixed or not (creations or is_early):
        return False
    return _have_sizes_to_mix(found, creations)


def _is_mixed(found: policies.GPUInput) -> bool | None:
    """Whether the GPU may hold vGPUs of different sizes, if that is known."""
    gpu = found.gpu
    if found.assigned is None:
        return None
    is_mixed = found.assigned.modes.heterogeneous
    if is_mixed and gpu.sriov is not None and not gpu.vfs:
        return False  # enabling VFs turns it off
    return is_mixed


def _have_sizes_to_mix(
    found: policies.GPUInput, creations: Iterable[steps.VGPUStep]
) -> bool:
    gpu = found.gpu
    wanted = {steps.type_in(step) for step in creations}
    wanted.update(found.names.get(n, n) for n in found.declared_names)
    sizes = {
        vgpus_to_recreate.size_of(gpu, name)
        for name in wanted
        # GPU instances differ in size without it.
        if not capabilities.is_backed_by_mig(values.VGPUType(name, name))
    }
    return gpu.address is not None and len(sizes) > 1 and None not in sizes


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


# -- vGPUs that come ---------------------------------------------------------


def _create_ahead(
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
