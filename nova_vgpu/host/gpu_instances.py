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
from nova_vgpu.host import gpu_processes
from nova_vgpu.host import nvml

# nvml.h: NVML_GPU_INSTANCE_PROFILE_*, as of release 13. A GPU that does not
# have a profile answers with an error.
_PROFILES = range(0x12)
# nvml.h: INVALID_GPU_INSTANCE_PROFILE_ID
_TIME_SLICED = 0xFFFFFFFF
# A process that is on none, or not said to be on one.
_NO_INSTANCE = 0xFFFFFFFF
# The ids of NVML_COMPUTE_INSTANCE_PROFILE_*, and how many there can be of one.
_COMPUTE_PROFILES = range(8)
_MOST_COMPUTE = 8
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


def read_gpu_instances(
    library: nvml.Library, handle: typing.Any
) -> values.GPUInstances | None:
    """All GPU instances of a GPU in MIG mode, whatever they are for.

    None if NVML does not tell all of them.
    """
    profiles: list[values.GPUInstanceProfile] = []
    instances: list[values.GPUInstance] = []
    use = _read_use(library, handle)
    for number in _PROFILES:
        profile = library.ask(
            'nvmlDeviceGetGpuInstanceProfileInfo',
            _make_profile,
            handle,
            number,
        )
        if profile is None:
            continue
        profiles.append(profile)
        there = _list_instances(library, handle, profile.id, profile.most)
        if there is None:
            return None
        for instance in there:
            found = library.ask(
                'nvmlGpuInstanceGetInfo', lambda info: int(info.id), instance
            )
            if found is None:
                return None
            instances.append(
                values.GPUInstance(
                    found,
                    profile.id,
                    None if use is None else found in {*use[0], *use[1]},
                    0 if use is None else use[0].count(found),
                    _is_complete(library, instance),
                )
            )
    return values.GPUInstances(tuple(profiles), tuple(instances))


def _make_profile(info: typing.Any) -> values.GPUInstanceProfile:
    return values.GPUInstanceProfile(
        info.id,
        nvml.parse_text(info.name).removeprefix(_PREFIX),
        info.sliceCount,
        info.memorySizeMB,
        info.instanceCount,
    )


def _read_use(
    library: nvml.Library, handle: typing.Any
) -> tuple[list[int], list[int]] | None:
    """The GPU instances of running vGPUs, and those of processes.

    None if that of any is unknown.
    """
    vgpus = library.ask('nvmlDeviceGetActiveVgpus', list, handle)
    if vgpus is None:
        return None
    of_vgpus = [
        library.ask('nvmlVgpuInstanceGetGpuInstanceId', int, vgpu)
        for vgpu in vgpus
    ]
    of_processes: list[int | None] = []
    for function in gpu_processes.FUNCTIONS:
        found = library.ask(
            function, lambda its: [p.gpuInstanceId for p in its], handle
        )
        if found is not None:
            of_processes += found
        elif function in gpu_processes.REQUIRED:
            return None
    if not all(map(_is_known, (*of_vgpus, *of_processes))):
        return None
    return [*filter(_is_known, of_vgpus)], [*filter(_is_known, of_processes)]


def _is_known(instance: int | None) -> typing.TypeGuard[int]:
    return instance is not None and instance != _NO_INSTANCE


def _is_complete(library: nvml.Library, instance: typing.Any) -> bool:
    """Whether an instance has a compute instance.

    So it is taken to be if NVML tells of none of their profiles.
    """
    counts = [
        _count_compute_instances(library, instance, number)
        for number in _COMPUTE_PROFILES
    ]
    known = [count for count in counts if count is not None]
    return not known or any(known)


def _count_compute_instances(
    library: nvml.Library, instance: typing.Any, profile: int
) -> int | None:
    count = ctypes.c_uint()
    return library.ask(
        'nvmlGpuInstanceGetComputeInstances',
        lambda _: count.value,
        instance,
        profile,
        (ctypes.c_void_p * _MOST_COMPUTE)(),
        ctypes.byref(count),
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
        there = _list_instances(library, handle, profile, most)
        if there is not None:
            text = nvml.parse_text(name).removeprefix(_PREFIX)
            count = sum(_is_complete(library, each) for each in there)
            yield profile, (text, count)


def _list_instances(
    library: nvml.Library, handle: typing.Any, profile: int, most: int
) -> list[ctypes.c_void_p] | None:
    """The handles of the instances of a profile."""
    count = ctypes.c_uint()
    room = (ctypes.c_void_p * max(most, 1))()
    return library.ask(
        'nvmlDeviceGetGpuInstances',
        lambda _: [ctypes.c_void_p(found) for found in room[: count.value]],
        handle,
        profile,
        room,
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
