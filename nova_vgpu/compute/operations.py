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

"""Operations on servers: what they allocate stays theirs until they end."""

from collections.abc import Iterator
import contextlib

from nova import exception as nova_exception
from oslo_log import log as logging

from nova_vgpu import exception
from nova_vgpu.compute import locking
from nova_vgpu.compute import nova_types
from nova_vgpu.compute import reconciler as vgpu_reconciler
from nova_vgpu.compute import usage as vgpu_usage
from nova_vgpu.compute import vgpu_devices

LOG = logging.getLogger(__name__)


class Operations:
    """What Nova does with a server, from the beginning to its end."""

    def __init__(
        self,
        usage: vgpu_usage.Usage,
        reconciler: vgpu_reconciler.Reconciler,
    ) -> None:
        self._usage = usage
        self._reconciler = reconciler

    @contextlib.contextmanager
    def run(self) -> Iterator[None]:
        """Keep what is allocated until its guest is defined; else release it.

        :raises ComputeResourcesUnavailable: in place of an error of this
            project, which Nova does not know: a server's fault would have the
            name of its class for a text.
        """
        done, ended = False, list[str]()
        try:
            with self._usage.pending.during_operation() as ended, _as_novas():
                yield
            done = True
        finally:
            if ended and not done:
                self._reconciler.release(set(ended))
            elif ended:
                self._usage.attached.add(ended)

    @contextlib.contextmanager
    def releasing(self, instance: nova_types.Instance) -> Iterator[None]:
        """Release what a server has when its guest is undefined."""
        had: set[str] = set()
        with self._reconciler.logging_failures():
            had.update(
                vgpu.name for vgpu in self._usage.list_attached(instance.uuid)
            )
        yield
        self._usage.attached.remove(had)
        functions = set(filter(vgpu_devices.is_function, had))
        # One that migrated while it ran left no guest behind.
        functions |= self._usage.functions.list_of(instance.uuid)
        if functions:
            self._reconciler.release(functions)

    def reserve_own(self, instance: nova_types.Instance) -> list[str]:
        """Keep what a server has, before its guest stops showing it.

        A server that has no vGPU waits for no lock.
        """
        if not self._usage.list_of(instance.uuid):
            return []
        self._usage.pending.hold()
        with locking.hold_allocation():
            own = self._usage.list_of(instance.uuid)
            self._usage.pending.add(own)
        return own


@contextlib.contextmanager
def _as_novas() -> Iterator[None]:
    try:
        yield
    except (
        exception.BusyError,
        exception.HostUnreadable,
        exception.StateUnusable,
    ) as error:
        raise unavailable(str(error)) from error


def unavailable(reason: str) -> nova_exception.ComputeResourcesUnavailable:
    # Nova 33 says that a guest does not resume with its host, but not why.
    LOG.error(reason)
    return nova_exception.ComputeResourcesUnavailable(reason=reason)
