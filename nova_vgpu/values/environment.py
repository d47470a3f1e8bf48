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

"""The environment of a host's GPUs, on which vGPUs depend.

Unknown values are None or empty.
"""

import dataclasses
import enum

from nova_vgpu.values import finding
from nova_vgpu.values import host
from nova_vgpu.values import pci


class SchedulerPolicy(enum.Enum):
    """How a GPU shares its time among its vGPUs."""

    BEST_EFFORT = 'best effort'
    EQUAL_SHARE = 'equal share'
    FIXED_SHARE = 'fixed share'


@dataclasses.dataclass(frozen=True, slots=True)
class UdevCall:
    """A udev rule that calls mdevctl, and whether mdevctl exists."""

    rule: str
    program: str
    is_there: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Environment:
    """The environment that a host's files describe.

    ``iommus`` and ``iommu_groups`` are their numbers. ``mdevctl`` is its path.
    ``vgpu_managers`` are the ids of its processes; None if processes are
    hidden. The dwords are those that NVIDIA's driver was
    loaded with, ``modprobe_dwords`` those that it would be loaded with.
    """

    command_line: finding.Evidence | None = None
    iommus: int | None = None
    iommu_groups: int | None = None
    mdevctl: tuple[str, ...] = ()
    udev_calls: tuple[UdevCall, ...] = ()
    vgpu_managers: tuple[int, ...] | None = None
    driver_version: finding.Evidence | None = None
    loaded_dwords: finding.Evidence | None = None
    loaded_dwords_per_gpu: finding.Evidence | None = None
    modprobe_dwords: tuple[finding.Evidence, ...] = ()
    faults: tuple[host.ReadFault, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Mode:
    """Whether a mode is on now, and whether it will be after a reset."""

    current: bool
    pending: bool


@dataclasses.dataclass(frozen=True, slots=True)
class GPUModes:
    """Modes of a GPU that only the driver's library shows."""

    ecc: Mode | None = None
    mig: Mode | None = None
    heterogeneous: bool | None = None
    scheduler: SchedulerPolicy | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ModesRead:
    """The modes of the GPUs that could be read.

    ``unknown_because`` is the reason if the library failed, else None.
    """

    modes: tuple[tuple[pci.PciAddress, GPUModes], ...] = ()
    driver_version: str | None = None
    unknown_because: str | None = None

    def of(self, address: pci.PciAddress | None) -> GPUModes:
        return next((m for a, m in self.modes if a == address), GPUModes())
