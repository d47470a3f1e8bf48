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

"""Ids of types that mean something else than they did.

A release of the driver may give an id to another type. A configuration that
names the id would then serve that other type, and nothing else would tell. So
the names are stored (:mod:`nova_vgpu.host.type_id_store`) and compared here.
Such a configuration has to be corrected before anything is done.

What is told once and then forgotten is easily missed. An id that nova.conf
uses is therefore remembered with its old name, and told at every run, until
nova.conf names the type instead. Without a configuration it is not known
which ids are in use, and no new meaning takes the place of an old one.

An id that nothing names now has not changed: a GPU that is full, or whose
virtual functions are off, may name no types.
"""

from collections.abc import Iterable
from collections.abc import Iterator
import dataclasses

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import type_matching

Names = tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """An id that had another name before.

    ``option`` is where the id itself is written, None if it is not.
    """

    id: str
    old: str
    new: str
    option: str | None = None


def find_changes(
    remembered: Names, host: values.Host, declaration: values.Declaration
) -> tuple[Change, ...]:
    """The ids that mean another type than they are remembered to."""
    names = type_matching.list_type_names(host)
    in_use = _list_ids(declaration)
    return tuple(
        Change(type_id, old, names[type_id], in_use.get(type_id.casefold()))
        for type_id, old in remembered
        if type_id in names
        and not type_matching.is_same_name(old, names[type_id])
    )


def find_in_use(
    remembered: Names, host: values.Host, declaration: values.Declaration
) -> tuple[Change, ...]:
    """Those changes that concern the configuration: it has the id itself."""
    changes = find_changes(remembered, host, declaration)
    return tuple(change for change in changes if change.option is not None)


def is_concerned(
    declared: values.DeclaredType, changes: Iterable[Change]
) -> bool:
    """Whether a type is declared by one of these ids."""
    written = _plain(declared.name)
    return any(change.id.casefold() == written for change in changes)


def make_problem(change: Change) -> values.Problem:
    """What to tell of an id that the configuration has."""
    option = change.option or ''
    old, new = (
        capabilities.short_name(values.VGPUType(change.id, name))
        for name in (change.old, change.new)
    )
    return values.Problem(
        values.Severity.FATAL,
        'type-id-changed',
        option,
        f'{option}: {change.id} meant {change.old} on this host so far and '
        f'means {change.new} now.',
        'Write the type by its name, also in the name of its section: '
        f'{old} for what was served so far, {new} if that is wanted from now '
        'on.',
    )


def list_lost(why: str | None) -> Iterator[values.Problem]:
    """That nothing can be compared, if there is a reason why."""
    if why is not None:
        yield values.Problem(
            values.Severity.WARNING,
            'type-memory-lost',
            'types.json',
            f'What ids of types meant so far cannot be read: {why}',
            'Write types by name, or see that the ids in nova.conf mean what '
            'they should: "nova-vgpu type list". Then run "nova-vgpu doctor" '
            'as root, which puts a damaged file away.',
        )


def list_names(
    remembered: Names, host: values.Host, declaration: values.Declaration
) -> Names:
    """What to remember from now on.

    Ids that are not seen are kept.
    """
    changes = find_changes(remembered, host, declaration)
    names = dict(remembered) | type_matching.list_type_names(host)
    for change in changes:
        if change.option is not None or not declaration.types:
            names[change.id] = change.old
    return tuple(sorted(names.items()))


def _list_ids(declaration: values.Declaration) -> dict[str, str]:
    """What is enabled, as it is written, and where it is."""
    return {
        _plain(declared.name): declaration.types_option
        for declared in declaration.types
    }


def _plain(written: str) -> str:
    return written.strip().casefold()
