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

"""Whether a server with vGPUs can move to another host while it runs.

These are what hosts, Placement and Nova tell about it, and the reasons that
follow. None is unknown everywhere: what nothing tells is not taken for good.
"""

import dataclasses
import enum

from nova_vgpu.values import host_hardware

Version = tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class MigrationSettings:
    """Options of Nova on a host that servers leave.

    The downtime is in milliseconds, the delay in seconds, the bandwidth in
    MiB/s; a bandwidth of 0 is unlimited.
    """

    post_copy: bool | None = None
    downtime: int | None = None
    downtime_steps: int | None = None
    downtime_delay: int | None = None
    bandwidth: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class HostSoftware:
    """Versions of what a host runs guests with.

    ``kernel`` is its release, ``driver`` the version of NVIDIA's driver.
    ``dma_logging`` is whether the kernel can report what devices write to the
    memory of guests.
    """

    kernel: str | None = None
    libvirt: Version | None = None
    qemu: Version | None = None
    driver: str | None = None
    dma_logging: bool | None = None


#: Nothing is known of a host.
UNKNOWN_SETTINGS = MigrationSettings()
UNKNOWN_SOFTWARE = HostSoftware()


@dataclasses.dataclass(frozen=True, slots=True)
class VGPUMigration:
    """What NVML tells of the vGPU of a running guest.

    ``version`` is that of the vGPU, which the guest's driver has chosen.
    """

    vgpu: str
    server: str
    can_migrate: bool | None = None
    version: int | None = None
    state_bytes: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class GPUMigration:
    """What NVML tells of a GPU; ``versions`` of vGPUs that it takes."""

    address: host_hardware.PciAddress
    can_migrate: bool | None = None
    versions: tuple[int, int] | None = None
    vgpus: tuple[VGPUMigration, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class MovingDevice:
    """What a server has of one GPU of its host.

    ``type`` is the short name of the vGPU type. ``resource_class`` is None if
    it does not matter. ``is_whole`` is a GPU that is passed through:
    ``may_migrate`` is whether its device_spec says so. ``versions`` are those
    of the vGPUs, ``state_bytes`` the size of their state, all together.
    """

    gpu: str
    type: str | None = None
    number: int = 1
    resource_class: str | None = None
    framework: host_hardware.Framework | None = None
    is_nvidia: bool = True
    ecc: bool | None = None
    can_migrate: bool | None = None
    versions: tuple[int, ...] = ()
    state_bytes: int | None = None
    is_whole: bool = False
    may_migrate: bool | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class MigrationPlace:
    """A GPU of a destination and what it serves; ``free`` in vGPUs."""

    gpu: str
    type: str | None = None
    free: int | None = None
    resource_class: str | None = None
    framework: host_hardware.Framework | None = None
    ecc: bool | None = None
    can_migrate: bool | None = None
    versions: tuple[int, int] | None = None
    is_whole: bool = False
    may_migrate: bool | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class MigrationSource:
    """The host of a server that is to move, and what it has there.

    ``needs_own_gpus``: what is of different GPUs must stay so. Nova migrates
    a server that ``is_paused`` without post-copy.
    """

    host: str
    devices: tuple[MovingDevice, ...]
    software: HostSoftware = UNKNOWN_SOFTWARE
    settings: MigrationSettings = UNKNOWN_SETTINGS
    needs_own_gpus: bool = False
    is_paused: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class MigrationTarget:
    """A host that a server may move to."""

    host: str
    places: tuple[MigrationPlace, ...] = ()
    software: HostSoftware = UNKNOWN_SOFTWARE


class MigrationEffect(enum.Enum):
    """What a reason means for a live migration, the most severe first."""

    PREVENTS = 'prevents'
    UNKNOWN = 'unknown'
    ADVICE = 'advice'


@dataclasses.dataclass(frozen=True, slots=True)
class MigrationReason:
    """One reason; ``code`` is stable, ``subject`` a host, GPU or option."""

    effect: MigrationEffect
    code: str
    subject: str
    text: str
    cure: str = ''
