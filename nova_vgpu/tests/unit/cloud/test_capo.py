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

"""Cluster API's objects, the operator's values and the test, parsed again.

That the kinds of Cluster API and of its provider accept these objects was
tried with their published schemas, which are not part of this project. Here
is what follows from these schemas and from the order.
"""

import importlib
import re
import typing

import testtools

from nova_vgpu.cloud.nodes import capo
from nova_vgpu.cloud.nodes import node_gpus
from nova_vgpu.cloud.nodes import node_order
from nova_vgpu.cloud.nodes import node_request
from nova_vgpu.cloud.nodes import room
from nova_vgpu.cloud.orders import image_store
from nova_vgpu.tests.unit.cloud import node_orders

# Not by statements: they have no type hints of their own.
KUBERNETES = importlib.import_module('kubernetes_validate')
YAML = importlib.import_module('yaml')

OLD = node_request.APIVersion.V1BETA1
NEW = node_request.APIVersion.V1BETA2
PLAIN = node_orders.kind('m1.large', node_orders.NO_GPU)
TWO = node_orders.kind(gpus=node_gpus.NodeGPUs(2, 'A40-8Q'))
WHOLE = node_orders.kind('whole', node_gpus.NodeGPUs(4, 'RTX 6000 Ada', True))
SEVERAL = node_orders.kind('any', node_gpus.NodeGPUs(1))
NAME = re.compile(r'[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?')
LABEL = re.compile(r'[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?')
GROUP = 'cluster.x-k8s.io'
KINDS = {
    'OpenStackMachineTemplate': f'infrastructure.{GROUP}',
    'KubeadmConfigTemplate': f'bootstrap.{GROUP}',
    'KubeadmControlPlane': f'controlplane.{GROUP}',
    'MachineDeployment': GROUP,
}
# The oldest and the newest Kubernetes that the package has schemas of.
KUBERNETES_VERSIONS = ('1.25', '1.37')
_Object = dict[str, typing.Any]

ORDERS = (
    node_orders.order(),
    node_orders.order(TWO, PLAIN),
    node_orders.order(WHOLE, WHOLE, driver=node_request.DriverRequest()),
    node_orders.order(SEVERAL, has_taint=False, most_nodes=5, nodes=0),
    node_orders.order(TWO, PLAIN, api=OLD, most_nodes=5),
)


def load(order: node_order.ClusterOrder) -> dict[str, list[_Object]]:
    """The objects of each file."""
    return {
        each.name: list(YAML.safe_load_all(each.text))
        for each in capo.render(order)
    }


def load_kind(order: node_order.ClusterOrder, kind: str) -> list[_Object]:
    machines = load(order)['machines.yaml']
    return [each for each in machines if each['kind'] == kind]


def args_of(node: _Object) -> dict[str, str]:
    given = node['nodeRegistration']['kubeletExtraArgs']
    if isinstance(given, dict):
        return given
    return {each['name']: each['value'] for each in given}


class TestMachines(testtools.TestCase):
    def test_every_object_is_one_of_cluster_api(self) -> None:
        for order in ORDERS:
            for each in load(order)['machines.yaml']:
                version = order.request.api.value
                self.assertEqual(
                    f'{KINDS[each["kind"]]}/{version}', each['apiVersion']
                )
                self.assertTrue(NAME.fullmatch(each['metadata']['name']))
                self.assertEqual(
                    {f'{GROUP}/cluster-name': 'demo'},
                    each['metadata']['labels'],
                )

    def test_references_lead_to_objects(self) -> None:
        for order in ORDERS:
            objects = load(order)['machines.yaml']
            there = {
                (each['apiVersion'], each['kind'], each['metadata']['name'])
                for each in objects
            }
            references = list(self.list_references(objects, order))
            self.assertEqual(
                3 if order.found.control_plane else 2, len(references)
            )
            self.assertEqual(set(), set(references) - there)

    def list_references(
        self, found: typing.Any, order: node_order.ClusterOrder
    ) -> typing.Iterator[tuple[str, str, str]]:
        if isinstance(found, list):
            for each in found:
                yield from self.list_references(each, order)
        if not isinstance(found, dict):
            return
        for key, value in found.items():
            if key in ('configRef', 'infrastructureRef'):
                api = value.get('apiVersion')
                if order.request.api is NEW:
                    self.assertNotIn('apiVersion', value)
                    api = f'{value["apiGroup"]}/{NEW.value}'
                yield api, value['kind'], value['name']
            else:
                yield from self.list_references(value, order)

    def test_three_workers(self) -> None:
        (template,) = load_kind(ORDERS[0], 'OpenStackMachineTemplate')
        self.assertEqual(
            {
                'flavor': {'filter': {'name': 'gpu-a40'}},
                'image': {'filter': {'name': 'ubuntu-24.04-k8s'}},
            },
            template['spec']['template']['spec'],
        )
        (deployment,) = load_kind(ORDERS[0], 'MachineDeployment')
        self.assertEqual('demo-gpu', deployment['metadata']['name'])
        self.assertEqual(3, deployment['spec']['replicas'])
        machine = deployment['spec']['template']['spec']
        self.assertEqual('v1.34.2', machine['version'])
        self.assertEqual('demo', machine['clusterName'])
        self.assertEqual(
            deployment['spec']['selector']['matchLabels'],
            deployment['spec']['template']['metadata']['labels'],
        )

    def test_the_older_version_has_a_flavor_as_a_string(self) -> None:
        for template in load_kind(ORDERS[4], 'OpenStackMachineTemplate'):
            self.assertIsInstance(
                template['spec']['template']['spec']['flavor'], str
            )
        (bootstrap,) = load_kind(ORDERS[4], 'KubeadmConfigTemplate')
        node = bootstrap['spec']['template']['spec']['joinConfiguration']
        self.assertIsInstance(
            node['nodeRegistration']['kubeletExtraArgs'], dict
        )
        (deployment,) = load_kind(ORDERS[4], 'MachineDeployment')
        self.assertNotIn('rollout', deployment['spec'])
        self.assertEqual(
            'RollingUpdate', deployment['spec']['strategy']['type']
        )

    def test_options_of_a_machine(self) -> None:
        order = node_orders.order(
            key_name='1e3',
            root_volume_gib=80,
            failure_domain='gpu: zone',
            image=image_store.Image('id', 'other'),
        )
        (template,) = load_kind(order, 'OpenStackMachineTemplate')
        spec = template['spec']['template']['spec']
        self.assertEqual('1e3', spec['sshKeyName'])
        self.assertEqual({'sizeGiB': 80}, spec['rootVolume'])
        # It was not found by its name, so that name is not to be used.
        self.assertEqual({'id': 'id'}, spec['image'])
        (deployment,) = load_kind(order, 'MachineDeployment')
        machine = deployment['spec']['template']['spec']
        self.assertEqual('gpu: zone', machine['failureDomain'])

    def test_nodes_go_before_others_come(self) -> None:
        """There may be no GPU for one more node than there are."""
        for order, path in ((ORDERS[0], 'rollout'), (ORDERS[4], None)):
            (deployment,) = load_kind(order, 'MachineDeployment')
            spec = deployment['spec']
            found = spec[path]['strategy'] if path else spec['strategy']
            self.assertEqual(
                {'maxSurge': 0, 'maxUnavailable': 1}, found['rollingUpdate']
            )

    def test_another_template_has_another_name(self) -> None:
        def names(**changes: typing.Any) -> list[str]:
            order = node_orders.order(**changes)
            return [
                each['metadata']['name']
                for each in load(order)['machines.yaml']
            ]

        first, bootstrap, deployment = names()
        self.assertEqual([first, bootstrap, deployment], names())
        for changes, is_other in (
            ({'key_name': 'mine'}, (True, False)),
            ({'has_taint': False}, (False, True)),
            ({'workers': TWO}, (False, True)),
            ({'workers': node_orders.kind('x')}, (True, False)),
            ({'nodes': 4}, (False, False)),
        ):
            found = names(**changes)
            self.assertEqual(
                is_other,
                (found[0] != first, found[1] != bootstrap),
                str(changes),
            )
            self.assertEqual(deployment, found[2])

    def test_what_the_autoscaler_reads(self) -> None:
        (deployment,) = load_kind(ORDERS[3], 'MachineDeployment')
        self.assertNotIn('replicas', deployment['spec'])
        found = deployment['metadata']['annotations']
        limits = f'{GROUP}/cluster-api-autoscaler-node-group'
        self.assertEqual('0', found.pop(f'{limits}-min-size'))
        self.assertEqual('5', found.pop(f'{limits}-max-size'))
        capacity = 'capacity.cluster-autoscaler.kubernetes.io'
        (bootstrap,) = load_kind(ORDERS[3], 'KubeadmConfigTemplate')
        node = bootstrap['spec']['template']['spec']['joinConfiguration']
        self.assertEqual(
            {
                f'{capacity}/cpu': '4',
                f'{capacity}/memory': '16384Mi',
                f'{capacity}/ephemeral-disk': '40Gi',
                f'{capacity}/gpu-type': 'nvidia.com/gpu',
                f'{capacity}/gpu-count': '1',
                f'{capacity}/labels': args_of(node)['node-labels'],
            },
            found,
        )
        (deployment,) = load_kind(ORDERS[4], 'MachineDeployment')
        self.assertEqual(
            'nvidia.com/gpu=present:NoSchedule',
            deployment['metadata']['annotations'][f'{capacity}/taints'],
        )
        (deployment,) = load_kind(ORDERS[0], 'MachineDeployment')
        self.assertNotIn('annotations', deployment['metadata'])

    def test_the_disk_of_a_node_is_what_it_boots_from(self) -> None:
        order = node_orders.order(most_nodes=5, root_volume_gib=100)
        (deployment,) = load_kind(order, 'MachineDeployment')
        self.assertEqual(
            '100Gi',
            deployment['metadata']['annotations'][
                'capacity.cluster-autoscaler.kubernetes.io/ephemeral-disk'
            ],
        )


class TestRegistration(testtools.TestCase):
    def node(self, order: node_order.ClusterOrder) -> _Object:
        (bootstrap,) = load_kind(order, 'KubeadmConfigTemplate')
        found: _Object = bootstrap['spec']['template']['spec']
        return found['joinConfiguration']  # type: ignore[no-any-return]

    def test_labels_are_those_of_the_gpus(self) -> None:
        for order, count, kind in (
            (ORDERS[0], '1', 'A40-8Q'),
            (ORDERS[1], '2', 'A40-8Q'),
            (ORDERS[2], '4', 'RTX-6000-Ada'),
            (ORDERS[3], '1', 'nvidia'),
            (
                node_orders.order(
                    node_orders.kind(gpus=node_gpus.NodeGPUs(1, '-a,b=c\n'))
                ),
                '1',
                'a-b-c',
            ),
            (
                node_orders.order(
                    node_orders.kind(
                        gpus=node_gpus.NodeGPUs(1, 'x' * 62 + ' y')
                    )
                ),
                '1',
                'x' * 62,
            ),
        ):
            text = args_of(self.node(order))['node-labels']
            labels = dict(each.split('=') for each in text.split(','))
            self.assertEqual(
                {
                    'nova-vgpu/pool': 'gpu',
                    'nvidia.com/gpu.present': 'true',
                    'nvidia.com/gpu.count': count,
                    'cluster-api/accelerator': kind,
                },
                labels,
            )
            for value in labels.values():
                self.assertTrue(LABEL.fullmatch(value), value)

    def test_taints(self) -> None:
        taint = {
            'key': 'nvidia.com/gpu',
            'value': 'present',
            'effect': 'NoSchedule',
        }
        master = {
            'key': 'node-role.kubernetes.io/control-plane',
            'effect': 'NoSchedule',
        }
        registration = self.node(ORDERS[0])['nodeRegistration']
        self.assertEqual([taint], registration['taints'])
        self.assertNotIn('taints', self.node(ORDERS[3])['nodeRegistration'])
        for order, expected in (
            (ORDERS[1], [master]),
            (ORDERS[2], [master, taint]),
        ):
            (plane,) = load_kind(order, 'KubeadmControlPlane')
            config = plane['spec']['kubeadmConfigSpec']
            for name in ('initConfiguration', 'joinConfiguration'):
                node = config[name]['nodeRegistration']
                self.assertEqual(expected, node['taints'])

    def test_a_control_plane(self) -> None:
        for order in (ORDERS[1], ORDERS[4]):
            (plane,) = load_kind(order, 'KubeadmControlPlane')
            self.assertEqual('demo-control-plane', plane['metadata']['name'])
            self.assertEqual(3, plane['spec']['replicas'])
            self.assertEqual('v1.34.2', plane['spec']['version'])
            first, second = load_kind(order, 'OpenStackMachineTemplate')
            self.assertIn('m1.large', str(first))
            self.assertIn('gpu-a40', str(second))
            node = plane['spec']['kubeadmConfigSpec']['initConfiguration']
            self.assertEqual(
                'nova-vgpu/pool=control-plane', args_of(node)['node-labels']
            )

    def test_what_is_reserved_follows_the_size(self) -> None:
        found = args_of(self.node(ORDERS[0]))
        self.assertEqual('cpu=120m,memory=819Mi', found['kube-reserved'])
        self.assertEqual('memory=330Mi', found['system-reserved'])
        self.assertEqual('external', found['cloud-provider'])


class TestOperator(testtools.TestCase):
    def values(self, order: node_order.ClusterOrder) -> _Object:
        (found,) = load(order)['gpu-operator-values.yaml']
        return found

    def test_the_driver(self) -> None:
        Driver = node_request.DriverRequest
        for driver, expected in (
            (
                node_orders.DRIVER,
                {
                    'enabled': True,
                    'repository': 'registry.example.org/nvidia',
                    'image': 'vgpu-guest-driver',
                    'version': '580.95.05',
                    'licensingConfig': {
                        'secretName': 'gpu-licence',
                        'nlsEnabled': True,
                    },
                },
            ),
            (
                Driver(image='a/b:1e3', pull_secret='pull'),
                {
                    'enabled': True,
                    'repository': 'a',
                    'image': 'b',
                    'version': '1e3',
                    'imagePullSecrets': ['pull'],
                },
            ),
            (Driver(), {'enabled': True}),
            (Driver(is_in_image=True), {'enabled': False}),
        ):
            found = self.values(node_orders.order(driver=driver))
            self.assertEqual(expected, found['driver'])
            self.assertEqual({'enabled': True}, found['devicePlugin'])

    def test_gpus_of_a_control_plane_are_served_too(self) -> None:
        keys = [
            each['key']
            for each in self.values(ORDERS[2])['daemonsets']['tolerations']
        ]
        self.assertEqual(
            ['nvidia.com/gpu', 'node-role.kubernetes.io/control-plane'], keys
        )
        for order in (ORDERS[0], ORDERS[1]):
            self.assertNotIn('daemonsets', self.values(order))


class TestSmokeTest(testtools.TestCase):
    def daemon_set(self, order: node_order.ClusterOrder) -> _Object:
        (found,) = load(order)['smoke-test.yaml']
        return found

    def pod(self, order: node_order.ClusterOrder) -> _Object:
        found: _Object = self.daemon_set(order)['spec']['template']['spec']
        return found

    def test_kubernetes_knows_every_field(self) -> None:
        for order in ORDERS:
            found = self.daemon_set(order)
            for version in KUBERNETES_VERSIONS:
                KUBERNETES.validate(found, version, strict=True)
            found['spec']['template']['spec']['tolerate'] = []
            self.assertRaises(
                KUBERNETES.ValidationError,
                KUBERNETES.validate,
                found,
                KUBERNETES_VERSIONS[-1],
                strict=True,
            )

    def test_every_node_of_the_pool_has_a_pod(self) -> None:
        """Which a job cannot promise: pods that ended keep nobody away."""
        found = self.daemon_set(ORDERS[0])
        self.assertEqual('DaemonSet', found['kind'])
        self.assertEqual(
            found['spec']['selector']['matchLabels'],
            found['spec']['template']['metadata']['labels'],
        )
        pod = self.pod(ORDERS[0])
        self.assertEqual({'nova-vgpu/pool': 'gpu'}, pod['nodeSelector'])
        self.assertEqual(
            [{'key': 'nvidia.com/gpu', 'operator': 'Exists'}],
            pod['tolerations'],
        )

    def test_every_gpu_of_a_node_is_used_before_the_pod_is_ready(self) -> None:
        """Init containers share GPUs: each has all, and sees one."""
        for order, gpus in zip(ORDERS, (1, 2, 4, 1, 2), strict=True):
            pod = self.pod(order)
            tests = pod['initContainers']
            self.assertEqual(
                [{'nvidia.com/gpu': gpus}] * gpus,
                [each['resources']['limits'] for each in tests],
            )
            self.assertEqual(
                [
                    [{'name': 'CUDA_VISIBLE_DEVICES', 'value': str(number)}]
                    for number in range(gpus)
                ],
                [each['env'] for each in tests],
            )
            self.assertEqual(gpus, len({each['name'] for each in tests}))
            for each in tests:
                self.assertNotIn('command', each)
            (last,) = pod['containers']
            self.assertEqual(['sleep', 'infinity'], last['command'])


class TestFiles(testtools.TestCase):
    def comments(self, order: node_order.ClusterOrder) -> str:
        return '\n'.join(
            line
            for each in capo.render(order)
            for line in each.text.splitlines()
            if line.startswith('# ')
        )

    def test_their_names_are_those_of_the_parts(self) -> None:
        self.assertEqual(
            list(capo.PARTS.values()),
            [each.name for each in capo.render(ORDERS[0])],
        )

    def test_the_same_order_is_the_same_text(self) -> None:
        for order in ORDERS:
            self.assertEqual(capo.render(order), capo.render(order))

    def test_a_reader_is_told_what_was_checked(self) -> None:
        for order, words in (
            (ORDERS[0], 'Placement had room for these nodes'),
            (node_orders.order(check=node_orders.UNCHECKED), 'NOT CHECKED'),
            (
                node_orders.order(check=room.Check(unheeded_zone='gpu')),
                'Room was checked in all zones, not in zone gpu alone.',
            ),
            (
                ORDERS[1],
                'for workers and for control plane, each counted alone, when',
            ),
            (ORDERS[2], 'Placement had room for these nodes when'),
            (ORDERS[0], 'firmware uefi, machine type q35'),
            (
                node_orders.order(image=image_store.Image('id', 'bare')),
                'firmware not set, machine type not set',
            ),
            (ORDERS[1], 'Workers, 3: flavor gpu-a40, 2 vGPUs A40-8Q'),
            (ORDERS[1], 'Control plane, 3: flavor m1.large, no GPU'),
            (ORDERS[3], 'Workers, 0 to 5'),
            (ORDERS[0], 'namespace of the operator: gpu-licence'),
            (
                ORDERS[0],
                'For the licence: version 25.10 of the chart, or newer',
            ),
            (ORDERS[0], 'for all pools of the cluster'),
            (ORDERS[0], 'Cluster API 1.11 and CAPO 0.15, or newer'),
            (ORDERS[0], 'rollout status daemonset/gpu-smoke'),
            (
                node_orders.order(
                    node_orders.kind(extra_specs={'hw:mem_page_size': 'large'})
                ),
                'pinned on the host in pages "large"',
            ),
        ):
            self.assertIn(words, self.comments(order))
        # Which do not know the newer kinds.
        self.assertNotIn('CAPO 0.15', self.comments(ORDERS[4]))
        no_licence = node_request.DriverRequest(is_in_image=True)
        self.assertNotIn(
            '25.10', self.comments(node_orders.order(driver=no_licence))
        )

    def test_a_hostile_flavor_stays_a_name(self) -> None:
        name = 'a\n---\nkind: Secret\n# "\' {{ x }} ${y}'
        kind = node_orders.kind(name)
        order = node_orders.order(kind, node_orders.kind(name))
        self.assertEqual(
            [each['kind'] for each in load(ORDERS[1])['machines.yaml']],
            [each['kind'] for each in load(order)['machines.yaml']],
        )
        for template in load_kind(order, 'OpenStackMachineTemplate'):
            self.assertEqual(
                {'filter': {'name': name}},
                template['spec']['template']['spec']['flavor'],
            )
