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

"""A node group with GPUs for Magnum: the command that creates it.

Labels and taints of nodes are part of a node group from Magnum's API 1.14 on.
It is up to Magnum's driver to set them, and what kubelets reserve: in the
middle of 2026, neither magnum-cluster-api nor magnum-capi-helm nor the drivers
in Magnum itself did. So comments have the commands for the nodes.
"""

from collections.abc import Iterator
import dataclasses
import shlex

from nova_vgpu.cloud import names
from nova_vgpu.cloud import reader
from nova_vgpu.cloud.nodes import documents
from nova_vgpu.cloud.nodes import node_comments
from nova_vgpu.cloud.nodes import node_gpus
from nova_vgpu.cloud.nodes import node_reading
from nova_vgpu.cloud.nodes import node_request
from nova_vgpu.cloud.nodes import option_checks
from nova_vgpu.cloud.nodes import registration

FILE = 'nodegroup.sh'


@dataclasses.dataclass(frozen=True, slots=True)
class NodeGroupRequest:
    """A node group; with ``most_nodes`` it may grow to so many."""

    choice: node_gpus.FlavorChoice
    cluster: str | None = None
    image: str | None = None
    pool: str = node_request.DEFAULT_POOL
    nodes: int = 1
    most_nodes: int | None = None
    root_volume_gib: int | None = None
    has_taint: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class NodeGroupOrder:
    """A node group that can be rendered, and what the cloud has for it."""

    request: NodeGroupRequest
    found: node_reading.Found


def find_problems(request: NodeGroupRequest) -> Iterator[str]:
    """What is missing or invalid, whatever the flavor is."""
    yield from node_request.find_choice_problems(request.choice)
    yield from option_checks.find_missing(
        ('--cluster', request.cluster, 'the name of the cluster in Magnum'),
        ('--image', request.image, 'the image of the nodes in Glance'),
    )
    yield from option_checks.find_text_problems(
        ('--cluster', request.cluster or None)
    )
    yield from option_checks.find_label_problems(('--pool', request.pool))
    yield from option_checks.find_size_problems(
        request.nodes, request.most_nodes, request.root_volume_gib
    )


def read_order(
    cloud: reader.Cloud, request: NodeGroupRequest, is_checked: bool = True
) -> NodeGroupOrder:
    """Complete a request with what the cloud has for it.

    :raises NodesRefused: with everything that is missing, invalid or absent.
    """
    sought = node_reading.Sought(
        request.choice,
        request.image,
        request.nodes,
        request.most_nodes or request.nodes,
        request.root_volume_gib,
    )
    problems = find_problems(request)
    found = node_reading.read(cloud, sought, problems, is_checked)
    return NodeGroupOrder(request, found)


def render(order: NodeGroupOrder) -> documents.Document:
    """The command, with an option to a line, quoted for a shell."""
    lines = [f'# {names.printable(line)}\n' for line in _describe(order)]
    options = ' \\\n'.join(
        f'    {" ".join(map(shlex.quote, words))}'
        for words in _list_words(order)
    )
    command = 'openstack coe nodegroup create \\\n'
    return documents.Document(FILE, f'{"".join(lines)}{command}{options}\n')


def _describe(order: NodeGroupOrder) -> Iterator[str]:
    yield f'{FILE}: creates a node group of cluster {order.request.cluster}'
    yield f'Nodes: {node_comments.describe_kind(order.found.workers)}'
    yield from node_comments.describe_check(order.found)
    labels, taints = _list_registration(order)
    yield 'If the driver of Magnum ignores labels and taints, for each node:'
    yield f'kubectl label node NODE {" ".join(labels)}'
    if taints:
        yield f'kubectl taint node NODE {" ".join(taints)}'


def _list_registration(
    order: NodeGroupOrder,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The labels and the taints of the nodes, as kubectl takes them."""
    gpus, request = order.found.workers.gpus, order.request
    labels = registration.make_labels(gpus, request.pool)
    taints = registration.make_taints(gpus, request.has_taint)
    return (
        tuple(f'{key}={value}' for key, value in labels.items()),
        tuple(map(str, taints)),
    )


def _list_words(order: NodeGroupOrder) -> Iterator[tuple[str, ...]]:
    request, kind = order.request, order.found.workers
    labels, taints = _list_registration(order)
    # With "=", as a name may begin with a hyphen.
    yield (f'--flavor={kind.flavor.nova_name}',)
    yield (f'--image={order.found.image.id}',)
    yield '--node-count', str(request.nodes)
    if request.most_nodes is not None:
        # Without growth, a group could then never have fewer nodes.
        yield '--min-nodes', str(request.nodes)
        yield '--max-nodes', str(request.most_nodes)
    yield '--node-labels', ','.join(labels)
    if taints:
        yield '--node-taints', ','.join(taints)
    if request.root_volume_gib is not None:
        yield (
            *('--merge-labels', '--labels'),
            f'boot_volume_size={request.root_volume_gib}',
        )
    yield '--', str(request.cluster), request.pool
