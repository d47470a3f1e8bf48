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

"""libvirt on a simulated kernel: node devices, mdevs and guests.

:class:`LibvirtHost` is a connection as this project uses one. It shows what
the kernel shows, perhaps some seconds later, and its own changes at once.
"""

from collections.abc import Mapping
import copy
import dataclasses
import typing
import uuid as uuidlib
from xml.etree import ElementTree

import libvirt

from nova_vgpu import values
from nova_vgpu.host import guests
from nova_vgpu.sandbox import host
from nova_vgpu.sandbox import kernel
from nova_vgpu.sandbox import libvirt_connection
from nova_vgpu.sandbox import mdevs
from nova_vgpu.sandbox import node_devices

_ACTIVE = libvirt.VIR_CONNECT_LIST_NODE_DEVICES_ACTIVE
_INACTIVE = libvirt.VIR_CONNECT_LIST_NODE_DEVICES_INACTIVE
_CAP_PCI = libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV
_CAP_TYPES = libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV_TYPES
_CAP_MDEV = libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV

_GUESTS_ACTIVE = libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE
_GUESTS_INACTIVE = libvirt.VIR_CONNECT_LIST_DOMAINS_INACTIVE

_NAMESPACE = uuidlib.UUID('0f2f5b9e-8f5f-4d3c-9f0b-6d8f7c1f2a10')


def make_error(
    message: str, code: int, domain: int = libvirt.VIR_FROM_NODEDEV
) -> Exception:
    """An error of libvirt, as its library raises it."""
    error = libvirt.libvirtError(message)
    error.args = (message,)  # and not the last error of another thread
    level = libvirt.VIR_ERR_ERROR
    error.err = (code, domain, message, level, None, None, None, -1, -1)
    made: Exception = error
    return made


_ERRORS = mdevs.Errors(
    make=make_error,
    kind=libvirt.libvirtError,
    internal_error=libvirt.VIR_ERR_INTERNAL_ERROR,
    no_node_device=libvirt.VIR_ERR_NO_NODE_DEVICE,
    operation_invalid=libvirt.VIR_ERR_OPERATION_INVALID,
    xml_error=libvirt.VIR_ERR_XML_ERROR,
)


class PciDevice:
    """A node device that libvirt only shows."""

    def __init__(self, name: str, xml: str) -> None:
        self._name = name
        self._xml = xml

    def name(self) -> str:
        return self._name

    def parent(self) -> str:
        return 'computer'

    def listCaps(self) -> list[str]:
        offers = 'type="mdev_types"' in self._xml
        return ['pci', 'mdev_types'] if offers else ['pci']

    def XMLDesc(self, flags: int = 0) -> str:
        return self._xml

    def isActive(self) -> int:
        return 1

    def isPersistent(self) -> int:
        return 1

    def autostart(self) -> int:
        return 1


@dataclasses.dataclass
class Guest:
    """A guest as Nova defines it: its vGPUs and the names of their types."""

    name_: str
    uuid: str
    mdevs: Mapping[str, str | None]
    functions: Mapping[str, str | None]
    running: bool = False
    #: Whether its devices have the aliases of this project's driver; those
    #: of Nova's PCI passthrough do not.
    notes: bool = True

    @property
    def devices(self) -> list[str]:
        """The ids of its devices: UUIDs and names of functions."""
        parse = values.PciAddress.parse
        functions = (parse(f).node_device_name for f in self.functions)
        return [*self.mdevs, *functions]

    def name(self) -> str:
        return self.name_

    def isActive(self) -> int:
        return int(self.running)

    def XMLDesc(self, flags: int = 0) -> str:
        domain = ElementTree.Element('domain', type='kvm')
        ElementTree.SubElement(domain, 'name').text = self.name_
        ElementTree.SubElement(domain, 'uuid').text = self.uuid
        devices = ElementTree.SubElement(domain, 'devices')
        sources = [
            *(
                ('mdev', {'uuid': uuid}, name)
                for uuid, name in self.mdevs.items()
            ),
            *(
                ('pci', _attributes(address), name)
                for address, name in self.functions.items()
            ),
        ]
        for order, (kind, address, type_name) in enumerate(sources):
            noted = guests.make_alias(order, type_name)
            alias = noted if self.notes else f'hostdev{order}'
            _add_hostdev(devices, kind, address, alias)
        return ElementTree.tostring(domain, encoding='unicode')


class LibvirtHost(libvirt_connection.Connection):
    """The libvirt of a simulated host."""

    def __init__(self, its_kernel: kernel.Kernel) -> None:
        super().__init__()
        self._kernel = its_kernel
        self._lock = its_kernel.lock
        #: Seconds until it shows changes that others made.
        self.lag = 0.0
        #: Whether mdevs with autostart start when their parents appear.
        self.autostarts = True
        self.guests: dict[str, Guest] = {}
        self._boots = its_kernel.boots
        self._shown: tuple[host.GPU, ...] | None = None
        self._devices: dict[str, PciDevice] = {}
        self.mdevs = mdevs.Mdevs(
            its_kernel, self.is_used, self._is_shown, _ERRORS
        )
        its_kernel.in_use = self.is_used
        its_kernel.udev = self._start_mdevs

    # -- node devices -------------------------------------------------------

    def list_devices(self, flags: int) -> list[str]:
        """Names of devices of these kinds, in these states."""
        kinds = flags & (_CAP_PCI | _CAP_TYPES | _CAP_MDEV) or (
            0 if flags & ~(_ACTIVE | _INACTIVE) else _CAP_PCI | _CAP_MDEV
        )
        states = flags & (_ACTIVE | _INACTIVE) or _ACTIVE | _INACTIVE
        with self._lock:
            found = [
                name
                for name, device in self._look().items()
                if states & _ACTIVE
                and (
                    kinds & _CAP_PCI
                    or (kinds & _CAP_TYPES and len(device.listCaps()) > 1)
                )
            ]
            found += [
                name
                for name, mdev in self.mdevs.devices.items()
                if kinds & _CAP_MDEV
                and states & (_ACTIVE if mdev.active else _INACTIVE)
            ]
            return found

    def call_device(
        self, name: str, method: str, *args: typing.Any
    ) -> typing.Any:
        with self._lock:
            pci: PciDevice | mdevs.Mdev | None = self._look().get(name)
            device = pci or self.mdevs.get_device_by_name(name)
            if not hasattr(device, method):
                raise make_error(
                    f'this function is not supported: {method} of {name}',
                    libvirt.VIR_ERR_NO_SUPPORT,
                )
            return getattr(device, method)(*args)

    def create_device(self, xml: str) -> str:
        with self._lock:
            self._look()
            return self.mdevs.create(xml).name()

    def define_device(self, xml: str) -> str:
        with self._lock:
            self._look()
            return self.mdevs.define(xml).name()

    def _look(self) -> dict[str, PciDevice]:
        """Read the kernel's state, with the delay."""
        self._notice_reboot()
        gpus = self._kernel.get_gpus(self.lag)
        self.mdevs.see(gpus, self._kernel.clock.now() - self.lag)
        if gpus is not self._shown:
            shown = node_devices.list_device_xml(host.SimulatedHost(gpus))
            self._devices = {
                name: PciDevice(name, xml)
                for name, xml in shown.items()
                if name.startswith('pci_')
            }
            self._shown = gpus
        return self._devices

    def _is_shown(self, name: str) -> bool:
        return name in self._devices

    def _notice_reboot(self) -> None:
        if self._boots != self._kernel.boots:
            self._boots = self._kernel.boots
            for guest in self.guests.values():
                guest.running = False
            self.mdevs.restart(autostart=False)

    def _start_mdevs(self, parents: frozenset[str]) -> None:
        """What mdevctl does when udev calls it."""
        with self._lock:
            self._notice_reboot()
            if self.autostarts:
                self.mdevs.start_those_on(parents)

    # -- guests -------------------------------------------------------------

    def list_guests(self, flags: int) -> list[tuple[str, str]]:
        """UUIDs and names, all at the same moment."""
        states = flags & (_GUESTS_ACTIVE | _GUESTS_INACTIVE)
        with self._lock:
            self._notice_reboot()
            return [
                (guest.uuid, guest.name())
                for guest in self.guests.values()
                if not states
                or states
                & (_GUESTS_ACTIVE if guest.running else _GUESTS_INACTIVE)
            ]

    def call_guest(
        self, uuid: str, method: str, *args: typing.Any
    ) -> typing.Any:
        with self._lock:
            self._notice_reboot()
            for guest in self.guests.values():
                if guest.uuid == uuid:
                    return getattr(guest, method)(*args)
        raise make_error(
            f"Domain not found: no domain with matching uuid '{uuid}'",
            libvirt.VIR_ERR_NO_DOMAIN,
            libvirt.VIR_FROM_QEMU,
        )

    def define_guest(
        self,
        name: str,
        mdevs: Mapping[str, str | None] | None = None,
        functions: Mapping[str, str | None] | None = None,
    ) -> str:
        """Define a guest with vGPUs of these types; returns its UUID."""
        uuid = str(uuidlib.uuid5(_NAMESPACE, name))
        with self._kernel.effect(f'definition of guest {name}'):
            self.guests[name] = Guest(
                name, uuid, dict(mdevs or {}), dict(functions or {})
            )
        return uuid

    def start_guest(self, name: str) -> None:
        """Start a guest.

        :raises libvirtError: if one of its devices is missing or in use.
        """
        with self._lock:
            self._notice_reboot()
            guest = self.guests[name]
            for device in guest.devices:
                self._require_free(device, guest)
            for uuid in guest.mdevs:
                self._require_mdev(uuid)
            for address in guest.functions:
                self._require_type(values.PciAddress.parse(address))
            with self._kernel.effect(f'start of guest {name}'):
                guest.running = True

    def stop_guest(self, name: str) -> None:
        with self._kernel.effect(f'stop of guest {name}'):
            self.guests[name].running = False

    def undefine_guest(self, name: str) -> None:
        with self._kernel.effect(f'no guest {name}'):
            del self.guests[name]

    def is_used(self, device: str) -> bool:
        """Whether a running guest uses this mdev or function."""
        with self._lock:
            self._notice_reboot()
            return any(
                guest.running and device in guest.devices
                for guest in self.guests.values()
            )

    def _require_free(self, device: str, guest: Guest) -> None:
        for other in self.guests.values():
            taken = other.running and device in other.devices
            if taken and other is not guest:
                raise _refuse(
                    f'Requested operation is not valid: device {device} is '
                    f'in use by driver QEMU, domain {other.name()}',
                    libvirt.VIR_ERR_OPERATION_INVALID,
                )

    def _require_mdev(self, uuid: str) -> None:
        if self._kernel.find_mdev(uuid) is None:
            raise _refuse(
                f"device not found: mediated device '{uuid}' not found",
                libvirt.VIR_ERR_DEVICE_MISSING,
            )

    def _require_type(self, address: values.PciAddress) -> None:
        try:
            gpu, vf = self._kernel.find(address)
        except OSError as error:
            raise _refuse(
                f"device not found: PCI device '{address}' not found",
                libvirt.VIR_ERR_DEVICE_MISSING,
            ) from error
        if vf is not None and (
            gpu.board.vf_memory_mib or gpu.board.partitions
        ):
            return  # the kernel provisioned it
        if vf is None or not gpu.vendor_vfio or not gpu.on(vf):
            raise _refuse(
                f'internal error: qemu: vfio {address}: error getting device',
                libvirt.VIR_ERR_INTERNAL_ERROR,
            )

    # -- all of it ----------------------------------------------------------

    def snapshot(self) -> dict[str, typing.Any]:
        """All of the state, to be put back or sent elsewhere."""
        with self._lock:
            return {
                'lag': self.lag,
                'autostarts': self.autostarts,
                'boots': self._boots,
                'guests': copy.deepcopy(self.guests),
                'mdevs': self.mdevs.snapshot(),
            }

    def load(self, snapshot: dict[str, typing.Any]) -> None:
        """Put a state back."""
        with self._lock:
            self.lag = snapshot['lag']
            self.autostarts = snapshot['autostarts']
            self._boots = snapshot['boots']
            self.guests = copy.deepcopy(snapshot['guests'])
            self.mdevs.load(snapshot['mdevs'])


def _refuse(message: str, code: int) -> Exception:
    return make_error(message, code, libvirt.VIR_FROM_QEMU)


def _add_hostdev(
    devices: ElementTree.Element,
    kind: str,
    address: Mapping[str, str],
    alias: str,
) -> None:
    hostdev = ElementTree.SubElement(
        devices, 'hostdev', mode='subsystem', type=kind, managed='no'
    )
    if kind == 'mdev':
        hostdev.set('model', 'vfio-pci')
    source = ElementTree.SubElement(hostdev, 'source')
    ElementTree.SubElement(source, 'address', dict(address))
    ElementTree.SubElement(hostdev, 'alias', name=alias)


def _attributes(text: str) -> dict[str, str]:
    address = values.PciAddress.parse(text)
    return {
        'domain': f'0x{address.domain:04x}',
        'bus': f'0x{address.bus:02x}',
        'slot': f'0x{address.slot:02x}',
        'function': f'0x{address.function:x}',
    }
