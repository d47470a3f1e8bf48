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

"""The template, parsed again.

That Heat accepts it was tried with Heat's own validation, which is not among
the requirements of the tests.
"""

import importlib
import typing

import testtools

from nova_vgpu.cloud.nodes import heat
from nova_vgpu.cloud.nodes import server_order
from nova_vgpu.cloud.orders import image_store
from nova_vgpu.tests.unit.cloud import node_orders
from nova_vgpu.tests.unit.cloud import server_orders

# Not by a statement: its type hints are a package of their own.
YAML = importlib.import_module('yaml')
_Object = dict[str, typing.Any]


class TestHeat(testtools.TestCase):
    def load(self, order: server_order.ServersOrder) -> _Object:
        found: _Object = YAML.safe_load(heat.render(order).text)
        return found

    def group(self, **changes: typing.Any) -> _Object:
        template = self.load(server_orders.order(**changes))
        (group,) = template['resources'].values()
        self.assertEqual('OS::Heat::ResourceGroup', group['type'])
        found: _Object = group['properties']
        return found

    def server(self, **changes: typing.Any) -> _Object:
        definition = self.group(**changes)['resource_def']
        self.assertEqual('OS::Nova::Server', definition['type'])
        found: _Object = definition['properties']
        return found

    def test_three_servers(self) -> None:
        template = self.load(server_orders.order())
        self.assertEqual(3, template['parameters']['servers']['default'])
        self.assertEqual({'get_param': 'servers'}, self.group()['count'])
        self.assertEqual(
            {
                'name': 'worker-%nova_vgpu_index%',
                'flavor': 'gpu-a40',
                'networks': [{'network': 'kubernetes'}],
                'image': 'ubuntu-24.04-k8s',
                'user_data_format': 'RAW',
                'user_data': {'get_param': 'user_data'},
            },
            self.server(),
        )

    def test_options(self) -> None:
        other = image_store.Image('some-id', 'other')
        found = self.server(
            key_name='1e3',
            availability_zone='gpu',
            root_volume_gib=80,
            image=other,
        )
        self.assertEqual('1e3', found['key_name'])
        self.assertEqual('gpu', found['availability_zone'])
        (volume,) = found['block_device_mapping_v2']
        self.assertEqual(80, volume['volume_size'])
        self.assertEqual('some-id', volume['image'])
        self.assertNotIn('image', found)
        self.assertEqual('some-id', self.server(image=other)['image'])

    def test_user_data_is_not_in_the_file(self) -> None:
        template = self.load(server_orders.order())
        parameter = template['parameters']['user_data']
        self.assertIs(True, parameter['hidden'])
        self.assertEqual('', parameter['default'])

    def test_only_the_name_of_a_server_has_its_number(self) -> None:
        """Heat replaces the variable wherever it is."""
        for name in (
            '%nova_vgpu_index%',
            'a%%nova_vgpu_index%%b',
            '%nova_vgpu_index',
            "{get_param: 'x'}",
        ):
            kind = node_orders.kind(name)
            group = self.group(kind=kind, network=name, key_name=name)
            variable = group['index_var']
            properties = group['resource_def']['properties']
            self.assertEqual(name, properties['flavor'])
            self.assertEqual(f'worker-{variable}', properties.pop('name'))
            self.assertNotIn(variable, str(properties))

    def test_common_text_in_user_data_is_not_replaced(self) -> None:
        """Heat replaces the variable there, too; its default is %index%."""
        for kind in (node_orders.kind(), node_orders.kind('%index%')):
            variable = self.group(kind=kind)['index_var']
            self.assertIn('nova_vgpu', variable)
            self.assertNotIn(variable, 'worker-%index%')

    def test_addresses_are_by_an_attribute_that_heat_shows(self) -> None:
        """Heat has hidden "first_address" since 5.0.0."""
        output = self.load(server_orders.order())['outputs']['addresses']
        self.assertEqual(
            {'get_attr': ['gpu_servers', 'networks']}, output['value']
        )

    def test_a_reader_is_told_what_was_checked(self) -> None:
        order = server_orders.order(check=node_orders.UNCHECKED)
        self.assertIn('# NOT CHECKED', heat.render(order).text)
        text = heat.render(server_orders.order()).text
        self.assertIn('# Servers, 3: flavor gpu-a40, 1 vGPU A40-8Q', text)
