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

"""Devices that leave a running guest for a while, and come back to it.

libvirt asks a guest to release a device, waits a few seconds, and returns
whether the guest did so or not. The guest may release it at any time after
that, or never. What it has is in its XML.

Devices are handled as libvirt describes them, so that one that comes back has
the alias that it had before, which says what type a vGPU is of. It does not
keep its place in the guest, which another device may have got meanwhile.
"""

from collections.abc import Iterable
import dataclasses
import time
import typing
from xml.etree import ElementTree

from nova_vgpu.host import guests
from nova_vgpu.host import node_xml

_PAUSE = 0.2


@dataclasses.dataclass(frozen=True, slots=True)
class Device:
    """A device of a guest; Nova's guests attach and detach it."""

    #: The UUID of an mdev, the node device name of a PCI function, or the MAC
    #: address of a network interface.
    name: str
    xml: str
    is_vgpu: bool = False

    def to_xml(self) -> str:
        return self.xml


class Guest(typing.Protocol):
    """The part of ``nova.virt.libvirt.guest.Guest`` that is used here."""

    def get_xml_desc(self, dump_inactive: bool = False) -> str: ...

    def attach_device(self, conf: Device, live: bool = False) -> None: ...


def list_devices(guest: Guest) -> tuple[Device, ...]:
    """What Nova detaches from a guest to suspend it, as the guest has it.

    Those are its mdevs, PCI functions and network interfaces.
    """
    return _parse(guest.get_xml_desc())


def list_vgpus(guest: Guest) -> tuple[Device, ...]:
    """The vGPUs that a guest has."""
    return parse_vgpus(guest.get_xml_desc())


def parse_vgpus(xml: str) -> tuple[Device, ...]:
    """The vGPUs in the XML of a guest."""
    return tuple(device for device in _parse(xml) if device.is_vgpu)


def list_defined_vgpus(guest: Guest) -> tuple[Device, ...]:
    """The vGPUs that a guest is defined with, whether it has them or not."""
    return parse_vgpus(guest.get_xml_desc(dump_inactive=True))


def await_removal(
    guest: Guest, devices: Iterable[Device], seconds: float
) -> tuple[Device, ...]:
    """Wait until a guest has released devices.

    :returns: those that it still has when the time is over.
    """
    end = time.monotonic() + seconds
    while True:
        there = {device.name for device in list_devices(guest)}
        left = tuple(device for device in devices if device.name in there)
        if not left or time.monotonic() >= end:
            return left
        time.sleep(_PAUSE)


def attach_missing(
    guest: Guest, devices: Iterable[Device]
) -> tuple[Device, ...]:
    """Attach those devices that a running guest does not have.

    :returns: what was attached.
    """
    there = {device.name for device in list_devices(guest)}
    missing = tuple(d for d in devices if d.name not in there)
    for device in missing:
        guest.attach_device(device, live=True)
    return missing


def join_names(devices: Iterable[Device]) -> str:
    return ', '.join(device.name for device in devices)


def _parse(xml: str) -> tuple[Device, ...]:
    # From libvirt, which is trusted; expat bounds expansion.
    found = ElementTree.fromstring(xml).iterfind('devices/*')  # noqa: S314
    devices = map(_parse_device, found)
    return tuple(device for device in devices if device is not None)


def _parse_device(element: ElementTree.Element) -> Device | None:
    """One device; None if Nova does not detach devices of its kind."""
    place = element.find('address')
    if place is not None:
        element.remove(place)
    xml = ElementTree.tostring(element, encoding='unicode')
    if element.tag == 'interface':
        mac = element.find('mac')
        if mac is None:
            return None
        return Device(mac.get('address', ''), xml)
    address = element.find('source/address')
    if element.tag != 'hostdev' or address is None:
        return None
    if element.get('type') == 'mdev':
        return Device(address.get('uuid', ''), xml, is_vgpu=True)
    if element.get('type') != 'pci':
        return None
    name = node_xml.parse_address(address).node_device_name
    alias = element.find('alias')
    is_vgpu = alias is not None and guests.is_alias(alias.get('name'))
    return Device(name, xml, is_vgpu)
