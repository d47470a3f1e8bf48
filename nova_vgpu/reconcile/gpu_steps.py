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

    driver -> VFs -> types are there -> what is in the way goes
           -> sizes may mix -> vGPUs that are to be there come back

That is the order in which hardware wants it: a GPU has no types without VFs,
and its mode cannot be changed while it has a vGPU. What a guest has is never
in the way; but a vGPU that is of another type than its guest was given is
created again while the guest does not run
(:mod:`nova_vgpu.reconcile.vgpus_to_recreate`). GPUs do not wait for each
other.

This is the one decision for ``apply``, ``plan``, the agent and nova-compute.
What each of them leaves out is in its :class:`~nova_vgpu.reconcile.policy.
Policy`.
"""

from collections.abc import Callable
from collections.abc import Container
from collections.abc import Iterator
from collections.abc import Mapping

from nova_vgpu import values
from nova_vgpu.plan import readiness
from nova_vgpu.reconcile import gpu_input
from nova_vgpu.reconcile import policy as policies
from nova_vgpu.reconcile import steps
from nova_vgpu.reconcile import vgpu_creations
from nova_vgpu.reconcile import vgpu_removals
from nova_vgpu.reconcile import vgpus_to_recreate

#: What a step does away with.
_UNBOUND = ('on-stub-driver', 'no-driver')
_PREPARED = (*_UNBOUND, 'vfs-off', 'no-types-yet')


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
    return tuple(
        _plan_gpu(found, new_uuid)
        for found in _list_inputs(plan, names, usage, policy)
    )


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


def _list_inputs(
    plan: values.Plan,
    names: Mapping[str, str],
    usage: values.Usage,
    policy: policies.Policy,
) -> Iterator[gpu_input.GPUInput]:
    codes = {(problem.subject, problem.code) for problem in plan.problems}
    for assigned in plan.assignments:
        if (
            policy.goes_beyond_plan
            or not _is_in_vain(assigned, codes)
            or gpu_input.may_be_hidden(assigned, names)
        ):
            functions = (
                gpu_input.list_functions(assigned)
                if policy.prepares_gpus
                else assigned.functions
            )
            yield gpu_input.GPUInput(
                assigned.gpu, assigned, functions, usage, names, policy
            )
    if policy.goes_beyond_plan:
        for left in plan.left_alone:
            yield gpu_input.GPUInput(
                left.gpu, None, frozenset(), usage, names, policy
            )


def _is_in_vain(
    assigned: values.Assignment, codes: Container[tuple[str, str]]
) -> bool:
    """Whether no vGPU of its type can be created on the GPU.

    While the type is not known, what the GPU lost can be created again.
    """
    gpu = str(assigned.gpu)
    is_mig_off = assigned.type is not None and (gpu, 'mig-off') in codes
    return is_mig_off or (gpu, 'type-not-offered') in codes


def _plan_gpu(
    found: gpu_input.GPUInput, new_uuid: Callable[[], str]
) -> values.GPUSteps:
    owner = found.usage.owners.get(found.gpu.name)
    if owner is not None and found.gpu.address is not None:
        what = 'the GPU as a whole'
        refused = steps.refuse(found.name, what, owner)
        return values.GPUSteps(found.name, (), (refused,))
    recreated = vgpus_to_recreate.plan(found)
    others = vgpu_removals.plan(found, recreated.decided)
    removals = (*recreated.removals, *others.removals)
    creations = (*recreated.creations, *vgpu_creations.restore(found))
    creations += vgpu_creations.create_ahead(found, creations, new_uuid)
    in_order: list[values.Step] = [*removals, *creations]
    if found.policy.prepares_gpus:
        mix = _mix_sizes(found, creations, removals)
        in_order = [*_prepare(found.gpu), *removals, *mix, *creations]
    return values.GPUSteps(
        found.name,
        tuple(in_order),
        (*recreated.refusals, *others.refusals),
    )


def _prepare(gpu: values.PhysicalGPU) -> Iterator[values.Step]:
    obstacle = readiness.find_obstacle(gpu)
    if obstacle is not None and obstacle.code in _PREPARED:
        yield from steps.prepare(gpu, obstacle.code not in _UNBOUND)
        yield values.AwaitTypes(str(gpu))


def _mix_sizes(
    found: gpu_input.GPUInput,
    creations: tuple[steps.VGPUStep, ...],
    removals: tuple[steps.VGPUStep, ...],
) -> Iterator[values.Step]:
    """Whether what is to be there, and what is served, differ in size."""
    gpu = found.gpu
    if gpu.address is None or not creations:
        return
    removed = {steps.vgpu_in(step) for step in removals}
    if any(vgpu.name not in removed for vgpu in gpu.all_vgpus):
        return  # what stays leaves no choice
    wanted = {steps.type_in(step) for step in creations}
    wanted.add(found.declared_name or '')
    sizes = {vgpus_to_recreate.size_of(gpu, name) for name in wanted}
    # A GPU that holds vGPUs of different sizes already stays so.
    is_mixed = found.assigned and found.assigned.modes.heterogeneous
    if len(sizes) > 1 and None not in sizes and not is_mixed:
        yield values.SetHeterogeneous(found.name, False, True)
