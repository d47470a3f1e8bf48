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

import builtins
from collections.abc import Callable
from collections.abc import Container
from collections.abc import Iterable
from collections.abc import Iterator
import contextlib
import dataclasses
import threading

from nova_vgpu import values
from nova_vgpu.compute import nova_types
from nova_vgpu.host import guests
from nova_vgpu.reconcile import vgpu_facts

Hold = Callable[[], contextlib.AbstractContextManager[None]]


class PendingAllocations:
    """vGPUs that were allocated to guests which are not defined yet.

    Nothing that libvirt knows tells that they are in use. Each is pending
    until the operation that allocated it ends, whether that succeeds or not.
    For all threads.
    """

    def __init__(self, hold: Hold = contextlib.nullcontext) -> None:
        #: What keeps other processes from removing what is pending.
        self._hold = hold
        self._lock = threading.Lock()
        self._pending: set[str] = set()
        self._own = threading.local()

    @contextlib.contextmanager
    def during_operation(self) -> Iterator[builtins.list[str]]:
        """Keep what this thread allocates until the block ends.

        A block within another one (a hard reboot within a resume) is part of
        that. It costs nothing if nothing is allocated.

        :returns: a list that has, after the block, the names of what was
            pending until its end.
        """
        ended: builtins.list[str] = []
        own = self._own
        if getattr(own, 'pending', None) is not None:
            yield ended
            return
        with contextlib.ExitStack() as held:
            own.held, own.is_held, own.pending = held, False, []
            try:
                yield ended
            finally:
                pending, own.pending = own.pending, None
                with self._lock:
                    self._pending.difference_update(pending)
                ended.extend(pending)

    def hold(self) -> None:
        """Keep other processes from vGPUs until the operation ends.

        Before anything is chosen: they must not remove it meanwhile.

        :raises RuntimeError: outside of an operation: what is chosen would
            never be released.
        """
        if getattr(self._own, 'pending', None) is None:
            raise RuntimeError('a vGPU is allocated outside of an operation')
        if not self._own.is_held:
            self._own.held.enter_context(self._hold())
            self._own.is_held = True

    def add(self, names: Iterable[str]) -> None:
        """Keep vGPUs for the operation that this thread is in.

        :raises RuntimeError: outside of one.
        """
        added = [*names]
        if added:
            self.hold()
            self._own.pending += added
            with self._lock:
                self._pending.update(added)

    def list(self) -> frozenset[str]:
        with self._lock:
            return frozenset(self._pending)


class AttachedCache:
    """The vGPUs and functions that guests had when they were last read.

    To be sure that a vGPU is not in use, all guests of the host have to be
    read. Most often it is enough to assume that it is: then another one is
    allocated. To be wrong about that costs nothing but a vGPU that is left
    idle until its GPU is full, which is when all guests are read. What is not
    in here may be in use as well; it is never allocated without reading the
    guests. For all threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: None if the guests were not read yet.
        self.names: frozenset[str] | None = None

    def replace(self, names: Iterable[str]) -> None:
        """All guests were read."""
        with self._lock:
            self.names = frozenset(names)

    def add(self, names: Iterable[str]) -> None:
        with self._lock:
            if self.names is not None:
                self.names |= frozenset(names)

    def remove(self, names: Iterable[str]) -> None:
        with self._lock:
            if self.names is not None:
                self.names -= frozenset(names)


class ServerFunctions:
    """Functions that servers of this driver have, or had until just now.

    A server that leaves the host leaves a type on its function. On a GPU of
    the plan every type that no guest has is cleared. On any other GPU it may
    have been set by hand, so there only those are cleared that are known from
    here. After a restart of nova-compute they are learned from the guests.
    For all threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._servers: dict[str, str] = {}

    def add(self, guest: values.Guest) -> None:
        """Take note of what a guest has."""
        with self._lock:
            self._servers.update(_list_functions(guest))

    def list_of(self, server: str) -> frozenset[str]:
        """What a server has, or had when its guest was last seen."""
        with self._lock:
            return frozenset(
                name
                for name, owner in self._servers.items()
                if owner == server
            )

    def list_left(
        self, found: Iterable[values.Guest], plan: values.Plan
    ) -> frozenset[str]:
        """Those that no guest has any more and whose type is still set.

        What lost its type meanwhile, or is in use by another guest, is
        forgotten.

        :param found: all guests of the host.
        """
        now, in_use = dict[str, str](), set[str]()
        for guest in found:
            now.update(_list_functions(guest))
            in_use.update(f.node_device_name for f in guest.functions)
        with_type = {
            vf.name for gpu in plan.gpus for vf in gpu.vfs if vf.vgpus
        }
        with self._lock:
            left = {
                name: owner
                for name, owner in self._servers.items()
                if name in with_type and name not in in_use
            }
            self._servers = left | now
        return frozenset(left)


def _list_functions(guest: values.Guest) -> dict[str, str]:
    """The functions of a guest that it has as vGPUs."""
    return {
        vgpu.name: guest.uuid
        for vgpu in guest.vgpus
        if vgpu.name not in guest.mdevs
    }


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
        connection: guests.Connection,
        notes: Callable[[], nova_types.Notes],
        list_inactive_mdevs: Callable[[], Iterable[nova_types.NodeDevice]],
        hold_pending: Hold,
    ) -> None:
        self._connection = connection
        self._notes = notes
        self._list_inactive_mdevs = list_inactive_mdevs
        self.pending = PendingAllocations(hold_pending)
        self.attached = AttachedCache()
        self.functions = ServerFunctions()

    def list_servers(self) -> dict[str, str]:
        """The servers that have vGPUs, or are to have them, by the vGPUs.

        A guest that is here has what it has, whatever Nova noted for it.
        """
        servers = {
            name: owner for owner, names in self.list_notes() for name in names
        }
        for guest in guests.read_guests(self._connection):
            for vgpu in guest.vgpus:
                servers[vgpu.name] = guest.uuid
        return servers

    def list_of(self, server: str) -> list[str]:
        """The vGPUs that a server has, or that Nova noted for it."""
        guest = self.read_guest(server)
        if guest:
            self.functions.add(guest)
        own = [vgpu.name for vgpu in guest.vgpus] if guest else []
        return own or dict(self.list_notes()).get(server, [])

    def read_guest(self, server: str) -> values.Guest | None:
        return guests.read_guest(self._connection, server)

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
        found = guests.read_guests(self._connection)
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
        if assigned.gpu.framework in values.GIVING_FUNCTIONS:
            return vgpu_facts.list_idle(assigned, self.read().names)
        # Before guests: an allocation is pending until its guest is defined.
        pending = self.list_pending()
        there = vgpu_facts.list_idle(assigned, pending | self._list_attached())
        if not there:
            return ()
        attached = guests.find_mdevs(self._connection, there)
        self.attached.add(attached)
        return tuple(name for name in there if name not in attached)

    def _list_attached(self) -> frozenset[str]:
        if self.attached.names is None:
            self.read()
        return self.attached.names or frozenset()

    def list_occupied(self, assigned: values.Assignment) -> Container[str]:
        """The functions of a GPU that are in use although no vGPU is there.

        A virtual function that is a vGPU loses its type with a reboot, an mdev
        may be defined but not started, and a guest may have a function as it
        is, which is nothing that was given to it here.
        """
        if assigned.gpu.framework in values.GIVING_FUNCTIONS or any(
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
