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

"""vGPUs that are to be there, and are not.

A reboot of the host takes away the types of functions, and mdevs that nothing
defines or starts.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence

from nova_vgpu import values
from nova_vgpu.plan import type_matching
from nova_vgpu.reconcile import gpu_input
from nova_vgpu.reconcile import steps
from nova_vgpu.reconcile import vgpu_facts


def restore(found: gpu_input.GPUInput) -> tuple[steps.VGPUStep, ...]:
    """vGPUs that a guest has, or an operator enabled, and are not there."""
    functions = tuple(_set_functions(found))
    if not found.policy.restores_all:
        return functions
    return (*_start_mdevs(found), *functions)


def create_ahead(
    found: gpu_input.GPUInput,
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
    found: gpu_input.GPUInput, missing: int, reserved: set[str]
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


def _start_mdevs(found: gpu_input.GPUInput) -> Iterator[values.SetMdev]:
    usage = found.usage
    for mdev in vgpu_facts.list_lost(found.gpu, found.functions, usage):
        vgpu_type = vgpu_facts.type_of(mdev, usage, found.names)
        if mdev.uuid in usage.owners or (
            found.is_declared(vgpu_type) and _has_place(found, mdev)
        ):
            yield values.SetMdev(
                found.name,
                mdev.parent,
                mdev.uuid,
                steps.label(vgpu_type),
                mdev.state,
                values.MdevState.PERSISTENT,
            )


def _has_place(found: gpu_input.GPUInput, mdev: values.Mdev) -> bool:
    """Whether no other mdev took the place of one that is not in use."""
    if mdev.state.is_defined:
        return True
    if mdev.parent != found.gpu.name:
        vgpus = found.gpu.all_vgpus
        return all(vgpu.function != mdev.parent for vgpu in vgpus)
    counted = found.assigned.capacity if found.assigned else None
    is_full = counted and 0 < counted.existing >= counted.total
    return not is_full


def _set_functions(found: gpu_input.GPUInput) -> Iterator[values.SetType]:
    there = {vf.name: vf for vf in found.gpu.vfs}
    # All of them if the VFs are enabled, and those to come if not.
    for function in there or sorted(found.functions - {found.gpu.name}):
        vf = there.get(function)
        if vf is not None and (vf.vgpus or not vf.vendor_vfio):
            continue
        wanted = _find_wanted(found, function)
        if wanted is not None and (
            found.policy.prepares_gpus or found.is_offered(wanted)
        ):
            yield values.SetType(found.name, steps.spell(function), '', wanted)


def _find_wanted(found: gpu_input.GPUInput, function: str) -> str | None:
    """The type that a function is to have; None if it need not have one.

    One that a guest has without a note that it is a vGPU is one where all of
    them are made ahead, for Nova's PCI passthrough, or where an operator
    enabled it.
    """
    usage = found.usage
    if function not in found.restorable:
        return None
    if function in usage.notes:
        return usage.notes[function].type_name or found.declared_name
    is_owned = function in usage.owners
    if is_owned and found.policy.creates_ahead:
        return found.declared_name
    wanted = usage.records.functions.get(steps.spell(function))
    if wanted is None or not found.policy.restores_all:
        return None
    is_declared = found.is_declared(values.VGPUType(wanted, wanted))
    return wanted if is_owned or is_declared else None
