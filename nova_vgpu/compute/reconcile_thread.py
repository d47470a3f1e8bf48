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

"""A thread that works when it is woken, and at an interval.

It is made with :mod:`threading` alone, which is a green thread where Nova runs
with eventlet and a native one where it does not.
"""

from collections.abc import Callable
import threading


class ReconcileThread:
    """Calls a function again and again until it is stopped."""

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

    def stop(self, seconds: float) -> None:
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
