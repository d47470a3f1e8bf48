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


"""Whether a step fits what is there now."""

from collections.abc import Iterable

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import type_matching


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
