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

"""A simulated kernel: GPUs whose sysfs can be read and written.

``Kernel.files`` shows the state of the GPUs as sysfs, and a write to a file
there has the effect, or the error, that it has on a real host. Nothing waits:
time only advances when a caller sleeps on ``Kernel.clock``, and pending
changes are visible after that.
"""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import copy
import dataclasses
import errno
import typing

from nova_vgpu import values
from nova_vgpu.sandbox import hardware
from nova_vgpu.sandbox import host
from nova_vgpu.sandbox import memory_tree
from nova_vgpu.sandbox import stores
from nova_vgpu.sandbox import tree

BlocksForever = stores.BlocksForever
Delays = hardware.Delays

#: The base class of bridges in PCI.
_BRIDGE = 0x06
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
class Fault:
    """An error for the next writes to a file."""

    fragment: str
    number: int
    times: int


def _ignore(_description: str, _done: bool) -> None:
    pass


class Kernel(hardware.Hardware):
    """The kernel of one host, from any number of threads."""

    def __init__(self, *gpus: host.GPU, mtty: bool = False) -> None:
        super().__init__(*gpus, mtty=mtty)
        self.files = memory_tree.MemoryFiles(self)
        self.read_only = False
        #: Called before and after everything that changes something.
        self.observe: Callable[[str, bool], None] = _ignore
        self.faults: list[Fault] = []
        self.boots = 0
        #: The driver of each GPU when it was plugged in.
        self.drivers = {gpu.address: gpu.driver for gpu in gpus}

    # -- changes ------------------------------------------------------------

    @contextlib.contextmanager
    def effect(self, description: str) -> Iterator[None]:
        """A change of the host, for observers."""
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
        """Make the next writes to files with this in their path fail."""
        with self.lock:
            self.faults.append(Fault(fragment, number, times))

    def _fail_if_told(self, where: str) -> None:
        for fault in self.faults:
            if fault.times and fault.fragment in where:
                fault.times -= 1
                raise memory_tree.make_error(fault.number, where)

    def set_override(
        self, address: values.PciAddress, driver: str | None
    ) -> None:
        """Allow only this driver to bind to a GPU, or any that matches."""
        with self.effect(f'driver_override {driver} of {address}'):
            self.overrides.pop(address, None)
            if driver is not None:
                self.overrides[address] = driver
            self.render()

    def bind(self, address: values.PciAddress, driver: str) -> None:
        """Bind a GPU to a driver; its own one shows types after a while."""
        gpu = self.get(address)
        own = driver == gpu.board.driver
        self.update(address, driver='default' if own else driver)
        if own:
            loaded = self.get(address).loaded()
            self.update(address, vfs=loaded.vfs, partition=loaded.partition)
            self.expect_types(address)

    def lose_types(self, address: values.PciAddress) -> None:
        """A GPU without its own driver: no types, no vGPUs."""
        self.coming = [
            coming
            for coming in self.coming
            if coming.address != address or coming.vfs is not None
        ]
        self.update(
            address,
            types_ready=False,
            created=(),
            mixed=False,
            gpu_instances=(),
        )

    def detach(self, address: values.PciAddress) -> None:
        """Take a GPU from its driver for a guest, as libvirt does.

        :raises BlocksForever: if something of it is in use.
        """
        gpu = self.get(address)
        self.set_override(address, tree.PASSTHROUGH)
        if gpu.bound_driver is not None:
            stores.store(self, ('unbind', gpu.bound_driver), str(address))
        stores.store(self, ('drivers_probe',), str(address))

    def reattach(self, address: values.PciAddress) -> None:
        """Give a GPU back to its own driver."""
        self.set_override(address, None)
        stores.store(self, ('unbind', tree.PASSTHROUGH), str(address))
        stores.store(self, ('drivers_probe',), str(address))

    def require_viable(self, address: values.PciAddress) -> None:
        """Check that VFIO lets a guest have a GPU.

        Bridges, and devices without a driver, do not matter.

        :raises OSError: without an IOMMU group, or if a driver of the host
            has another device of the group.
        """
        group = self.get(address).group_of(address)
        if group is None:
            raise memory_tree.make_error(errno.ENODEV, f'{address}: no group')
        for gpu in self.get_gpus():
            if (
                group == gpu.group_of(gpu.address)
                and gpu.board.pci_class >> 16 != _BRIDGE
                and gpu.bound_driver not in (None, tree.PASSTHROUGH)
            ):
                raise memory_tree.make_error(
                    errno.EPERM, f'group {group} is not viable: {gpu.address}'
                )

    # -- events -------------------------------------------------------------

    def reboot(self, upgrade: bool = False) -> None:
        """Reboot, perhaps with another release of the driver."""
        with self.lock:
            self.overrides.clear()
            self.coming.clear()
            self.boots += 1
            self.gpus[:] = [
                dataclasses.replace(
                    gpu,
                    vfs=0,
                    created=(),
                    profile=(),
                    mixed=False,
                    gpu_instances=(),
                    mig_mode=self._first_mig_mode(gpu),
                    mig_pending=None,
                    has_process=False,
                    types_ready=True,
                    driver=self._first_driver(gpu),
                ).loaded()
                for gpu in self.gpus
            ]
            if upgrade:
                self.upgrade_driver()
            self.parents = frozenset()
            self.begin_history()

    def _first_mig_mode(self, gpu: host.GPU) -> bool:
        if gpu.mig_is_lost:
            return False
        return gpu.mig_mode if gpu.mig_pending is None else gpu.mig_pending

    def _first_driver(self, gpu: host.GPU) -> str | None:
        driver = self.drivers.get(gpu.address, gpu.driver)
        return 'default' if driver == tree.STUB else driver

    def upgrade_driver(self) -> None:
        """Load another release of the driver, which renumbers types.

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
        """Remove a GPU from the host, with all that is on it."""
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
            self.render()
