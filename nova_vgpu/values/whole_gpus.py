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

"""Whole GPUs: what the host shows of them, who asks for them, their roles."""

import dataclasses
import enum

from nova_vgpu.values import host_hardware


@dataclasses.dataclass(frozen=True, slots=True)
class PciFunction:
    """A PCI function that shares the IOMMU group of a GPU."""

    address: host_hardware.PciAddress
    pci_class: int
    driver: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class GPUIsolation:
    """Whether the host can give a GPU to a server, and what is in the way.

    ``group`` is its IOMMU group, None if it has none; ``others`` are the other
    functions in it. ``is_display`` is a GPU with the console of the host.
    ``processes`` are those of the host that use it, as far as NVML tells.
    With ``unknown_because``, none of this could be read.
    """

    group: int | None = None
    others: tuple[PciFunction, ...] = ()
    is_display: bool = False
    processes: tuple[int, ...] = ()
    unknown_because: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class IsolationRead:
    """The isolation of each GPU of a host.

    ``has_iommu`` tells whether any device of the host has an IOMMU group.
    """

    gpus: tuple[tuple[host_hardware.PciAddress, GPUIsolation], ...] = ()
    has_iommu: bool = False

    def of(self, gpu: host_hardware.PhysicalGPU) -> GPUIsolation:
        found = (i for address, i in self.gpus if address == gpu.address)
        unread = GPUIsolation(unknown_because='it is not a PCI device')
        return next(found, unread)


class Role(enum.Enum):
    """What a GPU is for on its host."""

    VGPU = 'vGPU'
    PASSTHROUGH = 'passthrough'
    DISPLAY = 'display'
    UNUSED = 'unused'


@dataclasses.dataclass(frozen=True, slots=True)
class PassthroughRequest:
    """GPUs to pass through: one GPU, or all that have these PCI ids."""

    gpus: tuple[host_hardware.PhysicalGPU, ...]
    by_ids: bool = False
