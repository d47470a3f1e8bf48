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

"""The guests of the host and the devices that they use, from libvirt.

The devices of a guest are in its live XML and in its persistent XML. They
differ while a change is pending until the next start, and a guest that Nova
suspended has its mdevs only in the persistent one. A device in either of them
is in use.

The alias of a vGPU names its type. It tells a virtual function that is a vGPU
from other PCI devices, and stores the type, which a virtual function loses
when the host is rebooted. ::

    <hostdev mode='subsystem' type='pci' managed='no'>
      <source><address domain='0x0000' bus='0x41' slot='0x00' .../></source>
      <alias name='ua-vgpu-0-NVIDIA_L40S-24Q'/>
    </hostdev>

A mediated device that Cyborg manages has the alias ``ua-accel-0``.

libvirt preserves an alias that starts with ``ua-``, and allows letters,
digits, ``_`` and ``-`` in it.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import dataclasses
import re
import typing
import uuid as uuidlib
from xml.etree import ElementTree

import libvirt

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import node_xml

_ALL = (
    libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE
    | libvirt.VIR_CONNECT_LIST_DOMAINS_INACTIVE
)
_ALIAS = re.compile(r'ua-vgpu-[0-9]+(?:-([0-9A-Za-z_-]+))?', re.ASCII)
_ACCELERATOR_ALIAS = re.compile(r'ua-accel-[0-9]+', re.ASCII)
_NAME = re.compile(r'[0-9A-Za-z -]+', re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True)
class Devices:
    """The devices in a guest's XML; vGPUs with the names of their types."""

    mdevs: frozenset[str] = frozenset()
    functions: frozenset[values.PciAddress] = frozenset()
    vgpus: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    accelerators: frozenset[str] = frozenset()


class Domain(typing.Protocol):
    """The part of ``libvirt.virDomain`` that is used here."""

    def name(self) -> str: ...

    def UUIDString(self) -> str: ...

    def isActive(self) -> int: ...

    def XMLDesc(self, flags: int = 0) -> str: ...


class Connection(typing.Protocol):
    """The part of ``libvirt.virConnect`` that is used here."""

    def listAllDomains(self, flags: int = 0) -> Iterable[Domain]: ...

    def lookupByUUIDString(self, uuid: str) -> Domain: ...


def read_guests(connection: Connection) -> tuple[values.Guest, ...]:
    """Every guest, in the order of their names.

    A guest that cannot be read is an error and not left out: its devices
    would be taken for free ones.

    :raises HostUnreadable: if libvirt stops answering, or a guest's XML is
        invalid.
    """
    with _answering():
        found = [_read(domain) for domain in connection.listAllDomains(_ALL)]
    guests = (guest for guest in found if guest is not None)
    return tuple(sorted(guests, key=lambda guest: guest.name))


def find_mdevs(connection: Connection, uuids: Iterable[str]) -> frozenset[str]:
    """Those of these mdevs that a guest uses, or may use.

    The XML is not parsed: a guest that uses an mdev has its UUID there, which
    libvirt writes in lower case.

    :raises HostUnreadable: if libvirt stops answering.
    """
    asked, found = frozenset(uuids), set[str]()
    with _answering():
        for domain in connection.listAllDomains(_ALL):
            for said in _describe(domain):
                found.update(uuid for uuid in asked if uuid in said)
    return frozenset(found)


def read_guest(connection: Connection, uuid: str) -> values.Guest | None:
    """One guest; None if libvirt does not know the UUID.

    :raises HostUnreadable: if libvirt does not answer, or the guest's XML is
        invalid.
    """
    try:
        return _read(connection.lookupByUUIDString(uuid))
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        raise exception.HostUnreadable(
            f'libvirt failed while guest {uuid} was read: {error}'
        ) from error


def make_alias(order: int, type_name: str | None) -> str:
    """The alias of a guest's vGPU; ``order`` is unique in the guest.

    A type name with characters that an alias cannot contain is left out.
    """
    if type_name and _NAME.fullmatch(type_name):
        return f'ua-vgpu-{order}-{type_name.replace(" ", "_")}'
    return f'ua-vgpu-{order}'


def make_accelerator_alias(order: int) -> str:
    """The alias of a guest's mdev that Cyborg manages."""
    return f'ua-accel-{order}'


def is_alias(text: str | None) -> bool:
    """Whether an alias marks a device as a vGPU."""
    return _ALIAS.fullmatch(text or '') is not None


def parse_devices(xml: str) -> Devices:
    """The mdevs, PCI functions and vGPUs in the XML of a guest.

    :raises MalformedError: if they cannot be identified.
    """
    if '<hostdev' not in xml and '</domain>' in xml:
        return Devices()  # as most of them; parsing is slow
    try:
        # From libvirt, which is trusted; expat bounds expansion.
        root = ElementTree.fromstring(xml)  # noqa: S314
    except (ElementTree.ParseError, ValueError) as error:
        raise node_xml.MalformedError(str(error)) from error
    mdevs = set()
    functions = set()
    accelerators = set()
    vgpus: dict[str, str | None] = {}
    for device in root.iterfind('devices/hostdev'):
        address = device.find('source/address')
        kind = device.get('type')
        if kind not in ('mdev', 'pci'):
            continue
        if address is None:
            raise node_xml.MalformedError(
                f'a {kind} <hostdev> without an address'
            )
        name = _read_alias(device)
        alias = _ALIAS.fullmatch(name)
        if kind == 'mdev':
            uuid = _parse_uuid(address.get('uuid', ''))
            mdevs.add(uuid)
            if _ACCELERATOR_ALIAS.fullmatch(name):
                accelerators.add(uuid)
            vgpus[uuid] = _type_name(alias)
        else:
            function = node_xml.parse_address(address)
            functions.add(function)
            if alias is not None:
                vgpus[function.node_device_name] = _type_name(alias)
    return Devices(
        frozenset(mdevs), frozenset(functions), vgpus, frozenset(accelerators)
    )


def _read_alias(device: ElementTree.Element) -> str:
    alias = device.find('alias')
    text = alias.get('name') if alias is not None else None
    return text or ''


def _type_name(alias: re.Match[str] | None) -> str | None:
    return alias[1].replace('_', ' ') if alias and alias[1] else None


@contextlib.contextmanager
def _answering() -> Iterator[None]:
    """Turn libvirt's errors into ours.

    :raises HostUnreadable: if libvirt does not answer.
    """
    try:
        yield
    except libvirt.libvirtError as error:
        raise exception.HostUnreadable(
            f'libvirt failed while its guests were read: {error}'
        ) from error


def _read(domain: Domain) -> values.Guest | None:
    """The guest; None if it was removed since it was listed."""
    name = domain.name()
    try:
        now, defined = (
            parse_devices(domain.XMLDesc(flags))
            for flags in (0, libvirt.VIR_DOMAIN_XML_INACTIVE)
        )
        vgpus = {**now.vgpus, **defined.vgpus}
        return values.Guest(
            uuid=_parse_uuid(domain.UUIDString()),
            name=name,
            running=bool(domain.isActive()),
            mdevs=now.mdevs | defined.mdevs,
            functions=now.functions | defined.functions,
            vgpus=tuple(values.GuestVGPU(*item) for item in vgpus.items()),
            accelerators=now.accelerators | defined.accelerators,
        )
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        raise
    except node_xml.MalformedError as error:
        raise exception.HostUnreadable(
            f'The devices of guest {name} cannot be read: {error}'
        ) from error


def _describe(domain: Domain) -> list[str]:
    """All XML of a guest; empty if it was removed since it was listed."""
    try:
        return [
            domain.XMLDesc(flags)
            for flags in (0, libvirt.VIR_DOMAIN_XML_INACTIVE)
        ]
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return []
        raise


def _parse_uuid(text: str) -> str:
    try:
        return str(uuidlib.UUID(text))
    except ValueError as error:
        raise node_xml.MalformedError(
            f'{text[:40]!r} is not a UUID'
        ) from error
