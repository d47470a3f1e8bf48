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

"""vGPUs that were chosen for a guest which is not defined yet.

Nova finds out which vGPUs are taken by looking at the guests that libvirt
knows. Between the choice of a vGPU and the definition of its guest, nothing
there tells that it is taken; a claim does, and ends with the operation that
made it, whether that succeeded or not.
"""

import builtins
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
import contextlib
import threading

Hold = Callable[[], contextlib.AbstractContextManager[None]]


class Claims:
    """The claims of one host, by all threads."""

    def __init__(self, hold: Hold = contextlib.nullcontext) -> None:
        #: What keeps other processes from taking away what is claimed.
        self._hold = hold
        self._lock = threading.Lock()
        self._claimed: set[str] = set()
        self._own = threading.local()

    @contextlib.contextmanager
    def during_operation(self) -> Iterator[builtins.list[str]]:
        """Hold what this thread claims until the block ends.

        A block within another one (a hard reboot within a resume) is part of
        that. It costs nothing if nothing is claimed.

        :returns: a list that has the names of the claims that ended with the
            block, after it.
        """
        ended: builtins.list[str] = []
        if getattr(self._own, 'claimed', None) is not None:
            yield ended
            return
        with contextlib.ExitStack() as held:
            self._own.held, self._own.is_held = held, False
            yield from self._claim(ended)

    def _claim(
        self, ended: builtins.list[str]
    ) -> Iterator[builtins.list[str]]:
        self._own.claimed = []
        try:
            yield ended
        finally:
            claimed, self._own.claimed = self._own.claimed, None
            with self._lock:
                self._claimed.difference_update(claimed)
            ended.extend(claimed)

    def hold(self) -> None:
        """Keep other processes from vGPUs until the operation ends.

        Before anything is chosen: they must not take it away meanwhile.

        :raises RuntimeError: outside of an operation.
        """
        self._list_own()
        if not self._own.is_held:
            self._own.held.enter_context(self._hold())
            self._own.is_held = True

    def add(self, names: Iterable[str]) -> None:
        """Claim vGPUs for the operation that this thread is in.

        :raises RuntimeError: outside of one, where a claim would never end.
        """
        own, names = self._list_own(), [*names]
        if names:
            self.hold()
        own.extend(names)
        with self._lock:
            self._claimed.update(names)

    def _list_own(self) -> builtins.list[str]:
        own: builtins.list[str] | None = getattr(self._own, 'claimed', None)
        if own is None:
            raise RuntimeError('a vGPU is claimed outside of an operation')
        return own

    def list(self) -> frozenset[str]:
        with self._lock:
            return frozenset(self._claimed)
