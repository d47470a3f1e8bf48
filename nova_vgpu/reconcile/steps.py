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


"""What is common to all steps: how they are made, undone, worded, checked."""

from collections.abc import Callable
from collections.abc import Iterable

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import type_matching

VGPUStep = values.SetType | values.SetMdev


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


def choose(
    wanted: str, where: str, offered: Iterable[values.VGPUType]
) -> values.VGPUType:
    """The type that is meant, of those that a device takes now.

    :raises StepFailed: if it is none of them.
    """
    offered = tuple(offered)
    matches = type_matching.find_matches(wanted, offered)
    if len(matches) == 1:
        return matches[0]
    known = ', '.join(capabilities.short_name(t) for t in offered) or 'none'
    raise exception.StepFailed(
        f'{wanted} is not available on {where} now. It takes: {known}.',
        'vGPUs of another size on the same GPU take types away ("nova-vgpu '
        'type list").',
    )


def may_be(current: values.VGPUType, wanted: str) -> bool:
    """Whether a function is of a type, as far as that can be told.

    A card that is full names no types, not even those of its vGPUs.
    """
    return current.name is None or bool(
        type_matching.find_matches(wanted, [current])
    )


def is_backed_by_mig(step: values.Step) -> bool:
    """Whether a step makes a vGPU that is backed by MIG."""
    wanted = ''
    if isinstance(step, values.SetType):
        wanted = step.after
    elif isinstance(step, values.SetMdev) and step.after.is_started:
        wanted = step.type
    name = capabilities.parse_type_name(wanted)
    return name is not None and name.slices is not None


def shows_types(gpu: values.PhysicalGPU) -> bool:
    """Whether every function that is to show types does."""
    if gpu.sriov is None or gpu.offers:
        return bool(gpu.types)
    return bool(gpu.vfs) and all(
        vf.offers or vf.vgpus or (vf.vendor_vfio and gpu.types)
        for vf in gpu.vfs
    )
