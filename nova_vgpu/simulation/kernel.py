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


"""A kernel that is not there: GPUs whose sysfs can be read and written.

The state is a list of GPUs, each a value that is replaced when something
happens to it. ``Kernel.files`` shows that state as sysfs, and a write to a
file there has the effect, or the error, that it has on a real host. Nothing
waits: time passes when somebody sleeps on ``Kernel.clock``, and what takes
its time is there after that.
"""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import copy
import dataclasses
import errno
import threading
import typing

from nova_vgpu import values
from nova_vgpu.simulation import clock
from nova_vgpu.simulation import host
from nova_vgpu.simulation import memory_tree
from nova_vgpu.simulation import rendering
from nova_vgpu.simulation import stores

BlocksForever = stores.BlocksForever

#: How long the past is remembered, for libvirt that lags behind.
_MEMORY_SECONDS = 3600.0

#: What makes up the state, besides the GPUs and the time.
_KEPT = (
    'overrides',
    'coming',
    'drivers',
    'faults',
    'history',
    'read_only',
    'delays',
    'boots',
    'parents',
)


@dataclasses.dataclass
class Delays:
    """Seconds after VFs are enabled until they, and their types, appear."""

    vfs: float = 0.0
    types: float = 0.0


@dataclasses.dataclass(frozen=True)
class Coming:
    """What will be there in a while: VFs, or types if there is no number."""

    due: float
    address: values.PciAddress
    vfs: int | None = None


@dataclasses.dataclass
class Fault:
    """An error for the next writes to a file."""

    fragment: str
    number: int
    times: int


def _nobody(_device: str) -> bool:
    return False


def _ignore(_description: str, _done: bool) -> None:
    pass


def _unmanaged() -> None:
    pass


class Kernel:
    """The kernel of one host, from any number of threads."""

    def __init__(self, *gpus: host.GPU, mtty: bool = False) -> None:
        self.lock = threading.RLock()
        self.clock = clock.Clock(self.lock)
        self.gpus = list(gpus)
        self.files = memory_tree.MemoryFiles(self)
        self.delays = Delays()
        self.read_only = False
        #: Whether a running guest has an mdev (by UUID) or a function (by its
        #: name in libvirt).
        self.in_use: Callable[[str], bool] = _nobody
        #: Called before and after everything that changes something.
        self.observe: Callable[[str, bool], None] = _ignore
        #: Called when functions come to offer mdev types.
        self.udev: Callable[[], None] = _unmanaged
        self.overrides: dict[values.PciAddress, str] = {}
        self.coming: list[Coming] = []
        self.faults: list[Fault] = []
        self.boots = 0
        #: The driver of each GPU when it was plugged in.
        self.drivers = {gpu.address: gpu.driver for gpu in gpus}
        self.history: list[tuple[float, tuple[host.GPU, ...]]] = []
        self.parents: frozenset[str] = frozenset()
        self._mtty = mtty
        self._rendered: dict[values.PciAddress, rendering.RenderedGPU] = {}
        self._root: memory_tree.Directory | None = None
        self._render()

    # -- what is there ------------------------------------------------------

    def get_root(self) -> memory_tree.Directory:
        """The tree of the moment."""
        with self.lock:
            self.settle()
            if self._root is None:
                self._root = rendering.make_root(
                    self._rendered.values(), self._mtty
                )
            return self._root

    def get_gpus(self, ago: float = 0.0) -> tuple[host.GPU, ...]:
        """The GPUs as they are, or as they were some seconds ago."""
        with self.lock:
            self.settle()
            then = self.clock.now() - ago
            known = [gpus for time, gpus in self.history if time <= then]
            return known[-1] if known else self.history[0][1]

    def get(self, address: values.PciAddress) -> host.GPU:
        """The GPU with this very address.

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
        """Whether a running guest has something of the GPU."""
        names = [gpu.address, *gpu.vf_addresses]
        mdevs = [c.uuid for c in gpu.pinned() if c.uuid is not None]
        return any(
            self.in_use(key)
            for key in (*(name.node_device_name for name in names), *mdevs)
        )

    # -- what happens to it -------------------------------------------------

    @contextlib.contextmanager
    def effect(self, description: str) -> Iterator[None]:
        """Something that changes the host, for whoever observes that."""
        with self.lock:
            self.observe(description, False)
            yield
            self.settle()
            self.observe(description, True)

    def store(
        self,
        text: str,
        path: memory_tree.Path,
        find: Callable[[], memory_tree.Attribute],
    ) -> None:
        """Write to a file.

        :raises OSError: as the kernel would, or as it was told to.
        """
        where = '/'.join(path)
        with self.lock:
            what = find().store
            if self.read_only:
                raise memory_tree.make_error(errno.EROFS, where)
            self._fail_if_told(where)
            stores.store(self, what, text)

    def fail(self, fragment: str, number: int, times: int = 1) -> None:
        """Let the next writes to files with this in their path fail."""
        with self.lock:
            self.faults.append(Fault(fragment, number, times))

    def _fail_if_told(self, where: str) -> None:
        for fault in self.faults:
            if fault.times and fault.fragment in where:
                fault.times -= 1
                raise memory_tree.make_error(fault.number, where)

    def update(
        self, address: values.PciAddress, **changes: typing.Any
    ) -> None:
        """Replace a GPU by one that differs in this."""
        with self.lock:
            for index, gpu in enumerate(self.gpus):
                if gpu.address == address:
                    self.gpus[index] = dataclasses.replace(gpu, **changes)

    def set_override(
        self, address: values.PciAddress, driver: str | None
    ) -> None:
        """Let only this driver have a GPU, or whichever fits."""
        with self.effect(f'driver_override {driver} of {address}'):
            self.overrides.pop(address, None)
            if driver is not None:
                self.overrides[address] = driver
            self._render()

    def bind(self, address: values.PciAddress, driver: str) -> None:
        """Give a GPU to a driver; its own one brings up types in a while."""
        gpu = self.get(address)
        own = driver == gpu.board.driver
        self.update(address, driver='default' if own else driver)
        if own:
            self._expect_types(address)

    def lose_types(self, address: values.PciAddress) -> None:
        """What a GPU without its own driver has: no types, no vGPUs."""
        self.coming = [
            coming
            for coming in self.coming
            if coming.address != address or coming.vfs is not None
        ]
        self.update(address, types_ready=False, created=(), mixed=False)

    # -- what takes its time ------------------------------------------------

    def expect_vfs(self, address: values.PciAddress, number: int) -> None:
        """VFs come in a while, and their types after them."""
        gpu = self.get(address)
        due = self.clock.now() + self.delays.vfs
        self.coming.append(Coming(due, address, number))
        self.update(address, types_ready=False)
        if gpu.bound_driver == gpu.board.driver:
            self._expect_types(address)
        self.settle()

    def expect_nothing(self, address: values.PciAddress) -> None:
        self.coming = [c for c in self.coming if c.address != address]

    def _expect_types(self, address: values.PciAddress) -> None:
        """Types come in a while, after VFs that are still to come."""
        vfs = [c.due for c in self.coming if c.address == address]
        due = max((self.clock.now(), *vfs)) + self.delays.types
        self.coming.append(Coming(due, address))

    def settle(self) -> None:
        """Let everything be there that is due."""
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
        """Remember the state, if it is another one than before."""
        if self.history and self.history[-1][1] == tuple(self.gpus):
            return
        self._render(now)

    def _render(self, now: float | None = None) -> None:
        gpus = tuple(self.gpus)
        now = self.clock.now() if now is None else now
        recent = [
            (time, then)
            for time, then in self.history
            if time != now and time >= now - _MEMORY_SECONDS
        ]
        self.history = [*(recent or self.history[-1:]), (now, gpus)]
        before, self._rendered = self._rendered, {}
        for gpu in gpus:
            override = self.overrides.get(gpu.address)
            known = before.get(gpu.address)
            if (
                known is None
                or known.gpu is not gpu
                or known.override != override
            ):
                known = rendering.RenderedGPU(gpu, override)
            self._rendered[gpu.address] = known
        self._root = None
        self._tell_udev()

    def _tell_udev(self) -> None:
        parents = frozenset(
            str(address)
            for rendered in self._rendered.values()
            for address, _ in rendered.parents
        )
        new = parents - self.parents
        self.parents = parents
        if new:
            self.udev()

    # -- what befalls a host ------------------------------------------------

    def reboot(self, upgrade: bool = False) -> None:
        """Start anew, perhaps with another release of the driver."""
        with self.lock:
            self.overrides.clear()
            self.coming.clear()
            self.history.clear()
            self.boots += 1
            self.gpus[:] = [
                dataclasses.replace(
                    gpu,
                    vfs=0,
                    created=(),
                    mixed=False,
                    types_ready=True,
                    driver=self._first_driver(gpu),
                )
                for gpu in self.gpus
            ]
            if upgrade:
                self.upgrade_driver()
            self.parents = frozenset()
            self._render()

    def _first_driver(self, gpu: host.GPU) -> str | None:
        driver = self.drivers.get(gpu.address, gpu.driver)
        return 'default' if driver == rendering.STUB else driver

    def upgrade_driver(self) -> None:
        """Another release of the driver, which numbers types anew.

        :raises ValueError: if there are vGPUs: a driver in use stays.
        """
        with self.lock:
            if any(gpu.created for gpu in self.gpus):
                raise ValueError('there are vGPUs')
            boards = {
                gpu.board: stores.renumber(gpu.board) for gpu in self.gpus
            }
            self.gpus[:] = [
                dataclasses.replace(gpu, board=boards[gpu.board])
                for gpu in self.gpus
            ]
            self.settle()

    def unplug(self, address: values.PciAddress) -> None:
        """Take a GPU out of the host, whatever is on it."""
        with self.lock:
            gone = self.get(address)
            self.expect_nothing(address)
            self.overrides.pop(address, None)
            self.drivers.pop(address, None)
            self.gpus.remove(gone)
            self.settle()

    def plug(self, gpu: host.GPU) -> None:
        """Put a GPU into the host.

        :raises ValueError: if another one is in that slot.
        """
        with self.lock:
            if any(other.address == gpu.address for other in self.gpus):
                raise ValueError(f'{gpu.address} is taken')
            self.gpus.append(gpu)
            self.drivers[gpu.address] = gpu.driver
            self.settle()

    # -- all of it ----------------------------------------------------------

    def snapshot(self) -> dict[str, typing.Any]:
        """All of the state, to be put back or sent elsewhere."""
        with self.lock:
            state = {name: getattr(self, name) for name in _KEPT}
            state |= {'gpus': self.gpus, 'now': self.clock.now()}
            return copy.deepcopy(state)

    def load(self, snapshot: dict[str, typing.Any]) -> None:
        """Put a state back."""
        with self.lock:
            state = copy.deepcopy(snapshot)
            self.gpus[:] = state.pop('gpus')
            self.clock.set(state.pop('now'))
            for name, value in state.items():
                setattr(self, name, value)
            self._rendered.clear()
            self._render()
