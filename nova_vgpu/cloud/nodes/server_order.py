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
from nova_vgpu.cloud.nodes import node_order
from nova_vgpu.cloud.nodes import server_request
from nova_vgpu.cloud.orders import image_store


@dataclasses.dataclass(frozen=True, slots=True)
class ServersOrder:
    """Servers that can be rendered; ``is_checked`` is whether they fit now."""

    request: server_request.ServersRequest
    kind: node_order.NodeKind
    image: image_store.Image
    is_checked: bool = True

    @property
    def is_image_by_name(self) -> bool:
        """Whether the image was asked for by its name, not by its ID."""
        return self.request.image == self.image.name


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """An order, and what an engineer should know of it."""

    order: ServersOrder
    warnings: tuple[str, ...] = ()


def read_order(
    cloud: reader.Cloud,
    request: server_request.ServersRequest,
    is_checked: bool = True,
) -> Outcome:
    """Complete a request with what the cloud has for it.

    :param is_checked: whether Placement is asked if the servers fit.
    :raises NodesRefused: with everything that is missing, invalid or absent.
    """
    found = node_order.read_servers(
        cloud,
        node_order.Sought(
            request.choice,
            request.image,
            request.servers,
            request.servers,
            request.root_volume_gib,
        ),
        server_request.find_problems(request),
        is_checked,
    )
    order = ServersOrder(request, found.kind, found.image, is_checked)
    return Outcome(order, found.warnings)


def describe(order: ServersOrder) -> tuple[str, ...]:
    """Comments about the servers."""
    request = order.request
    return (
        f'Servers, {request.servers}: {node_order.describe_kind(order.kind)}',
        *node_order.describe_check(order.image, order.is_checked),
    )
