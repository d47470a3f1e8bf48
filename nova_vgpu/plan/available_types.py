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

"""The types that GPUs offer, for messages."""

import collections
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import type_matching
from nova_vgpu.plan import typos

_SHOWN_TYPES = 12


def list_offers(
    gpu: values.PhysicalGPU, types: Sequence[values.VGPUType]
) -> str:
    """The types of a GPU; of many the first ones, and how to see the rest."""
    shown = [capabilities.short_name(t) for t in types]
    text = ', '.join(shown[:_SHOWN_TYPES])
    more = len(shown) - _SHOWN_TYPES
    if more > 0:
        command = f'nova-vgpu type list --gpu {gpu}'
        text += f' and {more} more ("{command}")'
    return text


def may_be_hidden(gpu: values.PhysicalGPU, name: str) -> bool:
    """Whether the GPU may offer a type once its vGPUs are removed.

    In the vendor-specific VFIO framework a GPU with vGPUs names only the types
    that fit beside them.

    :param name: the name of the type; an id does not name the model.
    """
    if gpu.framework is not values.Framework.VENDOR_VFIO or not gpu.all_vgpus:
        return False
    model = capabilities.model_of(gpu)
    parsed = capabilities.complete_name(name, model)
    if parsed is None or parsed.model != model:
        return False
    return capabilities.may_have(gpu, parsed)


def find_nowhere(
    declaration: values.Declaration,
    host: values.Host,
    names: Mapping[str, str],
) -> frozenset[str]:
    """The declared types that no GPU of the host offers, or may hide."""
    types = [(gpu, type_matching.list_types(gpu, names)) for gpu in host.gpus]
    return frozenset(
        declared.name
        for declared in declaration.types
        if not any(
            type_matching.find_matches(declared.name, of_gpu)
            or may_be_hidden(gpu, names.get(declared.name, declared.name))
            for gpu, of_gpu in types
        )
    )


def list_held(gpu: values.PhysicalGPU, names: Mapping[str, str]) -> str:
    """The vGPUs of a GPU by their types: ``2 of nvidia-233 (GRID T4-8Q)``."""
    there = collections.Counter(vgpu.type_id for vgpu in gpu.all_vgpus)
    return ', '.join(
        f'{count} of {values.VGPUType(type_id, names.get(type_id))}'
        for type_id, count in there.items()
    )


def find_meant(text: str, types: Iterable[values.VGPUType]) -> str | None:
    """The name or the id most similar to the text, if any is."""
    types = tuple(types)
    names = [
        name for t in types for name in (capabilities.short_name(t), t.id)
    ]
    return typos.find_nearest(text, dict.fromkeys(names)) or next(
        # "231" is the bare number of an id.
        (t.id for t in types if t.id.endswith(f'-{text}')),
        None,
    )
