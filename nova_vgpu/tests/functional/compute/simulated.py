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

"""Nova on hosts whose GPUs and libvirt are simulated."""

import contextlib
import typing
from xml.etree import ElementTree

import fixtures
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.api import client
from nova.tests.functional.libvirt import test_vgpu
from nova.virt.libvirt import driver as libvirt_driver
from nova.virt.libvirt import utils as libvirt_utils

from nova_vgpu import values
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests.functional.compute import quick
from nova_vgpu.tests.functional.compute import simulated_gpus
from nova_vgpu.tests.functional.compute import simulated_guests
from nova_vgpu.tests.functional.compute import simulated_libvirt

SimulatedGPUs = simulated_gpus.SimulatedGPUs

IMAGE = '155d900f-4e14-4e4c-a73d-069cbf4541e6'

#: Running or not.
_ALL_GUESTS = (
    fakelibvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE
    | fakelibvirt.VIR_CONNECT_LIST_DOMAINS_INACTIVE
)
_CREATE_MDEV = libvirt_driver.LibvirtDriver._create_mdev


class SimulatedTestBase(test_vgpu.VGPUTestBase):
    """Nova with computes whose GPUs are simulated."""

    def setUp(self) -> None:
        self.simulated: dict[str, SimulatedGPUs] = {}
        self.useFixture(quick.QuickNova())
        super().setUp()
        # Nova's tests of vGPUs put a fake in its place; here libvirt is
        # simulated well enough for the method itself.
        self.useFixture(
            fixtures.MockPatchObject(
                libvirt_driver.LibvirtDriver, '_create_mdev', _CREATE_MDEV
            )
        )
        self.flavor = self._create_flavor(extra_spec={'resources:VGPU': '1'})

    def start_host(
        self,
        name: str,
        *gpus: simulation.GPU,
        modes: values.ModesRead | Exception | None = None,
    ) -> typing.Any:
        """Start nova-compute on a host with these GPUs.

        :param modes: what NVML tells of them, or how it fails.
        """
        self.simulated[name] = SimulatedGPUs(*gpus)
        if modes is not None:
            self.simulated[name].modes = modes
        self.start_compute(
            hostname=name,
            pci_info=self.simulated[name],
            libvirt_version=self.FAKE_LIBVIRT_VERSION,
            qemu_version=self.FAKE_QEMU_VERSION,
        )
        return self.computes[name]

    def restart_host(self, name: str, *gpus: simulation.GPU) -> typing.Any:
        """Restart nova-compute, perhaps with other GPUs in the host."""
        if gpus:
            self.simulated[name].gpus[:] = gpus
        return self.restart_compute_service(name)

    def reboot_machine(self, name: str, autostart: bool = True) -> typing.Any:
        """Reboot the host: nothing runs, and no vGPU is left but by libvirt.

        :param autostart: whether libvirt starts the mdevs that it is told to,
            which depends on how the distribution packages mdevctl.
        """
        self.connection(name).reboot(autostart)
        return self.restart_host(name)

    def _get_connection(
        self, *args: typing.Any, **kwargs: typing.Any
    ) -> typing.Any:
        """Extends Nova's, to which all of these belong."""
        connection = super()._get_connection(*args, **kwargs)
        if not isinstance(connection.pci_info, SimulatedGPUs):
            return connection
        return simulated_libvirt.SimulatedConnection(
            'qemu:///system',
            version=connection.fakeLibVersion,
            hv_version=connection.fakeVersion,
            host_info=connection.host_info,
            pci_info=connection.pci_info,
            hostname=connection.hostname,
        )

    def connection(self, host: str = 'host1') -> typing.Any:
        """The host's libvirt."""
        return self.computes[host].driver._host.get_connection()

    # -- what tests ask -----------------------------------------------------

    def boot(self, **options: typing.Any) -> typing.Any:
        options.setdefault('flavor_id', self.flavor)
        return self._create_server(
            image_uuid=IMAGE, networks='auto', **options
        )

    def attempt(self, server: typing.Any, action: str, **body: object) -> None:
        """Ask for what may fail: here its error is the answer of the API."""
        with contextlib.suppress(client.OpenStackApiException):
            self.api.post_server_action(server['id'], {action: body})

    def guest_of(self, server: typing.Any, host: str = 'host1') -> typing.Any:
        return self.connection(host).lookupByUUIDString(server['id'])

    def names_of(self, server: typing.Any, host: str = 'host1') -> list[str]:
        """The host devices that its guest is defined with, by their names."""
        configured = self.guest_of(server, host).configured
        return sorted(map(simulated_guests.key_of, configured))

    def provider(self, device: str, host: str = 'host1') -> str | None:
        """The UUID of a device's provider, if it has one."""
        found = self.placement.get(
            f'/resource_providers?name={host}_{device}'
        ).body['resource_providers']
        return str(found[0]['uuid']) if found else None

    def inventory(
        self, device: str, resource_class: str = 'VGPU'
    ) -> dict[str, typing.Any] | None:
        uuid = self.provider(device)
        if uuid is None:
            return None
        found = self._get_provider_inventory(uuid).get(resource_class)
        return dict(found) if found else None

    def require_fence(self, device: str) -> None:
        """Check that nothing of it is free, and nothing in use reserved."""
        found = self.inventory(device)
        assert found is not None, device
        used = self._get_provider_usages(self.provider(device))['VGPU']
        self.assertEqual(used, found['total'] - found['reserved'])

    def mdevs_of(self, server: typing.Any, host: str = 'host1') -> list[str]:
        """The functions that hold the server's vGPUs."""
        driver = self.computes[host].driver
        assigned = driver._get_all_assigned_mediated_devices()
        return sorted(
            driver._get_mediated_device_information(
                libvirt_utils.mdev_uuid2name(uuid)
            )['parent']
            for uuid, owner in assigned.items()
            if owner == server['id']
        )

    def vgpus_of(self, server: typing.Any, host: str = 'host1') -> list[str]:
        """The functions that hold the server's vGPUs, of any framework.

        As its guest has them; one that is not there has none.
        """
        connection = self.connection(host)
        guests = [
            guest
            for guest in connection.listAllDomains(_ALL_GUESTS)
            if guest.UUIDString() == server['id']
        ]
        return sorted(
            function
            for guest in guests
            for function in functions_in(connection, guest.XMLDesc(0))
        )


def functions_in(connection: typing.Any, xml: str) -> list[str]:
    """The functions that hold the vGPUs of a guest."""
    parents = {
        mdev.uuid: mdev.parent()
        for mdev in connection.mdev_info.devices.values()
    }
    domain = ElementTree.fromstring(xml)  # noqa: S314 (simulated)
    found = []
    for element in domain.findall('devices/hostdev'):
        key = simulated_guests.key_of(simulated_guests.parse_hostdev(element))
        if element.get('type') == 'mdev':
            found.append(parents[key])
        elif connection.pci_info.current_type(key) is not None:
            found.append(key)
    return found
