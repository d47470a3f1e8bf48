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

"""A host as nova-compute writes to it, until it is killed.

Every write that an operation makes to the host is one point at which the
process may be killed: just before it, or just after.
"""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import functools
import threading
import typing

import fixtures
from nova.compute import manager
from nova.scheduler.client import report
from oslo_db.sqlalchemy import enginefacade  # type: ignore[import-untyped]

from nova_vgpu.tests.functional.compute import simulated_gpus
from nova_vgpu.tests.functional.compute import simulated_guests
from nova_vgpu.tests.functional.compute import simulated_libvirt
from nova_vgpu.tests.functional.compute import simulated_mdevs

#: All that changes something on a simulated host.
WRITES: tuple[tuple[type, str], ...] = (
    (simulated_libvirt.SimulatedConnection, 'nodeDeviceCreateXML'),
    (simulated_libvirt.SimulatedConnection, 'nodeDeviceDefineXML'),
    (simulated_libvirt.SimulatedConnection, 'defineXML'),
    (simulated_mdevs.Mdev, 'setAutostart'),
    (simulated_mdevs.Mdev, 'create'),
    (simulated_mdevs.Mdev, 'destroy'),
    (simulated_mdevs.Mdev, 'undefine'),
    (simulated_guests.Guest, 'createWithFlags'),
    (simulated_guests.Guest, 'destroy'),
    (simulated_guests.Guest, 'shutdown'),
    (simulated_guests.Guest, 'undefineFlags'),
    (simulated_guests.Guest, 'attachDeviceFlags'),
    (simulated_guests.Guest, 'detachDeviceFlags'),
    (simulated_gpus.SimulatedGPUs, 'set_type'),
)

#: Where Nova begins what tests have it do, each in a thread of its own.
OPERATIONS = (
    '_do_build_and_run_instance',
    'terminate_instance',
    'reboot_instance',
)

_PATIENCE = 60.0


class Killed(BaseException):
    """Nothing in Nova or in this project catches it.

    What runs on its way out (``finally``, context managers) would not run in
    a process that is killed. It cannot do anything, though: from the kill on,
    the host takes no write, and the thread writes to no database either.
    """


class Writes(fixtures.Fixture):
    """Records the writes of operations, and kills at one of them."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._recorded: list[str] | None = None
        self._point: tuple[int, bool] | None = None
        self._died = threading.Event()
        self._unwound = threading.Event()
        #: Threads, until they are through with what they died of: they are
        #: used again by then.
        self._dead: set[int] = set()
        #: Writes that were tried after the kill.
        self.refused: list[str] = []

    def _setUp(self) -> None:
        for owner, name in WRITES:
            self._patch(owner, name, self._watched(owner, name))
        scope = enginefacade._TransactionContextManager._transaction_scope

        @contextlib.contextmanager
        def guarded_scope(
            scoped: typing.Any, context: typing.Any
        ) -> Iterator[typing.Any]:
            if scoped._mode is enginefacade._WRITER:
                self._refuse_the_dead('database')
            with scope(scoped, context) as resource:
                yield resource

        self._patch(
            enginefacade._TransactionContextManager,
            '_transaction_scope',
            guarded_scope,
        )
        for name in OPERATIONS:
            self._patch(manager.ComputeManager, name, self._operation(name))
        for verb in ('put', 'post', 'delete'):
            self._patch(
                report.SchedulerReportClient, verb, self._guarded(verb)
            )

    def _patch(self, owner: object, name: str, method: typing.Any) -> None:
        self.useFixture(fixtures.MockPatchObject(owner, name, method))

    # -- what tests do ------------------------------------------------------

    @contextlib.contextmanager
    def recorded(self) -> Iterator[list[str]]:
        """The writes within the block, by name."""
        recorded: list[str] = []
        self._recorded = recorded
        try:
            yield recorded
        finally:
            self._recorded = None

    @contextlib.contextmanager
    def killed_at(self, number: int, before: bool) -> Iterator[None]:
        """Kill at the write of this number; leaves a process that is dead.

        :raises AssertionError: if there is no such write.
        """
        self._died.clear()
        self._unwound.clear()
        self._recorded, self._point = [], (number, before)
        yield
        if not self._died.wait(_PATIENCE):
            raise AssertionError(f'only wrote {self._recorded}')

    def come_back(self) -> None:
        """Let a new process write, once nothing of the old one runs.

        :raises AssertionError: if something of it goes on running.
        """
        if not self._unwound.wait(_PATIENCE):
            raise AssertionError('does not end')
        with self._lock:
            self._point = self._recorded = None
            self._died.clear()

    # -- what happens then --------------------------------------------------

    def _watched(self, owner: type, name: str) -> Callable[..., typing.Any]:
        method = getattr(owner, name)

        def write(*args: typing.Any, **kwargs: typing.Any) -> typing.Any:
            die_after = self._count(name)
            result = method(*args, **kwargs)
            if die_after:
                self._die()
            return result

        return write

    def _count(self, name: str) -> bool:
        """Note a write; tells whether to die after it."""
        with self._lock:
            if self._died.is_set() or threading.get_ident() in self._dead:
                self.refused.append(name)
                raise Killed
            if self._recorded is None:
                return False
            number = len(self._recorded)
            self._recorded.append(name)
            if self._point is None or self._point[0] != number:
                return False
            before = self._point[1]
        if before:
            self._die()
        return True

    def _die(self) -> typing.NoReturn:
        with self._lock:
            self._dead.add(threading.get_ident())
            self._died.set()
        raise Killed

    def _operation(self, name: str) -> Callable[..., typing.Any]:
        method = getattr(manager.ComputeManager, name)

        @functools.wraps(method)
        def operate(*args: typing.Any, **kwargs: typing.Any) -> typing.Any:
            try:
                return method(*args, **kwargs)
            finally:
                with self._lock:
                    if threading.get_ident() in self._dead:
                        self._dead.discard(threading.get_ident())
                        self._unwound.set()

        return operate

    def _guarded(self, verb: str) -> Callable[..., typing.Any]:
        method = getattr(report.SchedulerReportClient, verb)

        def send(*args: typing.Any, **kwargs: typing.Any) -> typing.Any:
            self._refuse_the_dead(verb)
            return method(*args, **kwargs)

        return send

    def _refuse_the_dead(self, what: str) -> None:
        with self._lock:
            if threading.get_ident() in self._dead:
                self.refused.append(what)
                raise Killed
