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

"""Which of a GPU's types an operator means.

A type is declared by id, by the vendor's name or by the short form of that.
An exact match with the driver's spelling has precedence; then the parts of the
name decide, so that another brand in the driver's name (GRID, NVIDIA) changes
nothing. More than one match is ambiguous.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import functools

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.knowledge import vendors


def list_type_names(host: values.Host) -> dict[str, str]:
    """The name of every type id that any GPU of the host names.

    Ids belong to the driver, not to the GPU: other GPUs provide the names for
    a full GPU, which lists no types in the vendor-specific VFIO framework.
    """
    names = dict(host.type_names)
    for gpu in host.gpus:
        names.update((t.id, t.name) for t in gpu.types if t.name)
    return names


def list_types(
    gpu: values.PhysicalGPU, names: Mapping[str, str]
) -> tuple[values.VGPUType, ...]:
    """The types that a GPU offers and those that it has vGPUs of."""
    types = {vgpu_type.id: vgpu_type for vgpu_type in gpu.types}
    for vgpu in gpu.all_vgpus:
        if vgpu.type_id not in types:
            types[vgpu.type_id] = values.VGPUType(
                vgpu.type_id, names.get(vgpu.type_id)
            )
    return tuple(types.values())


def find_matches(
    declared: str, types: Iterable[values.VGPUType]
) -> tuple[values.VGPUType, ...]:
    """The types that the text can mean."""
    types = tuple(types)
    wanted = _plain(declared)
    if not wanted:
        return ()  # and not every type without a name
    exact = tuple(t for t in types if wanted in (_plain(t.id), _plain(t.name)))
    if exact:
        return exact
    return tuple(t for t in types if t.name and _is_meant(declared, t.name))


def is_same_name(one: str, other: str) -> bool:
    """Whether two names mean the same type, whatever their brands."""
    if _plain(one) == _plain(other):
        return True
    return _is_meant(one, other)


def _plain(text: str | None) -> str | None:
    return ' '.join(text.split()).casefold() if text else None


@functools.lru_cache(maxsize=4096)
def _is_meant(declared: str, name: str) -> bool:
    """Whether an operator's text means the type that has a driver's name."""
    parsed = capabilities.parse_type_name(name)
    if parsed is None:
        return False
    if _plain(declared) == _plain(parsed.short):
        return True  # also without a series, if the name has none
    meant = capabilities.complete_name(declared, parsed.model)
    return meant is not None and _parts(meant) == _parts(parsed)


def _parts(name: vendors.TypeName) -> tuple[object, ...]:
    """The parts that identify a type, without the brand."""
    plain = dataclasses.replace(name, brand='', model=name.model.casefold())
    return dataclasses.astuple(plain)
