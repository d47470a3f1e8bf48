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

"""Reads one server: what it asks for, what it has, and its state."""

from collections.abc import Sequence
import dataclasses

from nova_vgpu import exception
from nova_vgpu.cloud import reader
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.orders import flavor_totals
from nova_vgpu.cloud.usage import allocation_checks
from nova_vgpu.cloud.usage import nova_servers
from nova_vgpu.cloud.usage import server_gpus
from nova_vgpu.cloud.usage import server_state
from nova_vgpu.cloud.usage import servers


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    """A command that tells what the cloud does not know, and where it runs."""

    what: str
    where: str
    command: str


@dataclasses.dataclass(frozen=True, slots=True)
class Details:
    """A server with its GPUs.

    ``wanted`` is how much of each resource class the flavor asks for, None if
    the user may not see that; ``held`` is None if the user may not ask for
    allocations.
    """

    server: nova_servers.NovaServer
    wanted: dict[str, int] | None
    held: tuple[servers.Allocation, ...] | None
    judgement: server_state.Judgement
    checks: tuple[Check, ...]

    @property
    def words(self) -> str:
        """What the flavor asks for."""
        named = flavor_totals.describe(self.server.flavor)
        by_class = [
            f'{n} of {name}' for name, n in (self.wanted or {}).items()
        ]
        return named or ', '.join(by_class) or 'no GPU'


def read(cloud: reader.Cloud, wanted: str) -> Details:
    """The server of a name or UUID.

    :raises CloudError: if Nova refuses or does not answer.
    :raises NotInCloud: if it has no such server, or several of this name.
    :raises PlacementError: if Placement does not answer.
    """
    server = nova_servers.find(cloud.services, wanted)
    gpus: tuple[fleet.GPU, ...] = ()
    held: tuple[servers.Allocation, ...] | None = None
    try:
        gpus = cloud.list_every_gpu()
        held = server_gpus.list_of(cloud, server.uuid, gpus)
    except exception.PlacementForbidden:
        pass  # an ordinary user: Nova alone tells something
    return Details(
        server,
        allocation_checks.list_wanted(server.flavor, gpus)
        if server.has_extra_specs
        else None,
        held,
        server_state.judge(server, held, gpus),
        list_checks(held or ()),
    )


def list_checks(held: Sequence[servers.Allocation]) -> tuple[Check, ...]:
    """How to see what hosts and the guest know of its GPUs."""
    hosts = sorted({each.gpu.host for each in held})
    gpus = sorted({(each.gpu.host, each.gpu.address) for each in held})
    return (
        *(
            Check('the GPU', host, f'nova-vgpu gpu show {address}')
            for host, address in gpus
        ),
        *(Check('the host', host, 'nova-vgpu doctor') for host in hosts),
        Check(
            'device, driver and licence',
            'guest',
            'nova-vgpu guest facts',
        ),
    )
