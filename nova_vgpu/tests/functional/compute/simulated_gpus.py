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

"""The GPUs of one simulated compute host, as hardware, sysfs and libvirt.

They take the place of Nova's fake PCI devices, which keep no rules: what those
offer does not shrink as vGPUs come.
"""

import dataclasses
import typing

from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import kernel
from nova_vgpu.sandbox import node_devices

_PCI = ('bus', 'pci', 'devices')


@dataclasses.dataclass(frozen=True)
class Device:
    """As much of a PCI device as Nova's fake libvirt asks for."""

    name: str
    xml: str

    def XMLDesc(self, flags: int = 0) -> str:
        return self.xml


class SimulatedGPUs:
    """GPUs that can be changed by writing to them, or by ``gpus[:] = …``."""

    def __init__(self, *gpus: simulation.GPU) -> None:
        self.kernel = kernel.Kernel(*gpus)
        self.gpus = self.kernel.gpus
        #: The one lock of the host; its libvirt takes it as well.
        self.lock: typing.Any = self.kernel.lock
        #: What NVML tells of them, or how it fails.
        self.modes: values.ModesRead | Exception = values.ModesRead()
        self._shown: tuple[simulation.GPU, ...] | None = None
        self._devices: dict[str, Device] = {}

    # -- as libvirt shows them ----------------------------------------------

    @property
    def devices(self) -> dict[str, Device]:
        with self.lock:
            now = tuple(self.gpus)
            if now != self._shown:
                host = simulation.SimulatedHost(now)
                self._devices = {
                    name: Device(name, xml)
                    for name, xml in node_devices.list_device_xml(host).items()
                    if name.startswith('pci_')
                }
                self._shown = now
            return self._devices

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

    # -- as sysfs shows them ------------------------------------------------

    @property
    def sysfs(self) -> files.Files:
        return self.kernel.files

    # -- what the kernel does -----------------------------------------------

    def set_type(self, address: str, number: int) -> None:
        """Write to a function's ``current_vgpu_type``.

        :raises OSError: as the kernel would.
        """
        path = (*_PCI, address, 'nvidia', 'current_vgpu_type')
        with self.lock:
            self.kernel.files.write(str(number), *path)

    def current_type(self, function: str) -> int | None:
        """The type of a function; None if it is not of the kind to have one.

        0 is no type.
        """
        domain, bus, slot, number = function.split('_')[1:]
        address = f'{domain}:{bus}:{slot}.{number}'
        try:
            return int(
                self.kernel.files.read(
                    *_PCI, address, 'nvidia', 'current_vgpu_type'
                )
            )
        except files.Unreadable:
            return None

    def reset(self) -> None:
        """What a reboot leaves of the vGPUs: nothing.

        It leaves the VFs, which a host of Nova has set up before Nova starts.
        """
        with self.lock:
            self.gpus[:] = [
                dataclasses.replace(gpu, created=()) for gpu in self.gpus
            ]
