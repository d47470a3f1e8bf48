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

"""The directory of one device in sysfs.

::

    <device>/                           vendor, device, class, driver ->
        sriov_totalvfs, sriov_offset    the virtual functions it can have
        mdev_supported_types/<id>/      name, description, available_instances
        <uuid>/mdev_type ->             an mdev, directly below its parent
        nvidia/                         vendor-specific VFIO, on a VF
            creatable_vgpu_types, current_vgpu_type
"""

from collections.abc import Callable
from collections.abc import Container
from collections.abc import Iterable
from collections.abc import Mapping
import functools
import re
import sys
import uuid

from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.knowledge import capabilities

PCI = ('bus', 'pci', 'devices')

Path = tuple[str, ...]
IsWanted = Callable[[values.VGPUType], bool]
#: A directory, and the marks of what is in it.
Source = tuple[Path, Mapping[str, object]]
Found = tuple[tuple[values.Offer, ...], tuple[values.VGPU, ...]]

_CREATABLE = re.compile(r'([0-9]{1,9})\s*:\s*(\S.*)', re.ASCII)
_NUMBERS = {
    10: re.compile(r'[0-9]{1,9}', re.ASCII),
    16: re.compile(r'0x[0-9a-f]{1,8}', re.ASCII | re.IGNORECASE),
}
_HIGHEST = 0xFFFFFFFF
_HEADER = re.compile(r'ID\s*:.*', re.ASCII | re.IGNORECASE)
# The registers of the SR-IOV capability have 16 bits. (PCI Express Base
# Specification, "SR-IOV Extended Capability".)
_MOST_VFS = 0xFFFF
_UUID_LENGTH = 36


class TypeCache:
    """The types of one GPU, so that each is read from one function only.

    All functions of a GPU describe a type alike; only their free capacity
    differs. The free capacity of a type that is not declared is not read.
    """

    def __init__(self, is_wanted: IsWanted | None = None) -> None:
        self._is_wanted = is_wanted
        self.types: dict[str, values.VGPUType] = {}
        self.unwanted: set[str] = set()
        #: The directory that types were first read from, and its content.
        self.source: Source | None = None

    def add(self, vgpu_type: values.VGPUType) -> values.VGPUType:
        self.types[vgpu_type.id] = vgpu_type
        if self._is_wanted and not self._is_wanted(vgpu_type):
            self.unwanted.add(vgpu_type.id)
        return vgpu_type

    def list_named(self) -> tuple[values.VGPUType, ...]:
        """Every type, if the offers do not have them all."""
        return tuple(self.types.values()) if self.unwanted else ()


class FunctionReader:
    """Reads devices one by one, for one reading of a host.

    Something optional that cannot be read is added to ``faults``; something
    required raises :class:`files.Unreadable`.
    """

    def __init__(
        self, tree: files.Files, faults: list[values.ReadFault]
    ) -> None:
        self.files = tree
        self._faults = faults

    def add_fault(self, device: str, error: files.Unreadable) -> None:
        self._faults.append(values.ReadFault(device, error.path, error.reason))

    def link_name(self, *path: str) -> str:
        """The last part of the target of a symbolic link."""
        name = self.files.link(*path).rstrip('/').split('/')[-1]
        # Hundreds of functions have the same driver, or type.
        return sys.intern(name)

    def read_number(
        self, *path: str, base: int = 10, highest: int = _HIGHEST
    ) -> int:
        """The number in a file.

        :raises Unreadable: also if it is not a number, or too high.
        """
        text = self.files.read(*path)
        number = _parse_number(text, base)
        if number is not None and number <= highest:
            return number
        wanted = 'a number' if base == 10 else 'a hexadecimal number'
        raise self._unexpected(
            text, wanted if number is None else 'a number of 16 bits', path
        )

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
        """Subsystem vendor and device, which identify the board of a chip."""
        try:
            return (
                self.read_number(*where, 'subsystem_vendor', base=16),
                self.read_number(*where, 'subsystem_device', base=16),
            )
        except files.Unreadable as error:
            if not error.gone:
                self.add_fault(device, error)
            return None, None

    def read_sriov(self, device: str, where: Path) -> values.Sriov | None:
        """How many VFs a GPU can have, and their addresses."""
        try:
            total = self.read_number(
                *where, 'sriov_totalvfs', highest=_MOST_VFS
            )
        except files.Unreadable as error:
            if not error.gone:
                self.add_fault(device, error)
            return None
        if not total:
            return None
        try:
            offset = self.read_number(
                *where, 'sriov_offset', highest=_MOST_VFS
            )
            stride = self.read_number(
                *where, 'sriov_stride', highest=_MOST_VFS
            )
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

        :raises Unreadable: if it is not a GPU with VFs.
        """
        return self.read_number(*where, 'sriov_numvfs', highest=_MOST_VFS)

    def read_facts(self, where: Path, type_id: str) -> values.TypeFacts:
        """The driver's description of an mdev type of a device."""
        text = self._read_optional(
            *where, 'mdev_supported_types', type_id, 'description'
        )
        return capabilities.parse_description(text or '')

    def read_available(self, where: Path, type_id: str) -> int:
        """How many more mdevs of a type can be created on a function.

        :raises Unreadable: also if it does not offer the type.
        """
        return self.read_number(
            *where, 'mdev_supported_types', type_id, 'available_instances'
        )

    def read_vendor_vfio(self, device: str, where: Path) -> Found:
        """The types that a VF can be set to, and the one it is set to."""
        try:
            current = self.read_number(*where, 'nvidia', 'current_vgpu_type')
        except files.Unreadable as error:
            # Whether the VF is free is unknown, so it offers nothing.
            self.add_fault(device, error)
            return (), ()
        if current:
            # It has one vGPU and takes no other, whatever else it lists.
            return (), (values.VGPU(device, f'nvidia-{current}'),)
        try:
            return self._read_creatable(where), ()
        except files.Unreadable as error:
            self.add_fault(device, error)
            return (), ()

    def _read_creatable(self, where: Path) -> tuple[values.Offer, ...]:
        path = (*where, 'nvidia', 'creatable_vgpu_types')
        try:
            return _parse_creatable(self.files.read(*path))
        except ValueError as error:
            raise self._unexpected(
                str(error), 'an id and a name', path
            ) from error

    def read_offers(
        self,
        device: str,
        where: Path,
        entries: Container[str],
        memory: TypeCache,
    ) -> tuple[values.Offer, ...]:
        """The mdev types that a device offers.

        :param entries: the content of the device's directory.
        """
        if 'mdev_supported_types' not in entries:
            return ()
        directory = (*where, 'mdev_supported_types')
        offers = []
        try:
            marks = self.files.list_marked(*directory)
        except files.Unreadable as error:
            self.add_fault(device, error)
            return ()
        memory.source = memory.source or (directory, marks)
        for type_id in sorted(marks):
            if type_id in memory.unwanted:
                continue
            try:
                # First, so that a type that is being removed is not cached.
                available = self.read_available(where, type_id)
                vgpu_type = memory.types.get(type_id) or memory.add(
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
                if type_id not in memory.unwanted:
                    offers.append(values.Offer(vgpu_type, available))
        return tuple(offers)

    def read_created(
        self, device: str, where: Path, entries: Iterable[str]
    ) -> tuple[values.VGPU, ...]:
        """The mdevs on a device."""
        created = []
        for entry in entries:
            if not is_uuid(entry):
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
            return self.files.read(*path)
        except files.Unreadable as error:
            if error.gone:
                return None
            raise

    def _unexpected(
        self, text: str, wanted: str, path: Path
    ) -> files.Unreadable:
        return files.Unreadable(
            self.files.path(*path), f'holds {text[:40]!r} instead of {wanted}'
        )


# Hundreds of functions have the same numbers.
@functools.lru_cache(maxsize=4096)
def _parse_number(text: str, base: int) -> int | None:
    return int(text, base) if _NUMBERS[base].fullmatch(text) else None


# All functions of a GPU that are free have the same list.
@functools.lru_cache(maxsize=256)
def _parse_creatable(text: str) -> tuple[values.Offer, ...]:
    """The types in a list of them.

    :raises ValueError: with the line that is invalid.
    """
    offers = []
    for line in map(str.strip, text.splitlines()):
        match = _CREATABLE.fullmatch(line)
        if not line:
            continue
        if match:
            vgpu_type = values.VGPUType(f'nvidia-{int(match[1])}', match[2])
            offers.append(values.Offer(vgpu_type, 1))
        elif _HEADER.fullmatch(line) is None:
            raise ValueError(line)
    return tuple(offers)


def is_uuid(text: str) -> bool:
    if len(text) != _UUID_LENGTH:  # as most things in a directory
        return False
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False
