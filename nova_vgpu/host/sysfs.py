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

"""The host, read from sysfs.

Every PCI function is read once: those of the right vendor and class are
GPUs, and their ``virtfn`` links lead to their virtual functions. Types, and
parents of mdevs that are not PCI devices, are read by
:mod:`nova_vgpu.host.type_backends`. What cannot be read becomes a fault of
that device; the others are still read.
"""

from collections.abc import Container
from collections.abc import Iterable
from collections.abc import Iterator

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import type_backends
from nova_vgpu.host.type_backends import mdev
from nova_vgpu.host.type_backends import nvidia
from nova_vgpu.host.type_backends import provisioning
from nova_vgpu.knowledge import vendors

DEFAULT_ROOT = '/sys'

# The registers of the SR-IOV capability have 16 bits. (PCI Express Base
# Specification, "SR-IOV Extended Capability".)
_MOST_VFS = 0xFFFF


def read_host(tree: files.Files) -> values.Host:
    """Read the whole tree once.

    :raises HostUnreadable: if sysfs is missing.
    """
    return Scan(tree).read()


class Scan:
    """One reading of a host.

    :param is_wanted: the types whose free capacity is read; None for all.
    """

    def __init__(
        self,
        tree: files.Files,
        is_wanted: mdev.IsWanted | None = None,
    ) -> None:
        self._files = tree
        self._is_wanted = is_wanted
        self.faults: list[values.ReadFault] = []
        #: Where the types of GPUs were read from, by the names of GPUs.
        self.sources: dict[str, mdev.Source | None] = {}
        self._entries: dict[values.PciAddress, tuple[str, ...]] = {}
        #: The functions with a link that marks them as VFs of a GPU.
        self._virtual: set[values.PciAddress] = set()

    def read(self, names: Iterable[str] | None = None) -> values.Host:
        """Read everything once.

        :param names: the functions on the bus, if known.
        :raises HostUnreadable: if sysfs is missing.
        """
        on_bus = self._parse_names(names or self._list_functions())
        others = set(on_bus)
        found = []
        known: set[values.PciAddress] = set()
        for address, name in on_bus.items():
            if address in known:
                continue  # was read with its GPU, which comes before it
            try:
                gpu = self.read_function(address, name, on_bus)
            except files.Unreadable as error:
                self.faults.append(error.as_fault(address.node_device_name))
                others.discard(address)
                continue
            if gpu is not None:
                found.append(gpu)
                known.update(vf.address for vf in gpu.vfs)
                others.discard(address)
        vfs = {vf.address for gpu in found for vf in gpu.vfs}
        # A VF being created has no "physfn" yet; its GPU has the link.
        gpus = [gpu for gpu in found if gpu.address not in vfs]
        self._add_orphans(self._virtual - vfs, on_bus)
        gpus.extend(
            mdev.read_virtual_parents(
                self._files, self.faults, self._is_wanted
            )
        )
        others -= vfs | self._virtual
        return values.Host(tuple(gpus), frozenset(others), tuple(self.faults))

    def _add_orphans(
        self,
        orphans: Iterable[values.PciAddress],
        on_bus: dict[values.PciAddress, str],
    ) -> None:
        """Faults for VFs whose GPU was not read, or has no link to them."""
        told = {fault.device for fault in self.faults}
        for address in sorted(orphans):
            device = address.node_device_name
            if device not in told:
                path = self._files.path(*files.PCI, on_bus[address], 'physfn')
                self.faults.append(
                    values.ReadFault(
                        device, path, 'the GPU that it belongs to was not read'
                    )
                )

    def _list_functions(self) -> tuple[str, ...]:
        try:
            return self._files.list(*files.PCI)
        except files.Unreadable as error:
            raise exception.HostUnreadable(
                f'No PCI devices can be read: {error}. Is this a Linux host '
                'with sysfs mounted, or is --sysfs-root wrong?'
            ) from error

    def _parse_names(
        self, names: Iterable[str]
    ) -> dict[values.PciAddress, str]:
        """The directory of every PCI function, in order of address."""
        found = {}
        for name in names:
            try:
                found[values.PciAddress.parse(name)] = name
            except values.MalformedAddress as error:
                path = self._files.path(*files.PCI, name)
                self.faults.append(values.ReadFault(name, path, str(error)))
        return dict(sorted(found.items()))

    def read_function(
        self,
        address: values.PciAddress,
        name: str,
        on_bus: dict[values.PciAddress, str],
    ) -> values.PhysicalGPU | None:
        """The GPU at an address; None if that is a VF or something else.

        :raises Unreadable: if it cannot be identified.
        """
        where = (*files.PCI, name)
        vendor = self._files.read_number(*where, 'vendor', base=16)
        if vendors.get_by_pci_id(vendor) is None or not vendors.is_gpu(
            vendor, self._files.read_number(*where, 'class', base=16)
        ):
            return None
        entries = self._entries[address] = self._files.list(*where)
        if 'physfn' in entries:
            self._virtual.add(address)
            return None
        device = address.node_device_name
        mdevs = mdev.MdevTypes(self._files, self.faults, self._is_wanted)
        vfs = self._list_vfs(device, where, entries, on_bus)
        # In this order: the types of the VFs are those of the GPU.
        offers, vgpus = mdevs.read(
            type_backends.Function(device, where, entries)
        )
        gpu = values.PhysicalGPU(
            name=device,
            address=address,
            offers=offers,
            vgpus=vgpus,
            vfs=tuple(self._read_vfs(vfs, on_bus, mdevs)),
            named_types=mdevs.unasked,
            ids=values.PciIds(
                vendor,
                self._files.read_number(*where, 'device', base=16),
                *read_subsystem(self._files, device, where, self.faults),
            ),
            driver=self._files.find_link_name(*where, 'driver'),
            sriov=read_sriov(self._files, device, where, self.faults),
        )
        self.sources[device] = mdevs.source
        return provisioning.complete(self._files, gpu, self.faults)

    def _list_vfs(
        self,
        device: str,
        where: files.Path,
        entries: tuple[str, ...],
        on_bus: Container[values.PciAddress],
    ) -> list[values.PciAddress]:
        """The VFs that a GPU has links to, in order of address."""
        addresses = []
        for entry in entries:
            if not entry.startswith('virtfn'):
                continue
            try:
                name = self._files.link_name(*where, entry)
                address = values.PciAddress.parse(name)
                if address not in on_bus:
                    raise values.MalformedAddress(f'{name} is not on the bus')
                addresses.append(address)
            except files.Unreadable as error:
                self.faults.append(error.as_fault(device))
            except values.MalformedAddress as error:
                path = self._files.path(*where, entry)
                self.faults.append(values.ReadFault(device, path, str(error)))
        return sorted(addresses)

    def _read_vfs(
        self,
        addresses: Iterable[values.PciAddress],
        on_bus: dict[values.PciAddress, str],
        mdevs: mdev.MdevTypes,
    ) -> Iterator[values.VirtualFunction]:
        for address in addresses:
            where = (*files.PCI, on_bus[address])
            device = address.node_device_name
            try:
                # Not stored: it is not read again.
                entries = self._entries.get(address) or self._files.list(
                    *where
                )
                if 'vendor' not in entries:
                    raise files.Unreadable(
                        self._files.path(*where), 'holds no PCI function'
                    )
                driver = self._files.find_link_name(*where, 'driver')
            except files.Unreadable as error:
                self.faults.append(error.as_fault(device))
            else:
                vendor_vfio = nvidia.ENTRY in entries
                backend: type_backends.TypeReader = (
                    nvidia.NvidiaTypes(self._files, self.faults)
                    if vendor_vfio
                    else mdevs
                )
                offers, vgpus = backend.read(
                    type_backends.Function(device, where, entries)
                )
                yield values.VirtualFunction(
                    address, driver, offers, vgpus, vendor_vfio
                )


def read_subsystem(
    tree: files.Files,
    device: str,
    where: files.Path,
    faults: list[values.ReadFault],
) -> tuple[int | None, int | None]:
    """Subsystem vendor and device, which identify the board of a chip."""
    try:
        return (
            tree.read_number(*where, 'subsystem_vendor', base=16),
            tree.read_number(*where, 'subsystem_device', base=16),
        )
    except files.Unreadable as error:
        if not error.gone:
            faults.append(error.as_fault(device))
        return None, None


def read_sriov(
    tree: files.Files,
    device: str,
    where: files.Path,
    faults: list[values.ReadFault],
) -> values.Sriov | None:
    """How many VFs a GPU can have, and their addresses."""
    total = 0
    try:
        total = tree.read_number(*where, 'sriov_totalvfs', highest=_MOST_VFS)
        if not total:
            return None
        offset, stride = (
            tree.read_number(*where, name, highest=_MOST_VFS)
            for name in ('sriov_offset', 'sriov_stride')
        )
    except files.Unreadable as error:
        if not error.gone:
            faults.append(error.as_fault(device))
        return values.Sriov(total) if total else None
    if not offset or (not stride and total > 1):
        # Undefined while no VFs are enabled, and 0 on some hardware.
        return values.Sriov(total)
    return values.Sriov(total, offset, stride)


def count_vfs(tree: files.Files, where: files.Path) -> int:
    """How many VFs of a GPU are enabled.

    :raises Unreadable: if it is not a GPU with VFs.
    """
    return tree.read_number(*where, 'sriov_numvfs', highest=_MOST_VFS)
