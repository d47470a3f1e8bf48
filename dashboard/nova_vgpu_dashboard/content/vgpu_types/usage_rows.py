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
"""What projects have used: the list on the page, its sums, and the file."""

import collections
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import typing

from django.utils.translation import gettext_lazy as _

from nova_vgpu.cloud.usage import usage
from nova_vgpu_dashboard import listing
from nova_vgpu_dashboard.content.gpus import choosers
from nova_vgpu_dashboard.content.vgpu_types import periods

#: The columns of the file: those of "openstack vgpu usage --long", and the
#: period. Not translated, for programs that read it.
COLUMNS = (
    'Project',
    'Project ID',
    'Type',
    'MiB',
    'vGPUs',
    'Servers',
    'vGPU Hours',
    'GiB Hours',
    'Start',
    'End',
)


def _by_project(found: usage.Usage, text: str) -> bool:
    return (
        text == found.project
        or text.casefold() in found.project_name.casefold()
    )


def _is_kept(_found: usage.Usage, _text: str) -> bool:
    """The period is not a filter of the list, but stays in its links."""
    return True


def _project(found: usage.Usage) -> tuple[object, ...]:
    return (listing.natural(found.project_name), found.project, *_type(found))


def _type(found: usage.Usage) -> tuple[object, ...]:
    return found.kind.name is None, listing.natural(found.kind.name or '')


RULES: listing.Rules[usage.Usage] = listing.Rules(
    filters={
        'project': _by_project,
        'type': lambda found, text: found.kind.name == text,
        periods.PERIOD: _is_kept,
        periods.START: _is_kept,
        periods.END: _is_kept,
    },
    orders={
        'project': _project,
        'type': _type,
        'vgpus': lambda found: found.vgpus,
        'servers': lambda found: found.servers,
        'hours': lambda found: found.hours,
        'gib_hours': lambda found: found.gib_hours or 0.0,
    },
    default='project',
)


def list_choosers(
    usages: Sequence[usage.Usage], place: listing.Place
) -> list[choosers.Chooser]:
    types = listing.pair_choices(found.kind.name for found in usages)
    return [
        choosers.Chooser(
            'type', _('vGPU type'), types, place.filter_of('type')
        )
    ]


def add_up(usages: Iterable[usage.Usage]) -> list[tuple[str, float]]:
    """The hours of each project; several may have the same name."""
    names: dict[str, str] = {}
    hours: dict[str, float] = collections.defaultdict(float)
    for found in usages:
        names[found.project] = found.project_name
        hours[found.project] += found.hours
    return [(names[project], total) for project, total in hours.items()]


def write_cells(
    usages: Iterable[usage.Usage], start: str, end: str
) -> Iterator[tuple[typing.Any, ...]]:
    """The rows of the file, in the order of its columns."""
    for found in usages:
        yield (
            found.project_name,
            found.project,
            _known(found.kind.name),
            _known(found.kind.framebuffer_mib),
            found.vgpus,
            found.servers,
            round(found.hours, 4),
            _known(
                None if found.gib_hours is None else round(found.gib_hours, 4)
            ),
            start,
            end,
        )


def _known(value: typing.Any) -> typing.Any:
    return '' if value is None else value
