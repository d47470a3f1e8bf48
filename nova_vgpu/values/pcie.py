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

"""How the GPUs and network cards of a host are connected, as it was read.

A device hangs on a chain of PCIe bridges below a host bridge. The chain, the
NUMA node and the IOMMU group come from sysfs; NVLinks come from NVML.
"""

import dataclasses
import enum

from nova_vgpu.values.host_hardware import PciAddress
from nova_vgpu.values.host_hardware import ReadFault


class PortType(enum.Enum):
    """What a bridge is in PCI Express."""

    ROOT = 'root port'
    UPSTREAM = 'upstream port'
    DOWNSTREAM = 'downstream port'
    #: To or from conventional PCI, or not PCI Express at all.
    OTHER = 'bridge'


@dataclasses.dataclass(frozen=True, slots=True)
class Bridge:
    """A port of the processor or of a switch, or another PCI bridge.

    ``port`` and ``redirects`` are None if unknown: only root can read them.
    ``redirects`` is whether ACS sends peer-to-peer requests up to the root
    complex.
    """

    address: PciAddress
    port: PortType | None = None
    redirects: bool | None = None
    vendor: int | None = None


class DeviceKind(enum.Enum):
    """The devices that a topology is about."""

    GPU = 'GPU'
    NIC = 'NIC'


@dataclasses.dataclass(frozen=True, slots=True)
class PcieDevice:
    """A GPU, or a network card with all of its ports.

    ``host_bridge`` is domain and bus of the root bus, ``bridges`` the chain
    from there down to the device. ``numa_node`` is None if the host does not
    say it. A card has an IOMMU group for each of its functions.
    """

    kind: DeviceKind
    address: PciAddress
    host_bridge: str
    bridges: tuple[Bridge, ...] = ()
    numa_node: int | None = None
    iommu_groups: tuple[int, ...] = ()
    name: str = ''
    driver: str | None = None
    vendor: int | None = None

    @property
    def is_gpu(self) -> bool:
        return self.kind is DeviceKind.GPU


@dataclasses.dataclass(frozen=True, slots=True)
class NVLinks:
    """The active NVLinks of a GPU: to other GPUs, and to NVSwitches."""

    gpu: PciAddress
    to_gpus: tuple[tuple[PciAddress, int], ...] = ()
    to_switches: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class NVLinksRead:
    """The NVLinks of the GPUs that NVML shows.

    ``unknown_because`` is the reason if NVML was not asked, or failed.
    """

    gpus: tuple[NVLinks, ...] = ()
    unknown_because: str | None = None

    def of(self, gpu: PciAddress) -> NVLinks | None:
        """The links of a GPU; None if NVML does not show the GPU."""
        return next((links for links in self.gpus if links.gpu == gpu), None)


@dataclasses.dataclass(frozen=True, slots=True)
class Topology:
    """The GPUs and then the network cards of a host, in order of address.

    ``numa_nodes`` is how many the host has; 0 if its kernel knows none.
    """

    devices: tuple[PcieDevice, ...] = ()
    numa_nodes: int = 0
    nvlinks: NVLinksRead = NVLinksRead()
    faults: tuple[ReadFault, ...] = ()


class Distance(enum.Enum):
    """How far two devices are from each other, as nvidia-smi writes it."""

    SELF = 'X'
    SAME_SWITCH = 'PIX'
    SAME_ROOT_PORT = 'PXB'
    SAME_HOST_BRIDGE = 'PHB'
    SAME_NUMA_NODE = 'NODE'
    OTHER_NUMA_NODE = 'SYS'


@dataclasses.dataclass(frozen=True, slots=True)
class Connection:
    """The way between two devices: by NVLinks if there are any, else by PCIe.

    ``redirected`` is whether ACS sends PCIe peer-to-peer requests up to the
    root complex, although the devices share a switch; None if unknown.
    """

    distance: Distance
    nvlinks: int = 0
    redirected: bool | None = False

    def __str__(self) -> str:
        return f'NV{self.nvlinks}' if self.nvlinks else self.distance.value


class IslandKind(enum.Enum):
    """What the devices of an island share: a root port, or NVLinks."""

    PCIE = 'PCIe'
    NVLINK = 'NVLink'


@dataclasses.dataclass(frozen=True, slots=True)
class Island:
    """Devices that reach each other without the processor.

    Islands of a kind are counted from 0 on each host.
    """

    kind: IslandKind
    number: int
    members: tuple[PciAddress, ...]
