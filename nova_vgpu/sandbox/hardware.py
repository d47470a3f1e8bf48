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

"""The GPUs of a simulated host over time.

The state is a list of GPUs, each a value that is replaced when it changes. A
change that takes time is stored with the time at which it is due, and is
visible to readers after that. Past states are stored for libvirt, which may
lag behind.
"""

from collections.abc import Callable
import dataclasses
import errno
import math
import threading
import typing

from nova_vgpu import values
from nova_vgpu.sandbox import host
from nova_vgpu.sandbox import memory_tree
from nova_vgpu.sandbox import tree

#: How long past states are stored.
_MEMORY_SECONDS = 3600.0


class Clock:
    """Seconds since the simulation began; they pass when a caller sleeps."""

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self._now = 0.0

    def now(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self._now += max(seconds, 0.0)

    def set(self, now: float) -> None:
        """Set the time, also to the past."""
        with self._lock:
            self._now = now


@dataclasses.dataclass
class Delays:
    """Seconds after VFs are enabled until they, and their types, appear."""

    vfs: float = 0.0
    types: float = 0.0


@dataclasses.dataclass(frozen=True)
class Coming:
    """A pending change: VFs, or types if there is no number."""

    due: float
    address: values.PciAddress
    vfs: int | None = None


def _nobody(_device: str) -> bool:
    return False


def _unmanaged(_parents: frozenset[str]) -> None:
    pass


class Hardware:
    """The GPUs of a host, from any number of threads."""

    def __init__(self, *gpus: host.GPU, mtty: bool = False) -> None:
        self.lock = threading.RLock()
        self.clock = Clock(self.lock)
        self.gpus = list(gpus)
        self.delays = Delays()
        #: Whether a running guest uses an mdev (by UUID) or a function (by its
        #: name in libvirt).
        self.in_use: Callable[[str], bool] = _nobody
        #: Called with the functions that begin to offer mdev types.
        self.udev: Callable[[frozenset[str]], None] = _unmanaged
        #: The only driver that may bind to a GPU, by its address.
        self.overrides: dict[values.PciAddress, str] = {}
        self.coming: list[Coming] = []
        self.history: list[tuple[float, tuple[host.GPU, ...]]] = []
        self.parents: frozenset[str] = frozenset()
        self._mtty = mtty
        self._rendered: dict[values.PciAddress, tree.RenderedGPU] = {}
        self._root: memory_tree.Directory | None = None
        self.begin_history()

    # -- what is there ------------------------------------------------------

    def get_root(self) -> memory_tree.Directory:
        """The tree of the moment."""
        with self.lock:
            self.settle()
            if self._root is None:
                self._root = tree.make_root(
                    self._rendered.values(), self._mtty
                )
            return self._root

    def get_gpus(self, ago: float = 0.0) -> tuple[host.GPU, ...]:
        """The GPUs as they are, or as they were some seconds ago."""
        with self.lock:
            self.settle()
            then = self.clock.now() - ago
            return [gpus for time, gpus in self.history if time <= then][-1]

    def get(self, address: values.PciAddress) -> host.GPU:
        """The GPU with this address.

        :raises OSError: if there is none.
        """
        gpu, vf = self.find(address)
        if vf is not None:
            raise memory_tree.make_error(errno.ENODEV, str(address))
        return gpu

    def find(self, address: values.PciAddress) -> tuple[host.GPU, int | None]:
        """The GPU that a function is of, and which of its VFs it is.

        :raises OSError: if there is no such function.
        """
        with self.lock:
            self.settle()
            for rendered in self._rendered.values():
                if rendered.gpu.address == address:
                    return rendered.gpu, None
                if address in rendered.vfs:
                    return rendered.gpu, rendered.vfs.index(address)
        raise memory_tree.make_error(errno.ENODEV, str(address))

    def find_mdev(self, uuid: str) -> host.GPU | None:
        """The GPU that an mdev is on."""
        with self.lock:
            self.settle()
            for rendered in self._rendered.values():
                if any(uuid == found for found, _ in rendered.list_mdevs()):
                    return rendered.gpu
        return None

    def count_vfs(self, address: values.PciAddress) -> int:
        """How many VFs are enabled, whether they are there yet or not."""
        with self.lock:
            on_their_way = [
                coming.vfs
                for coming in self.coming
                if coming.address == address and coming.vfs is not None
            ]
            return on_their_way[-1] if on_their_way else self.get(address).vfs

    def is_any_used(self, gpu: host.GPU) -> bool:
        """Whether a running guest uses a device of the GPU."""
        names = [gpu.address, *gpu.vf_addresses]
        mdevs = [c.uuid for c in gpu.pinned() if c.uuid is not None]
        return any(
            self.in_use(key)
            for key in (*(name.node_device_name for name in names), *mdevs)
        )

    def update(
        self, address: values.PciAddress, **changes: typing.Any
    ) -> None:
        """Replace a GPU by one that differs in this."""
        with self.lock:
            for index, gpu in enumerate(self.gpus):
                if gpu.address == address:
                    self.gpus[index] = dataclasses.replace(gpu, **changes)

    # -- pending changes ----------------------------------------------------

    def expect_vfs(self, address: values.PciAddress, number: int) -> None:
        """VFs appear after a while, and their types after them."""
        gpu = self.get(address)
        due = self.clock.now() + self.delays.vfs
        self.coming.append(Coming(due, address, number))
        self.update(address, types_ready=False)
        if gpu.bound_driver == gpu.board.driver:
            self.expect_types(address)
        self.settle()

    def expect_nothing(self, address: values.PciAddress) -> None:
        self.coming = [c for c in self.coming if c.address != address]

    def expect_types(self, address: values.PciAddress) -> None:
        """Types appear after a while, after pending VFs."""
        vfs = [c.due for c in self.coming if c.address == address]
        due = max((self.clock.now(), *vfs)) + self.delays.types
        self.coming.append(Coming(due, address))

    def settle(self) -> None:
        """Apply all changes that are due."""
        with self.lock:
            while self.coming:
                first = min(self.coming, key=lambda coming: coming.due)
                if first.due > self.clock.now():
                    break
                self.coming.remove(first)
                if first.vfs is None:
                    self.update(first.address, types_ready=True)
                else:
                    self.update(first.address, vfs=first.vfs)
                self._note(first.due)
            self._note(self.clock.now())

    def _note(self, now: float) -> None:
        """Store the state, if it has changed."""
        gpus = tuple(self.gpus)
        if self.history and self.history[-1][1] == gpus:
            return
        long_ago = now - _MEMORY_SECONDS
        before = [entry for entry in self.history if entry[0] != now]
        older = [entry for entry in before if entry[0] < long_ago]
        recent = [entry for entry in before if entry[0] >= long_ago]
        self.history = [*older[-1:], *recent, (now, gpus)]
        self.render()

    def render(self) -> None:
        """Show the current state; unchanged parts are not rendered again."""
        before, self._rendered = self._rendered, {}
        for gpu in self.gpus:
            override = self.overrides.get(gpu.address)
            known = before.get(gpu.address)
            if (
                known is None
                or known.gpu is not gpu
                or known.override != override
            ):
                known = tree.RenderedGPU(gpu, override)
            self._rendered[gpu.address] = known
        self._root = None
        self._tell_udev()

    def begin_history(self) -> None:
        """Drop the past states."""
        self.history = [(-math.inf, tuple(self.gpus))]
        self.render()

    def _tell_udev(self) -> None:
        parents = frozenset(
            address.node_device_name
            for rendered in self._rendered.values()
            for address, _ in rendered.parents
        )
        new = parents - self.parents
        self.parents = parents
        if new:
            self.udev(new)
