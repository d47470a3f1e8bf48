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

"""A DaemonSet that adds vectors with CUDA, on every GPU of every node.

A pod of a Job that ended does not keep the next one away from its node: one
node could be tested twice, and another not at all. A DaemonSet has a pod on
each node, which is ready when its init containers have ended well, one after
another. The program uses the first GPU that it sees. The kubelet gives all
init containers of a pod the same GPUs: so each asks for all of a node, and
sees one.
"""

import typing

from nova_vgpu.cloud.nodes import node_order
from nova_vgpu.cloud.nodes import registration

_LABEL = 'app.kubernetes.io/name'


def make_daemon_set(order: node_order.ClusterOrder) -> dict[str, typing.Any]:
    """The DaemonSet; a pod is not ready if a GPU of its node does not work."""
    request = order.request
    name = name_of(order)
    labels = {_LABEL: name}
    return {
        'apiVersion': 'apps/v1',
        'kind': 'DaemonSet',
        'metadata': {'name': name, 'labels': labels},
        'spec': {
            'selector': {'matchLabels': labels},
            'template': {
                'metadata': {'labels': labels},
                'spec': {
                    'nodeSelector': {registration.POOL_LABEL: request.pool},
                    'tolerations': [
                        {'key': registration.RESOURCE, 'operator': 'Exists'}
                    ],
                    'terminationGracePeriodSeconds': 1,
                    'initContainers': _make_tests(order),
                    # It keeps the pod alive, as its node is tested.
                    'containers': [
                        {
                            'name': 'tested',
                            'image': request.smoke_image,
                            'command': ['sleep', 'infinity'],
                        }
                    ],
                },
            },
        },
    }


def name_of(order: node_order.ClusterOrder) -> str:
    return f'{order.request.pool}-smoke'


def _make_tests(order: node_order.ClusterOrder) -> list[dict[str, typing.Any]]:
    gpus = order.found.workers.gpus.count
    return [
        {
            'name': f'vector-add-{number}',
            'image': order.request.smoke_image,
            'env': [{'name': 'CUDA_VISIBLE_DEVICES', 'value': str(number)}],
            'resources': {'limits': {registration.RESOURCE: gpus}},
        }
        for number in range(gpus)
    ]
