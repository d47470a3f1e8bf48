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

"""vGPUs that are not in use, and have to go.

Those of another type than their GPU is to serve are in the way. Where vGPUs
are created when a server needs them, functions that are not in use lose their
types as well: a type that is set takes away from what its GPU can serve.
"""

from collections.abc import Container
from collections.abc import Iterator
import dataclasses

from nova_vgpu import values
from nova_vgpu.reconcile import gpu_input
from nova_vgpu.reconcile import steps
from nova_vgpu.reconcile import vgpu_facts


@dataclasses.dataclass(frozen=True, slots=True)
class Removals:
    """What goes, and what stays although it is of another type."""

    removals: tuple[steps.VGPUStep, ...]
    refusals: tuple[values.Refusal, ...]


def plan(found: gpu_input.GPUInput, decided: Container[str]) -> Removals:
    """The vGPUs of a GPU that go.

    :param decided: the vGPUs that are created again, or cannot be.
    """
    removals: list[steps.VGPUStep] = []
    refusals: list[values.Refusal] = []
    for vgpu in found.gpu.all_vgpus:
        owner = found.usage.owners.get(vgpu.name)
        if vgpu.name in decided or vgpu.name in found.usage.claimed:
            continue
        if owner is not None:
            if found.is_other(vgpu):
                refusals.append(_refuse(found, vgpu, owner))
        elif _goes(found, vgpu):
            removals.append(remove(found, vgpu))
    if found.policy.restores_all:
        removals += _remove_definitions(found)
    return Removals(tuple(removals), tuple(refusals))


def remove(found: gpu_input.GPUInput, vgpu: values.VGPU) -> steps.VGPUStep:
    """The step that removes a vGPU which is there."""
    return steps.remove(
        found.name,
        vgpu,
        steps.label(found.type_of(vgpu)),
        found.usage.state_of(vgpu.name),
    )


def _goes(found: gpu_input.GPUInput, vgpu: values.VGPU) -> bool:
    """Whether a vGPU goes that is not in use."""
    policy, is_function = found.policy, vgpu.uuid is None
    if is_function:
        is_manual = steps.spell(vgpu.name) in found.usage.records.functions
        if vgpu.function not in found.functions:
            return vgpu.name in found.usage.released and not is_manual
        if policy.clears_idle_functions and not is_manual:
            return True
    elif policy.removes_blocking_only and (
        found.assigned is None or found.assigned.serves
    ):
        return False
    return found.is_other(vgpu)


def _remove_definitions(
    found: gpu_input.GPUInput,
) -> Iterator[values.SetMdev]:
    """mdevs of another type that are only defined."""
    usage = found.usage
    for mdev in vgpu_facts.list_lost(found.gpu, found.functions, usage):
        if mdev.uuid in usage.owners or not mdev.state.is_defined:
            continue
        vgpu_type = vgpu_facts.type_of(mdev, usage, found.names)
        is_known = found.assigned is not None and (
            found.assigned.type is not None or found.may_hide_type
        )
        if is_known and not found.is_declared(vgpu_type):
            yield values.SetMdev(
                found.name,
                mdev.parent,
                mdev.uuid,
                steps.label(vgpu_type),
                mdev.state,
                values.MdevState.ABSENT,
            )


def _refuse(
    found: gpu_input.GPUInput, vgpu: values.VGPU, owner: values.Guest
) -> values.Refusal:
    label = steps.label(found.type_of(vgpu))
    return steps.refuse(
        found.name,
        f'vGPU {steps.spell(vgpu.name)} of {label}',
        owner,
        f', and the GPU is to serve {found.declared_name}',
    )
