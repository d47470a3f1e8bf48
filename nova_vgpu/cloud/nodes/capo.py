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

"""Nodes by Cluster API with its provider for OpenStack (CAPO), as files.

There are three, as they go to three places: objects for the management
cluster, values for the chart of the GPU operator, and a test of the GPUs for
the cluster itself.
"""

from collections.abc import Iterator

from nova_vgpu.cloud.nodes import cluster_api
from nova_vgpu.cloud.nodes import documents
from nova_vgpu.cloud.nodes import gpu_operator
from nova_vgpu.cloud.nodes import node_comments
from nova_vgpu.cloud.nodes import node_order
from nova_vgpu.cloud.nodes import node_request
from nova_vgpu.cloud.nodes import smoke_test

#: What can be rendered by itself, and the file that it is in.
PARTS = {
    'machines': 'machines.yaml',
    'gpu-operator': 'gpu-operator-values.yaml',
    'smoke-test': 'smoke-test.yaml',
}


def render(order: node_order.ClusterOrder) -> tuple[documents.Document, ...]:
    """The files, in the order in which they are used."""
    machines, operator, smoke = PARTS.values()
    return (
        documents.Document(
            machines,
            documents.dump(
                _describe_machines(order), cluster_api.make_objects(order)
            ),
        ),
        documents.Document(
            operator,
            documents.dump(
                _describe_operator(order), [gpu_operator.make_values(order)]
            ),
        ),
        documents.Document(
            smoke,
            documents.dump(
                _describe_smoke(order), [smoke_test.make_daemon_set(order)]
            ),
        ),
    )


def _describe_machines(order: node_order.ClusterOrder) -> Iterator[str]:
    found = order.found
    yield f'{PARTS["machines"]}, for the management cluster: kubectl apply -f'
    if order.request.api is node_request.APIVersion.V1BETA2:
        yield 'It needs Cluster API 1.11 and CAPO 0.15, or newer.'
    workers = node_comments.describe_kind(found.workers)
    yield f'{_count_workers(order)}: {workers}'
    if found.control_plane is not None:
        yield (
            f'Control plane, {order.request.control_plane.nodes}: '
            f'{node_comments.describe_kind(found.control_plane)}'
        )
    yield from node_comments.describe_check(found)


def _count_workers(order: node_order.ClusterOrder) -> str:
    request = order.request
    if request.most_nodes is None:
        return f'Workers, {request.nodes}'
    return f'Workers, {request.nodes} to {request.most_nodes}'


def _describe_operator(order: node_order.ClusterOrder) -> Iterator[str]:
    driver = order.request.driver
    yield f'{PARTS["gpu-operator"]}, for the cluster: helm install --values'
    yield (
        'They are for all pools of the cluster: keep those of a pool with '
        'vGPUs.'
    )
    if driver.licence_secret is not None:
        yield 'For the licence: version 25.10 of the chart, or newer.'
    secrets = [
        name
        for name in (driver.licence_secret, driver.pull_secret)
        if name is not None
    ]
    if secrets:
        yield (
            'Secrets that have to be in the namespace of the operator: '
            f'{", ".join(secrets)}'
        )


def _describe_smoke(order: node_order.ClusterOrder) -> Iterator[str]:
    yield f'{PARTS["smoke-test"]}, for the cluster: kubectl apply -f'
    yield (
        f'Adds vectors with CUDA on {order.found.workers.gpus} of each node. '
        'Ready where all work:'
    )
    name = smoke_test.name_of(order)
    yield f'kubectl rollout status daemonset/{name} --timeout=30m'
    yield (
        f'kubectl get daemonset {name}  # DESIRED is the number of nodes that '
        'came'
    )
    yield f'Its pods keep the GPUs. Then: kubectl delete daemonset {name}'
