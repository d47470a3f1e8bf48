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

"""Which of a GPU's types an operator means, and what ids of types mean.

A type is declared by id, by the vendor's name or by the short form of that.
An exact match with the driver's spelling has precedence; then the parts of the
name decide, so that another brand in the driver's name (GRID, NVIDIA) changes
nothing. More than one match is ambiguous.

A release of the driver may give an id to another type. A configuration that
names the id would then serve that other type without any notice. So the names
are stored (:mod:`nova_vgpu.host.state_files`) and compared here. Such a
configuration has to be corrected before anything is done.

A message that appears only once is easily missed. An id that nova.conf uses is
therefore stored with its old name, and reported at every run, until nova.conf
names the type instead. Without a configuration it is unknown which ids are in
use, and no new name replaces an old one.

An id that is not named now has not changed: a GPU that is full, or whose
virtual functions are disabled, may name no types.
"""

import collections
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import functools

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.knowledge import vendors
from nova_vgpu.plan import typos

_SHOWN_TYPES = 12


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


def may_need_modes(
    declared: Iterable[values.DeclaredType], names: Mapping[str, str]
) -> bool:
    """Whether a plan may depend on modes of GPUs, as far as that is known.

    It does if a type is backed by MIG, or if a GPU may be divided.
    """
    return any(
        any(entry.share for entry in of_type.listed)
        or capabilities.is_backed_by_mig(
            values.VGPUType(
                of_type.name, names.get(of_type.name, of_type.name)
            )
        )
        for of_type in declared
    )


def find_nowhere(
    declaration: values.Declaration,
    host: values.Host,
    names: Mapping[str, str],
) -> frozenset[str]:
    """The declared types that no GPU of the host offers, or may hide."""
    types = [(gpu, list_types(gpu, names)) for gpu in host.gpus]
    return frozenset(
        declared.name
        for declared in declaration.types
        if not any(
            find_matches(declared.name, of_gpu)
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


@dataclasses.dataclass(frozen=True, slots=True)
class TypeChange:
    """An id that had another name before.

    ``option`` contains the id, None if no option does.
    """

    id: str
    old: str
    new: str
    option: str | None = None


def find_changes(
    remembered: values.TypeNames,
    host: values.Host,
    declaration: values.Declaration,
) -> tuple[TypeChange, ...]:
    """The ids whose name differs from the stored one."""
    names = list_type_names(host)
    declared = {_plain(declared.name) for declared in declaration.types}
    return tuple(
        TypeChange(
            type_id,
            old,
            names[type_id],
            declaration.types_option if _plain(type_id) in declared else None,
        )
        for type_id, old in remembered
        if type_id in names and not is_same_name(old, names[type_id])
    )


def find_changes_in_use(given: values.PlanInput) -> tuple[TypeChange, ...]:
    """The changes of ids that the configuration contains."""
    configuration = given.configuration
    changes = find_changes(
        configuration.type_names, given.host, configuration.declaration
    )
    return tuple(change for change in changes if change.option is not None)


def is_changed(
    declared: values.DeclaredType, changes: Iterable[TypeChange]
) -> bool:
    """Whether a type is declared by one of these ids."""
    written = _plain(declared.name)
    return any(_plain(change.id) == written for change in changes)


def make_change_problem(change: TypeChange) -> values.Problem:
    """The problem for an id that the configuration contains."""
    option = change.option or ''
    old, new = (
        capabilities.short_name(values.VGPUType(change.id, name))
        for name in (change.old, change.new)
    )
    return values.Problem(
        values.Severity.FATAL,
        'type-id-changed',
        option,
        f'{option}: {change.id} was {change.old} on this host before and is '
        f'{change.new} now.',
        'Declare the type by name, also in the name of its section: '
        f'{old} for what was served so far, {new} if that is wanted from now '
        'on.',
    )


def list_names_to_store(
    remembered: values.TypeNames,
    host: values.Host,
    declaration: values.Declaration,
) -> values.TypeNames:
    """The names to store.

    Ids that no GPU names now stay in the store.
    """
    changes = find_changes(remembered, host, declaration)
    names = dict(remembered) | list_type_names(host)
    for change in changes:
        if change.option is not None or not declaration.types:
            names[change.id] = change.old
    return tuple(sorted(names.items()))
