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

"""Orders of servers, as values."""

import dataclasses
import typing

from nova_vgpu.cloud.nodes import node_gpus
from nova_vgpu.cloud.nodes import node_reading
from nova_vgpu.cloud.nodes import room
from nova_vgpu.cloud.nodes import server_order
from nova_vgpu.cloud.nodes import server_request
from nova_vgpu.cloud.orders import image_store
from nova_vgpu.tests.unit.cloud import node_orders

REQUEST = server_request.ServersRequest(
    node_gpus.FlavorChoice('gpu-a40'),
    'worker',
    node_orders.IMAGE.name,
    'kubernetes',
    3,
)


def order(
    kind: node_reading.NodeKind | None = None,
    image: image_store.Image = node_orders.IMAGE,
    check: room.Check = room.MADE,
    **changes: typing.Any,
) -> server_order.ServersOrder:
    """An order of three servers."""
    return server_order.ServersOrder(
        dataclasses.replace(REQUEST, **changes),
        node_reading.Found(kind or node_orders.kind(), image, check=check),
    )
