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

"""The GPUs that one server has something of, by its allocation.

Placement is asked for the allocation of the server, and for all GPUs if there
is one: the number of requests does not depend on what the server has.
"""

from collections.abc import Iterable
import typing

from nova_vgpu.cloud import reader
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.usage import servers


def list_allocations(
    cloud: reader.Cloud, server: str
) -> tuple[servers.Allocation, ...]:
    """What a server has of GPUs, in the order of hosts and addresses.

    :param server: its UUID.
    :raises PlacementForbidden: if the account may not ask for allocations.
    :raises PlacementError: if Placement does not answer.
    """
    held = _ask(cloud, server)
    return _pick(server, held, cloud.list_every_gpu()) if held else ()


def list_of(
    cloud: reader.Cloud, server: str, gpus: Iterable[fleet.GPU]
) -> tuple[servers.Allocation, ...]:
    """The same, of GPUs that have been read, in their order."""
    return _pick(server, _ask(cloud, server), gpus)


def _ask(cloud: reader.Cloud, server: str) -> dict[str, typing.Any]:
    """What it has of each provider, by their UUIDs."""
    answer = cloud.services.ask_placement(f'/allocations/{server}')
    held: dict[str, typing.Any] = answer['allocations']
    return held


def _pick(
    server: str, held: dict[str, typing.Any], gpus: Iterable[fleet.GPU]
) -> tuple[servers.Allocation, ...]:
    return tuple(
        servers.Allocation(server, gpu, resource_class, amount)
        for gpu in gpus
        if gpu.uuid in held
        for resource_class, amount in held[gpu.uuid]['resources'].items()
    )
