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

"""libvirt on a simulated host: node devices and guests that go together.

Nova runs several hosts in one process; what is of a host goes by its
connection.
"""

import typing

import libvirt
from nova.tests.fixtures import libvirt as fakelibvirt

from nova_vgpu import values
from nova_vgpu.tests.functional.compute import simulated_gpus
from nova_vgpu.tests.functional.compute import simulated_guests
from nova_vgpu.tests.functional.compute import simulated_mdevs

# Nova asks with the flags of its fake libvirt, which has other values than
# libvirt itself, and the rest of this project with those of libvirt. None of
# the fake's is one that this project uses.
_PCI = (
    libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV
    | libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV_TYPES
)
_MDEV = (
    libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV
    | fakelibvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV
)
_INACTIVE = (
    libvirt.VIR_CONNECT_LIST_NODE_DEVICES_INACTIVE
    | fakelibvirt.VIR_CONNECT_LIST_NODE_DEVICES_INACTIVE
)
_ACTIVE = libvirt.VIR_CONNECT_LIST_NODE_DEVICES_ACTIVE


class SimulatedConnection(fakelibvirt.Connection):
    """A connection whose calls may come from many threads."""

    def __init__(self, *args: typing.Any, **kwargs: typing.Any) -> None:
        super().__init__(*args, **kwargs)
        gpus: simulated_gpus.SimulatedGPUs = self.pci_info
        self.lock = gpus.lock
        self.mdev_info = simulated_mdevs.Mdevs(
            gpus.kernel,
            self._is_used,
            lambda name: name in gpus.devices,
            simulated_mdevs.ERRORS,
        )
        gpus.kernel.in_use = self._is_used
        #: GPUs that libvirt took from their drivers.
        self._detached: set[values.PciAddress] = set()

    error = staticmethod(simulated_mdevs.error)

    # -- node devices -------------------------------------------------------

    def nodeDeviceLookupByName(self, name: str) -> typing.Any:
        if name.startswith('mdev'):
            return self.mdev_info.get_device_by_name(name)
        if name in self.pci_info.devices:
            return fakelibvirt.NodeDevice(
                self, xml=self.pci_info.devices[name].xml
            )
        raise self.error(
            f"no node device with matching name '{name}'",
            fakelibvirt.VIR_ERR_NO_NODE_DEVICE,
        )

    def nodeDeviceCreateXML(self, xml: str, flags: int = 0) -> typing.Any:
        return self.mdev_info.create(xml)

    def nodeDeviceDefineXML(self, xml: str, flags: int = 0) -> typing.Any:
        return self.mdev_info.define(xml)

    def listAllDevices(self, flags: int = 0) -> list[typing.Any]:
        """Active ones, inactive ones, or all if it is not said which."""
        states = flags & (_ACTIVE | _INACTIVE)
        active = not states or bool(flags & _ACTIVE)
        inactive = not states or bool(flags & _INACTIVE)
        devices: list[typing.Any] = []
        with self.lock:
            if active and flags & _PCI:
                devices += [
                    fakelibvirt.NodeDevice(self, xml=device.xml)
                    for device in self.pci_info.devices.values()
                ]
            if flags & _MDEV:
                devices += [
                    mdev
                    for mdev in self.mdev_info.devices.values()
                    if (active if mdev.active else inactive)
                ]
        return devices

    # -- guests -------------------------------------------------------------

    def defineXML(self, xml: str) -> typing.Any:
        """A running guest stays and has another configuration from now on."""
        guest = simulated_guests.Guest(self, xml)
        with self.lock:
            before = self._vms.get(guest.name())
            if before is None:
                self._vms[guest.name()] = guest
                return guest
            if before.is_running:
                before.configured = guest.configured
                before._transient = False
                return before
            guest.take_over(before)
            self._vms[guest.name()] = guest
        return guest

    def createXML(self, xml: str, flags: int) -> typing.Any:
        guest = simulated_guests.Guest(self, xml, running=True, transient=True)
        with self.lock:
            self._vms[guest.name()] = guest
        return guest

    def lookupByUUIDString(self, uuid: str) -> typing.Any:
        with self.lock:
            return super().lookupByUUIDString(uuid)

    def listAllDomains(self, flags: int = 0) -> typing.Any:
        with self.lock:
            return super().listAllDomains(flags)

    def _mark_running(self, dom: typing.Any) -> None:
        with self.lock:
            if dom not in self._running_vms.values():
                super()._mark_running(dom)

    def _mark_not_running(self, dom: typing.Any) -> None:
        with self.lock:
            if dom in self._running_vms.values():
                super()._mark_not_running(dom)

    def _undefine(self, dom: typing.Any) -> None:
        with self.lock:
            super()._undefine(dom)

    # -- what ties them -----------------------------------------------------

    def list_running(self) -> list[simulated_guests.Guest]:
        with self.lock:
            return list(self._running_vms.values())

    def _is_used(self, key: str) -> bool:
        return self._user_of(key) is not None

    def _user_of(
        self, key: str, besides: object = None
    ) -> simulated_guests.Guest | None:
        for guest in self.list_running():
            if guest is not besides and key in map(
                simulated_guests.key_of, guest.hostdevs
            ):
                return guest
        return None

    def require_usable(
        self, hostdev: simulated_guests.Hostdev, guest: simulated_guests.Guest
    ) -> None:
        """Let a guest have a device.

        :raises LibvirtError: as libvirt does if it is not there or taken.
        """
        key = simulated_guests.key_of(hostdev)
        other = self._user_of(key, besides=guest)
        if other is not None:
            raise self.error(
                f'Requested operation is not valid: device {key} is in use '
                f'by driver QEMU, domain {other.name()}',
                fakelibvirt.VIR_ERR_OPERATION_INVALID,
            )
        if hostdev['type'] == 'mdev':
            if not self.mdev_info.is_active(key):
                raise self.error(
                    f"device not found: mediated device '{key}' not found",
                    fakelibvirt.VIR_ERR_DEVICE_MISSING,
                )
            return
        current = self.pci_info.current_type(key)
        # With managed='yes', libvirt takes the function from its driver and
        # the guest starts with something that is no vGPU. No test is to take
        # that for a server with its vGPU.
        if current is not None and (
            not current or hostdev['managed'] == 'yes'
        ):
            raise self.error(
                f'internal error: qemu: vfio {key}: error getting device',
                fakelibvirt.VIR_ERR_INTERNAL_ERROR,
            )

    def take(
        self,
        hostdevs: list[simulated_guests.Hostdev],
    ) -> None:
        """Take whole GPUs from their drivers for a guest that starts.

        :raises LibvirtError: if VFIO does not give them to a guest.
        """
        for address, hostdev in self._list_whole(hostdevs):
            kernel = self.pci_info.kernel
            if hostdev['managed'] == 'yes':
                kernel.detach(address)
                self._detached.add(address)
            try:
                kernel.require_viable(address)
            except OSError as error:
                self.give_back(hostdevs)
                raise self.error(
                    f'internal error: qemu: vfio {address}: {error}',
                    fakelibvirt.VIR_ERR_INTERNAL_ERROR,
                ) from error

    def give_back(self, hostdevs: list[simulated_guests.Hostdev]) -> None:
        """Give whole GPUs of a guest that ended back to their drivers."""
        for address, _ in self._list_whole(hostdevs):
            if address in self._detached:
                self._detached.discard(address)
                self.pci_info.kernel.reattach(address)

    def _list_whole(
        self, hostdevs: list[simulated_guests.Hostdev]
    ) -> list[tuple[values.PciAddress, simulated_guests.Hostdev]]:
        whole = {
            gpu.address.node_device_name: gpu for gpu in self.pci_info.gpus
        }
        return [
            (whole[key].address, hostdev)
            for hostdev in hostdevs
            if (key := simulated_guests.key_of(hostdev)) in whole
        ]

    def reboot(self, autostart: bool = True) -> None:
        """Reboot the machine.

        :param autostart: whether mdevs start that are told to.
        """
        with self.lock:
            for guest in self.list_running():
                guest.destroy()
            self.pci_info.reset()
            self.mdev_info.restart(autostart)
