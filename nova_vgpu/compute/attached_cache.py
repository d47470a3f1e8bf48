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

"""A cache of the vGPUs and functions that guests have.

To be sure that a vGPU is not in use, all guests of the host have to be read.
Most often it is enough to assume that it is: then another one is given away.
To be wrong about that costs nothing but a vGPU that is left idle until its GPU
is full, which is when all guests are read. What is not in here may be in use
as well; it is never given away without reading the guests.
"""

from collections.abc import Iterable
import threading


class AttachedCache:
    """Names of vGPUs and of functions, for all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: frozenset[str] | None = None

    def list(self) -> frozenset[str] | None:
        """None if the guests were not read yet."""
        return self._names

    def replace(self, names: Iterable[str]) -> None:
        """All guests were read."""
        with self._lock:
            self._names = frozenset(names)

    def add(self, names: Iterable[str]) -> None:
        with self._lock:
            if self._names is not None:
                self._names |= frozenset(names)

    def remove(self, names: Iterable[str]) -> None:
        with self._lock:
            if self._names is not None:
                self._names -= frozenset(names)
