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

Which vGPUs go, come or stay is decided in
:mod:`nova_vgpu.reconcile.vgpu_steps`.

This is the one decision for ``apply``, ``plan``, the agent and nova-compute.
What each of them leaves out is in its :class:`~nova_vgpu.reconcile.policy.
Policy`.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import readiness
from nova_vgpu.reconcile import gpu_inputs
from nova_vgpu.reconcile import gpu_instance_steps
from nova_vgpu.reconcile import mig_mode_steps
from nova_vgpu.reconcile import policy as policies
from nova_vgpu.reconcile import size_steps
from nova_vgpu.reconcile import steps
from nova_vgpu.reconcile import vf_profile_steps
from nova_vgpu.reconcile import vgpu_steps

#: What a step does away with.
_PREPARED = ('on-stub-driver', 'no-driver', 'vfs-off', 'no-types-yet')


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
    for found in gpu_inputs.list_inputs(plan, names, usage, policy):
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


def _plan_gpu(
    of_gpu: Sequence[policies.GPUInput], new_uuid: Callable[[], str]
) -> values.GPUSteps:
    """The steps of a GPU, whether it is to serve one type or several."""
    gpu, owner = of_gpu[0].gpu, of_gpu[0].usage.owners.get(of_gpu[0].gpu.name)
    if owner is not None and gpu.address is not None:
        refused = steps.refuse(str(gpu), 'the GPU as a whole', owner)
        return values.GPUSteps(str(gpu), (), (refused,))
    switch = mig_mode_steps.plan(
        of_gpu, lambda: vgpu_steps.plan(of_gpu).removals
    )
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


def _plan_in_mode(
    of_gpu: Sequence[policies.GPUInput], new_uuid: Callable[[], str]
) -> values.GPUSteps:
    """The steps of a GPU that stays in its MIG mode."""
    first, gpu = of_gpu[0], of_gpu[0].gpu
    planned = vgpu_steps.plan(of_gpu)
    removals, creations = planned.removals, planned.creations
    refusals = planned.refusals
    for found in of_gpu:
        creations += vgpu_steps.create_ahead(found, creations, new_uuid)
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
        removals += size_steps.clear(first, creations, removals)
        prepared = _prepare(gpu, instances, removals)
        mix = size_steps.plan(first, creations, removals)
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
