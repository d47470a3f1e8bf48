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

"""The file is parsed again, by a parser of Terraform's language."""

import importlib
import json
import typing

import hypothesis
from hypothesis import strategies
import testtools

from nova_vgpu.cloud.nodes import hcl
from nova_vgpu.cloud.nodes import terraform
from nova_vgpu.cloud.orders import image_store
from nova_vgpu.tests.unit.cloud import node_orders
from nova_vgpu.tests.unit.cloud import server_orders

# Not by a statement: it is not typed in full.
HCL = importlib.import_module('hcl2')
HOSTILE = (
    *('a"', 'a\\', 'a\nb', '${file("/etc/passwd")}', '$${x}', '%{if true}'),
    *('$$${x}', '$', '${', '%', '{}', '"}\nresource "x" "y" {', '#', '//'),
    *('a\x1b[2J', 'a\u2028b', 'ü', '\U0001f600', '<<EOT', '/*'),
)


def parse(text: str) -> dict[str, typing.Any]:
    found: dict[str, typing.Any] = HCL.loads(text)
    return found


def unquote(text: str) -> str:
    """What Terraform makes of a string without anything to evaluate.

    Its escapes are those of JSON, but for characters beyond the 65,536 first.
    """
    return str(json.loads(text))


class TestHCL(testtools.TestCase):
    def test_strings_mean_themselves(self) -> None:
        for text in HOSTILE:
            dumped = hcl.dump((hcl.Block(('a',), {'b': text, 'c': 1}),))
            (block,) = parse(dumped)['a']
            self.assertEqual(text, unquote(block['b']), repr(text))
            self.assertEqual(1, block['c'])

    @hypothesis.given(strategies.text('a"\\${}%\n\x00\u2028#'))
    def test_nothing_in_a_string_is_evaluated(self, text: str) -> None:
        quoted = hcl.quote(text)
        self.assertNotIn('${', quoted)
        self.assertNotIn('%{', quoted)
        self.assertEqual(1, len(quoted.splitlines()))
        self.assertEqual(text, unquote(quoted))

    def test_the_layout(self) -> None:
        inner = hcl.Block(('c',), {'d': True})
        block = hcl.Block(('a', 'b'), {'long': 1, 'x': '2'}, (inner,))
        self.assertEqual(
            'a "b" {\n  long = 1\n  x    = "2"\n\n  c {\n    d = true\n'
            '  }\n}\n',
            hcl.dump((block,)),
        )


class TestTerraform(testtools.TestCase):
    def server(self, **changes: typing.Any) -> dict[str, typing.Any]:
        text = terraform.render(server_orders.order(**changes)).text
        (resource,) = parse(text)['resource']
        found: dict[str, typing.Any] = resource[
            '"openstack_compute_instance_v2"'
        ]['"gpu"']
        return found

    def test_three_servers(self) -> None:
        found = self.server()
        self.assertEqual(3, found['count'])
        self.assertEqual('"worker-${count.index + 1}"', found['name'])
        self.assertEqual('"gpu-a40"', found['flavor_name'])
        self.assertEqual('"ubuntu-24.04-k8s"', found['image_name'])
        (network,) = found['network']
        self.assertEqual('"kubernetes"', network['name'])
        self.assertNotIn('key_pair', found)
        self.assertNotIn('block_device', found)

    def test_options(self) -> None:
        found = self.server(
            key_name='1e3',
            availability_zone='gpu',
            root_volume_gib=80,
            image=image_store.Image('some-id', 'other'),
        )
        self.assertEqual('"1e3"', found['key_pair'])
        self.assertEqual('"gpu"', found['availability_zone'])
        (volume,) = found['block_device']
        self.assertEqual('"some-id"', volume['uuid'])
        self.assertEqual(80, volume['volume_size'])
        self.assertNotIn('image_name', found)
        self.assertNotIn('image_id', found)
        found = self.server(image=image_store.Image('some-id', 'other'))
        self.assertEqual('"some-id"', found['image_id'])

    def test_user_data_is_not_in_the_file(self) -> None:
        parsed = parse(terraform.render(server_orders.order()).text)
        (variable,) = parsed['variable']
        self.assertIs(True, variable['"user_data"']['sensitive'])
        self.assertIn('var.user_data', str(self.server()['user_data']))

    def test_other_user_data_does_not_replace_running_servers(self) -> None:
        for changes in ({}, {'root_volume_gib': 80}):
            (rules,) = self.server(**changes)['lifecycle']
            self.assertEqual(['user_data'], rules['ignore_changes'])

    def test_a_hostile_flavor_stays_a_name(self) -> None:
        for name in HOSTILE:
            order = server_orders.order(node_orders.kind(name))
            parsed = parse(terraform.render(order).text)
            self.assertEqual(1, len(parsed['resource']))
            found = self.server(kind=node_orders.kind(name))
            self.assertEqual(name, unquote(found['flavor_name']))

    def test_a_reader_is_told_what_was_checked(self) -> None:
        order = server_orders.order(check=node_orders.UNCHECKED)
        self.assertIn('# NOT CHECKED', terraform.render(order).text)
        text = terraform.render(server_orders.order()).text
        self.assertIn('# Servers, 3: flavor gpu-a40, 1 vGPU A40-8Q', text)
        self.assertNotIn('NOT CHECKED', text)
