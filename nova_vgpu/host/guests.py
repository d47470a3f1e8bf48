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

"""The guests of the host and the devices that they have, from libvirt.

What a guest has is in two places: what it runs with, and what it is defined
with. They differ while a change waits for the next start, and a guest that
Nova suspended has its mdevs only in the latter. A device in either is the
guest's.
"""

from collections.abc import Iterable
import typing
import uuid
from xml.etree import ElementTree

import libvirt

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import node_xml


class Domain(typing.Protocol):
    """The part of ``libvirt.virDomain`` that is used here."""

    def name(self) -> str: ...

    def UUIDString(self) -> str: ...

    def isActive(self) -> int: ...

    def XMLDesc(self, flags: int = 0) -> str: ...


class Connection(typing.Protocol):
    """The part of ``libvirt.virConnect`` that is used here."""

    def listAllDomains(self, flags: int = 0) -> Iterable[Domain]: ...


def read_guests(connection: Connection) -> tuple[values.Guest, ...]:
    """Every guest, in the order of their names.

    A guest that cannot be read is an error and not left out: its devices
    would pass for free ones.

    :raises HostUnreadable: if libvirt stops answering, or a guest is unclear.
    """
    flags = (
        libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE
        | libvirt.VIR_CONNECT_LIST_DOMAINS_INACTIVE
    )
    try:
        found = [_read(domain) for domain in connection.listAllDomains(flags)]
    except libvirt.libvirtError as error:
        raise exception.HostUnreadable(
            f'libvirt failed while its guests were read: {error}'
        ) from error
    guests = (guest for guest in found if guest is not None)
    return tuple(sorted(guests, key=lambda guest: guest.name))


def parse_devices(
    xml: str,
) -> tuple[frozenset[str], frozenset[values.PciAddress]]:
    """The mdevs and the PCI functions in the XML of a guest.

    :raises Malformed: if it does not say which they are.
    """
    try:
        # From libvirt, which is trusted; expat bounds expansion.
        root = ElementTree.fromstring(xml)  # noqa: S314
    except (ElementTree.ParseError, ValueError) as error:
        raise node_xml.Malformed(str(error)) from error
    mdevs = set()
    functions = set()
    for device in root.iterfind('devices/hostdev'):
        address = device.find('source/address')
        kind = device.get('type')
        if kind not in ('mdev', 'pci'):
            continue
        if address is None:
            raise node_xml.Malformed(f'a {kind} <hostdev> without an address')
        if kind == 'mdev':
            mdevs.add(_parse_uuid(address.get('uuid', '')))
        else:
            functions.add(node_xml.parse_address(address))
    return frozenset(mdevs), frozenset(functions)


def _read(domain: Domain) -> values.Guest | None:
    """The guest; None if it is gone since it was listed."""
    name = domain.name()
    try:
        now, defined = (
            parse_devices(domain.XMLDesc(flags))
            for flags in (0, libvirt.VIR_DOMAIN_XML_INACTIVE)
        )
        return values.Guest(
            uuid=_parse_uuid(domain.UUIDString()),
            name=name,
            running=bool(domain.isActive()),
            mdevs=now[0] | defined[0],
            functions=now[1] | defined[1],
        )
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        raise
    except node_xml.Malformed as error:
        raise exception.HostUnreadable(
            f'It cannot be told which devices guest {name} has: {error}'
        ) from error


def _parse_uuid(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError as error:
        raise node_xml.Malformed(f'{text[:40]!r} is no UUID') from error
