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

"""Watching a Nova in which much happens at once."""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import itertools
import subprocess
import sys
import threading
import typing

import fixtures

from nova_vgpu.tests.functional.compute import other_process
from nova_vgpu.tests.functional.compute import simulated_guests

#: Of one wait, on a machine that does much else.
PATIENCE = 120.0
#: How long a boot waits for another one, at most.
COMPANY = 2.0
#: How long the creation of a vGPU waits for one that another boot wants.
CREATION = 0.1


class Endings(fixtures.Fixture):
    """Hears from Nova when something has ended, by the server's UUID.

    Asking its API over and over costs more than all else.
    """

    EVENTS = (
        'instance.create.end',
        'instance.create.error',
        'instance.delete.end',
        'compute_task.build_instances.error',
    )

    def __init__(self, notifier: typing.Any) -> None:
        super().__init__()
        self._notifier = notifier
        self._changed = threading.Condition()
        self._ended: list[str] = []

    def _setUp(self) -> None:
        subscriptions = self._notifier.fake_versioned_notifier.subscriptions
        for event in self.EVENTS:
            subscriptions[event] = self

    def received(self, notification: dict[str, typing.Any]) -> None:
        data = notification['payload']['nova_object.data']
        with self._changed:
            self._ended.append(data.get('instance_uuid') or data['uuid'])
            self._changed.notify_all()

    def count(self, uuid: str) -> int:
        with self._changed:
            return self._ended.count(uuid)

    def wait_for_more(self, uuid: str, seen: int = 0) -> Iterator[None]:
        """Each time that something more has ended, look again."""
        for more in itertools.count(seen + 1):
            self._wait_for(uuid, more)
            yield

    def _wait_for(self, uuid: str, count: int) -> None:
        with self._changed:
            if not self._changed.wait_for(
                lambda: self._ended.count(uuid) >= count, PATIENCE
            ):
                raise AssertionError(f'nothing ends for {uuid}')


class World:
    """What the clients have done together."""

    def __init__(self, orders: int) -> None:
        self._changed = threading.Condition()
        self._orders, self._ordered = orders, 0
        self.booted = self.deleted = 0
        self.is_over = False

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Let a client that fails be the last thing that happens."""
        try:
            yield
        except BaseException:
            with self._changed:
                self.is_over = True
                self._changed.notify_all()
            raise

    def take_order(self) -> bool:
        with self._changed:
            self._ordered += 1
            return self._ordered <= self._orders and not self.is_over

    def note_boot(self) -> None:
        with self._changed:
            self.booted += 1

    def note_deletion(self) -> None:
        with self._changed:
            self.deleted += 1
            self._changed.notify_all()

    def wait_for_deletion(self, seen: int) -> None:
        with self._changed:
            if not self._changed.wait_for(
                lambda: self.deleted > seen or self.is_over, PATIENCE
            ):
                raise AssertionError('nobody deletes anything')


class Overlap:
    """How many operations of a driver were under way at once."""

    def __init__(self, driver: typing.Any) -> None:
        self._driver = driver
        self._changed = threading.Condition()
        self._now = {'spawn': 0, 'destroy': 0}
        self.most = dict(self._now)
        #: How often something was destroyed while something was spawned.
        self.together = 0

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._taking_time())
            for name in self._now:
                stack.enter_context(
                    fixtures.MockPatchObject(
                        self._driver, name, self._counting(name)
                    )
                )
            yield

    def _counting(self, name: str) -> Callable[..., typing.Any]:
        method = getattr(self._driver, name)

        def count(*args: typing.Any, **kwargs: typing.Any) -> typing.Any:
            with self._changed:
                self._now[name] += 1
                self.most[name] = max(self.most[name], self._now[name])
                self.together += all(self._now.values())
                self._changed.notify_all()
            try:
                return method(*args, **kwargs)
            finally:
                with self._changed:
                    self._now[name] -= 1

        return count

    @contextlib.contextmanager
    def _taking_time(self) -> Iterator[None]:
        """Let boots that have chosen vGPUs wait for others to come there.

        Guests of a real host take seconds to start; these take no time, and
        would hardly ever meet.
        """
        describe = self._driver._get_guest_xml

        def wait(*args: typing.Any, **kwargs: typing.Any) -> typing.Any:
            with self._changed:
                self._changed.wait_for(lambda: self._now['spawn'] > 1, COMPANY)
            return describe(*args, **kwargs)

        with fixtures.MockPatchObject(self._driver, '_get_guest_xml', wait):
            yield


class Observer(fixtures.Fixture):
    """Looks at all guests of a host whenever one is defined."""

    def __init__(self, connection: typing.Any) -> None:
        super().__init__()
        self._connection = connection
        #: vGPUs that two guests had, and all that any had.
        self.shared: list[str] = []
        self.seen: set[str] = set()

    def _setUp(self) -> None:
        define = self._connection.defineXML

        def defineXML(xml: str) -> typing.Any:
            with self._connection.lock:
                guest = define(xml)
                self._look()
                return guest

        self.useFixture(
            fixtures.MockPatchObject(self._connection, 'defineXML', defineXML)
        )

    def _look(self) -> None:
        keys = [
            simulated_guests.key_of(hostdev)
            for guest in self._connection._vms.values()
            for hostdev in guest.configured
        ]
        self.seen.update(keys)
        self.shared += [key for key in keys if keys.count(key) > 1]


class Creations(fixtures.Fixture):
    """How many vGPUs of a host were being created at once.

    Each creation waits for another boot that wants a vGPU, and gives it time
    to begin with its own. Meanwhile a second process tries to get the lock
    under which commands create vGPUs.
    """

    def __init__(self, driver: typing.Any, locks: str) -> None:
        super().__init__()
        self._driver = driver
        self._locks = locks
        self._changed = threading.Condition()
        self._wanted = self._now = self.most = self.count = 0
        #: How often another boot wanted one during a creation.
        self.awaited = 0
        #: What the second process found, each time.
        self.answers: list[str] = []

    def _setUp(self) -> None:
        self._other = subprocess.Popen(
            [sys.executable, other_process.__file__, self._locks],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(self._end_other)
        connection = self._driver._host.get_connection()
        self._surround(self._driver, '_allocate_mdevs', self._wanting)
        self._surround(connection, 'nodeDeviceCreateXML', self._creating)

    def _surround(
        self,
        owner: typing.Any,
        name: str,
        context: Callable[[], contextlib.AbstractContextManager[None]],
    ) -> None:
        method = getattr(owner, name)

        def call(*args: typing.Any, **kwargs: typing.Any) -> typing.Any:
            with context():
                return method(*args, **kwargs)

        self.useFixture(fixtures.MockPatchObject(owner, name, call))

    def _end_other(self) -> None:
        self._other.communicate(timeout=PATIENCE)

    @contextlib.contextmanager
    def _wanting(self) -> Iterator[None]:
        with self._changed:
            self._wanted += 1
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._wanted -= 1

    @contextlib.contextmanager
    def _creating(self) -> Iterator[None]:
        with self._changed:
            self.count += 1
            self._now += 1
            self.most = max(self.most, self._now)
            self._changed.notify_all()
            self.answers.append(self._ask_other())
            if self._changed.wait_for(lambda: self._wanted > 1, COMPANY):
                self.awaited += 1
                self._changed.wait_for(lambda: self._now > 1, CREATION)
        try:
            yield
        finally:
            with self._changed:
                self._now -= 1

    def _ask_other(self) -> str:
        # Both are pipes; mypy cannot tell.
        assert self._other.stdin and self._other.stdout
        self._other.stdin.write('\n')
        self._other.stdin.flush()
        return self._other.stdout.readline().strip()
