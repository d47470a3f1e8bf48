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

"""Kinds of Cluster API and of its provider for OpenStack.

The templates of machines cannot be changed, and machines are only replaced
when a deployment names another template. So the name of a template ends in a
digest of what is in it: what is rendered again with other options is another
template, and the deployment replaces its machines one by one.
"""

import hashlib
import json
import typing

from nova_vgpu.cloud.nodes import node_order
from nova_vgpu.cloud.nodes import node_reading
from nova_vgpu.cloud.nodes import node_request
from nova_vgpu.cloud.nodes import registration

_Object = dict[str, typing.Any]

_CLUSTER = 'cluster.x-k8s.io'
_BOOTSTRAP = f'bootstrap.{_CLUSTER}'
_CONTROL_PLANE = f'controlplane.{_CLUSTER}'
_INFRASTRUCTURE = f'infrastructure.{_CLUSTER}'
_CLUSTER_LABEL = f'{_CLUSTER}/cluster-name'
_DEPLOYMENT_LABEL = f'{_CLUSTER}/deployment-name'
_LIMITS = f'{_CLUSTER}/cluster-api-autoscaler-node-group'
_CAPACITY = 'capacity.cluster-autoscaler.kubernetes.io'
_CONTROL_PLANE_POOL = 'control-plane'
_NODE_NAME = '{{ local_hostname }}'


def make_objects(order: node_order.ClusterOrder) -> tuple[_Object, ...]:
    """All objects for the management cluster, templates first."""
    return _Maker(order).make()


class _Maker:
    """Makes the objects of one order, in one version of the kinds."""

    def __init__(self, order: node_order.ClusterOrder) -> None:
        self._order = order
        self._request = order.request
        self._is_old = order.request.api is node_request.APIVersion.V1BETA1

    def make(self) -> tuple[_Object, ...]:
        request, workers = self._request, self._order.found.workers
        machines = self._make_machine_template(request.name, workers)
        bootstrap = self._make_template(
            _BOOTSTRAP,
            'KubeadmConfigTemplate',
            request.name,
            {'joinConfiguration': self._make_registration(workers)},
        )
        deployment = self._make_deployment(machines, bootstrap)
        control = self._order.found.control_plane
        if control is None:
            return machines, bootstrap, deployment
        name = request.control_plane_name
        template = self._make_machine_template(name, control)
        plane = self._make_control_plane(control, template)
        return template, plane, machines, bootstrap, deployment

    def _make(
        self, group: str, kind: str, name: str, spec: _Object
    ) -> _Object:
        return {
            'apiVersion': f'{group}/{self._request.api.value}',
            'kind': kind,
            'metadata': {
                'name': name,
                'labels': {_CLUSTER_LABEL: self._request.cluster},
            },
            'spec': spec,
        }

    def _make_template(
        self, group: str, kind: str, name: str, spec: _Object
    ) -> _Object:
        text = json.dumps([kind, spec], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        return self._make(
            group, kind, f'{name}-{digest}', {'template': {'spec': spec}}
        )

    def _refer(self, target: _Object) -> dict[str, str]:
        api, name = target['apiVersion'], target['metadata']['name']
        group = (
            {'apiVersion': api}
            if self._is_old
            else {'apiGroup': api.partition('/')[0]}
        )
        return {**group, 'kind': target['kind'], 'name': name}

    def _make_machine_template(
        self, name: str, kind: node_reading.NodeKind
    ) -> _Object:
        request, image = self._request, self._order.found.image
        flavor = kind.flavor.nova_name
        spec: _Object = {
            'flavor': flavor if self._is_old else {'filter': {'name': flavor}},
            'image': {'filter': {'name': image.name}}
            if request.image == image.name
            else {'id': image.id},
        }
        if request.key_name is not None:
            spec['sshKeyName'] = request.key_name
        if request.root_volume_gib is not None:
            spec['rootVolume'] = {'sizeGiB': request.root_volume_gib}
        return self._make_template(
            _INFRASTRUCTURE, 'OpenStackMachineTemplate', name, spec
        )

    def _make_registration(
        self, kind: node_reading.NodeKind, is_control_plane: bool = False
    ) -> _Object:
        pool = _CONTROL_PLANE_POOL if is_control_plane else self._request.pool
        labels = registration.make_labels(kind.gpus, pool)
        taints = registration.make_taints(
            kind.gpus, self._request.has_taint, is_control_plane
        )
        found: _Object = {
            'name': _NODE_NAME,
            'kubeletExtraArgs': self._make_args(
                registration.make_kubelet_args(kind.flavor.size, labels)
            ),
        }
        if taints:
            found['taints'] = [taint.fields for taint in taints]
        return {'nodeRegistration': found}

    def _make_args(self, args: dict[str, str]) -> typing.Any:
        if self._is_old:
            return args
        return [{'name': name, 'value': value} for name, value in args.items()]

    def _make_deployment(
        self, machines: _Object, bootstrap: _Object
    ) -> _Object:
        request = self._request
        labels = {
            _CLUSTER_LABEL: request.cluster,
            _DEPLOYMENT_LABEL: request.name,
        }
        machine: _Object = {
            'clusterName': request.cluster,
            'version': request.kubernetes_version,
            'bootstrap': {'configRef': self._refer(bootstrap)},
            'infrastructureRef': self._refer(machines),
        }
        if request.failure_domain is not None:
            machine['failureDomain'] = request.failure_domain
        # Without one more GPU, a node has to go before another can come.
        strategy = {
            'type': 'RollingUpdate',
            'rollingUpdate': {'maxSurge': 0, 'maxUnavailable': 1},
        }
        spec: _Object = {'clusterName': request.cluster}
        if request.most_nodes is None:
            spec['replicas'] = request.nodes
        spec |= {
            'selector': {'matchLabels': labels},
            **(
                {'strategy': strategy}
                if self._is_old
                else {'rollout': {'strategy': strategy}}
            ),
            'template': {'metadata': {'labels': labels}, 'spec': machine},
        }
        found = self._make(_CLUSTER, 'MachineDeployment', request.name, spec)
        if request.most_nodes is not None:
            found['metadata']['annotations'] = self._make_annotations()
        return found

    def _make_annotations(self) -> dict[str, str]:
        """What the autoscaler reads, also of a deployment without machines."""
        request, kind = self._request, self._order.found.workers
        size = kind.flavor.size
        disk = request.root_volume_gib or size.disk_gib
        found = {
            f'{_LIMITS}-min-size': str(request.nodes),
            f'{_LIMITS}-max-size': str(request.most_nodes),
            f'{_CAPACITY}/cpu': str(size.vcpus),
            f'{_CAPACITY}/memory': f'{size.ram_mib}Mi',
            f'{_CAPACITY}/ephemeral-disk': f'{disk}Gi',
            f'{_CAPACITY}/gpu-type': registration.RESOURCE,
            f'{_CAPACITY}/gpu-count': str(kind.gpus.count),
            f'{_CAPACITY}/labels': registration.join(
                registration.make_labels(kind.gpus, request.pool)
            ),
        }
        taints = registration.make_taints(kind.gpus, request.has_taint)
        if taints:
            found[f'{_CAPACITY}/taints'] = ','.join(map(str, taints))
        return found

    def _make_control_plane(
        self, kind: node_reading.NodeKind, template: _Object
    ) -> _Object:
        request = self._request
        node = self._make_registration(kind, is_control_plane=True)
        machine: _Object = {'infrastructureRef': self._refer(template)}
        return self._make(
            _CONTROL_PLANE,
            'KubeadmControlPlane',
            request.control_plane_name,
            {
                'replicas': request.control_plane.nodes,
                'version': request.kubernetes_version,
                'machineTemplate': machine
                if self._is_old
                else {'spec': machine},
                'kubeadmConfigSpec': {
                    'clusterConfiguration': {
                        'controllerManager': {
                            'extraArgs': self._make_args(
                                {'cloud-provider': 'external'}
                            )
                        }
                    },
                    'initConfiguration': node,
                    'joinConfiguration': node,
                },
            },
        )
