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

"""The PCIe topology of a host, read from sysfs.

The link of a PCI function on the bus leads to its directory below those of
all bridges above it::

    bus/pci/devices/0000:1b:00.0 ->
        ../../../devices/pci0000:17/0000:17:00.0/0000:18:00.0/0000:19:01.0/
            0000:1b:00.0
            numa_node           -1 if the firmware does not say it
            iommu_group ->      kernel/iommu_groups/<number>
            infiniband/, net/   the ports of a network card
            config              the configuration space
    devices/system/node/node0   a NUMA node

Virtual functions are not listed: they are where their card is. The functions
of a network card are one device.
"""

from collections.abc import Iterable
from collections.abc import Iterator
import re

from nova_vgpu import values
from nova_vgpu.host import config_space
from nova_vgpu.host import files
from nova_vgpu.knowledge import capabilities

# The base class of network controllers. (PCI Code and ID Assignment)
_NETWORK = 0x02
_HOST_BRIDGE = re.compile(r'pci([0-9a-f]{4,8}:[0-9a-f]{2})', re.ASCII)
_NODE = re.compile(r'node[0-9]+', re.ASCII)
_NUMBER = re.compile(r'-?[0-9]{1,9}', re.ASCII)
_NODES = ('devices', 'system', 'node')
#: Where the names of a card's ports are: those for RDMA, or those for IP.
_PORT_NAMES = ('infiniband', 'net')

Place = tuple[str, tuple[values.Bridge, ...]]


def read_topology(tree: files.Files, host: values.Host) -> values.Topology:
    """Read how the GPUs of a host, and its network cards, are connected.

    What cannot be read is a fault of its device; the others are still read.
    NVLinks are not in sysfs.
    """
    return _Reading(tree).read(host)


class _Reading:
    """One reading of a topology."""

    def __init__(self, tree: files.Files) -> None:
        self._files = tree
        self._faults: list[values.ReadFault] = []
        self._bridges: dict[str, values.Bridge] = {}

    def read(self, host: values.Host) -> values.Topology:
        return values.Topology(
            (*self._read_gpus(host), *self._read_cards(host)),
            self._count_nodes(),
            faults=tuple(self._faults),
        )

    def _read_gpus(self, host: values.Host) -> Iterator[values.PcieDevice]:
        for gpu in host.gpus:
            if gpu.address is None:
                continue  # the kernel's sample parent of mdevs
            try:
                yield self._read_device(
                    values.DeviceKind.GPU,
                    [gpu.address],
                    capabilities.model_of(gpu) or '',
                )
            except files.Unreadable as error:
                self._faults.append(error.as_fault(gpu.name))

    def _read_cards(self, host: values.Host) -> Iterator[values.PcieDevice]:
        cards: dict[tuple[int, int, int], list[values.PciAddress]] = {}
        for address in sorted(host.other_functions):
            if self._is_network_port(address):
                slot = address.domain, address.bus, address.slot
                cards.setdefault(slot, []).append(address)
        for functions in cards.values():
            try:
                yield self._read_device(
                    values.DeviceKind.NIC,
                    functions,
                    ', '.join(self._list_ports(functions)),
                )
            except files.Unreadable as error:
                self._faults.append(
                    error.as_fault(functions[0].node_device_name)
                )

    def _is_network_port(self, address: values.PciAddress) -> bool:
        where = (*files.PCI, str(address))
        try:
            number = self._files.read_number(*where, 'class', base=16)
            return number >> 16 == _NETWORK and (
                'physfn' not in self._files.list(*where)
            )
        except files.Unreadable as error:
            self._faults.append(error.as_fault(address.node_device_name))
            return False

    def _list_ports(
        self, functions: Iterable[values.PciAddress]
    ) -> Iterator[str]:
        for address in functions:
            where = (*files.PCI, str(address))
            for directory in _PORT_NAMES:
                try:
                    yield from self._files.list(*where, directory)
                    break
                except files.Unreadable:
                    continue  # no driver, or not that kind of port

    def _read_device(
        self,
        kind: values.DeviceKind,
        functions: list[values.PciAddress],
        name: str,
    ) -> values.PcieDevice:
        where = (*files.PCI, str(functions[0]))
        host_bridge, bridges = self._read_place(where)
        return values.PcieDevice(
            kind,
            functions[0],
            host_bridge,
            bridges,
            self._read_node(where),
            tuple(self._read_groups(functions)),
            name,
            self._files.find_link_name(*where, 'driver'),
            self._files.read_number(*where, 'vendor', base=16),
        )

    def _read_place(self, where: files.Path) -> Place:
        """The host bridge of a function, and the bridges down to it."""
        parts = self._files.link(*where).split('/')[:-1]
        for index in reversed(range(len(parts))):
            if match := _HOST_BRIDGE.fullmatch(parts[index]):
                bridges = map(self._read_bridge, parts[index + 1 :])
                return match[1], tuple(bridges)
        raise files.Unreadable(
            self._files.path(*where), 'does not lead below a PCI host bridge'
        )

    def _read_bridge(self, name: str) -> values.Bridge:
        if name not in self._bridges:
            self._bridges[name] = self._make_bridge(name)
        return self._bridges[name]

    def _make_bridge(self, name: str) -> values.Bridge:
        where = (*files.PCI, name)
        try:
            address = values.PciAddress.parse(name)
        except values.MalformedAddress as error:
            raise files.Unreadable(
                self._files.path(*where), str(error)
            ) from error
        try:
            facts = config_space.parse(
                self._files.read_binary(*where, 'config')
            )
            vendor = self._files.read_number(*where, 'vendor', base=16)
        except files.Unreadable as error:
            if not error.gone:
                self._faults.append(error.as_fault(address.node_device_name))
            return values.Bridge(address)
        return values.Bridge(address, facts.port, facts.redirects, vendor)

    def _read_node(self, where: files.Path) -> int | None:
        try:
            text = self._files.read(*where, 'numa_node')
        except files.Unreadable:
            return None  # a kernel without NUMA
        node = int(text) if _NUMBER.fullmatch(text) else -1
        return None if node < 0 else node

    def _read_groups(
        self, functions: Iterable[values.PciAddress]
    ) -> Iterator[int]:
        for address in functions:
            where = (*files.PCI, str(address))
            try:
                name = self._files.link_name(*where, 'iommu_group')
            except files.Unreadable:
                continue  # the IOMMU is off
            if _NUMBER.fullmatch(name):
                yield int(name)

    def _count_nodes(self) -> int:
        try:
            names = self._files.list(*_NODES)
        except files.Unreadable:
            return 0
        return sum(bool(_NODE.fullmatch(name)) for name in names)
