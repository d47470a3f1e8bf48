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

"""What NVML tells of the GPUs of this host, for plans of nova-compute.

GPU instances limit the types that are backed by MIG, and only NVML shows them.
It can be slow or hang, so it is asked before the first plan and then in the
thread that reconciles: a plan takes what is known. It is asked again when the
driver shows other GPU instances in /proc or the GPUs offer other types, and
from time to time, because not every driver may show all of that. If it fails,
what was known stays. ::

    /proc/driver/nvidia/capabilities/gpu<minor>/mig/gi<instance>
"""

from collections.abc import Callable
from collections.abc import Sequence
import time

from nova_vgpu import values
from nova_vgpu.compute import log
from nova_vgpu.host import files
from nova_vgpu.host import gpu_instances
from nova_vgpu.host import nvml

FAILED = 'Could not read GPU instances by NVML'
_INTERVAL_SECONDS = 600.0

ReadModes = Callable[[Sequence[values.PciAddress]], values.ModesRead]


class KnownModes:
    """The modes of the GPUs, as they were read last.

    :param read: raises OSError if it cannot be called.
    """

    #: /proc of the host.
    proc = files.Files('/proc')
    #: The time in seconds.
    now = staticmethod(time.monotonic)

    def __init__(self, read: ReadModes, failures: log.FailureLog) -> None:
        self._read = read
        self._failures = failures
        #: The same object as long as nothing has changed.
        self.latest = values.ModesRead()
        self._marks: object = None
        self._due = -1.0

    def refresh(self, host: values.Host) -> None:
        """Ask NVML if that may give something else."""
        addresses = nvml.list_addresses(host)
        if not addresses:
            return
        # First: what changes in the meantime is seen next time.
        marks = (
            gpu_instances.read_marks(self.proc),
            [(gpu.name, _list_free(gpu)) for gpu in host.gpus],
        )
        now = self.now()
        if marks == self._marks and now < self._due:
            return
        try:
            found = self._read(addresses)
        except OSError as error:
            self._failures.say(FAILED, error)
            return
        if found.unknown_because is not None:
            self._failures.say(FAILED, found.unknown_because)
            return
        self._failures.forget(FAILED)
        self._marks, self._due = marks, now + _INTERVAL_SECONDS
        if found != self.latest:
            self.latest = found


def _list_free(gpu: values.PhysicalGPU) -> frozenset[str]:
    """The types of which a GPU takes one more vGPU."""
    return frozenset(o.type.id for o in gpu.all_offers if o.available)
