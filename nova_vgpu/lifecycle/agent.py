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

"""The agent: reads the host again and again.

::

    configuration -> read -> what is new? -> say it -> metrics -> wait
                       |                                 ^
                       +-> repair, if it is told to -----+

A round that fails is said once, and the next one comes as usual. A repair is
an apply: it does what is declared, and leaves alone what a guest has.

The wait ends with time, an event of udev, or a signal: the word to stop, or
the word to look again at once. The handler of a signal does no more than set a
flag and write to a pipe. The pipe is among what is waited for, so that the
word is not missed just before the wait begins.
"""

from collections.abc import Callable
import contextlib
import dataclasses
import os
import select
import time
import types
import typing

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import locks
from nova_vgpu.host import systemd
from nova_vgpu.lifecycle import apply
from nova_vgpu.lifecycle import drift
from nova_vgpu.lifecycle import host_access

#: What can become of a step.
OUTCOMES = ('done', 'failed', 'refused')

_LONGEST_PAUSE = 3600.0
#: Devices come in crowds: one round is enough for all of a second.
_CROWD_SECONDS = 1.0
_MOST_BYTES = 4096


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """How often to read the host, in seconds, and whether to repair."""

    interval: float = 30.0
    enforce: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Tally:
    """What the agent did since it was started.

    ``steps`` are those of its repairs, by outcome. ``last_round`` is when the
    host was last read, None if it never was.
    """

    rounds: int = 0
    failures: int = 0
    is_failing: bool = False
    last_round: float | None = None
    steps: tuple[tuple[str, int], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Backoff:
    """When to repair again after a repair that failed.

    A repair that fails costs something: the vendor's program takes the GPU
    from its driver for a while. Each failure doubles the pause, and the events
    that the attempt itself caused do not shorten it.
    """

    failures: int = 0
    not_before: float = 0.0

    def after(self, failed: bool, now: float, interval: float) -> 'Backoff':
        """What it is after an attempt."""
        if not failed:
            return Backoff()
        pause = interval * 2 ** min(self.failures, 16)
        pause = min(pause, max(interval, _LONGEST_PAUSE))
        return Backoff(self.failures + 1, now + pause)


class Events(typing.Protocol):
    """Something whose descriptor can be read when something happened."""

    def fileno(self) -> int: ...

    def drain(self) -> None: ...


class Stopped(Exception):
    """The agent was told to stop."""


class Waiter:
    """Waits; any thread and any signal handler can end that."""

    def __init__(
        self,
        notifier: systemd.Notifier,
        events: Events | None = None,
        crowd_seconds: float = _CROWD_SECONDS,
    ) -> None:
        self.is_stopped = False
        self._is_woken = False
        self._notifier = notifier
        self._events = events
        self._crowd_seconds = crowd_seconds
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def __enter__(self) -> typing.Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        os.close(self._reader)
        os.close(self._writer)

    def stop(self) -> None:
        """End the wait, now and from now on."""
        self.is_stopped = True
        self._ring()

    def wake(self) -> None:
        """End this wait, or the next one, without a stop."""
        self._is_woken = True
        self._ring()

    def require_going_on(self) -> None:
        """A place where a longer task may end.

        :raises Stopped: if the agent was told to stop.
        """
        if self.is_stopped:
            raise Stopped
        self._notifier.beat()

    def wait(self, seconds: float) -> bool:
        """Wait for time to pass or for something to happen.

        :returns: whether it was woken.
        :raises Stopped: if the agent was told to stop.
        """
        if self._watch(seconds, self._events):
            self._watch(self._crowd_seconds, None)
        if self._events is not None:
            self._events.drain()
        self.require_going_on()
        was_woken, self._is_woken = self._is_woken, False
        with contextlib.suppress(BlockingIOError):  # empty: no signal came
            os.read(self._reader, _MOST_BYTES)
        return was_woken

    def _ring(self) -> None:
        with contextlib.suppress(BlockingIOError):  # full: it is known
            os.write(self._writer, b'.')

    def _watch(self, seconds: float, events: Events | None) -> bool:
        """Whether there was an event before the time was over."""
        deadline = time.monotonic() + seconds
        watched: list[typing.Any] = [self._reader]
        if events is not None:
            watched.append(events)
        while not (self.is_stopped or self._is_woken):
            self._notifier.beat()
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            found, _, _ = select.select(watched, [], [], self._slice(left))
            if events in found:
                return True
        return False

    def _slice(self, left: float) -> float:
        """How long to wait without a sign of life to systemd."""
        watchdog = self._notifier.watchdog_seconds
        return left if watchdog is None else min(left, watchdog / 3)


Prepare = Callable[[], tuple[host_access.HostAccess, values.Configuration]]
Show = Callable[[values.DriftReport | None, Tally], None]


class Agent:
    """Keeps an eye on one host until it is told to stop.

    :param prepare: reads the configuration, in every round.
    :param say: takes a line for the log.
    :param show: takes what monitoring shows.
    """

    def __init__(
        self,
        prepare: Prepare,
        settings: Settings,
        waiter: Waiter,
        notifier: systemd.Notifier,
        say: Callable[[str], None],
        show: Show,
    ) -> None:
        self._prepare = prepare
        self._settings = settings
        self._waiter = waiter
        self._notifier = notifier
        self._say = say
        self._show = show
        self._is_ready = False
        self._report: values.DriftReport | None = None
        self._configuration: values.Configuration | None = None
        self._patience = Backoff()
        self._tally = Tally()
        # What was said of each, so that it is not said again.
        self._findings: tuple[str, ...] = ()
        self._failure: tuple[str, ...] = ()
        self._undone: tuple[str, ...] = ()

    def run(self) -> None:
        """Go round and round, until the waiter is told to stop."""
        try:
            while True:
                self._go_round()
                if self._waiter.wait(self._settings.interval):
                    self._say('reload: reading the configuration and the host')
        except Stopped:
            self._notifier.stopping()
            self._say('stopped')

    def _go_round(self) -> None:
        failure: tuple[str, ...] = ()
        try:
            access, configuration = self._read()
            if self._is_repair_due(access.now()):
                self._repair(access, configuration)
        except exception.NovaVGPUError as error:
            failure = (' '.join(f'failed: {error}'.split()),)
        self._tell(self._failure, failure)
        self._failure = failure
        self._tally = dataclasses.replace(
            self._tally,
            rounds=self._tally.rounds + 1,
            failures=self._tally.failures + len(failure),
            is_failing=bool(failure),
        )
        self._publish(failure)

    def _read(self) -> tuple[host_access.HostAccess, values.Configuration]:
        self._report = None  # what is not known is not shown
        access, configuration = self._prepare()
        seen = drift.report(access, configuration, self.warn)
        self._report = seen
        self._tally = dataclasses.replace(self._tally, last_round=time.time())
        findings = drift.list_findings(seen)
        self._tell(self._findings, findings)
        self._findings = findings
        if configuration != self._configuration or not seen.steps:
            self._patience = Backoff()
        if not seen.steps:
            self._tell(self._undone, ())
            self._undone = ()
        self._configuration = configuration
        return access, configuration

    def _is_repair_due(self, now: float) -> bool:
        return (
            self._settings.enforce
            and self._report is not None
            and bool(self._report.steps)
            and now >= self._patience.not_before
        )

    def _repair(
        self,
        access: host_access.HostAccess,
        configuration: values.Configuration,
    ) -> None:
        # A repair can take minutes; systemd need not wait for the first one.
        self._publish(self._failure)
        _require_idle(access)

        def sleep(seconds: float) -> None:
            self._waiter.require_going_on()
            access.sleep(seconds)

        is_better = False
        try:
            outcome = apply.apply(
                dataclasses.replace(access, sleep=sleep), configuration, self
            )
            undone = tuple(f'failed: {f}' for f in outcome.failures)
            self._tell(self._undone, undone)
            self._undone = undone
            self._read()
            is_better = self._report is not None and not self._report.steps
        finally:
            self._patience = self._patience.after(
                not is_better, access.now(), self._settings.interval
            )

    def _tell(self, before: tuple[str, ...], after: tuple[str, ...]) -> None:
        for line in drift.list_news(before, after):
            self._say(line)

    def _publish(self, failure: tuple[str, ...]) -> None:
        """Tell systemd and monitoring how things are."""
        self._show(self._report, self._tally)
        status = ', '.join(failure)
        if not status and self._report is not None:
            status = drift.summarise(self._report)
        if self._is_ready:
            self._notifier.status(status)
        else:
            self._notifier.ready(status)
            self._is_ready = True

    # -- what step_runner.Reporter asks for ---------------------------------

    def warn(self, text: str) -> None:
        self._say(f'warning: {text}')

    def begin(self, step: values.Step) -> None:
        """Before a step is taken: the last place where none need be.

        The journal has it as begun by now, and the next apply goes on there.
        """
        self._waiter.require_going_on()

    def finish(self, step: values.Step, event: str) -> None:
        counts = dict(self._tally.steps)
        counts[event] = counts.get(event, 0) + 1
        self._tally = dataclasses.replace(
            self._tally, steps=tuple(counts.items())
        )
        if event == 'done':
            self._say(f'done: GPU {step.gpu}: {step}')


def _require_idle(access: host_access.HostAccess) -> None:
    """Refuse to stand in line behind another command.

    :raises BusyError: if one is at work.
    """
    try:
        with locks.hold_apply(access.state.path, 0.0, lambda _text: None):
            pass
    except exception.BusyError as error:
        raise exception.BusyError(
            'Another command is at work on this host. Nothing is repaired '
            'until it ends.'
        ) from error
