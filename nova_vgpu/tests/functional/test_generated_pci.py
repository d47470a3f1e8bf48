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

"""Nova reads what was generated for functions as PCI devices."""

import pathlib
import typing

import fixtures
from nova.compute import pci_placement_translator
import nova.conf
from nova.conf import pci as nova_pci
from nova.conf import scheduler as nova_scheduler
from nova.objects import fields
from nova.pci import request
from nova.pci import whitelist
from oslo_config import cfg
from oslo_config import fixture as config_fixture
import testtools

from nova_vgpu import values
from nova_vgpu.generate import nova_conf
from nova_vgpu.generate import type_requests
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts

L40S = hosts.gpu(
    '0001:c8:00.0', boards.L40S, 'nvidia-1155', vfs=8, vendor_vfio=True
)
OTHER_L40S = hosts.gpu('41:00.0', boards.L40S, vfs=8, vendor_vfio=True)
HOST = hosts.make_host(L40S, OTHER_L40S, hosts.gpu('84:00.0', boards.T4))


class TestPCI(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        # It looks into the machine's own sysfs.
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.pci.utils.is_physical_function', lambda *_: False
            )
        )
        self.conf = self.load()

    def load(self) -> cfg.ConfigOpts:
        """What Nova reads in the file."""
        by_address = {str(gpu): gpu for gpu in HOST.gpus}
        wanted = (
            values.TypeRequest('L40S-24Q', by_address['0001:c8:00.0']),
            values.TypeRequest('L40S-16Q', by_address['0000:41:00.0']),
        )
        granted = type_requests.grant(HOST, wanted)
        lines = nova_conf.generate(
            HOST, granted, values.Reader.PCI, values.ModesRead()
        ).lines
        path = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path, 'pci.conf'
        )
        path.write_text('\n'.join(lines))
        # Nova's groups are one object for the process each.
        for name in ('pci', 'filter_scheduler'):
            module = 'pci' if name == 'pci' else 'scheduler'
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'nova.conf.{module}.{name}_group', cfg.OptGroup(name)
                )
            )
        conf = cfg.ConfigOpts()
        nova_pci.register_opts(conf)
        nova_scheduler.register_opts(conf)
        conf(
            ['--config-file', str(path)],
            default_config_files=[],
            default_config_dirs=[],
        )
        return conf

    def test_these_functions_are_for_servers_and_no_others(self) -> None:
        specs = whitelist.Whitelist(self.conf.pci.device_spec)
        found: dict[str, str] = {}
        for gpu in HOST.gpus:
            for address in (gpu.address, *(vf.address for vf in gpu.vfs)):
                device: dict[str, typing.Any] = {
                    'vendor_id': '10de',
                    'product_id': '26b9',
                    'address': str(address),
                    'parent_addr': str(gpu),
                    'capabilities': {},
                }
                spec = specs.device_assignable(device)
                if spec is not None:
                    spec.enhanced_pci_device_with_spec_tags(device)
                    self.assertEqual('false', device['managed'])
                    found[str(address)] = spec.get_tags()['resource_class']
        big, small = 'CUSTOM_VGPU_L40S_24Q', 'CUSTOM_VGPU_L40S_16Q'
        self.assertEqual(
            {
                '0001:c8:00.4': big,
                '0001:c8:00.5': big,
                '0000:41:00.4': small,
                '0000:41:00.5': small,
                '0000:41:00.6': small,
            },
            found,
        )

    def test_placement_takes_the_class_and_the_traits(self) -> None:
        for spec in whitelist.Whitelist(self.conf.pci.device_spec).specs:
            tags = spec.get_tags()
            self.assertEqual(
                tags['resource_class'],
                pci_placement_translator.get_resource_class(
                    tags['resource_class'], '10de', '26b9'
                ),
            )
            self.assertEqual(
                set(tags['traits'].split(',')),
                pci_placement_translator.get_traits(tags['traits']),
            )

    def test_a_flavor_asks_by_alias_for_the_type(self) -> None:
        self.assertTrue(self.conf.pci.report_in_placement)
        self.assertTrue(self.conf.filter_scheduler.pci_in_placement)
        novas = self.useFixture(config_fixture.Config(nova.conf.CONF))
        novas.config(alias=self.conf.pci.alias, group='pci')
        novas.config(pci_in_placement=True, group='filter_scheduler')
        request.get_alias_from_config.cache_clear()
        self.addCleanup(request.get_alias_from_config.cache_clear)
        self.assertEqual(
            {
                f'L40S-{size}Q': (
                    fields.PCINUMAAffinityPolicy.LEGACY,
                    [
                        {
                            'dev_type': 'type-VF',
                            'resource_class': f'CUSTOM_VGPU_L40S_{size}Q',
                        }
                    ],
                )
                for size in (24, 16)
            },
            request.get_alias_from_config(),
        )
