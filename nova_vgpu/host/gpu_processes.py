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

"""The processes of the host that use a GPU, as NVML tells.

NVIDIA's driver does not release a GPU that a process has open: unbinding it
waits until the process ends. NVML knows the processes with a context on a GPU,
not those that only have its device file open.
"""

from collections.abc import Iterable
import typing

from nova_vgpu import values
from nova_vgpu.host import nvml

_COMPUTE = 'nvmlDeviceGetComputeRunningProcesses'
#: The functions of NVML that list processes, and those that every GPU has.
FUNCTIONS = (_COMPUTE, 'nvmlDeviceGetGraphicsRunningProcesses')
REQUIRED = frozenset({_COMPUTE})


def read_processes(
    host: values.Host,
) -> dict[values.PciAddress, tuple[int, ...]]:
    """The ids of the processes by GPU; none of a GPU that NVML cannot see."""
    addresses = nvml.list_addresses(host)
    if not addresses:
        return {}
    try:
        return nvml.use(
            lambda library: {a: _read_gpu(library, a) for a in addresses}
        )
    except nvml.UnavailableError:
        return {}


def _read_gpu(
    library: nvml.Library, address: values.PciAddress
) -> tuple[int, ...]:
    handle = library.find_gpu(address)
    if handle is None:
        return ()
    answers = [library.ask(of, _list_ids, handle) or [] for of in FUNCTIONS]
    return tuple(sorted({pid for answer in answers for pid in answer}))


def list_processes(
    library: nvml.Library, handle: typing.Any
) -> tuple[int, ...] | None:
    """The ids of all processes of a GPU; None if NVML does not tell them."""
    found: set[int] = set()
    for function in FUNCTIONS:
        answer = library.ask(function, _list_ids, handle)
        if answer is None and function in REQUIRED:
            return None
        found.update(answer or ())
    return tuple(sorted(found))


def _list_ids(processes: Iterable[typing.Any]) -> list[int]:
    return [process.pid for process in processes]
