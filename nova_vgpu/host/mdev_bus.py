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

"""The mdevs that exist, from their bus.

::

    bus/mdev/devices/<uuid> -> ../../../devices/.../<parent>/<uuid>

New mdevs are read, and so is one that replaced another of the same name: it
has another mark (:meth:`nova_vgpu.host.files.Files.mark`).
"""

from collections.abc import Mapping

from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import pci_functions

_MDEVS = ('bus', 'mdev', 'devices')

#: By the name of the directory of the function that they are on.
VGPUs = Mapping[str, tuple[values.VGPU, ...]]


class MdevBus:
    """The mdevs of one host; not for several threads at once."""

    def __init__(
        self, tree: files.Files, reader: pci_functions.FunctionReader
    ) -> None:
        self._tree = tree
        self._reader = reader
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
        if not pci_functions.is_uuid(name):
            raise files.Unreadable(path, 'is not an mdev')
        *_, parent, _ = self._tree.link(*_MDEVS, name).split('/')
        try:
            device = values.PciAddress.parse(parent).node_device_name
        except values.MalformedAddress as error:
            raise files.Unreadable(path, str(error)) from error
        type_id = self._reader.link_name(*_MDEVS, name, 'mdev_type')
        return parent, values.VGPU(device, type_id, name.lower())
