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

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Set
import contextlib
import time

from nova.virt.libvirt import driver as libvirt_driver
from oslo_log import log as logging
from oslo_utils import uuidutils

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.compute import locking
from nova_vgpu.compute import log
from nova_vgpu.compute import nova_types
from nova_vgpu.compute import planner as vgpu_planner
from nova_vgpu.compute import usage as vgpu_usage
from nova_vgpu.compute import vgpu_devices
from nova_vgpu.host import files
from nova_vgpu.host import state
from nova_vgpu.host import state_files
from nova_vgpu.host import sysfs
from nova_vgpu.lifecycle import vgpu_executor
from nova_vgpu.plan import nova_conflicts
from nova_vgpu.reconcile import gpu_steps
from nova_vgpu.reconcile import policy
from nova_vgpu.reconcile import steps

LOG = logging.getLogger(__name__)

FAILED = 'vGPU reconciliation failed'
RECORDS_FAILED = 'Could not read which VFs operators enabled'
_SEE_LOG = 'The kernel log may say more (journalctl -k).'


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
        if not gpu_steps.may_need_steps(plan):
            return plan
        with locking.hold_allocation(seconds), locking.hold_creation(seconds):
            # Once more, because what was in the way hid what is possible.
            for _ in range(2):
                plan = self._planner.make_plan()
                usage, records_known = self._read_usage(plan, released)
                found = gpu_steps.plan_steps(
                    plan,
                    self._planner.type_names,
                    usage,
                    policy.for_compute(
                        self._planner.declaration.creation, records_known
                    ),
                    uuidutils.generate_uuid,
                )
                if not any(of_gpu.steps for of_gpu in found):
                    return plan
                if not self._execute(found, usage):
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

    def _read_usage(
        self, plan: values.Plan, released: Set[str]
    ) -> tuple[values.Usage, bool]:
        """What is in use, and whether it is known what operators enabled."""
        in_use = self._usage.read()
        # Functions that Nova's PCI tracker gives out, with any type.
        passed_through = {
            name
            for gpu in plan.gpus
            for name in nova_conflicts.find_listed(
                self._planner.declaration.competing_pci_devices, gpu
            )
        }
        left = self._usage.functions.list_left(in_use.guests, plan)
        records = self._read_records()
        usage = values.Usage(
            in_use.guests,
            records=records or values.VGPURecords(),
            claimed=in_use.pending,
            released=(left | released) - passed_through,
        )
        return usage, records is not None

    def _read_records(self) -> values.VGPURecords | None:
        """The functions that operators enabled; None if that is not known."""
        if self._planner.declaration.creation is values.Creation.AHEAD:
            return values.VGPURecords()  # all of them stay vGPUs
        directory = state.StateDirectory(self._planner.state_path)
        try:
            functions = state_files.read_vgpus(directory).functions
        except exception.StateUnusable as error:
            self._failures.say(RECORDS_FAILED, error)
            return None
        self._failures.forget(RECORDS_FAILED)
        return values.VGPURecords(functions=functions)

    # -- doing it -----------------------------------------------------------

    def _execute(
        self, found: Iterable[values.GPUSteps], usage: values.Usage
    ) -> bool:
        """Execute steps; one that fails is tried again with the next pass.

        The locks are held, so what was read under them stays so.

        :returns: False if the kernel hangs in one: the others may have to
            wait as well.
        """
        planned = [
            step
            for of_gpu in found
            for step in of_gpu.steps
            if isinstance(step, steps.VGPUStep)
        ]
        executor = vgpu_executor.VGPUExecutor(
            vgpu_executor.VGPUAccess(
                tree=self._planner.sysfs or files.Files(sysfs.DEFAULT_ROOT),
                connection=self._devices.connection,
                set_type=self._set_type,
                exclude_claims=contextlib.nullcontext,
                create=contextlib.nullcontext,
                read_host=lambda: values.Host(self._planner.make_plan().gpus),
                read_usage=lambda: usage,
                timeout=vgpu_devices.NOTICE_SECONDS,
                sleep=time.sleep,
                now=time.monotonic,
                names=lambda _host: self._planner.type_names,
            )
        )
        # An mdev of a wrong type is created again when its server starts.
        executor.recreated = frozenset(map(steps.vgpu_in, planned))
        return all(self._execute_step(executor, step) for step in planned)

    def _execute_step(
        self, executor: vgpu_executor.VGPUExecutor, step: steps.VGPUStep
    ) -> bool:
        try:
            executor.execute(step)
        except (
            exception.StepFailed,
            exception.InUseError,
            exception.HostUnreadable,
        ) as error:
            self._failures.say(f'Could not {step}', error)
            return not isinstance(error, exception.StepTimedOut)
        LOG.info('Reconciled: %s', step)
        self._failures.forget(f'Could not {step}')
        return True

    def _set_type(self, function: str, type_id: str | None) -> None:
        """Set a type by Nova's privileged helper."""
        try:
            self._devices.set_type(function, type_id)
        except TimeoutError as error:
            raise exception.StepTimedOut(f'{error}.', _SEE_LOG) from error
        except OSError as error:
            raise exception.StepFailed(f'{error}.', _SEE_LOG) from error

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
