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

"""What is known of each GPU when its steps are decided.

A GPU that serves several types has an input for each of them. GPUs that cannot
serve their type whatever is done have none.
"""

from collections.abc import Container
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import itertools

from nova_vgpu import values
from nova_vgpu.reconcile import policy as policies
from nova_vgpu.reconcile import vgpu_facts


def list_inputs(
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
