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

"""The GPU instances of NVIDIA's GPUs in MIG mode, read through NVML.

A type that is backed by MIG has one profile, and needs a GPU instance of it,
which several vGPUs share on some GPUs. NVML counts instances for root only.
The numbers of types are those of sysfs.
"""

from collections.abc import Iterator
import contextlib
import ctypes
import typing

from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import nvml

# nvml.h: NVML_GPU_INSTANCE_PROFILE_*, as of release 13. A GPU that does not
# have a profile answers with an error.
_PROFILES = range(0x12)
# nvml.h: INVALID_GPU_INSTANCE_PROFILE_ID
_TIME_SLICED = 0xFFFFFFFF
_PREFIX = 'MIG '
# Documentation of the driver, "MIG device nodes": gpu0/mig/gi1/access.
_CAPABILITIES = ('driver', 'nvidia', 'capabilities')


def read_mig_types(
    library: nvml.Library, handle: typing.Any
) -> tuple[values.MigType, ...] | None:
    """The types of a GPU in MIG mode; None if NVML does not tell them."""
    numbers = library.ask('nvmlDeviceGetSupportedVgpus', list, handle)
    if numbers is None:
        return None
    profiles = dict(_list_profiles(library, handle))
    return tuple(
        found
        for number in numbers
        if (found := _read_type(library, number, profiles)) is not None
    )


def read_marks(proc: files.Files) -> frozenset[tuple[str, str, object]]:
    """What differs once the driver shows other GPU instances in /proc.

    Empty if it shows none, or is not there.
    """
    try:
        gpus = proc.list(*_CAPABILITIES)
    except files.Unreadable:
        return frozenset()
    found: set[tuple[str, str, object]] = set()
    for gpu in gpus:
        with contextlib.suppress(files.Unreadable):  # a GPU without MIG
            marks = proc.list_marked(*_CAPABILITIES, gpu, 'mig')
            found.update((gpu, name, mark) for name, mark in marks.items())
    return frozenset(found)


def _list_profiles(
    library: nvml.Library, handle: typing.Any
) -> Iterator[tuple[int, tuple[str, int]]]:
    """Id, name and instances of the profiles whose instances NVML counts."""
    for number in _PROFILES:
        info = library.ask(
            'nvmlDeviceGetGpuInstanceProfileInfo',
            lambda found: (found.id, found.name, found.instanceCount),
            handle,
            number,
        )
        if info is None:
            continue
        profile, name, most = info
        count = _count(library, handle, profile, most)
        if count is not None:
            text = nvml.parse_text(name).removeprefix(_PREFIX)
            yield profile, (text, count)


def _count(
    library: nvml.Library, handle: typing.Any, profile: int, most: int
) -> int | None:
    """How many instances of a profile there are."""
    count = ctypes.c_uint()
    return library.ask(
        'nvmlDeviceGetGpuInstances',
        lambda _: count.value,
        handle,
        profile,
        (ctypes.c_void_p * max(most, 1))(),
        ctypes.byref(count),
    )


def _read_type(
    library: nvml.Library, number: int, profiles: dict[int, tuple[str, int]]
) -> values.MigType | None:
    """One type; None if it is time-sliced, or its instances are unknown."""
    profile = library.ask('nvmlVgpuTypeGetGpuInstanceProfileId', int, number)
    if profile is None or profile == _TIME_SLICED or profile not in profiles:
        return None
    name, instances = profiles[profile]
    return values.MigType(
        f'nvidia-{number}',
        library.ask('nvmlVgpuTypeGetName', nvml.parse_text, number),
        profile,
        name,
        instances,
        library.ask('nvmlVgpuTypeGetMaxInstancesPerGpuInstance', int, number),
    )
