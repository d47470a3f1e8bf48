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

"""The options of nova-scheduler."""

import pathlib

import fixtures
from oslo_config import cfg
import testtools

from nova_vgpu import values
from nova_vgpu.conf import scheduling

PACK, SPREAD = values.Order.PACK, values.Order.SPREAD


class TestRules(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.conf = cfg.ConfigOpts()
        self.conf([], default_config_files=[])
        scheduling.register_opts(self.conf)

    def set(self, **options: object) -> values.SchedulingRules:
        for name, value in options.items():
            self.conf.set_override(name, value, group=scheduling.GROUP)
        return scheduling.read_rules(self.conf)

    def test_the_default_packs_and_leaves_plain_servers_alone(self) -> None:
        self.assertEqual(values.SchedulingRules(), self.set())
        self.assertEqual(PACK, values.SchedulingRules().hosts.default)

    def test_a_second_weigher_registers_them_again(self) -> None:
        scheduling.register_opts(self.conf)

    def test_types_have_several_names(self) -> None:
        for name in ('A40-8Q', 'NVIDIA A40-8Q', 'CUSTOM_VGPU_TYPE_A40_8Q'):
            rules = self.set(vgpu_host_order_of_types={name: 'spread'})
            a40 = ['CUSTOM_VGPU_TYPE_A40_8Q']
            self.assertEqual(SPREAD, rules.hosts.find(a40, ['VGPU']), name)
            self.assertEqual(PACK, rules.hosts.find([], ['VGPU']), name)
            self.assertEqual(PACK, rules.gpus.find(a40, ['VGPU']), name)

    def test_a_type_counts_before_its_resource_class(self) -> None:
        rules = self.set(
            vgpu_gpu_order='spread',
            vgpu_gpu_order_of_types={'T4-2Q': 'spread', 'VGPU': 'pack'},
        )
        self.assertEqual(SPREAD, rules.gpus.default)
        t4 = ['CUSTOM_VGPU_TYPE_T4_2Q']
        self.assertEqual(SPREAD, rules.gpus.find(t4, ['VGPU']))
        self.assertEqual(PACK, rules.gpus.find([], ['VGPU']))

    def test_what_is_invalid_is_refused_by_name(self) -> None:
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'conf')
        for name, value in (
            ('vgpu_host_order', 'stack'),
            ('vgpu_gpu_order', ''),
            ('vgpu_host_order_of_types', 'A40-8Q:stack'),
            ('vgpu_gpu_order_of_types', 'A40-8Q'),
            ('vgpu_weight_multiplier', '-1'),
            ('vgpu_weight_multiplier', 'much'),
            ('plain_servers_avoid_gpus', 'sometimes'),
        ):
            path.write_text(f'[{scheduling.GROUP}]\n{name} = {value}\n')
            self.conf(['--config-file', str(path)])
            error = self.assertRaises(
                ValueError, scheduling.read_rules, self.conf
            )
            self.assertIn(name, str(error))
