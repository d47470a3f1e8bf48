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

"""When the vGPUs of the host are reconciled, beside operations on servers.

At the start of nova-compute, and then in a thread of its own: after each
report to Placement, and at an interval. A report itself changes nothing on the
host and waits for none of our locks: Nova makes it under a lock that every
build needs.
"""

from collections.abc import Callable
import threading

from oslo_log import log as logging

from nova_vgpu import exception
from nova_vgpu.compute import locking
from nova_vgpu.compute import log
from nova_vgpu.compute import migration
from nova_vgpu.compute import planner as vgpu_planner
from nova_vgpu.compute import reconciler as vgpu_reconciler
from nova_vgpu.compute import suspension as vgpu_suspension
from nova_vgpu.compute import tree
from nova_vgpu.plan import address_matching

LOG = logging.getLogger(__name__)

LOOK_FAILED = 'Could not read the GPUs of the host'

#: How long a host stays as it is if Nova makes no reports.
_INTERVAL_SECONDS = 60.0
#: How long the end of the service waits for a pass that is under way.
_STOP_SECONDS = 10.0


class ReconcileThread:
    """Calls a function when it is woken, and at an interval.

    It is made with :mod:`threading` alone, which is a green thread where Nova
    runs with eventlet and a native one where it does not.
    """

    def __init__(self, work: Callable[[], object], seconds: float) -> None:
        """Nothing runs yet.

        :param work: must not raise.
        :param seconds: the interval, unless it is woken before.
        """
        self._work = work
        self._seconds = seconds
        self._changed = threading.Condition()
        self._asked = self._done = 0
        self._is_stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        with self._changed:
            if self._thread is not None:
                return
            self._is_stopping = False
            # The service does not wait for it when it ends.
            self._thread = threading.Thread(
                target=self._run, name='nova-vgpu-reconcile', daemon=True
            )
            self._thread.start()

    def wake(self) -> int:
        """Have the work done soon, and once for all who ask until it begins.

        :returns: a number for :meth:`wait`.
        """
        with self._changed:
            self._asked += 1
            self._changed.notify_all()
            return self._asked

    def wait(self, asked: int, seconds: float) -> bool:
        """Wait until what was asked for is done.

        :returns: whether it was done in time.
        """
        with self._changed:
            return self._changed.wait_for(
                lambda: self._done >= asked or self._thread is None, seconds
            )

    def stop(self, seconds: float = _STOP_SECONDS) -> None:
        """End it after what it is doing.

        :param seconds: how long to wait for that.
        """
        with self._changed:
            thread, self._thread = self._thread, None
            self._is_stopping = True
            self._changed.notify_all()
        if thread is not None:
            thread.join(seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._is_stopping or self._asked > self._done,
                    self._seconds,
                )
                if self._is_stopping:
                    return
                asked = self._asked
            self._work()
            with self._changed:
                self._done = asked
                self._changed.notify_all()


class Service:
    """Reconciles at start and in the background."""

    def __init__(
        self,
        planner: vgpu_planner.Planner,
        reconciler: vgpu_reconciler.Reconciler,
        suspension: vgpu_suspension.Suspension,
        live_migration: migration.LiveMigration,
        allocations: tree.ServerAllocations,
        failures: log.FailureLog,
    ) -> None:
        self._planner = planner
        self._reconciler = reconciler
        self._suspension = suspension
        self._live_migration = live_migration
        self._allocations = allocations
        self._failures = failures
        self.thread = ReconcileThread(self.reconcile, _INTERVAL_SECONDS)

    def start(self) -> None:
        """Plan and reconcile for the first time, then in the background.

        Guests are started after this: functions have their types by then.

        :raises InvalidLibvirtGPUConfig: if the configuration has mistakes.
            Later they do not stop the service.
        """
        locking.get_directory()  # not only when a server is built
        with self._failures.surviving(
            LOOK_FAILED, reraise=(exception.InvalidLibvirtGPUConfig,)
        ):
            self._plan_first()
            self._run_pass(locking.START_SECONDS)
        self._planner.accept()
        self.thread.start()

    def _plan_first(self) -> None:
        """The first plan, which finds mistakes in the configuration.

        An address for which Placement has a provider of this node is not a
        mistake: the GPU was here.
        """
        self._refresh_modes()
        try:
            self._planner.make_plan()
        except exception.InvalidLibvirtGPUConfig:
            addresses = address_matching.list_addresses(
                self._planner.declaration.types
            )
            published = self._allocations.list_published(addresses)
            if not self._planner.add_seen(published):
                raise
            self._planner.make_plan()

    def reconcile(self) -> None:
        """What the thread does; nothing that fails here ends it."""
        self._refresh_modes()
        with self._failures.surviving(vgpu_reconciler.FAILED):
            self._run_pass(seconds=0.0)

    def _refresh_modes(self) -> None:
        """Ask NVML; whatever fails there keeps nothing else from going on."""
        with self._failures.surviving(LOOK_FAILED):
            self._planner.refresh_modes()

    def _run_pass(self, seconds: float) -> None:
        """Reconcile as far as it goes; one guest must not stop all others.

        :param seconds: how long to wait for each lock. The thread does not
            wait: it would keep servers with vGPUs from going on.
        """
        self._live_migration.drop_old_notes()
        with self._reconciler.logging_failures():
            try:
                self._reconciler.start_mdevs_in_use(seconds)
                self._suspension.attach_released_late(seconds)
                self._reconciler.reconcile(seconds=seconds)
            except locking.BusyHereError as error:
                LOG.debug('vGPUs are not reconciled this time: %s', error)
