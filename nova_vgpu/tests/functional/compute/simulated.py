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

"""Simulated GPUs under Nova: they keep the hardware's rules as vGPUs come."""

import dataclasses
import typing
import uuid as uuidlib

from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.libvirt import test_vgpu
from nova.virt.libvirt import utils as libvirt_utils

from nova_vgpu.simulation import host as simulation
from nova_vgpu.simulation import node_devices

IMAGE = '155d900f-4e14-4e4c-a73d-069cbf4541e6'


class NoRoomError(Exception):
    """What the kernel's ENOSPC comes to in this simulation."""


@dataclasses.dataclass(frozen=True)
class Device:
    """As much of a device as Nova's fake libvirt asks for."""

    xml: str

    def XMLDesc(self, flags: int = 0) -> str:
        return self.xml


class SimulatedGPUs:
    """The GPUs of one compute host, in the place of Nova's fake PCI devices.

    Nova's keep no rules: what they offer does not shrink as vGPUs come.
    """

    def __init__(self, *gpus: simulation.GPU) -> None:
        self.gpus = list(gpus)

    @property
    def devices(self) -> dict[str, Device]:
        host = simulation.SimulatedHost(tuple(self.gpus))
        return {
            name: Device(xml)
            for name, xml in node_devices.list_device_xml(host).items()
            if name.startswith('pci_')
        }

    def get_all_devices(self) -> list[str]:
        return list(self.devices)

    def get_all_mdev_capable_devices(self) -> list[str]:
        return [
            name
            for name, device in self.devices.items()
            if 'mdev_types' in device.xml
        ]

    def get_device_by_name(self, name: str) -> Device:
        return self.devices[name]

    def get_pci_address_mac_mapping(self) -> dict[str, str]:
        return {}

    def create(self, function: str, type_id: str) -> str:
        """Create an mdev; gives its UUID."""
        index, vf = self._find(function)
        gpu = self.gpus[index]
        (of_board,) = (t for t in gpu.board.types if t.id == type_id)
        if not gpu.available(of_board, vf):
            raise NoRoomError(f'{type_id} on {function}')
        created = (*gpu.created, simulation.Created(type_id, vf))
        self.gpus[index] = dataclasses.replace(gpu, created=created)
        return str(uuidlib.uuid4())

    def remove(self, function: str, type_id: str) -> None:
        index, vf = self._find(function)
        created = list(self.gpus[index].created)
        created.remove(simulation.Created(type_id, vf))
        self.gpus[index] = dataclasses.replace(
            self.gpus[index], created=tuple(created)
        )

    def _find(self, function: str) -> tuple[int, int | None]:
        """Which GPU a function is of, and which VF of it."""
        for index, gpu in enumerate(self.gpus):
            names = [a.node_device_name for a in gpu.vf_addresses]
            if function == gpu.address.node_device_name:
                return index, None
            if function in names:
                return index, names.index(function)
        raise NoRoomError(f'no {function}')


class Mdev(fakelibvirt.FakeMdevDevice):
    """An mdev that can be removed again."""

    def __init__(
        self, gpus: SimulatedGPUs, connection: typing.Any, **what: str
    ) -> None:
        super().__init__(**what)
        self._gpus, self._connection, self._what = gpus, connection, what

    def name(self) -> str:
        return self._what['dev_name']

    def isPersistent(self) -> bool:
        return True

    def undefine(self) -> None:
        pass

    def destroy(self) -> None:
        del self._connection.mdev_info.devices[self.name()]
        self._gpus.remove(self._what['parent'], self._what['type_id'])


class SimulatedTestBase(test_vgpu.VGPUTestBase):
    """Nova with computes whose GPUs are simulated."""

    def start_host(self, name: str, *gpus: simulation.GPU) -> typing.Any:
        """Start nova-compute on a host with these GPUs."""
        self.simulated[name] = SimulatedGPUs(*gpus)
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

    def setUp(self) -> None:
        self.simulated: dict[str, SimulatedGPUs] = {}
        super().setUp()
        self.flavor = self._create_flavor(extra_spec={'resources:VGPU': '1'})

    def _create_mdev(
        self, dev_name: str, mdev_type: str, uuid: str | None = None
    ) -> str:
        """Takes the place of Nova's fake, which keeps no rules."""
        gpus = self.simulated[self._current_host]
        created = gpus.create(dev_name, mdev_type)
        connection = self.computes[
            self._current_host
        ].driver._host.get_connection()
        name = libvirt_utils.mdev_uuid2name(created)
        connection.mdev_info.devices[name] = Mdev(
            gpus,
            connection,
            dev_name=name,
            type_id=mdev_type,
            parent=dev_name,
        )
        return created

    # -- what tests ask -----------------------------------------------------

    def boot(self, **options: typing.Any) -> typing.Any:
        options.setdefault('flavor_id', self.flavor)
        return self._create_server(
            image_uuid=IMAGE, networks='auto', **options
        )

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
