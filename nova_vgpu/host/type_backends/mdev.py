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

"""The back-end for mdevs, the kernel's mediated devices.

::

    <parent>/
        mdev_supported_types/<id>/      name, description, available_instances
        <uuid>/mdev_type ->             an mdev, directly below its parent
    bus/mdev/devices/<uuid> ->          ../../../devices/.../<parent>/<uuid>
    class/mdev_bus/<parent> ->          also parents that are not PCI functions

Parents are GPUs or their virtual functions. libvirt creates and removes mdevs:
:mod:`nova_vgpu.host.mdevs`.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import re
import uuid

from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import type_backends
from nova_vgpu.knowledge import capabilities

IsWanted = Callable[[values.VGPUType], bool]
#: A directory of types, and the marks of what is in it.
Source = tuple[files.Path, Mapping[str, object]]
#: By the name of the directory of the function that they are on.
VGPUs = Mapping[str, tuple[values.VGPU, ...]]

_PARENTS = ('class', 'mdev_bus')
_TYPES = 'mdev_supported_types'
_MDEVS = ('bus', 'mdev', 'devices')
_UUID_LENGTH = 36
_NOT_IN_NAMES = re.compile(r'[^A-Za-z0-9]')


class MdevTypes:
    """The types and mdevs on the functions of one GPU.

    All functions of a GPU describe a type alike, so that each is read from one
    of them only; just their free capacity differs. The free capacity of a type
    that is not declared is not read.
    """

    def __init__(
        self,
        tree: files.Files,
        faults: list[values.ReadFault],
        is_wanted: IsWanted | None = None,
    ) -> None:
        self._tree = tree
        self._faults = faults
        self._is_wanted = is_wanted
        self._types: dict[str, values.VGPUType] = {}
        self._unwanted: set[str] = set()
        #: The directory that types were first read from, and its content.
        self.source: Source | None = None

    @property
    def unasked(self) -> tuple[values.VGPUType, ...]:
        """Every type, if the offers do not have them all."""
        return tuple(self._types.values()) if self._unwanted else ()

    def read(self, function: type_backends.Function) -> type_backends.Found:
        """The types that a function offers, and the mdevs on it."""
        offers = (
            self._read_offers(function) if _TYPES in function.entries else ()
        )
        vgpus = []
        for entry in function.entries:
            if not is_uuid(entry):
                continue
            try:
                type_id = self._tree.link_name(
                    *function.where, entry, 'mdev_type'
                )
            except files.Unreadable as error:
                self._faults.append(error.as_fault(function.name))
            else:
                vgpus.append(
                    values.VGPU(function.name, type_id, entry.lower())
                )
        return offers, tuple(vgpus)

    def _read_offers(
        self, function: type_backends.Function
    ) -> tuple[values.Offer, ...]:
        directory = (*function.where, _TYPES)
        offers = []
        try:
            marks = self._tree.list_marked(*directory)
        except files.Unreadable as error:
            self._faults.append(error.as_fault(function.name))
            return ()
        self.source = self.source or (directory, marks)
        for type_id in sorted(marks):
            if type_id in self._unwanted:
                continue
            try:
                # First, so that a type that is being removed is not cached.
                available = read_available(self._tree, function.where, type_id)
                if type_id not in self._types:
                    self._types[type_id] = values.VGPUType(
                        type_id,
                        self._tree.find_text(*directory, type_id, 'name')
                        or None,
                        read_facts(self._tree, function.where, type_id),
                    )
            except files.Unreadable as error:
                self._faults.append(error.as_fault(function.name))
                continue
            vgpu_type = self._types[type_id]
            if self._is_wanted is None or self._is_wanted(vgpu_type):
                offers.append(values.Offer(vgpu_type, available))
            else:
                self._unwanted.add(type_id)
        return tuple(offers)


class MdevBus:
    """The mdevs of one host, from their bus; not for several threads at once.

    New mdevs are read, and so is one that replaced another of the same name.
    """

    def __init__(self, tree: files.Files) -> None:
        self._tree = tree
        #: The mdevs with their places, and all of their marks.
        self._mdevs: dict[str, tuple[str, values.VGPU]] = {}
        self._marks: Mapping[str, object] = {}
        self._by_place: VGPUs = {}

    def list_marked(self) -> Mapping[str, object]:
        """The names of all mdevs; a host without mdevs has no such bus.

        :raises Unreadable: if they cannot be listed.
        """
        try:
            return self._tree.list_marked(*_MDEVS)
        except files.Unreadable as error:
            if not error.gone:
                raise
            return {}

    def read(self) -> VGPUs:
        """Every mdev; new ones and replacements are read.

        :raises Unreadable: if one cannot be read, or its parent is not a PCI
        function.
        """
        marks = self.list_marked()
        if marks == self._marks:
            return self._by_place
        mdevs = {
            name: self._mdevs[name]
            if self._marks.get(name) == mark
            else self.read_one(name)
            for name, mark in marks.items()
        }
        by_place: dict[str, list[values.VGPU]] = {}
        for place, vgpu in mdevs.values():
            by_place.setdefault(place, []).append(vgpu)
        self._mdevs, self._marks = mdevs, marks
        self._by_place = {
            place: tuple(sorted(on_it, key=lambda vgpu: vgpu.name))
            for place, on_it in by_place.items()
        }
        return self._by_place

    def read_one(self, name: str) -> tuple[str, values.VGPU]:
        """The directory of an mdev's parent, and the mdev.

        :raises Unreadable: if it cannot be read, or its parent is not a PCI
        function.
        """
        path = self._tree.path(*_MDEVS, name)
        if not is_uuid(name):
            raise files.Unreadable(path, 'is not an mdev')
        *_, parent, _ = self._tree.link(*_MDEVS, name).split('/')
        try:
            device = values.PciAddress.parse(parent).node_device_name
        except values.MalformedAddress as error:
            raise files.Unreadable(path, str(error)) from error
        type_id = self._tree.link_name(*_MDEVS, name, 'mdev_type')
        return parent, values.VGPU(device, type_id, name.lower())


def list_parents(tree: files.Files) -> tuple[str, ...]:
    """The names of all parents of mdevs, PCI functions or not.

    :raises Unreadable: if they cannot be listed.
    """
    try:
        return tree.list(*_PARENTS)
    except files.Unreadable as error:
        if not error.gone:  # missing on a host without mdevs
            raise
        return ()


def read_virtual_parents(
    tree: files.Files,
    faults: list[values.ReadFault],
    is_wanted: IsWanted | None,
) -> Iterator[values.PhysicalGPU]:
    """Parents of mdevs that are not PCI devices (the kernel's mtty)."""
    try:
        names = list_parents(tree)
    except files.Unreadable as error:
        faults.append(error.as_fault('mdev_bus'))
        return
    for name in names:
        with contextlib.suppress(values.MalformedAddress):
            values.PciAddress.parse(name)
            continue  # is read with its PCI function
        try:
            yield _read_virtual_parent(
                tree, name, MdevTypes(tree, faults, is_wanted)
            )
        except files.Unreadable as error:
            faults.append(error.as_fault(name))


def _read_virtual_parent(
    tree: files.Files, name: str, mdevs: MdevTypes
) -> values.PhysicalGPU:
    where = (*_PARENTS, name)
    subsystem = tree.link_name(*where, 'subsystem')
    # as libvirt names a device that is not on a PCI bus
    device = _NOT_IN_NAMES.sub('_', f'{subsystem}_{name}')
    offers, vgpus = mdevs.read(
        type_backends.Function(device, where, tree.list(*where))
    )
    return values.PhysicalGPU(
        name=device, offers=offers, vgpus=vgpus, named_types=mdevs.unasked
    )


def has_types(tree: files.Files, where: files.Path) -> bool:
    """Whether a function offers types now.

    :raises Unreadable: if that cannot be read.
    """
    try:
        tree.mark(*where, _TYPES)
    except files.Unreadable as error:
        if not error.gone:
            raise
        return False
    return True


def read_available(tree: files.Files, where: files.Path, type_id: str) -> int:
    """How many more mdevs of a type can be created on a function.

    :raises Unreadable: also if it does not offer the type.
    """
    return tree.read_number(*where, _TYPES, type_id, 'available_instances')


def read_facts(
    tree: files.Files, where: files.Path, type_id: str
) -> values.TypeFacts:
    """The driver's description of a type of a function.

    :raises Unreadable: if it is there and cannot be read.
    """
    text = tree.find_text(*where, _TYPES, type_id, 'description')
    return capabilities.parse_description(text or '')


def is_uuid(text: str) -> bool:
    if len(text) != _UUID_LENGTH:  # as most things in a directory
        return False
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False
