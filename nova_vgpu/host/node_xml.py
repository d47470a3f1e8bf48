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

"""Parse the XML of one node device.

libvirt describes a PCI function with its ids, its virtual functions and its
mdev types, and an mdev with its parent. Only what is needed is read.
"""

from collections.abc import Iterable
import dataclasses
import re
import uuid
from xml.etree import ElementTree

from nova_vgpu import values
from nova_vgpu.knowledge import vendors

_UUID_LENGTH = 36
_ADDRESS_PARTS = ('domain', 'bus', 'slot', 'function')
_NUMBER = re.compile(r'(0x[0-9a-f]{1,8}|[0-9]{1,9})', re.ASCII | re.IGNORECASE)


_VPD = re.compile(
    r"""<capability type=['"]vpd['"]>.*?</capability>""", re.DOTALL
)
_CLASS = re.compile(r'<class>0x([0-9a-f]{6})</class>', re.IGNORECASE)
_VENDOR = re.compile(r"""<vendor id=['"]0x([0-9a-f]{4})['"]""", re.IGNORECASE)


class MalformedError(Exception):
    """The XML lacks something that is required."""


@dataclasses.dataclass(frozen=True, slots=True)
class Function:
    """A node device that is a PCI function or a virtual parent of mdevs."""

    name: str
    address: values.PciAddress | None = None
    vendor: int = 0
    device: int = 0
    pci_class: int | None = None
    driver: str | None = None
    total_vfs: int = 0
    vfs: tuple[values.PciAddress, ...] = ()
    is_vf: bool = False
    offers: tuple[values.Offer, ...] = ()


def parse_device(name: str, xml: str) -> Function | values.VGPU:
    """A function that may have vGPUs, or an mdev.

    :raises MalformedError: if it is neither, or incomplete.
    """
    try:
        root = _parse_xml(xml)
    except MalformedError:
        other = _parse_other_function(name, xml)
        if other is None:
            raise
        return other
    capability = root.find('capability')
    if capability is None:
        raise MalformedError('no <capability>')
    if capability.get('type') == 'mdev':
        return _parse_vgpu(name, root, capability)
    return _parse_function(name, root, capability)


def _parse_xml(xml: str) -> ElementTree.Element:
    """The parsed XML, if necessary without parts that libvirt did not escape.

    Up to libvirt 9.0 that is a device's VPD, which can contain any character.
    """
    try:
        # From libvirt, which is trusted; expat bounds expansion.
        return ElementTree.fromstring(xml)  # noqa: S314
    except (ElementTree.ParseError, ValueError) as error:
        found = str(error)
    try:
        return ElementTree.fromstring(_VPD.sub('', xml))  # noqa: S314
    except (ElementTree.ParseError, ValueError) as error:
        raise MalformedError(found) from error


def _parse_other_function(name: str, xml: str) -> Function | None:
    """A function that is certainly not a GPU; None if it may be one."""
    address = values.PciAddress.parse_node_device_name(name)
    pci_class, vendor = _CLASS.search(xml), _VENDOR.search(xml)
    if address is None or pci_class is None or vendor is None:
        return None
    found = int(vendor[1], 16), int(pci_class[1], 16)
    if vendors.is_gpu(*found):
        return None
    return Function(name, address, found[0], pci_class=found[1])


def parse_address(element: ElementTree.Element) -> values.PciAddress:
    """The address in the attributes of an element.

    :raises MalformedError: if it is invalid.
    """
    return _parse_address(element.get(part) for part in _ADDRESS_PARTS)


def _parse_vgpu(
    name: str, root: ElementTree.Element, capability: ElementTree.Element
) -> values.VGPU:
    parent = root.findtext('parent')
    if not parent:
        raise MalformedError('no <parent>')
    type_id = _read_id(capability.find('type'), 'type')
    # Before libvirt 7.3 the UUID was only in the device's name.
    in_name = name.removeprefix('mdev_')[:_UUID_LENGTH].replace('_', '-')
    found = capability.findtext('uuid') or in_name
    try:
        return values.VGPU(parent, type_id, str(uuid.UUID(found)))
    except ValueError as error:
        raise MalformedError(f'its UUID is {found[:40]!r}') from error


def _parse_function(
    name: str, root: ElementTree.Element, capability: ElementTree.Element
) -> Function:
    if capability.get('type') != 'pci':
        if name.startswith(('pci_', 'mdev_')):
            raise MalformedError('its <capability> is not that of its kind')
        # A virtual parent: the types sit in a capability within the same.
        return Function(name, offers=_parse_offers(capability))
    inner = {c.get('type'): c for c in capability.findall('capability')}
    functions_of = inner.get('virt_functions')
    if functions_of is None:
        functions_of = ElementTree.Element('capability')
    types = inner.get('mdev_types')
    address = _parse_address(
        capability.findtext(tag) for tag in _ADDRESS_PARTS
    )
    pci_class = capability.findtext('class')
    if address.node_device_name != name:
        raise MalformedError(f'its address is {address}')
    vendor = _number(_read_id(capability.find('vendor'), 'vendor'))
    if pci_class is None and types is None and vendors.get_by_pci_id(vendor):
        raise MalformedError('no <class>')  # it may or may not be a GPU
    return Function(
        name=name,
        address=address,
        vendor=vendor,
        device=_number(_read_id(capability.find('product'), 'product')),
        pci_class=_number(pci_class) if pci_class is not None else None,
        driver=root.findtext('driver/name'),
        total_vfs=_number(functions_of.get('maxCount', '0')),
        vfs=tuple(
            parse_address(element)
            for element in functions_of.findall('address')
        ),
        is_vf='phys_function' in inner,
        offers=() if types is None else _parse_offers(types),
    )


def _parse_offers(
    capability: ElementTree.Element,
) -> tuple[values.Offer, ...]:
    return tuple(
        values.Offer(
            values.VGPUType(
                _read_id(element, 'type'),
                (element.findtext('name') or '').strip() or None,
            ),
            _number(element.findtext('availableInstances')),
        )
        for element in capability.iter('type')
    )


def _parse_address(parts: Iterable[str | None]) -> values.PciAddress:
    domain, bus, slot, function = map(_number, parts)
    try:
        return values.PciAddress.parse(
            f'{domain:x}:{bus:x}:{slot:x}.{function:x}'
        )
    except values.MalformedAddress as error:
        raise MalformedError(str(error)) from error


def _read_id(element: ElementTree.Element | None, tag: str) -> str:
    value = element.get('id') if element is not None else None
    if not value:
        raise MalformedError(f'no <{tag}> with an id')
    return value


def _number(text: str | None) -> int:
    """A number as libvirt writes it: hexadecimal with 0x, decimal without."""
    match = _NUMBER.fullmatch((text or '').strip())
    if match is None:
        raise MalformedError(f'{(text or "")[:40]!r} is not a number')
    return int(match[1], 16 if 'x' in match[1].lower() else 10)
