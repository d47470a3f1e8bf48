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

"""An order of servers: what is asked for, with what the cloud has for it."""

import dataclasses

from nova_vgpu.cloud import reader
from nova_vgpu.cloud.nodes import node_comments
from nova_vgpu.cloud.nodes import node_reading
from nova_vgpu.cloud.nodes import server_request


@dataclasses.dataclass(frozen=True, slots=True)
class ServersOrder:
    """Servers that can be rendered."""

    request: server_request.ServersRequest
    found: node_reading.Found

    @property
    def is_image_by_name(self) -> bool:
        """Whether the image was asked for by its name, not by its ID."""
        return self.request.image == self.found.image.name


def read_order(
    cloud: reader.Cloud,
    request: server_request.ServersRequest,
    is_checked: bool = True,
) -> ServersOrder:
    """Complete a request with what the cloud has for it.

    :param is_checked: whether Placement is asked if the servers fit.
    :raises NodesRefused: with everything that is missing, invalid or absent.
    """
    sought = node_reading.Sought(
        request.choice,
        request.image,
        request.servers,
        request.servers,
        request.root_volume_gib,
        request.availability_zone,
    )
    problems = server_request.find_problems(request)
    found = node_reading.read(cloud, sought, problems, is_checked)
    return ServersOrder(request, found)


def describe(order: ServersOrder) -> tuple[str, ...]:
    """Comments about the servers."""
    kind = node_comments.describe_kind(order.found.workers)
    return (
        f'Servers, {order.request.servers}: {kind}',
        *node_comments.describe_check(order.found),
    )
