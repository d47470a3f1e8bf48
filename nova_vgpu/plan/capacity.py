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
                the type's maximum per GPU, else its share of the memory,
                max_instances)

The functions' own numbers are not enough: each of 48 VFs shows room for one,
even if the GPU can have 32 only.

The total is never less than the number of existing vGPUs: servers may use all
of them, and a smaller inventory breaks their migrations. So a lower limit only
prevents further vGPUs.
"""

import collections
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import type_matching


def plan_capacity(
    gpu: values.PhysicalGPU,
    vgpu_type: values.VGPUType,
    functions: frozenset[str],
    max_instances: int | None,
    names: Mapping[str, str],
) -> values.Capacity:
    """The capacity of a GPU for a type, with its limit.

    :param functions: the functions of the GPU that may have vGPUs.
    :param names: the names of types, also of those that the GPU no longer
        offers.
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
    bounds = [(existing + room, 'VFs' if gpu.vfs else 'driver')]
    if gpu.framework is not values.Framework.MDEV:
        # A virtual function has one vGPU at most, whatever it shows.
        usable = sum(vf.name in functions for vf in gpu.vfs)
        bounds.append((usable, 'VFs'))
    if most is not None:
        maximum, why = most
        left = _reduce(maximum, gpu, vgpu_type, functions, names)
        bounds.append((left, why))
    if max_instances is not None:
        bounds.append((max_instances, 'max_instances'))
    total, bound = min(bounds, key=lambda item: item[0])
    if total < existing:
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
    gpu: values.PhysicalGPU, vgpu_type: values.VGPUType
) -> bool:
    """Whether the maximum of the type on the GPU is known.

    For a type that is backed by MIG it depends on the number of GPU instances
    of its size.
    """
    if capabilities.is_backed_by_mig(vgpu_type):
        return False
    return capabilities.facts_of(gpu, vgpu_type).max_instances is not None


def _reduce(
    maximum: int,
    gpu: values.PhysicalGPU,
    vgpu_type: values.VGPUType,
    functions: frozenset[str],
    names: Mapping[str, str],
) -> int:
    """What the GPU's other vGPUs leave of its maximum of a type.

    Others are those of another type, or on functions that are not used here.
    """
    by_id = {t.id: t for t in type_matching.list_types(gpu, names)}
    others = [
        by_id[vgpu.type_id]
        for vgpu in gpu.all_vgpus
        if vgpu.type_id != vgpu_type.id or vgpu.function not in functions
    ]
    if not capabilities.is_backed_by_mig(vgpu_type):
        return max(maximum - _count_units(gpu, vgpu_type, others), 0)
    own = _mig_size(vgpu_type)
    alike = sum(_mig_size(other) == own for other in others)
    elsewhere = [other for other in others if _mig_size(other) != own]
    shape = capabilities.mig_shape(gpu, vgpu_type)
    if shape is not None:
        left = max(shape.gpu_slices - _count_slices(gpu, elsewhere), 0)
        maximum = min(maximum, left // shape.slices * shape.vgpus)
    return max(maximum - alike, 0)


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


def _count_slices(
    gpu: values.PhysicalGPU, others: Sequence[values.VGPUType]
) -> int:
    """How many slices of the GPU the instances of other vGPUs use.

    An instance has vGPUs of one size, as many of them as fit.
    """
    slices = 0
    by_size = collections.Counter(map(_mig_size, others))
    for other in {_mig_size(other): other for other in others}.values():
        shape = capabilities.mig_shape(gpu, other)
        count = by_size[_mig_size(other)]
        slices += -(-count // shape.vgpus) * shape.slices if shape else count
    return slices


def _mig_size(vgpu_type: values.VGPUType) -> tuple[int | None, int] | None:
    """What vGPUs of one GPU instance have in common; their series may differ.

    (As bigstack-oss/cubecos found on an RTX PRO 6000 Blackwell.)
    """
    name = capabilities.parse_type_name(vgpu_type.name or '')
    return (name.slices, name.framebuffer_mib) if name else None
