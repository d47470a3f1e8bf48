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

from collections.abc import Callable
import dataclasses
import errno
import os
import pathlib
import tempfile
import threading
import typing

from nova_vgpu import values
from nova_vgpu.simulation import boards
from nova_vgpu.simulation import host as simulation
from nova_vgpu.simulation import node_devices
from nova_vgpu.simulation import tree


@dataclasses.dataclass(frozen=True)
class Device:
    """As much of a PCI device as Nova's fake libvirt asks for."""

    name: str
    xml: str

    def XMLDesc(self, flags: int = 0) -> str:
        return self.xml


def _nobody(_function: str) -> bool:
    return False


class SimulatedGPUs:
    """GPUs that can be changed by writing to them, or by ``gpus[:] = …``."""

    def __init__(self, *gpus: simulation.GPU) -> None:
        self.gpus = list(gpus)
        #: Whether a running guest has this function; its connection knows.
        self.in_use: Callable[[str], bool] = _nobody
        #: The one lock of the host; its libvirt takes it as well.
        self.lock: typing.Any = threading.RLock()
        self._shown: tuple[simulation.GPU, ...] | None = None
        self._devices: dict[str, Device] = {}
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._in_tree: tuple[simulation.GPU, ...] | None = None
        self._trees = 0

    def cleanup(self) -> None:
        """Remove the trees of the past and the last one."""
        with self.lock:
            if self._directory is not None:
                self._directory.cleanup()
            self._directory = self._in_tree = None

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
    def sysfs_root(self) -> str:
        """A link to a tree that is never changed, only followed by another.

        Who reads in the old one when the GPUs change goes on reading it.
        """
        with self.lock:
            if self._directory is None:
                self._directory = tempfile.TemporaryDirectory()
            root = pathlib.Path(self._directory.name)
            now = tuple(self.gpus)
            if now != self._in_tree:
                self._trees += 1
                new = root / f'sys{self._trees}'
                tree.write_tree(simulation.SimulatedHost(now), new)
                link = root / 'next'
                link.symlink_to(new.name)
                os.replace(link, root / 'sys')
                self._in_tree = now
            return str(root / 'sys')

    # -- what the kernel does -----------------------------------------------

    def create(self, function: str, type_id: str) -> None:
        """Create an mdev.

        :raises OSError: as the kernel would.
        """
        with self.lock:
            index, vf = self._find(function)
            gpu = self.gpus[index]
            found = [t for t in gpu.board.types if t.id == type_id]
            if not found or gpu.vendor_vfio:
                raise _error(errno.EINVAL, function)
            self._add(index, vf, found[0], function)

    def remove(self, function: str, type_id: str) -> None:
        """Remove an mdev; with its GPU, it is gone already."""
        with self.lock:
            place = self._look(function)
            if place is not None:
                self._take(place[0], simulation.Created(type_id, place[1]))

    def set_type(self, address: str, number: int) -> None:
        """Write to a function's ``current_vgpu_type``.

        :raises OSError: as the kernel would.
        """
        name = values.PciAddress.parse(address).node_device_name
        with self.lock:
            index, vf = self._find(name)
            gpu = self.gpus[index]
            if not gpu.vendor_vfio or vf is None:
                raise _error(errno.ENOENT, address)
            if self.in_use(name):
                raise _error(errno.EBUSY, address)
            current = gpu.on(vf)
            if number == 0:
                for created in current:
                    self._take(index, created)
            else:
                found = [t for t in gpu.board.types if t.number == number]
                # The type of a function is not changed but cleared first.
                if not found or current:
                    raise _error(errno.EINVAL, address)
                self._add(index, vf, found[0], address)
            self.sysfs_root  # noqa: B018 (whoever kept the path sees it)

    def current_type(self, function: str) -> int | None:
        """The type of a function; None if it is not of the kind to have one.

        0 is no type.
        """
        with self.lock:
            place = self._look(function)
            if place is None or place[1] is None:
                return None
            gpu = self.gpus[place[0]]
            if not gpu.vendor_vfio:
                return None
            numbers = {t.id: t.number for t in gpu.board.types}
            return next((numbers[c.type_id] for c in gpu.on(place[1])), 0)

    def reset(self) -> None:
        """What a reboot leaves of the vGPUs: nothing."""
        with self.lock:
            self.gpus[:] = [
                dataclasses.replace(gpu, created=()) for gpu in self.gpus
            ]
            self.sysfs_root  # noqa: B018 (whoever kept the path sees it)

    def _add(
        self,
        index: int,
        vf: int | None,
        wanted: boards.BoardType,
        where: str,
    ) -> None:
        gpu = self.gpus[index]
        if not gpu.available(wanted, vf):
            raise _error(errno.ENOSPC, f'{wanted.id} on {where}')
        created = (*gpu.created, simulation.Created(wanted.id, vf))
        self.gpus[index] = dataclasses.replace(gpu, created=created)

    def _take(self, index: int, vgpu: simulation.Created) -> None:
        created = list(self.gpus[index].created)
        created.remove(vgpu)
        self.gpus[index] = dataclasses.replace(
            self.gpus[index], created=tuple(created)
        )

    def _find(self, function: str) -> tuple[int, int | None]:
        place = self._look(function)
        if place is None:
            raise _error(errno.ENOENT, function)
        return place

    def _look(self, function: str) -> tuple[int, int | None] | None:
        """Which GPU a function is of, and which VF of it."""
        for index, gpu in enumerate(self.gpus):
            names = [a.node_device_name for a in gpu.vf_addresses]
            if function == gpu.address.node_device_name:
                return index, None
            if function in names:
                return index, names.index(function)
        return None


def _error(number: int, where: str) -> OSError:
    return OSError(number, os.strerror(number), where)
