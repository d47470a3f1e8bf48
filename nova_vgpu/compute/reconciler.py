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

"""Brings the vGPUs of the host in line with its guests and with the plan.

The only place of the driver that decides on changes of the host beside what a
server is given: types of functions that are set or cleared, mdevs that are in
the way and removed, and mdevs that guests have and that are started. Reports
to Placement change nothing.
"""

from collections.abc import Container
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Set
import contextlib

from nova.virt.libvirt import driver as libvirt_driver
from oslo_log import log as logging

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.compute import locking
from nova_vgpu.compute import log
from nova_vgpu.compute import nova_types
from nova_vgpu.compute import planner as vgpu_planner
from nova_vgpu.compute import usage as vgpu_usage
from nova_vgpu.compute import vgpu_devices
from nova_vgpu.host import state
from nova_vgpu.host import vgpu_store
from nova_vgpu.plan import pci_devices
from nova_vgpu.reconcile import upkeep

LOG = logging.getLogger(__name__)

FAILED = 'vGPU reconciliation failed'
_KEPT_FAILED = 'Could not tell what is kept by hand'


class Reconciler:
    """Changes the vGPUs of the host that no server is waiting for."""

    def __init__(
        self,
        planner: vgpu_planner.Planner,
        usage: vgpu_usage.Usage,
        devices: vgpu_devices.VGPUDevices,
        failures: log.FailureLog,
    ) -> None:
        self._planner = planner
        self._usage = usage
        self._devices = devices
        self._failures = failures

    # -- what others call ---------------------------------------------------

    def reconcile(
        self,
        released: Set[str] = frozenset(),
        seconds: float = locking.WAIT_SECONDS,
    ) -> values.Plan:
        """Bring the vGPUs of the host in line with its guests.

        :param released: functions that a guest just released.
        :param seconds: how long to wait for each of the locks.
        :returns: the plan for the host as it is then.
        :raises BusyError: if a lock is not free in time.
        """
        plan = self._planner.make_plan()
        if not upkeep.is_concerned(plan):
            return plan
        with locking.hold_allocation(seconds), locking.hold_creation(seconds):
            # Once more, because what was in the way hid what is possible.
            for _ in range(2):
                plan = self._planner.make_plan()
                steps = self._list_steps(plan, released)
                if not steps:
                    return plan
                # If the kernel hangs, the others may have to wait as well.
                if not all(map(self._execute, steps)):
                    break
            return self._planner.make_plan()

    def release(self, released: Set[str] = frozenset()) -> None:
        """Reconcile after a server released vGPUs; log it if that fails."""
        with self.logging_failures():
            self.reconcile(released)

    def start_mdevs_in_use(
        self, seconds: float = locking.WAIT_SECONDS
    ) -> None:
        """Start the mdevs that servers have, and leave others as they are.

        :raises BusyError: if a lock is not free in time.
        """
        inactive = list(self._devices.list_inactive_mdevs())
        if inactive:
            in_use = self._usage.read().names
            self._start_mdevs(
                (
                    d
                    for d in inactive
                    if vgpu_usage.is_one_of(d.name(), in_use)
                ),
                seconds,
            )

    def start_all_mdevs(self) -> None:
        """Start the mdevs that are only defined; log what does not start."""
        with self.logging_failures():
            self._start_mdevs(
                self._devices.list_inactive_mdevs(), locking.START_SECONDS
            )

    @contextlib.contextmanager
    def logging_failures(self) -> Iterator[None]:
        """Reconcile in the course of something else, which must not fail."""
        try:
            yield
        except (
            exception.BusyError,
            exception.HostUnreadable,
            exception.StateUnusable,
            libvirt_driver.libvirt.libvirtError,
        ) as error:
            self._failures.say(FAILED, error)
        else:
            self._failures.forget(FAILED)

    # -- what is to be done -------------------------------------------------

    def _list_steps(
        self, plan: values.Plan, released: Set[str]
    ) -> list[upkeep.Step]:
        in_use = self._usage.read()
        left = self._usage.given.list_left(in_use.guests, plan)
        return list(
            upkeep.plan_upkeep(
                plan,
                self._planner.type_names,
                in_use.names,
                in_use.guests,
                (left | released) - self._list_pci_devices(plan),
                self._list_kept(),
            )
        )

    def _list_pci_devices(self, plan: values.Plan) -> frozenset[str]:
        """The functions that Nova's PCI tracker gives out, with any type."""
        specs = self._planner.declaration.pci_devices
        return frozenset(
            name
            for gpu in plan.gpus
            for name in pci_devices.find_listed(specs, gpu)
        )

    def _list_kept(self) -> Container[str] | None:
        """The functions that stay vGPUs while not in use; None: all."""
        if self._planner.declaration.creation is values.Creation.AHEAD:
            return None
        directory = state.StateDirectory(self._planner.state_path)
        try:
            functions = vgpu_store.read(directory).functions
        except exception.StateUnusable as error:
            self._failures.say(_KEPT_FAILED, error)
            return None  # so nothing is cleared
        self._failures.forget(_KEPT_FAILED)
        return frozenset(
            values.PciAddress.parse(address).node_device_name
            for address in functions
        )

    # -- doing it -----------------------------------------------------------

    def _execute(self, step: upkeep.Step) -> bool:
        """One step; one that fails is tried again with the next pass.

        :returns: False if the kernel hangs in it.
        """
        try:
            match step:
                case upkeep.SetType(vf, vgpu_type):
                    self._devices.set_type(vf, vgpu_type)
                case upkeep.ClearType(vf):
                    self._devices.set_type(vf, None)
                case upkeep.RemoveMdev(uuid):
                    self._devices.remove_mdev(uuid)
        except (OSError, libvirt_driver.libvirt.libvirtError) as error:
            self._failures.say(f'Could not {step}', error)
            # To remove an mdev, it is libvirt that is waited for.
            return isinstance(step, upkeep.RemoveMdev) or not isinstance(
                error, TimeoutError
            )
        LOG.info('Reconciled: %s', step)
        self._failures.forget(f'Could not {step}')
        return True

    def _start_mdevs(
        self, devices: Iterable[nova_types.NodeDevice], seconds: float
    ) -> None:
        # Where nothing is declared, Nova's driver takes no lock either.
        is_declared = bool(self._planner.declaration.types)
        for device in devices:
            name = device.name()
            try:
                with (
                    locking.hold_creation(seconds)
                    if is_declared
                    else contextlib.nullcontext()
                ):
                    self._devices.start_mdev(device)
            except libvirt_driver.libvirt.libvirtError as error:
                self._failures.say(f'Could not start {name}', error)
            else:
                LOG.info('Started vGPU %s, which was only defined.', name)
                self._failures.forget(f'Could not start {name}')
