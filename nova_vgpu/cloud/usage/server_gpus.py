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

from nova_vgpu.cloud import reader
from nova_vgpu.cloud.usage import servers


def list_allocations(
    cloud: reader.Cloud, server: str
) -> tuple[servers.Allocation, ...]:
    """What a server has of GPUs, in the order of hosts and addresses.

    :param server: its UUID.
    :raises PlacementForbidden: if the account may not ask for allocations.
    :raises PlacementError: if Placement does not answer.
    """
    answer = cloud.services.ask_placement(f'/allocations/{server}')
    held = answer['allocations']
    if not held:
        return ()
    return tuple(
        servers.Allocation(server, gpu, resource_class, amount)
        for gpu in cloud.list_every_gpu()
        if gpu.uuid in held
        for resource_class, amount in held[gpu.uuid]['resources'].items()
    )
