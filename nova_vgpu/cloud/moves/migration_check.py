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

"""Reads what decides on a live migration, for each possible destination.

Placement tells what the server has and what is free, Nova how the server and
the compute nodes are, the agents of the hosts the rest.
"""

from collections.abc import Callable
from collections.abc import Iterator
import dataclasses

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.cloud import names
from nova_vgpu.cloud import reader
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.gpus import selection
from nova_vgpu.cloud.hosts import migration_facts
from nova_vgpu.cloud.moves import compute_nodes
from nova_vgpu.cloud.moves import migration_input
from nova_vgpu.cloud.usage import nova_servers
from nova_vgpu.cloud.usage import server_gpus
from nova_vgpu.migration import checks
from nova_vgpu.migration import downtime
from nova_vgpu.migration import reasons

AskAgents = Callable[[str], migration_facts.Answer]
#: The statuses of a server that Nova migrates live.
_RUNNING = ('ACTIVE', migration_input.PAUSED)
_DISABLED = 'COMPUTE_STATUS_DISABLED'
_ORDER = list(checks.Verdict)


@dataclasses.dataclass(frozen=True, slots=True)
class Destination:
    """A host, and whether a server can be migrated there."""

    host: str
    why: tuple[values.MigrationReason, ...]

    @property
    def verdict(self) -> checks.Verdict:
        return checks.judge(self.why)


@dataclasses.dataclass(frozen=True, slots=True)
class MigrationCheck:
    """A server and its destinations, the best first.

    ``has_gpus`` is whether Placement has allocated GPUs to it. ``expected`` is
    the downtime, if it can be estimated.
    """

    server: nova_servers.NovaServer
    has_gpus: bool = True
    destinations: tuple[Destination, ...] = ()
    expected: downtime.Downtime | None = None

    @property
    def verdict(self) -> checks.Verdict:
        """The best one; a server without GPUs may go anywhere."""
        if not self.has_gpus:
            return checks.Verdict.YES
        if not self.destinations:
            return checks.Verdict.NO
        return self.destinations[0].verdict


def check(
    cloud: reader.Cloud,
    wanted: str,
    host: str | None = None,
    bandwidth: int | None = None,
    ask_agents: AskAgents = lambda _server: migration_facts.Answer(),
) -> MigrationCheck:
    """Whether a server can be migrated live to a host, or to each of them.

    :param wanted: its name or UUID.
    :param host: the destination, with or without its domain.
    :param bandwidth: in MiB/s, in place of Nova's limit.
    :param ask_agents: what the agents tell of the hosts and of a server.
    :raises PlacementError: if Placement refuses or does not answer.
    :raises CloudError: if Nova does.
    :raises NotInCloud: if there is no such server or host.
    """
    server = nova_servers.find(cloud.services, wanted)
    gpus = cloud.list_every_gpu()
    source_host = _require_host(server)
    held = [
        each
        for each in server_gpus.list_of(cloud, server.uuid, gpus)
        if each.gpu.host == source_host
    ]
    if not held:
        return MigrationCheck(server, has_gpus=False)
    hosts = _list_hosts(gpus, source_host, host)
    nodes = compute_nodes.list_nodes(cloud.services)
    answer = ask_agents(server.uuid)
    source = migration_input.make_source(
        source_host, held, server, answer, nodes
    )
    common = (*_check_server(server), *_check_source(source_host, nodes))
    found = []
    for each in hosts:
        there = [gpu for gpu in gpus if gpu.host == each]
        target = migration_input.make_target(each, there, answer, nodes)
        why = (
            *common,
            *_check_node(each, there, nodes),
            *checks.check(source, target, bandwidth),
        )
        found.append(Destination(each, checks.sort(why)))
    found.sort(key=lambda each: _ORDER.index(each.verdict))
    return MigrationCheck(
        server, True, tuple(found), downtime.estimate(source, bandwidth)
    )


def _require_host(server: nova_servers.NovaServer) -> str:
    if server.host is None:
        raise exception.NotInCloud(
            f'Server {server.name} is on no host ({server.status}), or you '
            'may not see which one.'
        )
    return server.host


def _list_hosts(
    gpus: tuple[fleet.GPU, ...], source: str, wanted: str | None
) -> list[str]:
    hosts = {gpu.host for gpu in selection.select_gpus(gpus, wanted)}
    if wanted is not None and hosts == {source}:
        raise exception.NotInCloud(
            f'The server is on {names.printable(source)} already. Name '
            'another host.'
        )
    return sorted(hosts - {source})


def _check_server(
    server: nova_servers.NovaServer,
) -> Iterator[values.MigrationReason]:
    if server.status not in _RUNNING or server.task:
        state = server.task or server.status
        yield reasons.prevents(
            reasons.Code.SERVER_STATE,
            server.uuid,
            f'Nova migrates a server live while it is ACTIVE or PAUSED, and '
            f'not at work on it; this one is {state}.',
            'A server that does not run moves with openstack server migrate. '
            'If Nova is at work on it, wait.',
        )


def _check_source(
    host: str, nodes: migration_input.Nodes
) -> Iterator[values.MigrationReason]:
    if host in nodes and not nodes[host].is_up:
        yield reasons.prevents(
            reasons.Code.HOST_DOWN,
            host,
            f'nova-compute on {host}, where the server is, is down.',
            f'Start nova-compute on {host}. If the host itself is down, '
            'evacuate the server.',
        )


def _check_node(
    host: str, gpus: list[fleet.GPU], nodes: migration_input.Nodes
) -> Iterator[values.MigrationReason]:
    if host in nodes and not nodes[host].is_up:
        yield reasons.prevents(
            reasons.Code.HOST_DOWN,
            host,
            f'nova-compute on {host} is down.',
            f'Start nova-compute on {host}.',
        )
    if any(_DISABLED in gpu.host_traits for gpu in gpus):
        yield reasons.prevents(
            reasons.Code.HOST_DISABLED,
            host,
            f'nova-compute on {host} is disabled: the scheduler chooses no '
            'such host.',
            f'openstack compute service set --enable {host} nova-compute',
        )
