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

"""Mediated devices as libvirt manages them, on simulated GPUs."""

from collections.abc import Callable
from xml.etree import ElementTree

import libvirt
from nova.tests.fixtures import libvirt as fakelibvirt

from nova_vgpu.tests.functional.compute import simulated_gpus


class LibvirtError(fakelibvirt.libvirtError, libvirt.libvirtError):
    """An error for whoever catches Nova's fake one or the real one.

    Nova's modules have the fake in libvirt's place during tests; the rest of
    this project has libvirt itself.
    """


def error(message: str, code: int) -> Exception:
    made: Exception = fakelibvirt.make_libvirtError(
        LibvirtError,
        message,
        error_code=code,
        error_domain=fakelibvirt.VIR_FROM_NODEDEV,
        error_message=message,
    )
    return made


class Mdev:
    """A node device that can be active, persistent, or both."""

    def __init__(
        self, mdevs: 'Mdevs', parent: str, type_id: str, uuid: str
    ) -> None:
        self._mdevs = mdevs
        self._parent = parent
        self.type_id, self.uuid = type_id, uuid
        self.active = self.persistent = self.starts_itself = False

    def name(self) -> str:
        """With its parent, as libvirt has it since 7.7."""
        suffix = self._parent.removeprefix('pci_')
        return f'mdev_{self.uuid.replace("-", "_")}_{suffix}'

    def parent(self) -> str:
        return self._parent

    def listCaps(self) -> list[str]:
        return ['mdev']

    def XMLDesc(self, flags: int = 0) -> str:
        address = '{}:{}:{}.{}'.format(*self._parent.split('_')[1:])
        return (
            f'<device><name>{self.name()}</name>'
            f'<parent>{self._parent}</parent>'
            "<capability type='mdev'>"
            f"<type id='{self.type_id}'/><uuid>{self.uuid}</uuid>"
            f'<parent_addr>{address}</parent_addr>'
            "<iommuGroup number='12'/></capability></device>"
        )

    def isActive(self) -> int:
        return int(self.active)

    def isPersistent(self) -> int:
        return int(self.persistent)

    def autostart(self) -> int:
        return int(self.starts_itself)

    def setAutostart(self, autostart: int) -> int:
        if not self.persistent:
            raise error(
                f'cannot set autostart for transient device {self.name()}',
                fakelibvirt.VIR_ERR_OPERATION_INVALID,
            )
        self.starts_itself = bool(autostart)
        return 0

    def create(self, flags: int = 0) -> int:
        """Start it."""
        with self._mdevs.lock:
            if self.active:
                raise error(
                    f"Device '{self.name()}' is already active",
                    fakelibvirt.VIR_ERR_OPERATION_INVALID,
                )
            self._mdevs.start(self)
        return 0

    def destroy(self) -> int:
        """Refuses for one that is in use, where the kernel would wait."""
        with self._mdevs.lock:
            if not self.active:
                raise error(
                    f"Device '{self.name()}' is not active",
                    fakelibvirt.VIR_ERR_OPERATION_INVALID,
                )
            if self._mdevs.is_used(self.uuid):
                raise error(
                    f"Unable to destroy '{self.name()}': device in use",
                    fakelibvirt.VIR_ERR_INTERNAL_ERROR,
                )
            self._mdevs.stop(self)
        return 0

    def undefine(self, flags: int = 0) -> int:
        """An active one stays, but is transient from now on."""
        with self._mdevs.lock:
            if not self.persistent:
                raise error(
                    f"Device '{self.name()}' is not persistent",
                    fakelibvirt.VIR_ERR_OPERATION_INVALID,
                )
            self.persistent = self.starts_itself = False
            self._mdevs.forget(self)
        return 0


class Mdevs:
    """The mdevs of one host, in the place of Nova's fake ones."""

    def __init__(
        self,
        gpus: simulated_gpus.SimulatedGPUs,
        is_used: Callable[[str], bool],
    ) -> None:
        self._gpus = gpus
        self.lock = gpus.lock
        self.is_used = is_used
        self.devices: dict[str, Mdev] = {}
        for gpu in gpus.gpus:
            for vf in (None, *range(gpu.vfs)):
                address = gpu.address if vf is None else gpu.vf_addresses[vf]
                for uuid, type_id in gpu.mdevs(vf):
                    self._adopt(address.node_device_name, type_id, uuid)

    def _adopt(self, parent: str, type_id: str, uuid: str) -> None:
        """One that is on the GPU from the start."""
        mdev = Mdev(self, parent, type_id, uuid)
        mdev.active = mdev.persistent = mdev.starts_itself = True
        self.devices[mdev.name()] = mdev

    # -- what Nova's fake connection asks -----------------------------------

    def get_all_devices(self) -> list[str]:
        """Inactive ones as well: the old call does not tell them apart."""
        with self.lock:
            return list(self.devices)

    def get_device_by_name(self, name: str) -> Mdev:
        with self.lock:
            if name in self.devices:
                return self.devices[name]
        raise error(
            f"no node device with matching name '{name}'",
            fakelibvirt.VIR_ERR_NO_NODE_DEVICE,
        )

    # -- what libvirt does --------------------------------------------------

    def create(self, xml: str) -> Mdev:
        """Create a transient one and start it."""
        with self.lock:
            mdev = self._parse(xml)
            if any(d.uuid == mdev.uuid for d in self.devices.values()):
                raise error(
                    f'Unable to start mediated device: {mdev.uuid}: '
                    'File exists',
                    fakelibvirt.VIR_ERR_INTERNAL_ERROR,
                )
            self.start(mdev)
            self.devices[mdev.name()] = mdev
            return mdev

    def define(self, xml: str) -> Mdev:
        """Make one persistent, or define one that is not started."""
        with self.lock:
            described = self._parse(xml)
            mdev = self.devices.setdefault(described.name(), described)
            if mdev.persistent:
                raise error(
                    f'Unable to define mediated device: {mdev.uuid} is '
                    'already defined',
                    fakelibvirt.VIR_ERR_INTERNAL_ERROR,
                )
            mdev.persistent = True
            return mdev

    def start(self, mdev: Mdev) -> None:
        try:
            self._gpus.create(mdev.parent(), mdev.type_id)
        except OSError as reason:
            raise error(
                f'Unable to start mediated device: {reason}',
                fakelibvirt.VIR_ERR_INTERNAL_ERROR,
            ) from reason
        mdev.active = True

    def stop(self, mdev: Mdev) -> None:
        self._gpus.remove(mdev.parent(), mdev.type_id)
        mdev.active = False
        self.forget(mdev)

    def forget(self, mdev: Mdev) -> None:
        """Unless something keeps it."""
        if not mdev.active and not mdev.persistent:
            self.devices.pop(mdev.name(), None)

    def is_active(self, uuid: str) -> bool:
        with self.lock:
            return any(
                mdev.active and mdev.uuid == uuid
                for mdev in self.devices.values()
            )

    def restart(self, autostart: bool) -> None:
        """What is left after a reboot of GPUs that were reset."""
        with self.lock:
            for mdev in list(self.devices.values()):
                mdev.active = False
                self.forget(mdev)
            for mdev in self.devices.values():
                if mdev.starts_itself and autostart:
                    self.start(mdev)

    def _parse(self, xml: str) -> Mdev:
        device = ElementTree.fromstring(xml)  # noqa: S314 (Nova wrote it)
        parent = str(device.findtext('parent'))
        capability = device.find("capability[@type='mdev']")
        of_type = capability.find('type') if capability is not None else None
        if parent not in self._gpus.devices:
            raise error(
                f'could not find parent device for {parent}',
                fakelibvirt.VIR_ERR_NO_NODE_DEVICE,
            )
        if capability is None or of_type is None:
            raise error('no mdev in XML', fakelibvirt.VIR_ERR_XML_ERROR)
        return Mdev(
            self,
            parent,
            str(of_type.get('id')),
            str(capability.findtext('uuid')),
        )
