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

"""Virtual functions that servers of this driver have, or had until just now.

A server that leaves the host leaves a type on its function. On a GPU of the
plan every type that no guest has is cleared. On any other GPU it may have been
set by hand, so there only those are cleared that are known from here. After a
restart of nova-compute they are learned from the guests.
"""

from collections.abc import Iterable
import threading

from nova_vgpu import values


class Given:
    """Functions by name, with the servers that have them, for all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._servers: dict[str, str] = {}

    def add(self, guest: values.Guest) -> None:
        """Take note of what a guest has."""
        with self._lock:
            self._servers.update(_list_given(guest))

    def list_of(self, server: str) -> frozenset[str]:
        """What a server has, or had when its guest was last seen."""
        with self._lock:
            return frozenset(
                name
                for name, owner in self._servers.items()
                if owner == server
            )

    def list_left(
        self, guests: Iterable[values.Guest], plan: values.Plan
    ) -> frozenset[str]:
        """Those that no guest has any more and whose type is still set.

        What lost its type meanwhile, or is in use by another guest, is
        forgotten.

        :param guests: all guests of the host.
        """
        now, in_use = dict[str, str](), set[str]()
        for guest in guests:
            now.update(_list_given(guest))
            in_use.update(f.node_device_name for f in guest.functions)
        with_type = {
            vf.name for gpu in plan.gpus for vf in gpu.vfs if vf.vgpus
        }
        with self._lock:
            left = {
                name: owner
                for name, owner in self._servers.items()
                if name in with_type and name not in in_use
            }
            self._servers = left | now
        return frozenset(left)


def _list_given(guest: values.Guest) -> dict[str, str]:
    """The functions of a guest that it has as vGPUs."""
    return {
        vgpu.name: guest.uuid
        for vgpu in guest.vgpus
        if vgpu.name not in guest.mdevs
    }
