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

"""How many vGPUs of its type a GPU can serve.

::

    total = min(existing of the type + room on its functions, usable VFs,
                what its GPU instances have if NVML tells them, else the
                type's maximum per GPU, else its share of the memory,
                max_instances, the number that is written with the GPU)

The functions' own numbers are not enough: each of 48 VFs shows room for one,
even if the GPU can have 32 only.

The total is never less than the number of existing vGPUs: servers may use all
of them, and a smaller inventory breaks their migrations. So a lower limit only
prevents further vGPUs. Virtual functions that the kernel provisioned are all
there whether they are served or not: of those a limit leaves the rest unused.

On a GPU that is divided, the vGPUs of the other types count as many as they
are to be, or as many as there are if that is more.
"""

import collections
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import mig_capacity
from nova_vgpu.plan import shares
from nova_vgpu.plan import type_matching


@dataclasses.dataclass(frozen=True, slots=True)
class _Other:
    """A vGPU beside those of a type: it is there, or is to be.

    ``type`` is None if that is unknown. It is on one of the ``functions``.
    """

    type: values.VGPUType | None
    functions: frozenset[str]


def plan_capacity(
    gpu: values.PhysicalGPU,
    vgpu_type: values.VGPUType,
    functions: frozenset[str],
    max_instances: int | None,
    names: Mapping[str, str],
    modes: values.GPUModes,
    share: int | None = None,
    beside: Sequence[values.Share] = (),
) -> values.Capacity:
    """The capacity of a GPU for a type, with its limit.

    :param functions: the functions of the GPU that may have vGPUs.
    :param names: the names of types, also of those that the GPU no longer
        offers.
    :param modes: those of the GPU, with its GPU instances if NVML tells them.
    :param share: how many vGPUs of the type the GPU is to serve.
    :param beside: what else the GPU is to serve.
    """
    offers = {gpu.name: gpu.offers} | {vf.name: vf.offers for vf in gpu.vfs}
    existing = sum(
        vgpu.type_id == vgpu_type.id and vgpu.function in functions
        for vgpu in gpu.all_vgpus
    )
    room = sum(
        offer.available
        for function in functions
        for offer in offers.get(function, ())
        if offer.type.id == vgpu_type.id
    )
    most = find_maximum(gpu, vgpu_type, names)
    others = _list_others(gpu, vgpu_type, functions, names, beside)
    bounds = [] if share is None else [(share, 'share')]
    bounds.append((existing + room, 'VFs' if gpu.vfs else 'driver'))
    if gpu.framework is not values.Framework.MDEV:
        # A virtual function has one vGPU at most, whatever it shows.
        usable = sum(vf.name in functions for vf in gpu.vfs)
        if beside:
            usable -= sum(
                not o.functions.isdisjoint(functions) for o in others
            )
        bounds.append((max(usable, 0), 'VFs'))
    types = [other.type for other in others if other.type]
    in_instances = mig_capacity.count_vgpus(gpu, vgpu_type, modes, types)
    if in_instances is not None:
        bounds.append((in_instances, 'GPU instances'))
    elif most is not None:
        maximum, why = most
        left = _reduce(maximum, gpu, vgpu_type, types, bool(beside))
        bounds.append((left, why))
    if max_instances is not None:
        bounds.append((max_instances, 'max_instances'))
    total, bound = min(bounds, key=lambda item: item[0])
    if total < existing and gpu.framework is not values.Framework.VF_PROFILES:
        total, bound = existing, 'existing vGPUs'
    return values.Capacity(total, existing, room, bound)


def find_maximum(
    gpu: values.PhysicalGPU,
    vgpu_type: values.VGPUType,
    names: Mapping[str, str],
) -> tuple[int, str] | None:
    """The maximum of vGPUs of a type on an empty GPU, and its source.

    From the driver or the catalogue; else as many as fit into its memory.
    """
    maximum = capabilities.facts_of(gpu, vgpu_type).max_instances
    if maximum is not None:
        return maximum, 'type maximum'
    own = capabilities.parse_type_name(vgpu_type.name or '')
    if own is None:
        return None
    on_gpu = [t.name for t in type_matching.list_types(gpu, names)]
    shown = _list_sizes(own.model, on_gpu)
    sizes = _list_sizes(own.model, (*on_gpu, *names.values()))
    whole = max(sizes, default=0)
    if (
        gpu.framework is values.Framework.VENDOR_VFIO
        and gpu.all_vgpus
        and whole <= max(shown, default=0)
    ):
        return None  # it only names types that fit beside its vGPUs
    return max(whole // own.framebuffer_mib, 1), 'memory'


def _list_sizes(model: str, names: Iterable[str | None]) -> list[int]:
    """The frame buffers of a model's types; the largest takes a whole GPU."""
    parsed = (capabilities.parse_type_name(name or '') for name in names)
    return [
        name.framebuffer_mib for name in parsed if name and name.model == model
    ]


def is_maximum_known(
    gpu: values.PhysicalGPU, vgpu_type: values.VGPUType, modes: values.GPUModes
) -> bool:
    """Whether the maximum of the type on the GPU is known.

    For a type that is backed by MIG it depends on the number of GPU instances
    of its size.
    """
    if capabilities.is_backed_by_mig(vgpu_type):
        counted = mig_capacity.count_vgpus(gpu, vgpu_type, modes, ())
        return counted is not None
    return capabilities.facts_of(gpu, vgpu_type).max_instances is not None


def _list_others(
    gpu: values.PhysicalGPU,
    vgpu_type: values.VGPUType,
    functions: frozenset[str],
    names: Mapping[str, str],
    beside: Iterable[values.Share],
) -> list[_Other]:
    """The vGPUs that take up room beside those of a type.

    They are of another type, or on functions that are not used here.
    """
    by_id = {t.id: t for t in type_matching.list_types(gpu, names)}
    there = [
        _Other(by_id[vgpu.type_id], frozenset({vgpu.function}))
        for vgpu in gpu.all_vgpus
        if vgpu.type_id != vgpu_type.id or vgpu.function not in functions
    ]
    others: list[_Other] = []
    for share in beside:
        found = shares.type_of(share, gpu, names)
        own = [
            other
            for other in there
            if found is not None
            and other.type == by_id.get(found.id)
            and other.functions <= share.functions
        ]
        there = [other for other in there if other not in own]
        count = max(share.count, len(own))
        others += [_Other(found, share.functions)] * count
    return others + there


def _reduce(
    maximum: int,
    gpu: values.PhysicalGPU,
    vgpu_type: values.VGPUType,
    others: Sequence[values.VGPUType],
    is_divided: bool,
) -> int:
    """What other vGPUs leave of the maximum of a type."""
    if not capabilities.is_backed_by_mig(vgpu_type):
        if is_divided:
            left = _count_in_memory(maximum, gpu, vgpu_type, others)
            if left is not None:
                return min(maximum, left)
        return max(maximum - _count_units(gpu, vgpu_type, others), 0)
    own = mig_size(vgpu_type)
    alike = sum(mig_size(other) == own for other in others)
    elsewhere = [other for other in others if mig_size(other) != own]
    shape = capabilities.mig_shape(gpu, vgpu_type)
    if shape is not None:
        used, used_memory = count_slices(gpu, elsewhere)
        left = min(
            (shape.gpu_slices - used) // shape.slices,
            (shape.gpu_memory_slices - used_memory) // shape.memory_slices,
        )
        maximum = min(maximum, max(left, 0) * shape.vgpus)
    return max(maximum - alike, 0)


def find_memory(
    gpu: values.PhysicalGPU, types: Iterable[values.VGPUType]
) -> int | None:
    """The frame buffer in MiB that the GPU has for time-sliced vGPUs.

    As much as the maximum of any of these types has; None if that is unknown
    for all of them.
    """
    sizes = [
        facts.framebuffer_mib * facts.max_instances
        for facts in (capabilities.facts_of(gpu, t) for t in types)
        if facts.framebuffer_mib and facts.max_instances
    ]
    return max(sizes, default=None)


def _count_in_memory(
    maximum: int,
    gpu: values.PhysicalGPU,
    vgpu_type: values.VGPUType,
    others: Sequence[values.VGPUType],
) -> int | None:
    """How many vGPUs of a type the memory has room for, beside others.

    None if a size is unknown.
    """
    own = capabilities.facts_of(gpu, vgpu_type).framebuffer_mib
    sizes = [capabilities.facts_of(gpu, t).framebuffer_mib for t in others]
    known = [size for size in sizes if size]
    if not own or len(known) < len(sizes):
        return None
    memory = find_memory(gpu, (vgpu_type, *others)) or own * maximum
    return max(memory - sum(known), 0) // own


def _count_units(
    gpu: values.PhysicalGPU,
    vgpu_type: values.VGPUType,
    others: Iterable[values.VGPUType],
) -> int:
    """How many vGPUs of a time-sliced type the others displace.

    By frame buffer if both sizes are known (4C displaces one 4Q, 8Q two), else
    one each.
    """
    own = capabilities.facts_of(gpu, vgpu_type).framebuffer_mib
    units = 0
    for other in others:
        size = capabilities.facts_of(gpu, other).framebuffer_mib
        units += max(-(-size // own), 1) if size and own else 1
    return units


def count_slices(
    gpu: values.PhysicalGPU, others: Sequence[values.VGPUType]
) -> tuple[int, int]:
    """How many slices of the GPU, and of its memory, other vGPUs use.

    An instance has vGPUs of one size, as many of them as fit.
    """
    slices = memory_slices = 0
    by_size = collections.Counter(map(mig_size, others))
    for other in {mig_size(other): other for other in others}.values():
        shape = capabilities.mig_shape(gpu, other)
        count = by_size[mig_size(other)]
        instances = -(-count // shape.vgpus) if shape else count
        slices += instances * (shape.slices if shape else 1)
        memory_slices += instances * (shape.memory_slices if shape else 1)
    return slices, memory_slices


def mig_size(vgpu_type: values.VGPUType) -> tuple[int | None, int] | None:
    """What vGPUs of one GPU instance have in common; their series may differ.

    (As bigstack-oss/cubecos found on an RTX PRO 6000 Blackwell.)
    """
    name = capabilities.parse_type_name(vgpu_type.name or '')
    return (name.slices, name.framebuffer_mib) if name else None
