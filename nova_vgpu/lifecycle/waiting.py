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

"""What ends the agent's wait: time, an event of udev, or a signal.

A signal is the word to stop, or the word to look again at once. Its handler
does no more than set a flag and write to a pipe. The pipe is among what is
waited for, so that the word is not missed just before the wait begins.
"""

import contextlib
import os
import select
import time
import types
import typing

from nova_vgpu.host import systemd

#: Devices come in crowds: one round is enough for all of a second.
_CROWD_SECONDS = 1.0
_MOST_BYTES = 4096


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
