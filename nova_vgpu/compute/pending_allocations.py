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

"""vGPUs that were allocated to a guest which is not defined yet.

Nova finds out which vGPUs are in use by reading the guests that libvirt knows.
Between the allocation of a vGPU and the definition of its guest, nothing there
tells that it is in use. Until then it is pending here, which ends with the
operation that allocated it, whether that succeeded or not.
"""

import builtins
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
import contextlib
import threading

Hold = Callable[[], contextlib.AbstractContextManager[None]]


class PendingAllocations:
    """The pending allocations of one host, by all threads."""

    def __init__(self, hold: Hold = contextlib.nullcontext) -> None:
        #: What keeps other processes from removing what is pending.
        self._hold = hold
        self._lock = threading.Lock()
        self._pending: set[str] = set()
        self._own = threading.local()

    @contextlib.contextmanager
    def during_operation(self) -> Iterator[builtins.list[str]]:
        """Keep what this thread allocates until the block ends.

        A block within another one (a hard reboot within a resume) is part of
        that. It costs nothing if nothing is allocated.

        :returns: a list that has, after the block, the names of what was
            pending until its end.
        """
        ended: builtins.list[str] = []
        if getattr(self._own, 'pending', None) is not None:
            yield ended
            return
        with contextlib.ExitStack() as held:
            self._own.held, self._own.is_held = held, False
            yield from self._collect(ended)

    def _collect(
        self, ended: builtins.list[str]
    ) -> Iterator[builtins.list[str]]:
        self._own.pending = []
        try:
            yield ended
        finally:
            pending, self._own.pending = self._own.pending, None
            with self._lock:
                self._pending.difference_update(pending)
            ended.extend(pending)

    def hold(self) -> None:
        """Keep other processes from vGPUs until the operation ends.

        Before anything is chosen: they must not remove it meanwhile.

        :raises RuntimeError: outside of an operation.
        """
        self._list_own()
        if not self._own.is_held:
            self._own.held.enter_context(self._hold())
            self._own.is_held = True

    def add(self, names: Iterable[str]) -> None:
        """Keep vGPUs for the operation that this thread is in.

        :raises RuntimeError: outside of one: they would never be released.
        """
        own, names = self._list_own(), [*names]
        if names:
            self.hold()
        own.extend(names)
        with self._lock:
            self._pending.update(names)

    def _list_own(self) -> builtins.list[str]:
        own: builtins.list[str] | None = getattr(self._own, 'pending', None)
        if own is None:
            raise RuntimeError('a vGPU is allocated outside of an operation')
        return own

    def list(self) -> frozenset[str]:
        with self._lock:
            return frozenset(self._pending)
