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

"""Servers whose vGPUs are functions of an Intel GPU that Linux provisions."""

import dataclasses
import typing

import nova.conf
from nova.tests.functional.api import client
from nova.tests.functional.libvirt import base as novas_base

from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests.functional.compute import test_servers

CONF = nova.conf.CONF
B60 = 'pci_0000_03_00_0'
FUNCTIONS = {f'pci_0000_03_00_{number}' for number in (1, 2, 3, 4)}


def b60(vfs: int = 4, vf_driver: str = 'xe') -> typing.Any:
    card = hosts.gpu('03:00.0', boards.ARC_PRO_B60, vfs=vfs)
    quotas = tuple(('vram_quota', vf, 6 << 30) for vf in range(1, vfs + 1))
    return dataclasses.replace(card, profile=quotas, vf_driver=vf_driver)


class VFProfilesTest(test_servers.OurTestBase):
    def setUp(self) -> None:
        super().setUp()
        self.declare('B60-1of4')
        self.list_addresses('B60-1of4', '03:00.0')

    def test_four_servers_have_a_function_each_and_the_fifth_is_refused(
        self,
    ) -> None:
        self.start_host('host1', b60())
        self.assertEqual(4, self.total(B60))
        servers = [self.boot() for _ in range(4)]
        names = [self.names_of(server) for server in servers]
        self.assertEqual(FUNCTIONS, {name for (name,) in names})
        self.boot(expected_state='ERROR')
        self._run_periodics()
        self.assertEqual(4, self.total(B60))
        self._delete_server(servers[1])
        self.assertEqual(names[1], self.names_of(self.boot()))
        # Nothing of the card was changed.
        self.assertEqual([b60()], self.simulated['host1'].gpus)

    def test_a_limit_holds_back_what_is_not_used(self) -> None:
        self.start_host('host1', b60())
        servers = [self.boot() for _ in range(3)]
        nova.conf.devices.register_dynamic_opts(CONF)
        self.flags(max_instances=2, group='mdev_B60-1of4')
        self.restart_host('host1')
        self.require_fence(B60)  # what is used stays
        for server in servers[:2]:
            self._delete_server(server)
        self._run_periodics()
        self.assertEqual(2, self.total(B60))
        self.boot()
        self.boot(expected_state='ERROR')

    def test_it_is_its_own_over_reboots_and_stops(self) -> None:
        self.start_host('host1', b60())
        server = self.boot()
        names = self.names_of(server)
        self._reboot_server(server, hard=True)
        self.assertEqual(names, self.names_of(server))
        self._stop_server(server)
        self._run_periodics()
        self.assertNotEqual(names, self.names_of(self.boot()))
        self._start_server(server)
        self.assertEqual(names, self.names_of(server))

    def test_a_reboot_of_the_host(self) -> None:
        """Another program provisions the card again before Nova starts."""
        self.start_host('host1', b60())
        server = self.boot()
        names = self.names_of(server)
        self._stop_server(server)
        self.reboot_machine('host1')
        self._start_server(server)
        self.assertEqual(names, self.names_of(server))

    def test_a_card_that_is_applied_later_joins(self) -> None:
        self.start_host('host1', b60(vfs=0))
        self.assertIsNone(self.provider(B60))
        self.simulated['host1'].gpus[:] = [b60()]
        self._run_periodics()
        self.assertEqual(4, self.total(B60))

    def test_a_function_is_bound_by_who_can(self) -> None:
        """libvirt binds one that the host uses; the others are right."""
        self.start_host('host1', b60())
        for driver, expected in (
            ('xe', 'yes'),
            ('vfio-pci', 'no'),
            ('xe-vfio-pci', 'no'),
        ):
            self.simulated['host1'].gpus[:] = [b60(vf_driver=driver)]
            server = self.boot()
            (hostdev,) = self.guest_of(server).configured
            self.assertEqual(expected, hostdev['managed'], driver)
            self._delete_server(server)

    def test_a_resize_gives_it_back(self) -> None:
        self.start_host('host1', b60())
        server = self.boot()
        plain = self._create_flavor()
        self.flags(allow_resize_to_same_host=True)
        self._resize_server(server, plain)
        self._confirm_resize(server)
        self.assertEqual([], self.names_of(server))
        servers = [self.boot() for _ in range(4)]
        self.assertEqual(4, len(servers))


class LiveMigrationTest(
    novas_base.LibvirtMigrationMixin, test_servers.OurTestBase
):
    FAKE_LIBVIRT_VERSION = 10_000_000
    FAKE_QEMU_VERSION = 8_002_002

    def start_both(
        self, vf_driver: str, at_destination: str | None = None
    ) -> typing.Any:
        self.declare('B60-1of4')
        self.list_addresses('B60-1of4', '03:00.0')
        self.src = self.start_host('host1', b60(vf_driver=vf_driver))
        self.server = self.boot(host='host1')
        self.dest = self.start_host(
            'host2', b60(vf_driver=at_destination or vf_driver)
        )
        return self.server

    def test_with_a_driver_that_cannot_it_is_refused(self) -> None:
        server = self.start_both('vfio-pci')
        (name,) = self.names_of(server)
        self.assertRaises(
            client.OpenStackApiException,
            self._live_migrate,
            server,
            'completed',
        )
        self.assertIn(
            f'VF 0000:03:00.{name[-1]} is bound to vfio-pci on host1; a VF of '
            'this GPU migrates only with xe-vfio-pci',
            self.stdlog.logger.output,
        )

    def test_with_the_variant_driver_it_takes_a_function_there(self) -> None:
        server = self.start_both('xe-vfio-pci')
        self._live_migrate(server, 'completed')
        self.assertEqual(1, len(self.names_of(server, 'host2')))
        self._run_periodics()
        for host in ('host1', 'host2'):
            self.assertEqual(
                [b60(vf_driver='xe-vfio-pci')], self.simulated[host].gpus
            )

    def test_a_destination_with_another_driver_is_refused(self) -> None:
        """QEMU would not find the function there: it is not bound to VFIO."""
        server = self.start_both('xe-vfio-pci', 'xe')
        names = self.names_of(server)
        self.assertRaises(
            client.OpenStackApiException,
            self._live_migrate,
            server,
            'completed',
        )
        self.assertIn('is bound to xe on host2', self.stdlog.logger.output)
        self.assertEqual(names, self.names_of(server))
        self.assertEqual({}, self.dest.driver.instance_claimed_mdevs)
        driver = self.dest.driver
        self.assertEqual(frozenset(), driver.vgpus.usage.pending.list())
