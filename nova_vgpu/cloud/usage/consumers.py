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

"""What has vGPUs of one GPU, or has the GPU as a whole.

Placement tells the consumers and what they have of the GPU. Nova tells the
names, projects and states of the servers of the GPU's host.
"""

import collections
from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses

from nova_vgpu.cloud.usage import servers as cloud_servers


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """A server as Nova's list has it; ``status`` is ACTIVE and so on."""

    name: str
    project: str | None = None
    status: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Consumer:
    """What has vGPUs of a GPU: a server, in most cases.

    ``name`` and ``status`` are None if Nova has no such server on the host: it
    is being moved, or its allocation is left over. ``classes`` are the
    resource classes.
    """

    uuid: str
    vgpus: int
    name: str | None = None
    project: str | None = None
    status: str | None = None
    classes: tuple[str, ...] = ()


def find_others(
    allocations: Iterable[cloud_servers.Allocation],
    servers: Mapping[str, Server],
) -> list[str]:
    """The consumers that are not servers of the host, each once."""
    found = dict.fromkeys(each.consumer for each in allocations)
    return sorted(found.keys() - servers.keys())


def merge(
    allocations: Iterable[cloud_servers.Allocation],
    servers: Mapping[str, Server],
    projects: Mapping[str, str | None],
) -> tuple[Consumer, ...]:
    """The consumers in the order of names, what is not a server first.

    :param servers: those of the GPU's host by their UUIDs.
    :param projects: those of other consumers, as far as they are known.
    """
    held = collections.defaultdict(list)
    for each in allocations:
        held[each.consumer].append(each)
    found = [
        _make(
            uuid,
            parts,
            servers.get(uuid) or Server('', projects.get(uuid)),
            uuid in servers,
        )
        for uuid, parts in held.items()
    ]
    return tuple(sorted(found, key=lambda c: (c.name or '', c.uuid)))


def _make(
    uuid: str,
    parts: list[cloud_servers.Allocation],
    server: Server,
    is_server: bool,
) -> Consumer:
    return Consumer(
        uuid,
        sum(part.vgpus for part in parts),
        server.name if is_server else None,
        server.project,
        server.status,
        tuple(sorted({part.resource_class for part in parts})),
    )
