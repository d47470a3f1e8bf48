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

"""A list that is filtered, in order, and in pages.

All of it is in the query string of the URL, so that a page can be loaded
again, kept as a bookmark or sent to a colleague. What a query string has too
much or wrong is ignored: it may be old, or written by hand.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import re
import typing
import urllib.parse

T = typing.TypeVar('T')

#: What a filter is set to for entries that do not have the value.
UNKNOWN = 'unknown'

_SORT = 'sort'
_PAGE = 'page'
_DESCENDING = '-'
_WHOLE = '='
_NUMBER = re.compile(r'([0-9]+)', re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where a reader is in a list."""

    filters: tuple[tuple[str, str], ...] = ()
    sort: str = ''
    is_descending: bool = False
    page: int = 1

    def filter_of(self, name: str) -> str:
        """What is filtered for, or an empty text."""
        return dict(self.filters).get(name, '')

    def sorted_by(self, name: str) -> 'Place':
        """The first page in this order; the other way round if it is so."""
        is_descending = self.sort == name and not self.is_descending
        return Place(self.filters, name, is_descending)

    def on_page(self, page: int) -> 'Place':
        return dataclasses.replace(self, page=page)

    def encode(self) -> str:
        """The query string."""
        query = list(self.filters)
        if self.sort:
            prefix = _DESCENDING if self.is_descending else ''
            query.append((_SORT, f'{prefix}{self.sort}'))
        if self.page > 1:
            query.append((_PAGE, str(self.page)))
        return urllib.parse.urlencode(query)


@dataclasses.dataclass(frozen=True, slots=True)
class Rules(typing.Generic[T]):
    """How the entries of a list are filtered and put in order."""

    filters: Mapping[str, Callable[[T, str], bool]]
    orders: Mapping[str, Callable[[T], typing.Any]]
    default: str

    def parse(self, query: Mapping[str, str]) -> Place:
        """The place that a query string means."""
        given = query.get(_SORT, '')
        sort = given.removeprefix(_DESCENDING)
        number = query.get(_PAGE, '')
        return Place(
            tuple(
                (name, query[name].strip())
                for name in self.filters
                if query.get(name, '').strip()
            ),
            sort if sort in self.orders else self.default,
            sort in self.orders and given != sort,
            _parse_page(number),
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Page(typing.Generic[T]):
    """The entries of one page; ``found`` counts those of all pages.

    ``first`` and ``last`` are numbers of entries from 1, or 0 without any.
    """

    entries: tuple[T, ...]
    place: Place
    found: int
    first: int
    last: int
    pages: int

    @property
    def previous(self) -> str | None:
        """The query string of the page before, if there is one."""
        page = self.place.page
        return self.place.on_page(page - 1).encode() if page > 1 else None

    @property
    def next(self) -> str | None:
        page = self.place.page
        if page >= self.pages:
            return None
        return self.place.on_page(page + 1).encode()


def put_in_order(
    place: Place, entries: Iterable[T], rules: Rules[T]
) -> tuple[T, ...]:
    """All that the filters of a place select, in its order."""
    found = [
        entry
        for entry in entries
        if all(
            rules.filters[name](entry, text) for name, text in place.filters
        )
    ]
    # Twice, so that entries that are equal stay in the usual order.
    found.sort(key=rules.orders[rules.default])
    found.sort(key=rules.orders[place.sort], reverse=place.is_descending)
    return tuple(found)


def turn_to(
    place: Place, entries: Iterable[T], rules: Rules[T], size: int
) -> Page[T]:
    """The page of a list; the last one if there are fewer."""
    found = put_in_order(place, entries, rules)
    pages = max(-(-len(found) // size), 1)
    page = min(place.page, pages)
    start = (page - 1) * size
    end = min(start + size, len(found))
    return Page(
        found[start:end],
        place.on_page(page),
        len(found),
        min(start + 1, end),
        end,
        pages,
    )


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A key by which "compute10" comes after "compute9"."""
    return tuple(
        _order_number(part) if part.isdecimal() else (1, 0, part.casefold())
        for part in _NUMBER.split(text)
    )


def _order_number(digits: str) -> tuple[int, int, str]:
    """Longer numbers are larger. Python reads no more than 4,300 digits."""
    significant = digits.lstrip('0')
    return 0, len(significant), significant


def is_found(name: str, text: str) -> bool:
    """Whether a name has a text in it, or is the one after "="."""
    if text.startswith(_WHOLE):
        return name == text.removeprefix(_WHOLE)
    return text.casefold() in name.casefold()


def list_choices(values: Iterable[str | None]) -> Sequence[str]:
    """What a filter can be set to."""
    return sorted({value for value in values if value}, key=natural)


def pair_choices(
    values: Iterable[str | None],
) -> list[tuple[str, typing.Any]]:
    """The same with their texts, which are the values."""
    return [(value, value) for value in list_choices(values)]


def _parse_page(text: str) -> int:
    # More digits would only cost time.
    if text.isascii() and text.isdecimal() and len(text) < 10:
        return max(int(text), 1)
    return 1
