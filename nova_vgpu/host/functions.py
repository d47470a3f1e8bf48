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

"""What the directory of one device in sysfs says.

::

    <device>/                           vendor, device, class, driver ->
        sriov_totalvfs, sriov_offset    the virtual functions it could have
        mdev_supported_types/<id>/      name, description, available_instances
        <uuid>/mdev_type ->             an mdev, right below its parent
        nvidia/                         vendor-specific VFIO, on a VF
            creatable_vgpu_types, current_vgpu_type
"""

from collections.abc import Iterator
import re
import uuid

from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.knowledge import description

PCI = ('bus', 'pci', 'devices')

Path = tuple[str, ...]
Found = tuple[tuple[values.Offer, ...], tuple[values.VGPU, ...]]

_CREATABLE = re.compile(r'([0-9]{1,9})\s*:\s*(\S.*)', re.ASCII)
_NUMBER = re.compile(r'[0-9]{1,9}', re.ASCII)
_HEX = re.compile(r'0x[0-9a-f]{1,8}', re.ASCII | re.IGNORECASE)
_HEADER = re.compile(r'ID\s*:.*', re.ASCII | re.IGNORECASE)
# The registers of the SR-IOV capability have 16 bits. (PCI Express Base
# Specification, "SR-IOV Extended Capability".)
_MOST_VFS = 0xFFFF


class TypeMemory:
    """The types of one GPU, so that each is read from one function only.

    All functions of a GPU describe a type alike; what differs is how many of
    it they would take.
    """

    def __init__(self) -> None:
        self._types: dict[str, values.VGPUType] = {}

    def get(self, type_id: str) -> values.VGPUType | None:
        return self._types.get(type_id)

    def add(self, vgpu_type: values.VGPUType) -> values.VGPUType:
        return self._types.setdefault(vgpu_type.id, vgpu_type)


class FunctionReader:
    """Reads devices one by one, for one reading of a host.

    What cannot be read, and could be done without, is added to ``faults``;
    what cannot be done without raises :class:`files.Unreadable`.
    """

    def __init__(
        self, tree: files.Files, faults: list[values.ReadFault]
    ) -> None:
        self._files = tree
        self._faults = faults

    def add_fault(self, device: str, error: files.Unreadable) -> None:
        self._faults.append(values.ReadFault(device, error.path, error.reason))

    def path(self, *path: str) -> str:
        return self._files.path(*path)

    def list(self, where: Path) -> tuple[str, ...]:
        return self._files.list(*where)

    def link_name(self, *path: str) -> str:
        """The last part of what a symbolic link leads to."""
        return self._files.link(*path).rstrip('/').split('/')[-1]

    def read_hex(self, *path: str) -> int:
        return int(self._read_matching(_HEX, 'a hexadecimal number', path), 0)

    def read_driver(self, where: Path) -> str | None:
        try:
            return self.link_name(*where, 'driver')
        except files.Unreadable as error:
            if error.gone:
                return None
            raise

    def read_subsystem(
        self, device: str, where: Path
    ) -> tuple[int | None, int | None]:
        """Subsystem vendor and device: they tell boards of a chip apart."""
        try:
            return (
                self.read_hex(*where, 'subsystem_vendor'),
                self.read_hex(*where, 'subsystem_device'),
            )
        except files.Unreadable as error:
            if not error.gone:
                self.add_fault(device, error)
            return None, None

    def read_sriov(self, device: str, where: Path) -> values.Sriov | None:
        """How many VFs a GPU could have, and where they would be."""
        try:
            total = self._read_register(*where, 'sriov_totalvfs')
        except files.Unreadable as error:
            if not error.gone:
                self.add_fault(device, error)
            return None
        if not total:
            return None
        try:
            offset = self._read_register(*where, 'sriov_offset')
            stride = self._read_register(*where, 'sriov_stride')
        except files.Unreadable as error:
            if not error.gone:
                self.add_fault(device, error)
            return values.Sriov(total)
        if not offset or (not stride and total > 1):
            # Undefined while no VFs are enabled, and 0 on some hardware.
            return values.Sriov(total)
        return values.Sriov(total, offset, stride)

    def count_vfs(self, where: Path) -> int:
        """How many VFs of a GPU are enabled.

        :raises Unreadable: if it is no GPU that has some.
        """
        return self._read_register(*where, 'sriov_numvfs')

    def read_mdevs(
        self,
        device: str,
        where: Path,
        entries: tuple[str, ...],
        memory: TypeMemory,
    ) -> Found:
        """The mdev types that a device offers, and the mdevs on it."""
        offers: tuple[values.Offer, ...] = ()
        if 'mdev_supported_types' in entries:
            offers = self._read_offers(device, where, memory)
        return offers, self._read_created(device, where, entries)

    def read_facts(self, where: Path, type_id: str) -> values.TypeFacts:
        """What the driver says about an mdev type of a device."""
        text = self._read_optional(
            *where, 'mdev_supported_types', type_id, 'description'
        )
        return description.parse_description(text or '')

    def read_vendor_vfio(
        self, device: str, where: Path, memory: TypeMemory
    ) -> Found:
        """The types that a VF could be set to, and the one it is set to."""
        try:
            current = self._read_number(*where, 'nvidia', 'current_vgpu_type')
        except files.Unreadable as error:
            # Whether the VF is free is not known, so it is not on offer.
            self.add_fault(device, error)
            return (), ()
        if current:
            # It holds one vGPU and takes no other, whatever else it lists.
            return (), (values.VGPU(device, f'nvidia-{current}'),)
        try:
            return tuple(self._read_creatable(where, memory)), ()
        except files.Unreadable as error:
            self.add_fault(device, error)
            return (), ()

    def _read_creatable(
        self, where: Path, memory: TypeMemory
    ) -> Iterator[values.Offer]:
        path = (*where, 'nvidia', 'creatable_vgpu_types')
        for line in self._files.read(*path).splitlines():
            match = _CREATABLE.fullmatch(line.strip())
            if match:
                vgpu_type = memory.add(
                    values.VGPUType(f'nvidia-{int(match[1])}', match[2])
                )
                yield values.Offer(vgpu_type, 1)
            elif _HEADER.fullmatch(line.strip()) is None:
                raise self._unexpected(line, 'an id and a name', path)

    def _read_offers(
        self, device: str, where: Path, memory: TypeMemory
    ) -> tuple[values.Offer, ...]:
        directory = (*where, 'mdev_supported_types')
        offers = []
        try:
            type_ids = self._files.list(*directory)
        except files.Unreadable as error:
            self.add_fault(device, error)
            return ()
        for type_id in type_ids:
            try:
                # First, so that a type on its way out is not remembered.
                available = self._read_number(
                    *directory, type_id, 'available_instances'
                )
                vgpu_type = memory.get(type_id) or memory.add(
                    values.VGPUType(
                        type_id,
                        self._read_optional(*directory, type_id, 'name')
                        or None,
                        self.read_facts(where, type_id),
                    )
                )
            except files.Unreadable as error:
                self.add_fault(device, error)
            else:
                offers.append(values.Offer(vgpu_type, available))
        return tuple(offers)

    def _read_created(
        self, device: str, where: Path, entries: tuple[str, ...]
    ) -> tuple[values.VGPU, ...]:
        created = []
        for entry in entries:
            if not _is_uuid(entry):
                continue
            try:
                type_id = self.link_name(*where, entry, 'mdev_type')
            except files.Unreadable as error:
                self.add_fault(device, error)
            else:
                created.append(values.VGPU(device, type_id, entry.lower()))
        return tuple(created)

    def _read_optional(self, *path: str) -> str | None:
        try:
            return self._files.read(*path)
        except files.Unreadable as error:
            if error.gone:
                return None
            raise

    def _read_number(self, *path: str) -> int:
        return int(self._read_matching(_NUMBER, 'a number', path))

    def _read_register(self, *path: str) -> int:
        number = self._read_number(*path)
        if number > _MOST_VFS:
            raise self._unexpected(str(number), 'a number of 16 bits', path)
        return number

    def _read_matching(
        self, pattern: re.Pattern[str], wanted: str, path: Path
    ) -> str:
        text = self._files.read(*path)
        if pattern.fullmatch(text) is None:
            raise self._unexpected(text, wanted, path)
        return text

    def _unexpected(
        self, text: str, wanted: str, path: Path
    ) -> files.Unreadable:
        return files.Unreadable(
            self._files.path(*path), f'holds {text[:40]!r} instead of {wanted}'
        )


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False
