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

"""Whether nodes fit into the cloud now.

What is counted is what ``openstack vgpu flavor list`` shows. Nodes of
different flavors are counted each for themselves: if they share hosts, both
may be said to fit where only one of them does.
"""

import collections
from collections.abc import Iterable
from collections.abc import Iterator
import dataclasses

from nova_vgpu import exception
from nova_vgpu.cloud import reader
from nova_vgpu.cloud.orders import flavor_listing
from nova_vgpu.cloud.orders import flavors

#: In place of a check.
UNCHECKED = '--no-fit-check renders without asking Placement.'


@dataclasses.dataclass(frozen=True, slots=True)
class Zone:
    """An availability zone, and the aggregates whose hosts it has."""

    name: str
    aggregates: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    """How far it is known that nodes fit.

    ``unheeded_zone`` is where they are to be, if its hosts are not known.
    """

    is_made: bool = True
    unheeded_zone: str | None = None


MADE = Check()


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """So many servers of a flavor, up to ``most`` of them later."""

    flavor: flavors.Flavor
    servers: int
    most: int
    boots_from_volume: bool = False
    zone: Zone | None = None

    def __str__(self) -> str:
        where = f' in zone {self.zone.name}' if self.zone else ''
        return f'flavor {self.flavor.name}{where}'


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """Reasons against the nodes, and what to know of their growth."""

    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def find_zone(cloud: reader.Cloud, name: str | None) -> Zone | None:
    """The zone of a name; None if no aggregate makes it, as Nova's default.

    :raises CloudError: if Nova refuses or does not answer.
    """
    found = cloud.list_zone_aggregates(name) if name is not None else ()
    return Zone(name, found) if name is not None and found else None


def find_zone_warnings(check: Check) -> Iterator[str]:
    """That a zone could not be heeded."""
    if check.unheeded_zone is not None:
        yield (
            'Room was checked in all zones: no aggregate of Nova has zone '
            f'{check.unheeded_zone}. Nodes may not fit into that zone.'
        )


def check(cloud: reader.Cloud, wanted: Iterable[Wanted]) -> Outcome:
    """Ask Placement once for each flavor.

    :raises PlacementError: if it refuses or does not answer.
    """
    problems: list[str] = []
    warnings: list[str] = []
    for each in _add_up(wanted):
        try:
            room = flavor_listing.count_room(
                cloud,
                _without_disk(each),
                each.zone.aggregates if each.zone else (),
            )
        except exception.PlacementForbidden as error:
            raise exception.PlacementForbidden(
                f'{error} {UNCHECKED}'
            ) from error
        problems += find_problems(each, room)
        if not problems:
            warnings += find_warnings(each, room)
    return Outcome(tuple(problems), tuple(warnings))


def find_problems(wanted: Wanted, room: flavor_listing.Room) -> Iterator[str]:
    """Why the servers do not fit."""
    if room.refusal is not None:
        yield f'No server with {wanted} can be built: {room.refusal}'
    elif room.servers < wanted.servers:
        yield (
            f'Not enough room for nodes with {wanted}: {wanted.servers} are '
            f'asked for, {room.servers} fit, by what Placement has left '
            'of processors, memory, disk and GPUs. Ask for fewer, or for '
            'another flavor: "openstack vgpu flavor list" shows what fits.'
        )


def find_warnings(wanted: Wanted, room: flavor_listing.Room) -> Iterator[str]:
    """What a cluster cannot grow to."""
    if room.servers < wanted.most:
        yield (
            f'Nodes with {wanted}: {wanted.most} are the most, '
            f'{room.servers} fit now.'
        )


def _add_up(wanted: Iterable[Wanted]) -> Iterator[Wanted]:
    """One entry for each flavor, and zone."""
    found = collections.defaultdict(list)
    for each in wanted:
        found[each.flavor, each.zone].append(each)
    for same in found.values():
        yield dataclasses.replace(
            same[0],
            servers=sum(each.servers for each in same),
            most=sum(each.most for each in same),
        )


def _without_disk(wanted: Wanted) -> flavors.Flavor:
    """The flavor without what a volume gives in its place."""
    if not wanted.boots_from_volume:
        return wanted.flavor
    size = dataclasses.replace(wanted.flavor.size, disk_gib=0)
    return dataclasses.replace(wanted.flavor, size=size)
