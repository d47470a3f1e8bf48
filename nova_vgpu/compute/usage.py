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

"""Which vGPUs of the host are in use, and by which server.

A vGPU is in use if a guest has it, if it is allocated to a guest that is not
defined yet, or if Nova noted it for a guest that is migrating to this host.
Nova finds out by reading the guests alone.
"""

from collections.abc import Callable
from collections.abc import Container
from collections.abc import Iterable
import dataclasses

from nova_vgpu import values
from nova_vgpu.compute import attached_cache
from nova_vgpu.compute import given
from nova_vgpu.compute import nova_types
from nova_vgpu.compute import pending_allocations
from nova_vgpu.host import guests
from nova_vgpu.reconcile import vgpu_facts


@dataclasses.dataclass(frozen=True, slots=True)
class InUse:
    """What is not free: by name vGPUs, and functions kept for theirs.

    ``pending`` are those that guests may not show yet.
    """

    names: frozenset[str]
    guests: tuple[values.Guest, ...]
    pending: frozenset[str] = frozenset()


class Usage:
    """Knows which server has which vGPU."""

    def __init__(
        self,
        connect: Callable[[], guests.Connection],
        notes: Callable[[], nova_types.Notes],
        list_inactive_mdevs: Callable[[], Iterable[nova_types.NodeDevice]],
        hold_pending: pending_allocations.Hold,
    ) -> None:
        self._connect = connect
        self._notes = notes
        self._list_inactive_mdevs = list_inactive_mdevs
        self.pending = pending_allocations.PendingAllocations(hold_pending)
        self.attached = attached_cache.AttachedCache()
        self.given = given.Given()

    def list_servers(self) -> dict[str, str]:
        """The servers that have vGPUs, or are to have them, by the vGPUs.

        A guest that is here has what it has, whatever Nova noted for it.
        """
        servers = {
            name: owner for owner, names in self.list_notes() for name in names
        }
        for guest in guests.read_guests(self._connect()):
            for vgpu in guest.vgpus:
                servers[vgpu.name] = guest.uuid
        return servers

    def list_of(self, server: str) -> list[str]:
        """The vGPUs that a server has, or that Nova noted for it."""
        guest = self.read_guest(server)
        if guest:
            self.given.add(guest)
        own = [vgpu.name for vgpu in guest.vgpus] if guest else []
        return own or dict(self.list_notes()).get(server, [])

    def read_guest(self, server: str) -> values.Guest | None:
        return guests.read_guest(self._connect(), server)

    def list_attached(self, server: str) -> tuple[values.GuestVGPU, ...]:
        """The vGPUs that the guest of a server has."""
        guest = self.read_guest(server)
        return guest.vgpus if guest else ()

    def list_notes(self) -> list[tuple[str, list[str]]]:
        """What Nova noted for servers that no guest shows yet."""
        # A copy: other threads add to it.
        return list(dict(self._notes()).items())

    def drop_note(self, server: str, names: list[str]) -> bool:
        """Drop a note, unless another one has replaced it meanwhile."""
        notes = self._notes()
        if notes.get(server) is not names:
            return False
        del notes[server]
        return True

    def read(self) -> InUse:
        """Only under the allocation lock does it stay so.

        Each is read before what follows it: an allocation stops being
        pending, without the lock, when it is noted or its guest is defined.
        """
        pending = frozenset(self.list_pending())
        in_use = set(pending)
        found = guests.read_guests(self._connect())
        attached = {
            name
            for guest in found
            for name in (
                *guest.mdevs,
                *(function.node_device_name for function in guest.functions),
            )
        }
        self.attached.replace(attached)
        in_use |= attached
        # A function keeps the place of an mdev that is to start there.
        for device in self._list_inactive_mdevs():
            if is_one_of(device.name(), in_use):
                in_use.add(device.parent())
        return InUse(frozenset(in_use), found, pending)

    def list_pending(self) -> set[str]:
        """What is allocated to guests that may not show it yet."""
        pending = set(self.pending.list())
        pending.update(
            name for _, names in self.list_notes() for name in names
        )
        return pending

    def list_idle(self, assigned: values.Assignment) -> tuple[str, ...]:
        """vGPUs of a GPU that are there and not in use.

        Those that are in use according to the cache are not among these.
        """
        if assigned.gpu.framework is values.Framework.VENDOR_VFIO:
            return vgpu_facts.list_idle(assigned, self.read().names)
        # Before guests: an allocation is pending until its guest is defined.
        pending = self.list_pending()
        there = vgpu_facts.list_idle(assigned, pending | self._list_attached())
        if not there:
            return ()
        attached = guests.find_mdevs(self._connect(), there)
        self.attached.add(attached)
        return tuple(name for name in there if name not in attached)

    def _list_attached(self) -> frozenset[str]:
        if self.attached.list() is None:
            self.read()
        return self.attached.list() or frozenset()

    def list_occupied(self, assigned: values.Assignment) -> Container[str]:
        """The functions of a GPU that are in use although no vGPU is there.

        A virtual function that is a vGPU loses its type with a reboot, an mdev
        may be defined but not started, and a guest may have a function as it
        is, which is nothing that was given to it here.
        """
        if assigned.gpu.framework is values.Framework.VENDOR_VFIO or any(
            self._list_inactive_mdevs()
        ):
            return self.read().names
        return self.list_pending() | self._list_attached()


def is_one_of(name: str, uuids: Iterable[str]) -> bool:
    """Whether a name of libvirt's is that of one of some mdevs."""
    return any(
        # Newer libvirts append the parent.
        name.startswith(f'mdev_{uuid.replace("-", "_")}')
        for uuid in uuids
    )
