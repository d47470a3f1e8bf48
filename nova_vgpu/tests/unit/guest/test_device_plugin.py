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

"""The static Pod of a GPU cluster's node, and what is refused before."""

import importlib
import typing

import testtools

from nova_vgpu.guest import device_plugin
from nova_vgpu.guest import setup
from nova_vgpu.tests.unit.guest import test_setup

# Not by statements: they have no type hints of their own.
KUBERNETES = importlib.import_module('kubernetes_validate')
YAML = importlib.import_module('yaml')

# The oldest and the newest Kubernetes that the package has schemas of.
KUBERNETES_VERSIONS = ('1.25', '1.37')
DIGEST = f'sha256:{"a" * 64}'
IMAGES = (
    'nvcr.io/nvidia/k8s-device-plugin:v0.17.1',
    f'nvcr.io/nvidia/k8s-device-plugin@{DIGEST}',
    f'localhost:5000/k8s-device-plugin:v0.17.1@{DIGEST}',
    'k8s-device-plugin:1',
    'a.b-c.example:5000/d/e__f/g--h.i:_1.2-x',
)


def load(image: str) -> dict[str, typing.Any]:
    loaded: dict[str, typing.Any] = YAML.safe_load(
        device_plugin.make_manifest(image)
    )
    return loaded


class TestManifest(testtools.TestCase):
    def test_kubernetes_takes_it(self) -> None:
        found = load(IMAGES[0])
        for version in KUBERNETES_VERSIONS:
            KUBERNETES.validate(found, version, strict=True)
        found['spec']['volume'] = []
        self.assertRaises(
            KUBERNETES.ValidationError,
            KUBERNETES.validate,
            found,
            KUBERNETES_VERSIONS[-1],
            strict=True,
        )

    def test_every_image_stays_one(self) -> None:
        for image in IMAGES:
            (container,) = load(image)['spec']['containers']
            self.assertEqual(image, container['image'])

    def test_what_the_plugin_needs(self) -> None:
        found = load(IMAGES[0])
        self.assertEqual(
            ('Pod', 'kube-system'),
            (found['kind'], found['metadata']['namespace']),
        )
        spec = found['spec']
        self.assertEqual('system-node-critical', spec['priorityClassName'])
        (container,), (volume,) = spec['containers'], spec['volumes']
        self.assertEqual(IMAGES[0], container['image'])
        (mount,) = container['volumeMounts']
        self.assertEqual(
            ('/var/lib/kubelet/device-plugins', volume['name']),
            (mount['mountPath'], mount['name']),
        )
        self.assertEqual(mount['mountPath'], volume['hostPath']['path'])

    def test_it_needs_nothing_of_the_api_server(self) -> None:
        """Which the kubelet refuses in static Pods."""
        text = device_plugin.make_manifest(IMAGES[0]).decode().lower()
        for word in ('serviceaccount', 'configmap', 'secret', 'valuefrom'):
            self.assertNotIn(word, text)


class TestDecision(testtools.TestCase):
    def test_only_nodes_that_are_to_have_it_get_it(self) -> None:
        for image, is_node, expected in (
            (IMAGES[0], True, True),
            (IMAGES[0], False, False),
            ('none', True, False),
            ('none', False, False),
            (None, False, False),
        ):
            request = test_setup.change(
                test_setup.NODE, gpu_cluster=is_node, device_plugin=image
            )
            self.assertEqual((), setup.find_problems(request))
            wanted = setup.decide(request)
            paths = {file.path: file for file in wanted.files}
            case = f'{image} {is_node}'
            self.assertIs(expected, device_plugin.MANIFEST in paths, case)
            if expected:
                file = paths[device_plugin.MANIFEST]
                self.assertEqual(
                    (0o600, False), (file.mode, file.is_secret), case
                )

    def test_nothing_said_is_a_problem_of_nodes(self) -> None:
        self.assertEqual([], [*device_plugin.find_problems(None, False)])
        (problem,) = device_plugin.find_problems(None, True)
        self.assertIn('Give --device-plugin', problem)

    def test_which_images_are_refused(self) -> None:
        for image in IMAGES:
            self.assertEqual([], [*device_plugin.find_problems(image, True)])
        for image in (
            'nvcr.io/nvidia/k8s-device-plugin',  # which version it is
            'nvcr.io/nvidia/k8s-device-plugin:',
            'nvcr.io/nvidia/K8S:1',
            'nvcr.io//x:1',
            '/x:1',
            'x:1:2',
            'x@sha256:abc',
            'x@md5:abc',
            'https://nvcr.io/nvidia/k8s-device-plugin:v1',
            'user@nvcr.io/x:1',
            'IMAGE',
            '<image>:1',
            'x:1\n',
            'x:1"\n  hostNetwork: true',
            'a/' * 300 + 'b:1',
        ):
            (problem,) = device_plugin.find_problems(image, False)
            self.assertIn('tag or digest', problem, image)
