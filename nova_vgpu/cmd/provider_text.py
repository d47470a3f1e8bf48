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

"""Formats of providers and their changes."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
import dataclasses
import itertools
import typing

from cliff import columns

from nova_vgpu import values

# The root of a compute node has some eighty others.
_SHOWN_TRAITS = ('CUSTOM_', 'HW_GPU_', 'OWNER_')
# A GPU has some fifty of these.
_FAMILIES = ('HW_GPU_API_', 'HW_GPU_RESOLUTION_')


class Name(columns.FormattableColumn[tuple[str, str, int]]):
    """A provider's name; for people, indented by its depth in the tree.

    Names of devices start with that of their node, which is left out below the
    node.
    """

    indent = '  '

    def human_readable(self) -> str:
        name, node, depth = self._value
        shown = name.removeprefix(f'{node}_') if depth else name
        return f'{self.indent * depth}{shown}'

    def machine_readable(self) -> typing.Any:
        return self._value[0]


class _Flat(Name):
    """A name without a tree."""

    indent = ''


class Inventories(columns.FormattableColumn[values.PlacementProvider]):
    """One line for each resource class; everything for machines."""

    def human_readable(self) -> str:
        return '\n'.join(
            _describe_usage(inventory, self._value)
            for inventory in self._value.inventories
        )

    def machine_readable(self) -> typing.Any:
        return [
            {
                **dataclasses.asdict(inventory),
                'used': self._value.used_of(inventory.resource_class),
            }
            for inventory in self._value.inventories
        ]


class Traits(columns.FormattableColumn[tuple[str, ...]]):
    """Traits of GPUs; all of them for machines."""

    def human_readable(self) -> str:
        shown = (t for t in self._value if t.startswith(_SHOWN_TRAITS))
        return '\n'.join(_fold(shown))

    def machine_readable(self) -> typing.Any:
        return list(self._value)


class Details(columns.FormattableColumn[values.Change]):
    """The details of a change; every trait for machines."""

    def human_readable(self) -> str:
        return '\n'.join(_details(self._value, _fold))

    def machine_readable(self) -> typing.Any:
        return list(_details(self._value, list))


class Several(columns.FormattableColumn[tuple[typing.Any, ...]]):
    """Several columns in one, for people only."""

    def human_readable(self) -> str:
        texts = (column.human_readable() for column in self._value)
        return '\n'.join(text for text in texts if text)


def list_lines(change: values.Change) -> Iterator[str]:
    """A change as a line, and its details below."""
    yield str(change)
    if not isinstance(change, values.CreateTrait | values.CreateResourceClass):
        for detail in _details(change, _fold):
            yield f'  {detail}'


def make_row(change: values.Change, node: str) -> tuple[typing.Any, ...]:
    """A change as its kind, its provider and the details."""
    of, _, what = str(change).rpartition(': ')
    if isinstance(change, values.CreateTrait | values.CreateResourceClass):
        what = what.removesuffix(f' {change.name}')
        return (what, '-', Details(change))
    return (what, _Flat((of, node, int(of != node))), Details(change))


_Fold = Callable[[Iterable[str]], Iterable[str]]


def _details(change: values.Change, fold: _Fold) -> Iterator[str]:
    match change:
        case values.SetTraits():
            yield from (f'+ {trait}' for trait in fold(change.added))
            yield from (f'- {trait}' for trait in fold(change.removed))
        case values.SetInventories():
            before = {i.resource_class: i for i in change.before}
            after = {i.resource_class: i for i in change.after}
            for name in sorted({*before, *after}):
                old, new = before.get(name), after.get(name)
                if old != new:
                    yield f'{name}: {_describe(old)} -> {_describe(new)}'
        case values.Reshape():
            for move in change.moves:
                target = move.target.removeprefix(f'{change.name}_')
                yield f'{move.consumer}: {move.resource_class} to {target}'
        case values.CreateTrait() | values.CreateResourceClass():
            yield change.name


def _fold(found: Iterable[str]) -> Iterator[str]:
    """The traits, those of a large family as one."""
    for family, members in itertools.groupby(sorted(found), _family):
        listed = list(members)
        if family and len(listed) > 1:
            yield f'{family}* ({len(listed)})'
        else:
            yield from listed


def _family(trait: str) -> str:
    for family in _FAMILIES:
        if trait.startswith(family):
            return family
    return ''


def _describe(inventory: values.Inventory | None) -> str:
    if inventory is None:
        return 'none'
    if not inventory.reserved:
        return str(inventory.total)
    return f'{inventory.total}, {inventory.reserved} reserved'


def _describe_usage(
    inventory: values.Inventory, held: values.PlacementProvider
) -> str:
    used = held.used_of(inventory.resource_class)
    text = f'{inventory.resource_class}: {used} of {inventory.total}'
    if inventory.reserved:
        text += f', {inventory.reserved} reserved'
    return text
