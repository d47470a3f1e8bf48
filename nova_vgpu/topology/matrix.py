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

"""The topology of a host as text: the matrix, the devices, their traits.

It is written as ``nvidia-smi topo -m`` writes it: GPUs and network cards have
numbers in the order of their PCI addresses. A matrix that is wider than the
terminal is written in parts, with some of the columns each.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import itertools
import textwrap

from nova_vgpu import values
from nova_vgpu.topology import distance
from nova_vgpu.topology import islands

LEGEND = (
    ('X', 'the device itself'),
    ('NV#', '# NVLinks, directly or by NVSwitches'),
    ('PIX', 'at most one PCIe switch'),
    ('PXB', 'several PCIe switches below one root port'),
    ('PHB', 'one PCIe host bridge, which is part of the processor'),
    ('NODE', 'several host bridges of one NUMA node'),
    ('SYS', 'the interconnect between NUMA nodes'),
)
_GAP = '  '
#: Narrower than this, a column is not wrapped any more.
_LEAST_ROOM = 20

Row = Sequence[str]


def label_devices(topology: values.Topology) -> dict[values.PciAddress, str]:
    """GPU0, GPU1, NIC0 and so on, by address."""
    counters = {kind: itertools.count() for kind in values.DeviceKind}
    return {
        device.address: f'{device.kind.value}{next(counters[device.kind])}'
        for device in topology.devices
    }


def list_redirected(
    topology: values.Topology, device: values.PcieDevice
) -> tuple[str, ...]:
    """The devices to which ACS redirects requests of this one."""
    labels = label_devices(topology)
    return tuple(
        labels[other.address]
        for other in topology.devices
        if distance.connect(topology, device, other).redirected
    )


def describe_acs(
    topology: values.Topology, device: values.PcieDevice
) -> str | None:
    """What ACS does between a device and those on its switches.

    None for a device that shares its root port with no other.
    """
    if not device.bridges:
        return None
    root_port = device.bridges[0].address
    found = {
        distance.connect(topology, device, other).redirected
        for other in topology.devices
        if other.address != device.address
        and other.bridges
        and other.bridges[0].address == root_port
    }
    if not found:
        return None
    if True in found:
        return 'redirects'
    return 'unknown' if None in found else 'direct'


def write(topology: values.Topology, width: int) -> Iterator[str]:
    """The lines of all that is shown.

    :param width: the most columns of a line; 0 for any number.
    """
    yield from _write_matrix(topology, width)
    yield ''
    yield from _align(_list_devices(topology), width)
    traits = _list_traits(topology)
    if traits:
        yield ''
        yield from _align(traits, width)
    yield ''
    yield from _align(LEGEND, width)


def _write_matrix(topology: values.Topology, width: int) -> Iterator[str]:
    labels = list(label_devices(topology).values())
    rows = [
        [
            str(distance.connect(topology, one, other))
            for other in topology.devices
        ]
        for one in topology.devices
    ]
    cell = max(len(text) for text in (*labels, *itertools.chain(*rows)))
    head = max(map(len, labels))
    each = cell + len(_GAP)
    at_once = max((width - head) // each, 1) if width else len(labels)
    for first in range(0, len(labels), at_once):
        if first:
            yield ''
        part = slice(first, first + at_once)
        for label, row in zip(('', *labels), (labels, *rows), strict=True):
            cells = (text.ljust(cell) for text in row[part])
            yield _GAP.join((label.ljust(head), *cells)).rstrip()


def _list_devices(topology: values.Topology) -> list[Row]:
    labels = label_devices(topology)
    return [
        ('Device', 'Address', 'NUMA node', 'IOMMU group', 'ACS', 'Name'),
        *(
            (
                labels[device.address],
                str(device.address),
                '-' if device.numa_node is None else str(device.numa_node),
                ','.join(map(str, device.iommu_groups)) or '-',
                describe_acs(topology, device) or '-',
                device.name or '-',
            )
            for device in topology.devices
        ),
    ]


def _list_traits(topology: values.Topology) -> list[Row]:
    labels = label_devices(topology)
    found = [
        (
            islands.name_trait(island),
            ', '.join(labels[address] for address in island.members),
        )
        for island in islands.find_islands(topology)
    ]
    return [('Trait', 'Devices'), *found] if found else []


def _align(rows: Iterable[Row], width: int) -> Iterator[str]:
    """The rows with aligned columns; the last one is wrapped to fit."""
    table = list(rows)
    sizes = [max(map(len, column)) for column in zip(*table, strict=True)]
    indent = sum(sizes[:-1]) + len(_GAP) * (len(sizes) - 1)
    room = max(width - indent, _LEAST_ROOM) if width else sizes[-1]
    for *row, last in table:
        cells = [
            text.ljust(size)
            for text, size in zip(row, sizes[:-1], strict=True)
        ]
        lines = textwrap.wrap(last, room, break_on_hyphens=False)
        yield _GAP.join((*cells, *lines[:1]))
        yield from (' ' * indent + line for line in lines[1:])
