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

"""Servers whose vGPUs are functions of an AMD GPU that GIM enabled."""

import dataclasses

import nova.conf
from nova.tests.functional.api import client
from nova.tests.functional.libvirt import base as novas_base

from nova_vgpu.conf import opts
from nova_vgpu.tests import hosts
from nova_vgpu.tests.functional.compute import test_servers

ADDRESS = '0000:0c:00.0'
GPU = 'pci_0000_0c_00_0'
FUNCTIONS = {f'pci_0000_0c_02_{number}' for number in range(8)}
TYPE = 'MI300X-1of8'
TRAIT = 'CUSTOM_VGPU_TYPE_MI300X_1OF8'


class FixedVFsTest(test_servers.OurTestBase):
    def setUp(self) -> None:
        super().setUp()
        self.declare(TYPE)
        self.list_addresses(TYPE, ADDRESS)
        opts.register_type(nova.conf.CONF, TYPE)
        self.flags(partition='CPX/NPS4', group=f'vgpu_{TYPE}')

    def test_eight_servers_by_class_and_trait(self) -> None:
        card = hosts.mi300x(ADDRESS)
        self.start_host('host1', card)
        self.assertEqual(8, self.total(GPU))
        flavor = self._create_flavor(
            memory_mb=256,
            vcpu=1,
            disk=1,
            extra_spec={
                'resources:VGPU': '1',
                f'trait:{TRAIT}': 'required',
            },
        )
        servers = [self.boot(flavor_id=flavor) for _ in range(8)]
        names = [self.names_of(server) for server in servers]
        self.assertEqual(FUNCTIONS, {name for (name,) in names})
        self.boot(flavor_id=flavor, expected_state='ERROR')
        self.assertEqual(
            {'yes'},
            {
                hostdev['managed']
                for server in servers
                for hostdev in self.guest_of(server).configured
            },
        )
        self._run_periodics()
        self.assertEqual(8, self.total(GPU))
        self._delete_server(servers[3])
        self.assertEqual(names[3], self.names_of(self.boot(flavor_id=flavor)))
        # Nothing of the card was changed.
        self.assertEqual([card], self.simulated['host1'].gpus)

    def test_it_is_its_own_over_reboots_and_restarts(self) -> None:
        self.start_host('host1', hosts.mi300x(ADDRESS))
        server = self.boot()
        names = self.names_of(server)
        self._reboot_server(server, hard=True)
        self.assertEqual(names, self.names_of(server))
        self._stop_server(server)
        self.restart_compute_service('host1')
        self.assertNotEqual(names, self.names_of(self.boot()))
        self._start_server(server)
        self.assertEqual(names, self.names_of(server))

    def test_a_card_that_differs_joins_when_it_is_set(self) -> None:
        self.start_host('host1', hosts.mi300x(ADDRESS, 1, 'SPX/NPS1'))
        self.assertIsNone(self.provider(GPU))
        self.simulated['host1'].gpus[:] = [
            hosts.mi300x(ADDRESS, 8, 'CPX/NPS1')
        ]
        self._run_periodics()
        self.assertIsNone(self.provider(GPU))
        self.simulated['host1'].gpus[:] = [hosts.mi300x(ADDRESS)]
        self._run_periodics()
        self.assertEqual(8, self.total(GPU))


class LiveMigrationTest(
    novas_base.LibvirtMigrationMixin, test_servers.OurTestBase
):
    FAKE_LIBVIRT_VERSION = 10_000_000
    FAKE_QEMU_VERSION = 8_002_002

    def test_it_is_refused(self) -> None:
        self.declare(TYPE)
        self.list_addresses(TYPE, ADDRESS)
        card = dataclasses.replace(hosts.mi300x(ADDRESS), vf_driver='vfio-pci')
        self.src = self.start_host('host1', card)
        self.server = self.boot(host='host1')
        self.dest = self.start_host('host2', card)
        self.assertRaises(
            client.OpenStackApiException,
            self._live_migrate,
            self.server,
            'completed',
        )
        self.assertIn(
            f'is of GPU {ADDRESS}, whose driver, gim, does not support live '
            'migration',
            self.stdlog.logger.output,
        )
