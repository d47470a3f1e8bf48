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

"""How many vGPUs the GPU instances of a GPU have, where NVML tells them.

::

    total = (instances of the type's profile
             - those that vGPUs of other sizes have) * vGPUs of an instance
            - vGPUs of the same size that others have

An instance has vGPUs of one size; their series may differ. Instances of other
profiles make no difference: those that exist have their slices.
"""

import collections
from collections.abc import Iterable
from collections.abc import Mapping

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import type_matching


def count_vgpus(
    gpu: values.PhysicalGPU,
    vgpu_type: values.VGPUType,
    modes: values.GPUModes,
    others: Iterable[values.VGPUType],
) -> int | None:
    """How many vGPUs of a type its GPU instances have; None if unknown.

    :param others: the types of vGPUs that are not among these, each as often
        as the GPU has or is to have one.
    """
    own = find_told(vgpu_type, modes)
    each = count_each(gpu, vgpu_type, own)
    if own is None or each is None:
        return None
    alike = 0
    by_size: collections.Counter[int | None] = collections.Counter()
    most: dict[int | None, int] = {}
    for other in others:
        its = find_told(other, modes)
        if its is None or its.profile_id != own.profile_id:
            continue
        size = size_of(other)
        if size == size_of(vgpu_type):
            alike += 1
        else:
            by_size[size] += 1
            most[size] = count_each(gpu, other, its) or 1
    taken = sum(-(-by_size[size] // most[size]) for size in by_size)
    return max((own.instances - taken) * each - alike, 0)


def find_told(
    vgpu_type: values.VGPUType, modes: values.GPUModes
) -> values.MigType | None:
    """A type as NVML tells it; by its name if its id is not known."""
    types = modes.mig_types or ()
    by_id = [told for told in types if told.type_id == vgpu_type.id]
    by_name = (
        told
        for told in types
        if vgpu_type.name
        and told.name
        and type_matching.is_same_name(vgpu_type.name, told.name)
    )
    return next(iter(by_id), None) or next(by_name, None)


def count_each(
    gpu: values.PhysicalGPU,
    vgpu_type: values.VGPUType,
    told: values.MigType | None,
) -> int | None:
    """How many vGPUs of a type share a GPU instance, if that is known."""
    if told is not None and told.vgpus:
        return told.vgpus
    shape = capabilities.mig_shape(gpu, vgpu_type)
    return shape.vgpus if shape else None


def size_of(vgpu_type: values.VGPUType) -> int | None:
    """The frame buffer of a type: that of all vGPUs of an instance."""
    name = capabilities.parse_type_name(vgpu_type.name or '')
    return name.framebuffer_mib if name else None


def find_without_instance(
    placed: values.Assignment, names: Mapping[str, str]
) -> values.MigType | None:
    """The declared type, if the GPU has no GPU instance of its profile."""
    found = find_declared(placed, names)
    return found if found and not found.instances else None


def find_declared(
    placed: values.Assignment, names: Mapping[str, str]
) -> values.MigType | None:
    """The declared type as NVML tells it, also if the GPU offers none."""
    matches = type_matching.find_matches(
        placed.declared.name,
        [
            values.VGPUType(t.type_id, t.name or names.get(t.type_id))
            for t in placed.modes.mig_types or ()
        ],
    )
    if len(matches) != 1:
        return None
    return placed.modes.find_mig_type(matches[0].id)
