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

"""How nodes register with Kubernetes: labels, taints, and what is reserved.

The GPU operator and the feature discovery beside it label nodes when they have
found a GPU there. The labels of this module are there before: pods and the
autoscaler can choose nodes by them that have no driver yet, or do not exist.
"""

import dataclasses
import re

from nova_vgpu.cloud.nodes import node_gpus
from nova_vgpu.cloud.nodes import reservations
from nova_vgpu.cloud.orders import flavors

#: What pods ask for, and the key of the taint, as NVIDIA's charts tolerate it.
RESOURCE = 'nvidia.com/gpu'
#: The type of the vGPUs, or the model of the whole GPUs, of a node. With this
#: label, the autoscaler waits for the GPUs of a new node.
KIND_LABEL = 'cluster-api/accelerator'
#: The pool that a node is of.
POOL_LABEL = 'nova-vgpu/pool'
CONTROL_PLANE_KEY = 'node-role.kubernetes.io/control-plane'

_NOT_IN_LABEL = re.compile(r'[^A-Za-z0-9._-]+')
_LONGEST_LABEL = 63
_UNKNOWN_KIND = 'nvidia'
_NO_SCHEDULE = 'NoSchedule'


@dataclasses.dataclass(frozen=True, slots=True)
class Taint:
    """What keeps pods away that do not tolerate it."""

    key: str
    value: str = ''

    @property
    def fields(self) -> dict[str, str]:
        value = {'value': self.value} if self.value else {}
        return {'key': self.key, **value, 'effect': _NO_SCHEDULE}

    def __str__(self) -> str:
        return f'{self.key}={self.value}:{_NO_SCHEDULE}'


GPU_TAINT = Taint(RESOURCE, 'present')
CONTROL_PLANE_TAINT = Taint(CONTROL_PLANE_KEY)


def make_labels(gpus: node_gpus.NodeGPUs, pool: str) -> dict[str, str]:
    """The labels of a node, by its pool and the GPUs that it has."""
    found = {POOL_LABEL: pool}
    if not gpus.count:
        return found
    kind = _NOT_IN_LABEL.sub('-', gpus.name or '')[:_LONGEST_LABEL]
    return found | {
        'nvidia.com/gpu.present': 'true',
        'nvidia.com/gpu.count': str(gpus.count),
        KIND_LABEL: kind.strip('._-') or _UNKNOWN_KIND,
    }


def make_taints(
    gpus: node_gpus.NodeGPUs, has_taint: bool, is_control_plane: bool = False
) -> tuple[Taint, ...]:
    """The taints of a node.

    Those that are given replace what kubeadm gives to a control plane by
    default.
    """
    found = [CONTROL_PLANE_TAINT] if is_control_plane else []
    if gpus.count and has_taint:
        found.append(GPU_TAINT)
    return tuple(found)


def make_kubelet_args(
    size: flavors.Size, labels: dict[str, str]
) -> dict[str, str]:
    """The arguments of the kubelet.

    The id in braces is known on the server only: cloud-init puts it in.
    """
    reserved = reservations.reserve(size)
    return {
        'cloud-provider': 'external',
        'provider-id': "openstack:///'{{ instance_id }}'",
        'kube-reserved': (
            f'cpu={reserved.cpu_millis}m,memory={reserved.kube_mib}Mi'
        ),
        'system-reserved': f'memory={reserved.system_mib}Mi',
        'node-labels': join(labels),
    }


def join(labels: dict[str, str]) -> str:
    """Labels in one text, as the kubelet and the autoscaler read them."""
    return ','.join(f'{key}={value}' for key, value in labels.items())
