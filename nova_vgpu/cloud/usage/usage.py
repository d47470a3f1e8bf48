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

"""How much projects have used of each type.

Nova's records tell for how long a server has existed, and its flavor what
vGPUs it has or had.
"""

import collections
from collections.abc import Iterable
import dataclasses

from nova_vgpu.cloud.orders import demands as cloud_demands
from nova_vgpu.cloud.usage import projects
from nova_vgpu.cloud.usage import servers

_MIB_PER_GIB = 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Usage:
    """What a project uses now, and has used in a period.

    ``servers`` is the number of those that existed in the period.
    """

    project: str
    project_name: str
    kind: cloud_demands.Kind
    vgpus: int
    hours: float
    servers: int

    @property
    def gib_hours(self) -> float | None:
        """Of frame buffer; None if its size is not known."""
        mib = self.kind.framebuffer_mib
        return None if mib is None else self.hours * mib / _MIB_PER_GIB


@dataclasses.dataclass(slots=True)
class _Sum:
    vgpus: int = 0
    hours: float = 0.0
    servers: set[str] = dataclasses.field(default_factory=set)


def add_up(
    records: Iterable[servers.Record],
    current: Iterable[servers.Record],
    demands: cloud_demands.Demands,
    known: Iterable[projects.Project],
) -> tuple[Usage, ...]:
    """What projects use and have used, in the order of their names.

    :param records: those of the period.
    :param current: those of servers that there are now.
    """
    sums: dict[tuple[str, cloud_demands.Kind], _Sum]
    sums = collections.defaultdict(_Sum)
    for record in records:
        for demand in demands.get(record.flavor, ()):
            found = sums[record.project, demand.kind]
            found.hours += demand.vgpus * record.hours
            found.servers.add(record.uuid)
    for record in current:
        for demand in demands.get(record.flavor, ()):
            sums[record.project, demand.kind].vgpus += demand.vgpus
    by_id = projects.names_of(known)
    usages = [
        Usage(
            project,
            by_id.get(project, project),
            kind,
            total.vgpus,
            total.hours,
            len(total.servers),
        )
        for (project, kind), total in sums.items()
    ]
    return tuple(sorted(usages, key=_order))


def _order(usage: Usage) -> tuple[str, str, bool, str]:
    """By names; a type that is not known comes last."""
    return (
        usage.project_name,
        usage.project,
        usage.kind.name is None,
        usage.kind.name or '',
    )
