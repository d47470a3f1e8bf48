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

"""A fake libvirt that makes mdevs, which libvirt's test driver does not."""

import dataclasses
import re
import threading

import libvirt

from benchmarks import machines
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import node_devices

_TYPES_BEGIN = '<capability type="mdev_types">'
_TYPES_END = '</capability>'


class _Node:
    """A node device; what it says is made when it is asked."""

    def __init__(
        self, fake: 'FakeLibvirt', name: str, parent: str | None
    ) -> None:
        self._fake, self._name, self._parent = fake, name, parent

    def name(self) -> str:
        return self._name

    def parent(self) -> str | None:
        return self._parent

    def XMLDesc(self, flags: int = 0) -> str:
        return self._fake.describe(self._name)

    def setAutostart(self, autostart: int) -> int:
        return 0


class _Guest:
    def __init__(self, fake: 'FakeLibvirt', xml: str) -> None:
        self._fake, self._xml = fake, xml
        self._uuid = str(*re.findall('<uuid>(.*?)</uuid>', xml))
        self.mdevs = re.findall('<address uuid=[\'"](.*?)[\'"]', xml)

    def name(self) -> str:
        return f'instance-{self._uuid}'

    def UUIDString(self) -> str:
        return self._uuid

    def ID(self) -> int:
        return 1

    def isActive(self) -> int:
        self._fake.count()
        return 1

    def XMLDesc(self, flags: int = 0) -> str:
        return self._fake.count(self._xml)


class FakeLibvirt:
    """As much of a connection as the drivers use, and quick.

    What a function says is put together from texts that are made when its GPU
    changes: making XML is not what is measured here. The work of the hardware
    itself is the same for all drivers.
    """

    def __init__(self, of: machines.Machine) -> None:
        self.machine = of
        self.lock = threading.RLock()
        self.calls = 0
        self.bytes = 0
        self.guests: dict[str, _Guest] = {}
        #: What is before the types of a function, and after them.
        self._frames: dict[str, tuple[str, str]] = {}
        self._functions: dict[str, tuple[int, int]] = {}
        #: The types of a function that is free, and of one that is taken.
        self._types: dict[int, tuple[str, str]] = {}
        self._mdevs: dict[str, str] = {}
        for index, gpu in enumerate(of.host.gpus):
            self._show(index, gpu)
        for number, found in enumerate(of.mdevs):
            self.defineXML(machines.make_guest(number, [found]))
        self.calls = self.bytes = 0

    def _show(self, index: int, gpu: simulation.GPU) -> None:
        shown = node_devices.list_device_xml(simulation.SimulatedHost((gpu,)))
        for vf, address in enumerate(gpu.vf_addresses):
            name = address.node_device_name
            before, rest = shown[name].split(_TYPES_BEGIN)
            self._frames[name] = before, rest.split(_TYPES_END, 1)[1]
            self._functions[name] = index, vf
        self._mdevs |= {n: x for n, x in shown.items() if n.startswith('mdev')}
        self._count_types(index, gpu)

    def _count_types(self, index: int, gpu: simulation.GPU) -> None:
        left = machines.State(gpu).left
        free, taken = (
            ''.join(
                f"<type id='{t.id}'><name>{t.name}</name>"
                '<deviceAPI>vfio-pci</deviceAPI><availableInstances>'
                f'{min(left[t.id], most)}</availableInstances></type>'
                for t in gpu.board.types
            )
            for most in (1, 0)
        )
        self._types[index] = free, taken

    def count(self, xml: str = '') -> str:
        self.calls += 1
        self.bytes += len(xml)
        return xml

    def describe(self, name: str) -> str:
        if name in self._mdevs:
            return self.count(self._mdevs[name])
        index, vf = self._functions[name]
        taken = bool(self.machine.host.gpus[index].on(vf))
        before, after = self._frames[name]
        types = self._types[index][taken]
        return self.count(f'{before}{_TYPES_BEGIN}{types}{_TYPES_END}{after}')

    # -- node devices -------------------------------------------------------

    def listDevices(self, capability: str, flags: int = 0) -> list[str]:
        self.count()
        with self.lock:
            return list(
                self._mdevs if capability == 'mdev' else self._functions
            )

    def listAllDevices(self, flags: int = 0) -> list[_Node]:
        """Those that are inactive, of which there are none."""
        self.count()
        return []

    def nodeDeviceLookupByName(self, name: str) -> _Node:
        self.count()
        if name in self._functions or name in self._mdevs:
            return _Node(self, name, None)
        raise libvirt.libvirtError(f'no node device {name}')

    def nodeDeviceCreateXML(self, xml: str, flags: int = 0) -> _Node:
        """Make an mdev, where and of the type that is said."""
        self.count()
        (parent,) = re.findall('<parent>(.*?)</parent>', xml)
        (found,) = re.findall('<uuid>(.*?)</uuid>', xml)
        (type_id,) = re.findall('<type id=["\'](.*?)["\']', xml)
        suffix = parent.removeprefix('pci')
        name = f'mdev_{found.replace("-", "_")}{suffix}'
        with self.lock:
            index, vf = self._functions[parent]
            gpu = self.machine.host.gpus[index]
            if gpu.on(vf):
                raise libvirt.libvirtError(f'{parent} is taken')
            made = simulation.Created(type_id, vf, found)
            gpu = dataclasses.replace(gpu, created=(*gpu.created, made))
            self.machine.replace(index, gpu)
            self._count_types(index, gpu)
            self._mdevs[name] = (
                f'<device><name>{name}</name><parent>{parent}</parent>'
                f"<capability type='mdev'><type id='{type_id}'/>"
                f'<uuid>{found}</uuid></capability></device>'
            )
        return _Node(self, name, parent)

    def nodeDeviceDefineXML(self, xml: str, flags: int = 0) -> _Node:
        self.count()
        (found,) = re.findall('<uuid>(.*?)</uuid>', xml)
        return _Node(self, f'mdev_{found.replace("-", "_")}', None)

    # -- guests -------------------------------------------------------------

    def defineXML(self, xml: str) -> _Guest:
        self.count()
        guest = _Guest(self, xml)
        with self.lock:
            self.guests[guest.UUIDString()] = guest
        return guest

    def listAllDomains(self, flags: int = 0) -> list[_Guest]:
        self.count()
        with self.lock:
            return list(self.guests.values())

    def lookupByUUIDString(self, wanted: str) -> _Guest:
        self.count()
        with self.lock:
            return self.guests[wanted]
