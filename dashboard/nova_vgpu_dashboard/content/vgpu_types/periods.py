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
"""The period of the usage page, as the query string has it.

It is one of a few that end now, or goes from one day to another. Days are
those of UTC, as in Nova's usage records.
"""

from collections.abc import Mapping
import dataclasses
import datetime

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from nova_vgpu import exception
from nova_vgpu.cloud import names
from nova_vgpu_dashboard import listing

Filters = tuple[tuple[str, str], ...]

PERIOD, START, END = 'period', 'start', 'end'
_DAY = datetime.timedelta(days=1)
#: The periods that end now, and their texts.
LAST = {
    'day': (_DAY, _('Last 24 hours')),
    'week': (7 * _DAY, _('Last 7 days')),
    'month': (30 * _DAY, _('Last 30 days')),
}
_DEFAULT = 'month'
#: Of the two fields for days.
FIRST_DAY = _('First day')
LAST_DAY = _('Last day')


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for; ``last`` is empty if days were given."""

    last: str = _DEFAULT
    start: str = ''
    end: str = ''


@dataclasses.dataclass(frozen=True, slots=True)
class Period:
    """From one moment until another, which is not part of it."""

    start: datetime.datetime
    end: datetime.datetime


def parse(query: Mapping[str, str]) -> Asked:
    start, end = query.get(START, '').strip(), query.get(END, '').strip()
    if start or end:
        return Asked('', start, end)
    last = query.get(PERIOD, '')
    return Asked(last if last in LAST else _DEFAULT)


def find_period(asked: Asked, now: datetime.datetime) -> Period:
    """The period that is meant.

    :raises UsageError: if a day is not a date, or the first one is missing.
    """
    if asked.last:
        # Nova cuts it off at the present, by its own clock.
        return Period(now - LAST[asked.last][0], now + _DAY)
    if not asked.start:
        raise exception.UsageError(
            gettext('Give a date for "%s", too.') % FIRST_DAY
        )
    end = _parse_day(asked.end) + _DAY if asked.end else now + _DAY
    return Period(_parse_day(asked.start), end)


def split(filters: Filters) -> tuple[Filters, Filters]:
    """What a query string has of the period, and the rest of it."""
    in_period = (PERIOD, START, END)
    return (
        tuple(found for found in filters if found[0] in in_period),
        tuple(found for found in filters if found[0] not in in_period),
    )


def link(place: listing.Place, last: str) -> str:
    """The query string of the same list in another period."""
    _, others = split(place.filters)
    moved = dataclasses.replace(
        place, filters=((PERIOD, last), *others), page=1
    )
    return moved.encode()


def name_fields(message: str) -> str:
    """A message of the library, with fields for options of the command."""
    return message.replace('--start', f'"{FIRST_DAY}"').replace(
        '--end', f'"{LAST_DAY}"'
    )


def _parse_day(text: str) -> datetime.datetime:
    try:
        day = datetime.datetime.strptime(text, '%Y-%m-%d')
        # Not the last of all days: the period ends with the next one.
        return day.replace(tzinfo=datetime.UTC) + _DAY - _DAY
    except (ValueError, OverflowError) as error:
        raise exception.UsageError(
            gettext('"%s" is not a date. Give one such as 2026-01-31.')
            % names.printable(text)
        ) from error
