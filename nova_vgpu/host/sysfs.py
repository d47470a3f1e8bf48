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
GPUs, and their ``virtfn`` links lead to their virtual functions.
``class/mdev_bus`` adds the parents of mdevs that are not PCI devices. What
cannot be read becomes a fault of that device; the others are still read.
"""

from collections.abc import Container
from collections.abc import Iterable
from collections.abc import Iterator
import contextlib
import re

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import pci_functions
from nova_vgpu.knowledge import vendors

DEFAULT_ROOT = '/sys'

_NOT_IN_NAMES = re.compile(r'[^A-Za-z0-9]')
MDEV_PARENTS = ('class', 'mdev_bus')


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
        is_wanted: pci_functions.IsWanted | None = None,
    ) -> None:
        self._files = tree
        self._is_wanted = is_wanted
        self.faults: list[values.ReadFault] = []
        #: Where the types of GPUs were read from, by the names of GPUs.
        self.sources: dict[str, pci_functions.Source | None] = {}
        self._reader = pci_functions.FunctionReader(tree, self.faults)
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
                self._reader.add_fault(address.node_device_name, error)
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
        gpus.extend(self._read_virtual_parents())
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
                path = self._files.path(
                    *pci_functions.PCI, on_bus[address], 'physfn'
                )
                self.faults.append(
                    values.ReadFault(
                        device, path, 'the GPU that it belongs to was not read'
                    )
                )

    def _list_functions(self) -> tuple[str, ...]:
        try:
            return self._files.list(*pci_functions.PCI)
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
                path = self._files.path(*pci_functions.PCI, name)
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
        where = (*pci_functions.PCI, name)
        vendor = self._reader.read_number(*where, 'vendor', base=16)
        if vendors.get_by_pci_id(vendor) is None or not vendors.is_gpu(
            vendor, self._reader.read_number(*where, 'class', base=16)
        ):
            return None
        entries = self._entries[address] = self._files.list(*where)
        if 'physfn' in entries:
            self._virtual.add(address)
            return None
        device = address.node_device_name
        memory = pci_functions.TypeCache(self._is_wanted)
        vfs = self._list_vfs(device, where, entries, on_bus)
        gpu = values.PhysicalGPU(
            name=device,
            address=address,
            # In this order: the types of the VFs are those of the GPU.
            offers=self._reader.read_offers(device, where, entries, memory),
            vgpus=self._reader.read_created(device, where, entries),
            vfs=tuple(self._read_vfs(vfs, on_bus, memory)),
            named_types=memory.list_named(),
            ids=values.PciIds(
                vendor,
                self._reader.read_number(*where, 'device', base=16),
                *self._reader.read_subsystem(device, where),
            ),
            driver=self._reader.read_driver(where),
            sriov=self._reader.read_sriov(device, where),
        )
        self.sources[device] = memory.source
        return gpu

    def _list_vfs(
        self,
        device: str,
        where: pci_functions.Path,
        entries: tuple[str, ...],
        on_bus: Container[values.PciAddress],
    ) -> list[values.PciAddress]:
        """The VFs that a GPU has links to, in order of address."""
        addresses = []
        for entry in entries:
            if not entry.startswith('virtfn'):
                continue
            try:
                name = self._reader.link_name(*where, entry)
                address = values.PciAddress.parse(name)
                if address not in on_bus:
                    raise values.MalformedAddress(f'{name} is not on the bus')
                addresses.append(address)
            except files.Unreadable as error:
                self._reader.add_fault(device, error)
            except values.MalformedAddress as error:
                path = self._files.path(*where, entry)
                self.faults.append(values.ReadFault(device, path, str(error)))
        return sorted(addresses)

    def _read_vfs(
        self,
        addresses: Iterable[values.PciAddress],
        on_bus: dict[values.PciAddress, str],
        memory: pci_functions.TypeCache,
    ) -> Iterator[values.VirtualFunction]:
        reader = self._reader
        for address in addresses:
            where = (*pci_functions.PCI, on_bus[address])
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
                vendor_vfio = 'nvidia' in entries
                if vendor_vfio:
                    offers, vgpus = reader.read_vendor_vfio(device, where)
                else:
                    offers = reader.read_offers(device, where, entries, memory)
                    vgpus = reader.read_created(device, where, entries)
                driver = reader.read_driver(where)
            except files.Unreadable as error:
                reader.add_fault(device, error)
            else:
                yield values.VirtualFunction(
                    address, driver, offers, vgpus, vendor_vfio
                )

    def _read_virtual_parents(self) -> Iterator[values.PhysicalGPU]:
        """Parents of mdevs that are not PCI devices (the kernel's mtty)."""
        try:
            names = self._files.list(*MDEV_PARENTS)
        except files.Unreadable as error:
            if not error.gone:  # missing on a host without mdevs
                self._reader.add_fault('mdev_bus', error)
            return
        for name in names:
            with contextlib.suppress(values.MalformedAddress):
                values.PciAddress.parse(name)
                continue  # was read with its PCI function
            try:
                yield self._read_virtual_parent(name)
            except files.Unreadable as error:
                self._reader.add_fault(name, error)

    def _read_virtual_parent(self, name: str) -> values.PhysicalGPU:
        where = (*MDEV_PARENTS, name)
        subsystem = self._reader.link_name(*where, 'subsystem')
        # as libvirt names a device that is not on a PCI bus
        device = _NOT_IN_NAMES.sub('_', f'{subsystem}_{name}')
        memory = pci_functions.TypeCache(self._is_wanted)
        entries = self._files.list(*where)
        return values.PhysicalGPU(
            name=device,
            offers=self._reader.read_offers(device, where, entries, memory),
            vgpus=self._reader.read_created(device, where, entries),
            named_types=memory.list_named(),
        )
