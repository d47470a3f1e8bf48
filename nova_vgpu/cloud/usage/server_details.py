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

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import types

from nova_vgpu import exception
from nova_vgpu.cloud import reader
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.hosts import host_agents
from nova_vgpu.cloud.orders import flavor_totals
from nova_vgpu.cloud.usage import allocation_checks
from nova_vgpu.cloud.usage import guest_states
from nova_vgpu.cloud.usage import nova_servers
from nova_vgpu.cloud.usage import server_gpus
from nova_vgpu.cloud.usage import server_state
from nova_vgpu.cloud.usage import servers

_Guests = Mapping[str, tuple[host_agents.Guest, ...]]
_NO_GUESTS: _Guests = types.MappingProxyType({})


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
    allocations. ``guest`` is what the guest has told its host.
    """

    server: nova_servers.NovaServer
    wanted: dict[str, int] | None
    held: tuple[servers.Allocation, ...] | None
    judgement: server_state.Judgement
    checks: tuple[Check, ...]
    guest: guest_states.GuestState

    @property
    def words(self) -> str:
        """What the flavor asks for."""
        named = flavor_totals.describe(self.server.flavor)
        by_class = [
            f'{n} of {name}' for name, n in (self.wanted or {}).items()
        ]
        return named or ', '.join(by_class) or 'no GPU'


def read(
    cloud: reader.Cloud,
    wanted: str,
    guests: _Guests = _NO_GUESTS,
) -> Details:
    """The server of a name or UUID.

    :param guests: what guests have told their hosts, by server.
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
    told = guests.get(server.uuid, ())
    return Details(
        server,
        allocation_checks.list_wanted(server.flavor, gpus)
        if server.has_extra_specs
        else None,
        held,
        server_state.judge(server, held, gpus, told),
        list_checks(held or (), bool(told)),
        guest_states.summarise(told),
    )


def list_checks(
    held: Sequence[servers.Allocation], is_guest_known: bool = False
) -> tuple[Check, ...]:
    """How to see what hosts and the guest know of its GPUs."""
    of_guest = Check(
        'device, driver and licence', 'guest', 'nova-vgpu guest facts'
    )
    hosts = sorted({each.gpu.host for each in held})
    gpus = sorted({(each.gpu.host, each.gpu.address) for each in held})
    return (
        *(
            Check('the GPU', host, f'nova-vgpu gpu show {address}')
            for host, address in gpus
        ),
        *(Check('the host', host, 'nova-vgpu doctor') for host in hosts),
        *(() if is_guest_known else (of_guest,)),
    )
