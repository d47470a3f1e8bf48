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

"""The host, read from libvirt's node devices.

libvirt tells PCI functions, their SR-IOV relations, mdev types and mdevs. It
does not tell a type's description, a board's subsystem or anything about the
vendor-specific VFIO framework; where the host's sysfs is at hand too, those
gaps are filled from there, and the result equals that of the sysfs reader.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import contextlib
import dataclasses
import typing
from xml.etree import ElementTree

import libvirt

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import functions
from nova_vgpu.host import sysfs


class NodeDevice(typing.Protocol):
    """The part of ``libvirt.virNodeDevice`` that is used here."""

    def name(self) -> str: ...

    def XMLDesc(self, flags: int = 0) -> str: ...


class Connection(typing.Protocol):
    """The part of ``libvirt.virConnect`` that is used here."""

    def listAllDevices(self, flags: int = 0) -> Iterable[NodeDevice]: ...


class _Malformed(Exception):
    """A device's XML that does not say what it must."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Function:
    """A node device that is a PCI function or a virtual parent of mdevs."""

    name: str
    address: values.PciAddress | None = None
    vendor: int = 0
    device: int = 0
    pci_class: int = 0
    driver: str | None = None
    total_vfs: int = 0
    vfs: tuple[values.PciAddress, ...] = ()
    is_vf: bool = False
    offers: tuple[values.Offer, ...] = ()


def is_local(uri: str) -> bool:
    """Whether the URI leads to this very machine, so that its /sys fits."""
    return uri.partition(':')[2].startswith('///') and not uri.startswith(
        'test'
    )


@contextlib.contextmanager
def connect(uri: str) -> typing.Iterator[libvirt.virConnect]:
    """A read-only connection, closed in the end.

    :raises HostUnreadable: if there is none to be had.
    """
    # libvirt prints its errors to stderr besides raising them.
    libvirt.registerErrorHandler(lambda _context, _error: None, None)
    try:
        connection = libvirt.openReadOnly(uri)
    except libvirt.libvirtError as error:
        raise exception.HostUnreadable(
            f'libvirt does not answer at {uri}: {error}. Is libvirtd running, '
            'and is the URI right (qemu:///system on a compute host)?'
        ) from error
    try:
        yield connection
    finally:
        connection.close()


def read_host(
    connection: Connection, sysfs_root: str | None = None
) -> values.Host:
    """Look at every node device once.

    :param sysfs_root: sysfs of the same host, for what libvirt does not tell.
    :raises HostUnreadable: if libvirt stops answering.
    """
    try:
        return _Scan(connection, sysfs_root).read()
    except libvirt.libvirtError as error:
        raise exception.HostUnreadable(
            f'libvirt failed while its node devices were read: {error}'
        ) from error


class _Scan:
    """One reading of a host."""

    def __init__(self, connection: Connection, root: str | None) -> None:
        self._connection = connection
        self._faults: list[values.ReadFault] = []
        self._sysfs = (
            functions.FunctionReader(files.Files(root), self._faults)
            if root
            else None
        )
        self._vgpus: dict[str, list[values.VGPU]] = {}

    def read(self) -> values.Host:
        found = self._read_devices()
        by_address = {f.address: f for f in found if f.address is not None}
        gpus = [
            self._gpu(address, function, by_address)
            for address, function in sorted(
                by_address.items(), key=lambda item: item[0]
            )
            if not function.is_vf
            and sysfs.is_gpu(function.vendor, function.pci_class)
        ]
        used = {gpu.address for gpu in gpus}
        used.update(vf.address for gpu in gpus for vf in gpu.vfs)
        gpus.extend(
            values.PhysicalGPU(
                name=parent.name,
                offers=parent.offers,
                vgpus=self._vgpus_on(parent.name),
            )
            for parent in sorted(found, key=lambda f: f.name)
            if parent.address is None and parent.offers
        )
        others = frozenset(a for a in by_address if a not in used)
        return values.Host(tuple(gpus), others, tuple(self._faults))

    def _read_devices(self) -> list[_Function]:
        flags = (
            libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV
            | libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV_TYPES
            | libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV
        )
        found = []
        for device in self._connection.listAllDevices(flags):
            name = device.name()
            try:
                # From libvirt, which is trusted; expat bounds expansion.
                root = ElementTree.fromstring(device.XMLDesc(0))  # noqa: S314
                capability = root.find('capability')
                if capability is None:
                    raise _Malformed('no <capability>')
                if capability.get('type') == 'mdev':
                    self._add_vgpu(root, capability)
                else:
                    found.append(_parse_function(name, root, capability))
            except libvirt.libvirtError as error:
                if error.get_error_domain() == libvirt.VIR_FROM_RPC:
                    raise  # the connection broke, not the device
                self._fault(name, str(error))
            except (ElementTree.ParseError, _Malformed) as error:
                self._fault(name, str(error))
        return found

    def _add_vgpu(
        self, root: ElementTree.Element, capability: ElementTree.Element
    ) -> None:
        parent = root.findtext('parent') or ''
        type_id = _attribute(capability, 'type', 'id')
        uuid = capability.findtext('uuid')
        if not uuid:
            # Before libvirt 5 the UUID was only in the device's name.
            raise _Malformed('no <uuid>')
        self._vgpus.setdefault(parent, []).append(
            values.VGPU(parent, type_id, uuid.lower())
        )

    def _gpu(
        self,
        address: values.PciAddress,
        function: _Function,
        by_address: Mapping[values.PciAddress, _Function],
    ) -> values.PhysicalGPU:
        where = (*functions.PCI, str(address))
        memory = functions.TypeMemory()
        vfs = []
        for vf_address in sorted(function.vfs):
            vf = by_address.get(vf_address)
            if vf is None:
                self._fault(
                    function.name, f'its VF {vf_address} is not on the bus'
                )
            else:
                vfs.append(self._vf(vf_address, vf, memory))
        subsystem: tuple[int | None, int | None] = (None, None)
        sriov = (
            values.Sriov(function.total_vfs) if function.total_vfs else None
        )
        if self._sysfs is not None:
            subsystem = self._sysfs.read_subsystem(function.name, where)
            sriov = self._sysfs.read_sriov(function.name, where) or sriov
        return values.PhysicalGPU(
            name=function.name,
            address=address,
            ids=values.PciIds(function.vendor, function.device, *subsystem),
            driver=function.driver or self._driver(where),
            sriov=sriov,
            vfs=tuple(vfs),
            offers=self._completed(function.offers, where, memory),
            vgpus=self._vgpus_on(function.name),
        )

    def _vf(
        self,
        address: values.PciAddress,
        vf: _Function,
        memory: functions.TypeMemory,
    ) -> values.VirtualFunction:
        where = (*functions.PCI, str(address))
        driver = vf.driver or self._driver(where)
        if self._sysfs is not None and self._has_vendor_vfio(where):
            offers, vgpus = self._sysfs.read_vendor_vfio(
                vf.name, where, memory
            )
            return values.VirtualFunction(address, driver, offers, vgpus, True)
        return values.VirtualFunction(
            address,
            driver,
            self._completed(vf.offers, where, memory),
            self._vgpus_on(vf.name),
        )

    def _vgpus_on(self, name: str) -> tuple[values.VGPU, ...]:
        on_it = self._vgpus.get(name, ())
        return tuple(sorted(on_it, key=lambda vgpu: vgpu.name))

    def _completed(
        self,
        offers: tuple[values.Offer, ...],
        where: functions.Path,
        memory: functions.TypeMemory,
    ) -> tuple[values.Offer, ...]:
        """The offers in order, each type with what the driver says of it."""
        completed = []
        for offer in sorted(offers, key=lambda offer: offer.type.id):
            vgpu_type = memory.get(offer.type.id)
            if vgpu_type is None:
                vgpu_type = memory.add(self._with_facts(offer.type, where))
            completed.append(values.Offer(vgpu_type, offer.available))
        return tuple(completed)

    def _with_facts(
        self, vgpu_type: values.VGPUType, where: functions.Path
    ) -> values.VGPUType:
        if self._sysfs is None:
            return vgpu_type
        try:
            facts = self._sysfs.read_facts(where, vgpu_type.id)
        except files.Unreadable as error:
            self._fault(where[-1], str(error))
            return vgpu_type
        return dataclasses.replace(vgpu_type, facts=facts)

    def _driver(self, where: functions.Path) -> str | None:
        """libvirt's test driver drops the driver's name; sysfs has it."""
        if self._sysfs is None:
            return None
        try:
            return self._sysfs.read_driver(where)
        except files.Unreadable as error:
            self._fault(where[-1], str(error))
            return None

    def _has_vendor_vfio(self, where: functions.Path) -> bool:
        try:
            return self._sysfs is not None and 'nvidia' in self._sysfs.list(
                where
            )
        except files.Unreadable:
            return False  # a host whose sysfs does not show this function

    def _fault(self, device: str, reason: str) -> None:
        self._faults.append(
            values.ReadFault(device, 'libvirt node device', reason)
        )


def _parse_function(
    name: str, root: ElementTree.Element, capability: ElementTree.Element
) -> _Function:
    if capability.get('type') != 'pci':
        # A virtual parent: the types sit in a capability within the same.
        return _Function(name, offers=_parse_offers(capability))
    inner = {c.get('type'): c for c in capability.findall('capability')}
    functions_of = inner.get('virt_functions')
    if functions_of is None:
        functions_of = ElementTree.Element('capability')
    types = inner.get('mdev_types')
    return _Function(
        name=name,
        address=values.PciAddress(
            *(
                _number(capability.findtext(tag), 0)
                for tag in ('domain', 'bus', 'slot', 'function')
            )
        ),
        vendor=_number(_attribute(capability, 'vendor', 'id'), 16),
        device=_number(_attribute(capability, 'product', 'id'), 16),
        pci_class=_number(capability.findtext('class'), 16),
        driver=root.findtext('driver/name'),
        total_vfs=_number(functions_of.get('maxCount', '0'), 10),
        vfs=tuple(_parse_address(a) for a in functions_of.findall('address')),
        is_vf='phys_function' in inner,
        offers=() if types is None else _parse_offers(types),
    )


def _parse_offers(
    capability: ElementTree.Element,
) -> tuple[values.Offer, ...]:
    return tuple(
        values.Offer(
            values.VGPUType(_own(element, 'id'), element.findtext('name')),
            _number(element.findtext('availableInstances'), 10),
        )
        for element in capability.iter('type')
    )


def _parse_address(element: ElementTree.Element) -> values.PciAddress:
    return values.PciAddress(
        *(
            _number(element.get(part), 16)
            for part in ('domain', 'bus', 'slot', 'function')
        )
    )


def _own(element: ElementTree.Element, attribute: str) -> str:
    value = element.get(attribute)
    if not value:
        raise _Malformed(f'<{element.tag}> without {attribute!r}')
    return value


def _attribute(parent: ElementTree.Element, tag: str, attribute: str) -> str:
    element = parent.find(tag)
    if element is None:
        raise _Malformed(f'no <{tag}>')
    return _own(element, attribute)


def _number(text: str | None, base: int) -> int:
    try:
        return int((text or '')[:12], base)
    except ValueError as error:
        raise _Malformed(f'{text!r} is not a number') from error
