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

"""The command, as a shell runs it."""

import argparse
import dataclasses
import subprocess
import typing

import testtools

from nova_vgpu.cloud.nodes import magnum
from nova_vgpu.cloud.nodes import node_gpus
from nova_vgpu.cloud.nodes import node_reading
from nova_vgpu.tests.unit.cloud import node_orders

REQUEST = magnum.NodeGroupRequest(
    node_gpus.FlavorChoice('gpu-a40'), 'demo', node_orders.IMAGE.name, nodes=3
)
# In place of the client.
PRINTS = 'openstack() { printf "%s\\0" "$@"; }'
HOSTILE = (
    *('-x', '$(touch x)', '`x`', "a'b", 'a"b', 'a;b', 'a|b', '~', '*', '#'),
    *('a\nb', 'a \\', '!x', '${HOME}', '<x>', '&', 'ü'),
)


def make_parser() -> argparse.ArgumentParser:
    """The options as python-magnumclient 5.0 has them."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for option in ('--flavor', '--image', '--role'):
        parser.add_argument(option)
    for option in ('--node-count', '--min-nodes', '--max-nodes'):
        parser.add_argument(option, type=int)
    for option in ('--labels', '--node-labels', '--node-taints'):
        parser.add_argument(option, action='append')
    parser.add_argument('--merge-labels', action='store_true')
    parser.add_argument('cluster')
    parser.add_argument('name')
    return parser


class TestMagnum(testtools.TestCase):
    def order(
        self, kind: node_reading.NodeKind | None = None, **changes: typing.Any
    ) -> magnum.NodeGroupOrder:
        found = node_reading.Found(
            kind or node_orders.kind(), node_orders.IMAGE
        )
        return magnum.NodeGroupOrder(
            dataclasses.replace(REQUEST, **changes), found
        )

    def parse(self, order: magnum.NodeGroupOrder) -> argparse.Namespace:
        script = f'{PRINTS}\n{magnum.render(order).text}'
        done = subprocess.run(['/bin/sh', '-euc', script], capture_output=True)
        self.assertEqual((0, b''), (done.returncode, done.stderr))
        words = done.stdout.decode().split('\0')[:-1]
        self.assertEqual(['coe', 'nodegroup', 'create'], words[:3])
        return make_parser().parse_args(words[3:])

    def test_three_nodes(self) -> None:
        found = self.parse(self.order())
        self.assertEqual(('demo', 'gpu'), (found.cluster, found.name))
        self.assertEqual('gpu-a40', found.flavor)
        self.assertEqual('image-id', found.image)
        self.assertEqual(3, found.node_count)
        # With a lower limit, it could never become smaller.
        self.assertIsNone(found.min_nodes)
        self.assertIsNone(found.max_nodes)
        self.assertEqual(
            [
                'nova-vgpu/pool=gpu,nvidia.com/gpu.present=true,'
                'nvidia.com/gpu.count=1,cluster-api/accelerator=A40-8Q'
            ],
            found.node_labels,
        )
        self.assertEqual(
            ['nvidia.com/gpu=present:NoSchedule'], found.node_taints
        )
        self.assertIsNone(found.labels)

    def test_options(self) -> None:
        found = self.parse(
            self.order(
                nodes=0, most_nodes=4, root_volume_gib=80, has_taint=False
            )
        )
        self.assertEqual(0, found.node_count)
        self.assertEqual((0, 4), (found.min_nodes, found.max_nodes))
        self.assertEqual(['boot_volume_size=80'], found.labels)
        self.assertTrue(found.merge_labels)
        self.assertIsNone(found.node_taints)

    def test_commands_for_drivers_that_ignore_labels_and_taints(self) -> None:
        label = (
            '# kubectl label node NODE nova-vgpu/pool=gpu '
            'nvidia.com/gpu.present=true nvidia.com/gpu.count=1 '
            'cluster-api/accelerator=A40-8Q\n'
        )
        taint = '# kubectl taint node NODE nvidia.com/gpu=present:NoSchedule\n'
        text = magnum.render(self.order()).text
        self.assertIn(label, text)
        self.assertIn(taint, text)
        text = magnum.render(self.order(has_taint=False)).text
        self.assertIn(label, text)
        self.assertNotIn('kubectl taint', text)

    def test_names_stay_names(self) -> None:
        for name in HOSTILE:
            found = self.parse(
                self.order(node_orders.kind(name), cluster=name)
            )
            self.assertEqual((name, name), (found.flavor, found.cluster))

    def test_everything_that_is_missing_is_named_at_once(self) -> None:
        found = magnum.find_problems(
            magnum.NodeGroupRequest(node_gpus.FlavorChoice(), nodes=0)
        )
        self.assertEqual(
            ['Give', '--cluster', '--image', '--nodes'],
            [text.split()[0] for text in found],
        )
        self.assertEqual([], list(magnum.find_problems(REQUEST)))

    def test_what_is_invalid(self) -> None:
        for changes, words in (
            ({'cluster': 'a\x1b'}, r'--cluster a\x1b is not valid'),
            ({'pool': 'A'}, '--pool A is not valid'),
            ({'most_nodes': 2}, '--max-nodes 2 is too small'),
            ({'root_volume_gib': 0}, '--root-volume 0 is too small'),
            ({'nodes': 2**31}, '--nodes 2147483648 is too large'),
        ):
            request = dataclasses.replace(REQUEST, **changes)
            (found,) = magnum.find_problems(request)
            self.assertIn(words, found)
