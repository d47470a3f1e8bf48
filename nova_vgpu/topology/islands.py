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

"""Which devices reach each other without the processor, and their traits.

A PCIe island is what hangs below one root port: GPUs and network cards at a
distance of ``PIX`` or ``PXB``. An NVLink island is GPUs that all have NVLinks
to each other, directly or by NVSwitches. An island has at least two devices,
one of them a GPU.

Nova's providers of PCI devices are all directly below the compute node, and a
flavor cannot ask for "the same switch, whichever". It can ask for the same
trait twice. So each island of a host has a trait with its number::

    CUSTOM_PCIE_ISLAND_0      CUSTOM_NVLINK_ISLAND_0

The numbers count the islands of a host in the order of their first GPU, so
that hosts of one model have the same ones.
"""

from collections.abc import Iterable
from collections.abc import Iterator

from nova_vgpu import values
from nova_vgpu.knowledge import traits
from nova_vgpu.topology import distance

_LEAST_MEMBERS = 2


def find_islands(topology: values.Topology) -> tuple[values.Island, ...]:
    """The islands of a host: those of PCIe, then those of NVLink."""
    return (
        *_number(values.IslandKind.PCIE, _group_by_root_port(topology)),
        *_number(values.IslandKind.NVLINK, _group_by_nvlink(topology)),
    )


def list_traits(
    topology: values.Topology, address: values.PciAddress
) -> tuple[str, ...]:
    """The traits of a device for ``[pci]device_spec``: one per island."""
    return tuple(
        name_trait(island)
        for island in find_islands(topology)
        if address in island.members
    )


def name_trait(island: values.Island) -> str:
    """The trait that the devices of an island have."""
    return traits.custom(island.kind.name, 'ISLAND', str(island.number))


def _number(
    kind: values.IslandKind, groups: Iterable[list[values.PcieDevice]]
) -> Iterator[values.Island]:
    # GPUs come before network cards: the first device is the first GPU.
    found = [
        group
        for group in groups
        if len(group) >= _LEAST_MEMBERS and group[0].is_gpu
    ]
    found.sort(key=lambda group: group[0].address)
    for number, group in enumerate(found):
        yield values.Island(
            kind, number, tuple(device.address for device in group)
        )


def _group_by_root_port(
    topology: values.Topology,
) -> Iterable[list[values.PcieDevice]]:
    groups: dict[values.PciAddress, list[values.PcieDevice]] = {}
    for device in topology.devices:
        if device.bridges:
            root_port = device.bridges[0].address
            groups.setdefault(root_port, []).append(device)
    return groups.values()


def _group_by_nvlink(
    topology: values.Topology,
) -> Iterable[list[values.PcieDevice]]:
    """GPUs that are all joined: in a mesh, not every pair of GPUs is."""
    groups: list[list[values.PcieDevice]] = []
    for gpu in topology.devices:
        for group in groups:
            if all(
                distance.count_nvlinks(topology.nvlinks, gpu, member)
                for member in group
            ):
                group.append(gpu)
                break
        else:
            groups.append([gpu])
    return groups
