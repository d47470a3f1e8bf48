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

"""An order of nodes of a cluster: what is asked for, and what there is."""

import dataclasses

from nova_vgpu.cloud import reader
from nova_vgpu.cloud.nodes import node_reading
from nova_vgpu.cloud.nodes import node_request


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterOrder:
    """Nodes that can be rendered."""

    request: node_request.ClusterRequest
    found: node_reading.Found


def read_order(
    cloud: reader.Cloud,
    request: node_request.ClusterRequest,
    is_checked: bool = True,
) -> ClusterOrder:
    """Complete a request with what the cloud has for it.

    :param is_checked: whether Placement is asked if the nodes fit.
    :raises NodesRefused: with everything that is missing, invalid or absent.
    """
    sought = node_reading.Sought(
        request.choice,
        request.image,
        request.nodes,
        request.most_nodes or request.nodes,
        request.root_volume_gib,
        request.failure_domain,
        request.control_plane,
        request.driver,
    )
    problems = node_request.find_problems(request)
    found = node_reading.read(cloud, sought, problems, is_checked)
    return ClusterOrder(request, found)
