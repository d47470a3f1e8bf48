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

"""Type ids whose meaning has changed.

A release of the driver may give an id to another type. A configuration that
names the id would then serve that other type without any notice. So
the names are stored (:mod:`nova_vgpu.host.type_id_store`) and compared here.
Such a configuration has to be corrected before anything is done.

A message that appears only once is easily missed. An id that nova.conf uses is
therefore stored with its old name, and reported at every run, until nova.conf
names the type instead. Without a configuration it is unknown which ids are in
use, and no new name replaces an old one.

An id that is not named now has not changed: a GPU that is full, or whose
virtual functions are disabled, may name no types.
"""

from collections.abc import Iterable
import dataclasses

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import type_matching


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
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
) -> tuple[Change, ...]:
    """The ids whose name differs from the stored one."""
    names = type_matching.list_type_names(host)
    in_use = _list_ids(declaration)
    return tuple(
        Change(type_id, old, names[type_id], in_use.get(type_id.casefold()))
        for type_id, old in remembered
        if type_id in names
        and not type_matching.is_same_name(old, names[type_id])
    )


def find_in_use(
    remembered: values.TypeNames,
    host: values.Host,
    declaration: values.Declaration,
) -> tuple[Change, ...]:
    """The changes of ids that the configuration contains."""
    changes = find_changes(remembered, host, declaration)
    return tuple(change for change in changes if change.option is not None)


def is_concerned(
    declared: values.DeclaredType, changes: Iterable[Change]
) -> bool:
    """Whether a type is declared by one of these ids."""
    written = _plain(declared.name)
    return any(change.id.casefold() == written for change in changes)


def make_problem(change: Change) -> values.Problem:
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


def list_names(
    remembered: values.TypeNames,
    host: values.Host,
    declaration: values.Declaration,
) -> values.TypeNames:
    """The names to store.

    Ids that no GPU names now stay in the store.
    """
    changes = find_changes(remembered, host, declaration)
    names = dict(remembered) | type_matching.list_type_names(host)
    for change in changes:
        if change.option is not None or not declaration.types:
            names[change.id] = change.old
    return tuple(sorted(names.items()))


def _list_ids(declaration: values.Declaration) -> dict[str, str]:
    """The enabled types as written, and their option."""
    return {
        _plain(declared.name): declaration.types_option
        for declared in declaration.types
    }


def _plain(written: str) -> str:
    return written.strip().casefold()
