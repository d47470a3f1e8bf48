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

"""What the page about installing on a running cloud says of servers."""

import typing

from keystoneauth1 import adapter
from keystoneauth1 import session
from keystoneauth1 import token_endpoint
import nova.conf

from nova_vgpu import values
from nova_vgpu.conf import devices
from nova_vgpu.host import libvirt_nodes
from nova_vgpu.placement import client
from nova_vgpu.placement import connection
from nova_vgpu.placement import synchronisation
from nova_vgpu.publish import providers
from nova_vgpu.tests import plans
from nova_vgpu.tests.functional.compute import base
from nova_vgpu.tests.functional.compute import simulated
from nova_vgpu.tests.functional.compute import test_servers

CONF = nova.conf.CONF
A40 = test_servers.A40
HOST = 'host1'


class RolloutTest(simulated.SimulatedTestBase):
    """Servers of Nova's driver, on hosts that get this one."""

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(base.NovaWithOurDriver())
        self.flags(enabled_mdev_types=['nvidia-562'], group='devices')
        self.start_host(HOST, test_servers.a40(vfs=8))

    def switch(self) -> None:
        self.flags(compute_driver='vgpu.LibvirtVGPUDriver')
        for host in self.simulated:
            self.restart_host(host)

    def host_of(self, server: typing.Any) -> str:
        found = self.admin_api.get_server(server['id'])
        return str(found['OS-EXT-SRV-ATTR:host'])

    def used(self, host: str) -> typing.Any:
        return self._get_provider_usages(self.provider(A40, host))

    def migrate_and_switch(self) -> tuple[typing.Any, str, list[str]]:
        """A server whose migration waits; where it was, with what."""
        self.start_host('host2', test_servers.a40(vfs=8))
        server = self.boot()
        source = self.host_of(server)
        functions = self.vgpus_of(server, source)
        self._migrate_server(server)
        self.switch()
        return server, source, functions

    def test_one_that_is_shut_off_has_the_same_vgpu(self) -> None:
        server = self.boot()
        function = self.vgpus_of(server)
        self._stop_server(server)
        self.switch()
        self.assertEqual({'VGPU': 1}, self.used(HOST))
        self.assertNotEqual(function, self.vgpus_of(self.boot()))
        self._start_server(server)
        self.assertEqual(function, self.vgpus_of(server))

    def test_one_that_lost_its_mdev_with_a_reboot_is_resumed(self) -> None:
        """Providers are those of Nova's driver until guests are started."""
        self.flags(resume_guests_state_on_host_boot=True)
        server = self.boot()
        own = self.names_of(server)
        self.connection().mdev_info.devices.clear()  # was not persistent
        self.flags(compute_driver='vgpu.LibvirtVGPUDriver')
        self.reboot_machine(HOST)
        self.assertEqual(own, self.names_of(server))
        self.assertTrue(self.guest_of(server).isActive())
        self.assertEqual(1, len(self.vgpus_of(server)))
        self.assertEqual({'VGPU': 1}, self.used(HOST))

    def test_one_that_lost_its_guest_as_well_is_resumed(self) -> None:
        self.flags(resume_guests_state_on_host_boot=True)
        server = self.boot()
        self.guest_of(server).undefine()
        self.connection().mdev_info.devices.clear()
        self.flags(compute_driver='vgpu.LibvirtVGPUDriver')
        self.reboot_machine(HOST)
        self.assertTrue(self.guest_of(server).isActive())
        self.assertEqual(1, len(self.vgpus_of(server)))
        self.assertEqual({'VGPU': 1}, self.used(HOST))

    def test_a_migration_that_waits_can_be_reverted(self) -> None:
        server, source, functions = self.migrate_and_switch()
        self.assertEqual({'VGPU': 1}, self.used(source))
        self._revert_resize(server)
        self.assertEqual(source, self.host_of(server))
        self.assertEqual(functions, self.vgpus_of(server, source))
        self.assertEqual({'VGPU': 1}, self.used(source))

    def test_a_migration_that_waits_can_be_confirmed(self) -> None:
        server, source, _ = self.migrate_and_switch()
        self._confirm_resize(server)
        self.assertNotEqual(source, self.host_of(server))
        self.assertEqual(1, len(self.vgpus_of(server, self.host_of(server))))
        self.assertEqual({'VGPU': 0}, self.used(source))

    def test_the_command_finds_that_placement_agrees(self) -> None:
        self.boot()
        self.switch()
        auth = token_endpoint.Token(self.placement.fixture.endpoint, 'admin')
        placement = client.PlacementClient(
            connection.Requester(
                adapter.Adapter(
                    session.Session(auth=auth), service_type='placement'
                )
            )
        )
        libvirt = self.connection(HOST)
        host = libvirt_nodes.read_host(libvirt, libvirt.pci_info.sysfs)
        declaration, _ = devices.read_declaration(CONF)
        plan = plans.make_plan(declaration, host)
        found = synchronisation.diff(placement, providers.Target(plan, HOST))
        self.assertEqual(values.Difference(), found)
