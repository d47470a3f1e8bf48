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

"""Orders of nodes, as values."""

import dataclasses
import typing

from nova_vgpu.cloud import names
from nova_vgpu.cloud.nodes import node_gpus
from nova_vgpu.cloud.nodes import node_order
from nova_vgpu.cloud.nodes import node_reading
from nova_vgpu.cloud.nodes import node_request
from nova_vgpu.cloud.nodes import room
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.cloud.orders import image_store

SIZE = flavors.Size(4, 16384, 40)
VGPU = node_gpus.NodeGPUs(1, 'A40-8Q')
NO_GPU = node_gpus.NodeGPUs(0)
DRIVER = node_request.DriverRequest(
    image='registry.example.org/nvidia/vgpu-guest-driver:580.95.05',
    licence_secret='gpu-licence',
)
UNCHECKED = room.Check(is_made=False)
IMAGE = image_store.Image('image-id', 'ubuntu-24.04-k8s', 'uefi', 'q35')
REQUEST = node_request.ClusterRequest(
    node_gpus.FlavorChoice('gpu-a40'),
    'demo',
    IMAGE.name,
    'v1.34.2',
    nodes=3,
    driver=DRIVER,
)


def kind(
    name: str = 'gpu-a40',
    gpus: node_gpus.NodeGPUs = VGPU,
    extra_specs: typing.Mapping[str, str] | None = None,
) -> node_reading.NodeKind:
    flavor = flavors.parse(
        names.printable(name), extra_specs or {}, SIZE, raw_name=name
    )
    return node_reading.NodeKind(flavor, gpus)


def order(
    workers: node_reading.NodeKind | None = None,
    control_plane: node_reading.NodeKind | None = None,
    image: image_store.Image = IMAGE,
    check: room.Check = room.MADE,
    **changes: typing.Any,
) -> node_order.ClusterOrder:
    """An order of three workers; a control plane has three nodes, too."""
    if control_plane is not None:
        changes['control_plane'] = node_request.ControlPlane(
            3, control_plane.flavor.name
        )
    return node_order.ClusterOrder(
        dataclasses.replace(REQUEST, **changes),
        node_reading.Found(workers or kind(), image, control_plane, check),
    )
