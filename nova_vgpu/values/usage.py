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
import functools

from nova_vgpu.values import guest
from nova_vgpu.values import step


@dataclasses.dataclass(frozen=True, slots=True)
class Mdev:
    """An mdev as libvirt knows it, also one that is only defined."""

    uuid: str
    parent: str
    type_id: str
    state: step.MdevState
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

    guests: tuple[guest.Guest, ...] = ()
    mdevs: tuple[Mdev, ...] = ()
    records: VGPURecords = VGPURecords()
    unfinished: frozenset[str] = frozenset()
    claimed: frozenset[str] = frozenset()
    released: frozenset[str] = frozenset()

    def state_of(self, uuid: str) -> step.MdevState:
        """The state of an mdev that is there."""
        for mdev in self.mdevs:
            if mdev.uuid == uuid:
                return mdev.state
        return step.MdevState.TRANSIENT

    @functools.cached_property
    def owners(self) -> dict[str, guest.Guest]:
        """Guests by the names of what they have: vGPUs, and functions."""
        found: dict[str, guest.Guest] = {}
        for owner in self.guests:
            found.update(dict.fromkeys(owner.mdevs, owner))
            found.update(
                (function.node_device_name, owner)
                for function in owner.functions
            )
        return found

    @functools.cached_property
    def notes(self) -> dict[str, guest.GuestVGPU]:
        """What guests note of their vGPUs, by the names of those."""
        return {
            vgpu.name: vgpu for owner in self.guests for vgpu in owner.vgpus
        }
