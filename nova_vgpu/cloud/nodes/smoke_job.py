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

"""A job that adds vectors with CUDA, on every GPU of every node.

The program uses one GPU. So a pod has a container for each GPU of a node, and
the pods are kept apart: as many as there are nodes, each on its own.
"""

import typing

from nova_vgpu.cloud.nodes import node_order
from nova_vgpu.cloud.nodes import registration

# The operator builds a driver on new nodes, which takes minutes.
_SECONDS = 1800
_LABEL = 'app.kubernetes.io/name'


def make_job(order: node_order.ClusterOrder) -> dict[str, typing.Any]:
    """The job; it fails if a GPU does not, or if a node does not come."""
    request, gpus = order.request, order.workers.gpus
    name = f'{request.pool}-smoke'
    nodes = max(request.nodes, 1)
    labels = {_LABEL: name}
    return {
        'apiVersion': 'batch/v1',
        'kind': 'Job',
        'metadata': {'name': name, 'labels': labels},
        'spec': {
            'completions': nodes,
            'parallelism': nodes,
            'backoffLimit': nodes,
            'activeDeadlineSeconds': _SECONDS,
            'template': {
                'metadata': {'labels': labels},
                'spec': {
                    'restartPolicy': 'Never',
                    'nodeSelector': {registration.POOL_LABEL: request.pool},
                    'tolerations': [
                        {'key': registration.RESOURCE, 'operator': 'Exists'}
                    ],
                    'affinity': _keep_apart(labels),
                    'containers': [
                        {
                            'name': f'vector-add-{number}',
                            'image': request.smoke_image,
                            'resources': {
                                'limits': {registration.RESOURCE: 1}
                            },
                        }
                        for number in range(gpus.count)
                    ],
                },
            },
        },
    }


def _keep_apart(labels: dict[str, str]) -> dict[str, typing.Any]:
    return {
        'podAntiAffinity': {
            'requiredDuringSchedulingIgnoredDuringExecution': [
                {
                    'labelSelector': {'matchLabels': labels},
                    'topologyKey': 'kubernetes.io/hostname',
                }
            ]
        }
    }
