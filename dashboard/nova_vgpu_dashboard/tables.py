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

"""What the tables have in common.

The order is that of the whole list, not only of the page that is shown. So the
titles of columns are links, and Horizon's own sorting in the browser is off.
"""

import dataclasses
import functools
import typing

from django import http
from django.template import loader
from horizon import tables

from nova_vgpu_dashboard import listing
from nova_vgpu_dashboard import picture

#: The class of columns with names, which can be long.
LONG = 'nova-vgpu-long'
#: Those of columns with hosts and devices.
IDENTIFIER = f'{LONG} nova-vgpu-identifier'
#: Those of columns with sentences.
WIDE = f'{LONG} nova-vgpu-wide'
_WIDTH = 100


@dataclasses.dataclass(frozen=True, slots=True)
class Header:
    """The title of a column, and the way to have the table in its order.

    ``order`` is the value of the attribute ``aria-sort``.
    """

    column: typing.Any
    query: str | None = None
    order: str = 'none'


class OrderedTable(tables.DataTable):
    """A table whose columns lead to other orders of the list.

    In a narrow window a row is shown as a card: each cell has the title of its
    column for that.
    """

    rules: typing.ClassVar[listing.Rules[typing.Any]]

    def __init__(
        self,
        request: http.HttpRequest,
        *args: typing.Any,
        **kwargs: typing.Any,
    ) -> None:
        super().__init__(request, *args, **kwargs)
        for column in self.columns.values():
            column.cell_attributes_getter = functools.partial(
                _get_attributes, column
            )

    @property
    def headers(self) -> list[Header]:
        place = self.rules.parse(self.request.GET)
        return [
            make_header(column, place, self.rules)
            for column in self.get_columns()
        ]


def _get_attributes(
    column: typing.Any, _data: typing.Any
) -> dict[str, typing.Any]:
    return {'data-label': column.verbose_name}


def make_header(
    column: typing.Any, place: listing.Place, rules: listing.Rules[typing.Any]
) -> Header:
    name = column.name
    if name not in rules.orders:
        return Header(column)
    query = place.sorted_by(name).encode()
    if place.sort != name:
        return Header(column, query)
    order = 'descending' if place.is_descending else 'ascending'
    return Header(column, query, order)


def render_usage(used: int, reserved: int, total: int) -> str:
    """A bar, and the same in words."""
    level = picture.fill_level(used, total, _WIDTH)
    rest = _WIDTH - level
    fenced = picture.fill_level(reserved, total, _WIDTH)
    text: str = loader.render_to_string(
        'nova_vgpu_dashboard/_usage.html',
        {
            'used': used,
            'reserved': reserved,
            'total': total,
            'level': level,
            'fenced': min(fenced, rest) if used + reserved < total else rest,
        },
    )
    return text
