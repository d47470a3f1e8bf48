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

import dataclasses
import typing

import testtools

from nova_vgpu.cloud.nodes import node_gpus
from nova_vgpu.cloud.nodes import node_request
from nova_vgpu.tests.unit.cloud import node_orders

LARGEST = 2147483647
WHOLE = node_gpus.NodeGPUs(1, 'A40', True)
Driver = node_request.DriverRequest
Choice = node_gpus.FlavorChoice
ControlPlane = node_request.ControlPlane


class TestProblems(testtools.TestCase):
    def find(self, **changes: typing.Any) -> list[str]:
        request = dataclasses.replace(node_orders.REQUEST, **changes)
        return list(node_request.find_problems(request))

    def test_a_good_request_has_none(self) -> None:
        for changes in (
            {},
            {'choice': Choice(type='A40-8Q', count=2)},
            {'choice': Choice(passthrough='A40')},
            {'nodes': 0, 'most_nodes': 4},
            {'control_plane': ControlPlane(3, 'plain')},
            {'nodes': LARGEST, 'root_volume_gib': LARGEST},
            {'control_plane': ControlPlane(LARGEST, 'plain')},
            {'key_name': 'k' * 255},
            {'driver': Driver(image='a/vgpu-ubuntu24.04:580.95.05-grid')},
            {'smoke_image': 'a/cuda:vectoradd-ubuntu24.04'},
            {'key_name': 'Lübeck "1"', 'failure_domain': 'gpu zone'},
            {'smoke_image': 'localhost:5000/cuda/vector_add:1'},
            {'cluster': 'x' * 31},
        ):
            self.assertEqual([], self.find(**changes), str(changes))

    def test_everything_that_is_missing_is_named_at_once(self) -> None:
        found = list(
            node_request.find_problems(
                node_request.ClusterRequest(
                    Choice(), control_plane=ControlPlane(3)
                )
            )
        )
        self.assertEqual(5, len(found), str(found))
        for words, text in zip(
            (
                'Give either a flavor, or --type',
                '--cluster is missing',
                '--image is missing',
                '--kubernetes-version is missing',
                '--control-plane-flavor is missing',
            ),
            found,
            strict=True,
        ):
            self.assertIn(words, text)

    def test_what_is_invalid(self) -> None:
        for changes, words in (
            ({'choice': Choice('a', type='b')}, 'Give either a flavor'),
            ({'choice': Choice('')}, 'Give either a flavor'),
            ({'choice': Choice(type='')}, 'Give either a flavor'),
            ({'choice': Choice('', type='A40-8Q')}, 'Give either a flavor'),
            ({'choice': Choice('a', count=2)}, '--count is for --type'),
            ({'choice': Choice(type='b', count=0)}, '--count 0 is too small'),
            ({'cluster': 'Demo'}, '--cluster Demo is not valid'),
            ({'cluster': 'a\n- b'}, '--cluster a\\n- b is not valid'),
            ({'cluster': '-a'}, '--cluster -a is not valid'),
            ({'cluster': 'x' * 60}, 'longer than 46 characters'),
            ({'pool': 'gpu.1'}, '--pool gpu.1 is not valid'),
            ({'pool': 'control-plane'}, 'the control plane itself'),
            ({'kubernetes_version': '1.34.2'}, '--kubernetes-version 1.34.2'),
            ({'kubernetes_version': 'v1.34'}, '--kubernetes-version v1.34'),
            ({'nodes': 0}, '--nodes 0 is too small: at least 1'),
            ({'nodes': LARGEST + 1}, '--nodes 2147483648 is too large: at '),
            ({'most_nodes': LARGEST + 1}, '--max-nodes 2147483648 is too la'),
            (
                {'root_volume_gib': LARGEST + 1},
                '--root-volume 2147483648 is too large: at most 2147483647.',
            ),
            (
                {'control_plane': ControlPlane(LARGEST + 2, 'a')},
                '--control-plane-nodes 2147483649 is too large',
            ),
            ({'most_nodes': 2}, '--max-nodes 2 is too small: at least 3'),
            ({'root_volume_gib': 0}, '--root-volume 0 is too small'),
            ({'control_plane': ControlPlane(2, 'a')}, 'is even'),
            (
                {'control_plane': ControlPlane(-1)},
                '--control-plane-nodes -1 is too small: at least 0.',
            ),
            (
                {'control_plane': ControlPlane(0, 'a')},
                '--control-plane-nodes is missing',
            ),
            ({'key_name': 'a\x1b[2J'}, r'--key-name a\x1b[2J is not valid'),
            ({'key_name': 'a '}, 'no spaces around them'),
            ({'key_name': 'a' * 256}, '--key-name has 256 characters: at mo'),
            ({'failure_domain': ''}, '--failure-domain is empty'),
            ({'smoke_image': 'vectoradd'}, '--smoke-image vectoradd'),
            ({'driver': Driver(image='a/b')}, '--driver-image a/b'),
            ({'driver': Driver(image='a/b:1 x')}, '--driver-image a/b:1 x'),
            (
                {'driver': Driver(image='a/b:580.95.05-ubuntu24.04')},
                '--driver-image ends in -ubuntu24.04: leave that out',
            ),
            (
                {'driver': Driver(image='a/b:580.95.05-rhel9.6')},
                '--driver-image ends in -rhel9.6: leave that out',
            ),
            (
                {'driver': Driver(licence_secret='a/b')},
                '--licence-secret a/b is not valid',
            ),
            (
                {'driver': Driver(pull_secret='x' * 254)},
                'is not valid. An example: the name of a Secret',
            ),
        ):
            found = self.find(**changes)
            self.assertIn(words, '\n'.join(found))
            self.assertTrue(all(text.isprintable() for text in found), found)

    def test_versions_of_kubernetes(self) -> None:
        for version in (
            *('v1.34.2', 'v0.0.0', 'v1.35.0-rc.1+k3s1', 'v1.30.5-gke.1014001'),
            *('v1.30.4-eks-a737599', 'v1.28.5+vmware.2', 'v1.34.2+0.01'),
            'v1.34.2+' + 'a' * 248,
        ):
            self.assertEqual([], self.find(kubernetes_version=version))
        for version in (
            *('1.34.2', 'v1.34', 'v1.34.2.1', 'v01.34.2', 'v1.034.2'),
            *('v1.34.02', 'v1.34.2-', 'v1.34.2-..', 'v1.34.2-a.', 'v1.34.2+'),
            *(
                'v1.34.2-01',
                'v1.34.2+a+b',
                'v1.34.2_a',
                'v1.34.2\n',
                'V1.34.2',
            ),
            *('v1.1234567890.2', 'v\u0661.34.2', 'latest'),
        ):
            (found,) = self.find(kubernetes_version=version)
            self.assertIn('is not valid. An example: v1.34.2.', found, version)
        (found,) = self.find(kubernetes_version='v1.34.2+' + 'a' * 249)
        self.assertEqual(
            '--kubernetes-version has 257 characters: at most 256.', found
        )

    def test_the_driver_of_vgpus(self) -> None:
        image, licence = 'a/b:1', 'licence'
        for driver, gpus, expected in (
            (Driver(image=image, licence_secret=licence), WHOLE, ()),
            (
                Driver(image=image, licence_secret=licence),
                node_orders.VGPU,
                (),
            ),
            (Driver(), WHOLE, ()),
            (
                Driver(),
                node_orders.VGPU,
                ('--driver-image is missing', '--licence-secret is missing'),
            ),
            (Driver(True), node_orders.VGPU, ()),
            (
                Driver(True, image, 'pull', licence),
                node_orders.VGPU,
                ('--driver-image', '--pull-secret', '--licence-secret'),
            ),
            (
                Driver(pull_secret='pull'),
                WHOLE,
                ('--pull-secret is for --driver-image',),
            ),
        ):
            found = tuple(node_request.find_driver_problems(driver, gpus))
            self.assertEqual(len(expected), len(found), str(found))
            for words, text in zip(expected, found, strict=True):
                self.assertIn(words, text)

    def test_the_parts_of_a_reference(self) -> None:
        for text, parts in (
            ('a.example/b/c:1.0', ('a.example/b', 'c', '1.0')),
            ('host:5000/c:1', ('host:5000', 'c', '1')),
            ('c:1', None),
            ('a/b', None),
            ('a/b:', None),
            ('a/b:1\n', None),
            ('A/b:1', None),
        ):
            found = node_request.parse_reference(text)
            self.assertEqual(
                parts and node_request.ImageReference(*parts), found, text
            )
