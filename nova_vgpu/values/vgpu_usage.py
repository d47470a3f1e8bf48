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

"""What is in use of a host's vGPUs, and what is to be there again."""

from collections.abc import Mapping
import dataclasses
import enum
import functools

from nova_vgpu.values import host_hardware


@dataclasses.dataclass(frozen=True, slots=True)
class GuestVGPU:
    """A vGPU that a guest uses, by the name of :class:`VGPU`.

    ``type_name`` is the type that its alias names, if it does.
    """

    name: str
    type_name: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Guest:
    """A guest, running or not.

    ``uuid`` is that of Nova's server. ``mdevs`` are the UUIDs of its mediated
    devices, ``functions`` the PCI functions that are passed through to it;
    ``vgpus`` are all of the former and those of the latter that are vGPUs.
    ``accelerators`` are those of its mediated devices whose alias shows that
    Cyborg manages them.
    """

    uuid: str
    name: str
    running: bool
    mdevs: frozenset[str] = frozenset()
    functions: frozenset[host_hardware.PciAddress] = frozenset()
    vgpus: tuple[GuestVGPU, ...] = ()
    accelerators: frozenset[str] = frozenset()


class GuestLicence(enum.Enum):
    """Whether the driver of a guest has its licence.

    The driver of a guest without one is at first not restricted, and later
    slowed down; UNLICENSED is which of both is not told.
    """

    LICENSED = 'licensed'
    UNINITIALIZED = 'uninitialized'
    UNRESTRICTED = 'unlicensed-unrestricted'
    RESTRICTED = 'unlicensed-restricted'
    UNLICENSED = 'unlicensed'
    UNKNOWN = 'unknown'


@dataclasses.dataclass(frozen=True, slots=True)
class GuestDriver:
    """The driver that a running guest has for a vGPU, and its licence.

    ``gpu`` is the physical GPU, ``server`` the UUID of the guest and ``vgpu``
    that of the vGPU's mdev, or without one its own. ``is_loaded`` is None if
    that is unknown.
    """

    gpu: host_hardware.PciAddress
    server: str
    vgpu: str
    is_loaded: bool | None = None
    version: str | None = None
    licence: GuestLicence = GuestLicence.UNKNOWN


class MdevState(enum.Enum):
    """Whether an mdev is there, and whether libvirt has it defined."""

    ABSENT = 'absent'
    DEFINED = 'defined'
    TRANSIENT = 'transient'
    PERSISTENT = 'persistent'

    @property
    def is_started(self) -> bool:
        return self in (MdevState.TRANSIENT, MdevState.PERSISTENT)

    @property
    def is_defined(self) -> bool:
        return self in (MdevState.DEFINED, MdevState.PERSISTENT)


@dataclasses.dataclass(frozen=True, slots=True)
class Mdev:
    """An mdev as libvirt knows it, also one that is only defined."""

    uuid: str
    parent: str
    type_id: str
    state: MdevState
    starts_itself: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class MdevRecord:
    """Where an mdev was, the name of its type, and the id of that then.

    Files of older releases have no ids.
    """

    parent: str
    type: str
    type_id: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class VGPURecords:
    """What is remembered of vGPUs, by the names of their types.

    ``mdevs`` are those that were seen, by UUID: what a definition says is an
    id, which may mean something else after a driver upgrade, and not every
    mdev is defined. ``functions`` are the virtual functions that an operator
    enabled by hand, by address: what they are set to is lost with every
    reboot. ``unfinished`` are those of the mdevs that an apply removed to make
    them again, and could not.
    """

    mdevs: Mapping[str, MdevRecord] = dataclasses.field(default_factory=dict)
    functions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unfinished: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True)
class Usage:
    """The usage of a host's vGPUs: guests that use them, or will again.

    ``unfinished`` are the UUIDs of mdevs that a run which was cut off had
    removed, or was about to start, or that one could not make again.
    ``claimed`` are the names of vGPUs and functions that were chosen for
    servers whose guests do not show them yet. ``released`` are the names of
    functions that servers had.
    """

    guests: tuple[Guest, ...] = ()
    mdevs: tuple[Mdev, ...] = ()
    records: VGPURecords = VGPURecords()
    unfinished: frozenset[str] = frozenset()
    claimed: frozenset[str] = frozenset()
    released: frozenset[str] = frozenset()

    def state_of(self, uuid: str) -> MdevState:
        """The state of an mdev that is there."""
        for mdev in self.mdevs:
            if mdev.uuid == uuid:
                return mdev.state
        return MdevState.TRANSIENT

    @functools.cached_property
    def owners(self) -> dict[str, Guest]:
        """Guests by the names of what they have: vGPUs, and functions."""
        found: dict[str, Guest] = {}
        for owner in self.guests:
            found.update(dict.fromkeys(owner.mdevs, owner))
            found.update(
                (function.node_device_name, owner)
                for function in owner.functions
            )
        return found

    @functools.cached_property
    def notes(self) -> dict[str, GuestVGPU]:
        """What guests note of their vGPUs, by the names of those."""
        return {
            vgpu.name: vgpu for owner in self.guests for vgpu in owner.vgpus
        }
