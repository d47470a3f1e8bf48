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

libvirt shows PCI functions, their SR-IOV relations, mdev types and mdevs. It
does not show a type's description, a board's subsystem or the vendor-specific
VFIO framework. If the host's sysfs is available, those are read from there,
and the result equals that of the sysfs reader.
"""

from collections.abc import Container
from collections.abc import Iterable
from collections.abc import Mapping
import contextlib
import dataclasses
import typing

import libvirt

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import node_xml
from nova_vgpu.host import software
from nova_vgpu.host import sysfs
from nova_vgpu.host import type_backends
from nova_vgpu.host.type_backends import mdev
from nova_vgpu.host.type_backends import nvidia
from nova_vgpu.host.type_backends import provisioning
from nova_vgpu.knowledge import vendors


class NodeDevice(typing.Protocol):
    """The part of ``libvirt.virNodeDevice`` that is used here."""

    def name(self) -> str: ...

    def XMLDesc(self, flags: int = 0) -> str: ...


class Connection(typing.Protocol):
    """The part of ``libvirt.virConnect`` that is used here."""

    def listAllDevices(self, flags: int = 0) -> Iterable[NodeDevice]: ...


def is_local(uri: str) -> bool:
    """Whether the URI leads to this machine, so that its /sys can be used."""
    return uri.partition(':')[2].startswith('///') and not uri.startswith(
        'test'
    )


@contextlib.contextmanager
def connect(
    uri: str, may_change: bool = False
) -> typing.Iterator[libvirt.virConnect]:
    """A connection, read-only by default, closed at the end.

    :raises HostUnreadable: if libvirt cannot be reached.
    """
    # libvirt prints its errors to stderr besides raising them.
    libvirt.registerErrorHandler(lambda _context, _error: None, None)
    try:
        if may_change:
            connection = libvirt.open(uri)
        else:
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


def get_host_name(connection: libvirt.virConnect) -> str:
    """The host name of libvirt, which Nova uses for its provider.

    :raises HostUnreadable: if libvirt stops answering.
    """
    try:
        return str(connection.getHostname())
    except libvirt.libvirtError as error:
        raise exception.HostUnreadable(
            f'libvirt failed to return the host name: {error}'
        ) from error


def read_versions(
    connection: libvirt.virConnect,
) -> tuple[values.Version | None, values.Version | None]:
    """The versions of libvirt and QEMU; None if libvirt does not tell."""
    try:
        if connection.getType() != 'QEMU':
            return None, None
        return (
            software.parse_version(connection.getLibVersion()),
            software.parse_version(connection.getVersion()),
        )
    except libvirt.libvirtError:
        return None, None


def read_host(
    connection: Connection, tree: files.Files | None = None
) -> values.Host:
    """Read every node device once.

    :param tree: sysfs of the same host, for what libvirt does not show.
    :raises HostUnreadable: if libvirt stops answering.
    """
    try:
        return _Scan(connection, tree).read()
    except libvirt.libvirtError as error:
        raise exception.HostUnreadable(
            f'libvirt failed while its node devices were read: {error}'
        ) from error


class _Scan:
    """One reading of a host."""

    def __init__(
        self, connection: Connection, tree: files.Files | None
    ) -> None:
        self._connection = connection
        self._faults: list[values.ReadFault] = []
        self._sysfs = tree
        #: By the names of their parents, and by their own.
        self._vgpus: dict[str, dict[str, values.VGPU]] = {}

    def read(self) -> values.Host:
        found = self._read_devices()
        self._add_lost_vgpus({function.name for function in found})
        by_address = {f.address: f for f in found if f.address is not None}
        of_gpus = {
            address: function
            for address, function in by_address.items()
            if _is_gpu(function)
        }
        # A VF being created may not show it yet; its GPU does.
        vfs = {vf for function in of_gpus.values() for vf in function.vfs}
        gpus = [
            self._gpu(address, of_gpus[address], by_address)
            for address in sorted(of_gpus)
            if not of_gpus[address].is_vf and address not in vfs
        ]
        used = {gpu.address for gpu in gpus}
        used.update(vf.address for gpu in gpus for vf in gpu.vfs)
        for address in sorted(a for a in of_gpus if a not in used):
            self._fault(
                of_gpus[address].name, 'the GPU that it belongs to is missing'
            )
        gpus.extend(
            values.PhysicalGPU(
                name=parent.name,
                offers=parent.offers,
                vgpus=self._vgpus_on(parent.name),
            )
            for parent in sorted(found, key=lambda f: f.name)
            if parent.address is None and parent.offers
        )
        others = frozenset(by_address) - of_gpus.keys() - used
        return values.Host(tuple(gpus), others, tuple(self._faults))

    def _list_devices(self) -> Iterable[NodeDevice]:
        """All relevant active devices.

        An mdev that is only defined is not a vGPU yet. Before libvirt 7.3, and
        in its test driver, nothing is inactive and the flag does not exist.
        """
        flags = (
            libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV
            | libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV_TYPES
            | libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV
        )
        active = getattr(libvirt, 'VIR_CONNECT_LIST_NODE_DEVICES_ACTIVE', 0)
        try:
            return self._connection.listAllDevices(flags | active)
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_INVALID_ARG:
                raise
        return self._connection.listAllDevices(flags)

    def _read_devices(self) -> list[node_xml.Function]:
        found = []
        for device in self._list_devices():
            name = device.name()
            try:
                parsed = node_xml.parse_device(name, device.XMLDesc(0))
            except libvirt.libvirtError as error:
                if error.get_error_domain() == libvirt.VIR_FROM_RPC:
                    raise  # the connection broke, not the device
                self._fault(name, str(error))
            except node_xml.MalformedError as error:
                self._fault(name, str(error))
            else:
                if isinstance(parsed, values.VGPU):
                    on_parent = self._vgpus.setdefault(parsed.function, {})
                    on_parent[name] = parsed
                else:
                    found.append(parsed)
        return found

    def _add_lost_vgpus(self, parents: Container[str]) -> None:
        """Faults for mdevs whose parent is missing, or cannot be read."""
        for parent, on_it in self._vgpus.items():
            if parent not in parents:
                for name in on_it:
                    self._fault(name, f'its parent {parent!r} is missing')

    def _gpu(
        self,
        address: values.PciAddress,
        function: node_xml.Function,
        by_address: Mapping[values.PciAddress, node_xml.Function],
    ) -> values.PhysicalGPU:
        where = (*files.PCI, str(address))
        types: dict[str, values.VGPUType] = {}
        vfs = []
        for vf_address in sorted(function.vfs):
            vf = by_address.get(vf_address)
            if vf is None:
                self._fault(
                    function.name, f'its VF {vf_address} is not on the bus'
                )
            else:
                vfs.append(self._vf(vf_address, vf, types))
        subsystem: tuple[int | None, int | None] = (None, None)
        sriov = (
            values.Sriov(function.total_vfs) if function.total_vfs else None
        )
        if self._sysfs is not None:
            given = self._sysfs, function.name, where, self._faults
            subsystem = sysfs.read_subsystem(*given)
            sriov = sysfs.read_sriov(*given) or sriov
        gpu = values.PhysicalGPU(
            name=function.name,
            address=address,
            ids=values.PciIds(function.vendor, function.device, *subsystem),
            driver=function.driver or self._driver(function.name, where),
            sriov=sriov,
            vfs=tuple(vfs),
            offers=self._completed(function, where, types),
            vgpus=self._vgpus_on(function.name),
        )
        if self._sysfs is None:
            return gpu
        return provisioning.complete(self._sysfs, gpu, self._faults)

    def _vf(
        self,
        address: values.PciAddress,
        vf: node_xml.Function,
        types: dict[str, values.VGPUType],
    ) -> values.VirtualFunction:
        where = (*files.PCI, str(address))
        driver = vf.driver or self._driver(vf.name, where)
        if self._sysfs is not None and nvidia.ENTRY in self._list(where):
            backend = nvidia.NvidiaTypes(self._sysfs, self._faults)
            offers, vgpus = backend.read(
                type_backends.Function(vf.name, where)
            )
            return values.VirtualFunction(address, driver, offers, vgpus, True)
        return values.VirtualFunction(
            address,
            driver,
            self._completed(vf, where, types),
            self._vgpus_on(vf.name),
        )

    def _vgpus_on(self, name: str) -> tuple[values.VGPU, ...]:
        on_it = self._vgpus.get(name, {})
        return tuple(sorted(on_it.values(), key=lambda vgpu: vgpu.name))

    def _completed(
        self,
        function: node_xml.Function,
        where: files.Path,
        types: dict[str, values.VGPUType],
    ) -> tuple[values.Offer, ...]:
        """The offers in order, each type with the driver's description."""
        completed = []
        for offer in sorted(function.offers, key=lambda offer: offer.type.id):
            type_id = offer.type.id
            if type_id not in types:
                types[type_id] = self._with_facts(
                    function.name, offer.type, where
                )
            completed.append(values.Offer(types[type_id], offer.available))
        return tuple(completed)

    def _with_facts(
        self,
        device: str,
        vgpu_type: values.VGPUType,
        where: files.Path,
    ) -> values.VGPUType:
        if self._sysfs is None:
            return vgpu_type
        try:
            facts = mdev.read_facts(self._sysfs, where, vgpu_type.id)
        except files.Unreadable as error:
            self._faults.append(error.as_fault(device))
            return vgpu_type
        return dataclasses.replace(vgpu_type, facts=facts)

    def _driver(self, device: str, where: files.Path) -> str | None:
        """libvirt's test driver omits the driver's name; sysfs has it."""
        if self._sysfs is None:
            return None
        try:
            return self._sysfs.find_link_name(*where, 'driver')
        except files.Unreadable as error:
            self._faults.append(error.as_fault(device))
            return None

    def _list(self, where: files.Path) -> tuple[str, ...]:
        try:
            return self._sysfs.list(*where) if self._sysfs else ()
        except files.Unreadable:
            return ()  # a host whose sysfs does not show this function

    def _fault(self, device: str, reason: str) -> None:
        self._faults.append(
            values.ReadFault(device, 'libvirt node device', reason)
        )


def _is_gpu(function: node_xml.Function) -> bool:
    if function.pci_class is None:  # before libvirt 5.2
        return bool(function.offers)
    return vendors.is_gpu(function.vendor, function.pci_class)
