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

"""How many GPU instances of each profile the declaration needs.

A GPU instance has vGPUs of one frame buffer, so that each profile needs, of
each frame buffer, the number of vGPUs divided by those of one instance. Of a
type without a number there are as many instances as its profile allows.
"""

import collections
from collections.abc import Container
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_vgpu import values
from nova_vgpu.plan import mig_capacity
from nova_vgpu.reconcile import policy as policies
from nova_vgpu.reconcile import steps


@dataclasses.dataclass(frozen=True, slots=True)
class Needs:
    """Numbers of instances, by the ids of their profiles.

    ``held`` are for vGPUs that are there and stay, or that come back.
    """

    declared: collections.Counter[int]
    held: collections.Counter[int]
    all: collections.Counter[int]


@dataclasses.dataclass(frozen=True, slots=True)
class _Kind:
    """What vGPUs of one GPU instance have in common, and how many it has."""

    profile_id: int
    framebuffer_mib: int | None
    vgpus: int


def count(
    of_gpu: Sequence[policies.GPUInput],
    there: values.GPUInstances,
    gone: Container[str],
    creations: Iterable[steps.VGPUStep],
) -> Needs | None:
    """How many instances of each profile are needed; None if unknown.

    :param gone: vGPUs that are removed before.
    :param creations: those that are created after.
    """
    gpu, names = of_gpu[0].gpu, of_gpu[0].names
    most = {profile.id: profile.most for profile in there.profiles}
    declared: collections.Counter[_Kind] = collections.Counter()
    for found in of_gpu:
        if found.assigned is None:
            return None
        told = mig_capacity.find_declared(found.assigned, names)
        kind = _find_kind(gpu, told, names)
        if kind is None:
            return None
        all_of_it = most.get(kind.profile_id, 0) * kind.vgpus
        declared[kind] += _count_declared(found.assigned, all_of_it)
    others: collections.Counter[_Kind] = collections.Counter()
    for told in _list_others(of_gpu[0], gone, creations):
        kind = _find_kind(gpu, told, names)
        if kind is None:
            return None
        others[kind] += 1
    return Needs(
        _count_instances(declared, most),
        _count_instances(others, most),
        _count_instances(declared | others, most),
    )


def _count_instances(
    vgpus: collections.Counter[_Kind], most: Mapping[int, int]
) -> collections.Counter[int]:
    found: collections.Counter[int] = collections.Counter()
    for kind, number in vgpus.items():
        found[kind.profile_id] += -(-number // kind.vgpus)
    for profile_id in found:
        found[profile_id] = min(found[profile_id], most.get(profile_id, 0))
    return found


def _find_kind(
    gpu: values.PhysicalGPU,
    told: values.MigType | None,
    names: Mapping[str, str],
) -> _Kind | None:
    if told is None:
        return None
    name = told.name or names.get(told.type_id)
    vgpu_type = values.VGPUType(told.type_id, name)
    each = mig_capacity.count_each(gpu, vgpu_type, told)
    if each is None:
        return None
    return _Kind(told.profile_id, mig_capacity.size_of(vgpu_type), each)


def _count_declared(assigned: values.Assignment, all_of_it: int) -> int:
    """How many vGPUs of its type the GPU is to have."""
    number = all_of_it
    if assigned.share is not None:
        number = assigned.share.count
    elif assigned.listed_share is not None:
        number = assigned.listed_share
    elif assigned.gpu.name not in assigned.functions:
        number = len(assigned.functions)  # the operator listed them
    cap = assigned.declared.max_instances
    return number if cap is None else min(number, cap)


def _list_others(
    found: policies.GPUInput,
    gone: Container[str],
    creations: Iterable[steps.VGPUStep],
) -> Iterator[values.MigType]:
    """The types of the vGPUs that stay, and of those that come back."""
    modes = found.assigned.modes if found.assigned else values.GPUModes()
    types = [
        found.type_of(vgpu)
        for vgpu in found.gpu.all_vgpus
        if vgpu.name not in gone
    ]
    wanted = map(steps.type_in, creations)
    types += [values.VGPUType(name, name) for name in wanted]
    for vgpu_type in types:
        told = mig_capacity.find_told(vgpu_type, modes)
        if told is not None:
            yield told
