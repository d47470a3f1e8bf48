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


"""What is common to all steps: how they are made, undone and worded."""

from collections.abc import Callable
from collections.abc import Iterator
import dataclasses
import typing

from nova_vgpu import values

VGPUStep = values.SetType | values.SetMdev


def prepare(gpu: values.PhysicalGPU, is_bound: bool) -> Iterator[values.Step]:
    """Bind a GPU to its driver, and enable its VFs."""
    if not is_bound:
        yield values.RepairDriver(str(gpu))
    if gpu.sriov is not None and not gpu.vfs:
        yield values.SetVFs(str(gpu), 0, gpu.sriov.total)


def create(
    gpu: values.PhysicalGPU,
    function: str,
    type_name: str,
    new_uuid: Callable[[], str],
) -> VGPUStep:
    """Create a vGPU of a function, or on it."""
    if any(vf.name == function and vf.vendor_vfio for vf in gpu.vfs):
        return values.SetType(str(gpu), spell(function), '', type_name)
    return values.SetMdev(
        str(gpu),
        function,
        new_uuid(),
        type_name,
        values.MdevState.ABSENT,
        values.MdevState.PERSISTENT,
    )


def remove(
    gpu: str, vgpu: values.VGPU, type_name: str, state: values.MdevState
) -> VGPUStep:
    """Remove a vGPU that is there.

    :param state: that of the mdev, if it is one.
    """
    if vgpu.uuid is None:
        return values.SetType(gpu, spell(vgpu.function), type_name, '')
    return values.SetMdev(
        gpu,
        vgpu.function,
        vgpu.uuid,
        type_name,
        state,
        values.MdevState.ABSENT,
    )


def vgpu_in(step: VGPUStep) -> str:
    """The name of the vGPU that a step is about."""
    if isinstance(step, values.SetMdev):
        return step.uuid
    return function_in(step)


def function_in(step: VGPUStep) -> str:
    """The name of the function that a step is about."""
    if isinstance(step, values.SetMdev):
        return step.parent
    try:
        return values.PciAddress.parse(step.function).node_device_name
    except values.MalformedAddress:  # in a journal; it fails when executed
        return step.function


def type_in(step: VGPUStep) -> str:
    """The type of the vGPU that a step creates."""
    return step.after if isinstance(step, values.SetType) else step.type


def creates(step: values.Step) -> bool:
    """Whether a vGPU is there after a step that need not be before it."""
    if isinstance(step, values.SetMdev):
        return step.after.is_started
    return isinstance(step, values.SetType) and bool(step.after)


def undo(planned: values.GPUSteps) -> values.GPUSteps:
    """The way back: every step the other way round, the last one first."""
    return values.GPUSteps(
        planned.gpu,
        tuple(
            _turn(step)
            for step in reversed(planned.steps)
            if not isinstance(step, values.RepairDriver | values.AwaitTypes)
        ),
    )


def _turn(step: typing.Any) -> values.Step:
    turned: values.Step = dataclasses.replace(
        step, before=step.after, after=step.before
    )
    return turned


def label(vgpu_type: values.VGPUType) -> str:
    """What a type is called in a step: by its name, if it has one."""
    return vgpu_type.name or vgpu_type.id


def spell(name: str) -> str:
    """How a vGPU is named to an operator: its UUID, or its VF's address."""
    address = values.PciAddress.parse_node_device_name(name)
    return str(address or name)


def refuse(
    gpu: str,
    what: str,
    owner: values.Guest,
    because: str = '',
    cure: str = 'Delete, resize or move that server',
) -> values.Refusal:
    """That something stays, because a guest has it."""
    state = 'runs' if owner.running else 'is shut off'
    return values.Refusal(
        gpu,
        f'GPU {gpu}: {what} is not touched: server {owner.uuid} '
        f'({owner.name}, which {state}) has it{because}.',
        f'{cure}, then run it again.',
    )
