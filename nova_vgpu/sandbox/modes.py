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

"""What NVML tells of simulated GPUs, as values.

It follows from the same state as :mod:`nova_vgpu.sandbox.nvml_state`, without
a library.
"""

from nova_vgpu import values
from nova_vgpu.sandbox import host
from nova_vgpu.sandbox import kernel
from nova_vgpu.sandbox import mig

_PREFIX = 'MIG '


def read_modes(its_kernel: kernel.Kernel) -> values.ModesRead:
    """The modes of the GPUs that NVIDIA's driver has."""
    return values.ModesRead(
        tuple(
            (gpu.address, _make_modes(its_kernel, gpu))
            for gpu in its_kernel.get_gpus()
            if gpu.bound_driver == 'nvidia'
        )
    )


def list_active(
    its_kernel: kernel.Kernel, gpu: host.GPU
) -> tuple[host.Created, ...]:
    """The vGPUs of guests that run: NVML shows no others."""
    return tuple(
        created
        for created in gpu.pinned()
        if its_kernel.in_use(gpu.name_of(created))
    )


def list_processes(gpu: host.GPU) -> tuple[int, ...]:
    """The ids of the processes that use the GPU, or an instance of it."""
    of_instances = (1000 + i.id for i in gpu.gpu_instances if i.has_process)
    return (*((1000,) if gpu.has_process else ()), *sorted(of_instances))


def _make_modes(its_kernel: kernel.Kernel, gpu: host.GPU) -> values.GPUModes:
    mode = None
    if gpu.profiles:
        pending = gpu.mig_mode if gpu.mig_pending is None else gpu.mig_pending
        mode = values.GPUMode(gpu.mig_mode, pending)
    processes = None if mode is None else list_processes(gpu)
    if not gpu.mig_mode:
        heterogeneous = gpu.mixed if gpu.board.total_vfs else None
        return values.GPUModes(
            mig=mode, heterogeneous=heterogeneous, processes=processes
        )
    active = [c.gpu_instance for c in list_active(its_kernel, gpu)]
    return values.GPUModes(
        mig=mode,
        processes=processes,
        mig_types=tuple(_list_types(gpu)),
        gpu_instances=values.GPUInstances(
            tuple(_make_profile(profile) for profile in _sort(gpu)),
            tuple(
                values.GPUInstance(
                    instance.id,
                    profile.id,
                    instance.has_process or instance.id in active,
                    active.count(instance.id),
                    instance.is_complete,
                )
                for profile in _sort(gpu)
                for instance in gpu.gpu_instances
                if instance.profile == profile
            ),
        ),
    )


def _list_types(gpu: host.GPU) -> list[values.MigType]:
    found = []
    for board_type in gpu.board.types:
        profile = mig.find_profile(gpu.profiles, board_type)
        if profile is None:
            continue
        count = sum(
            instance.profile == profile and instance.is_complete
            for instance in gpu.gpu_instances
        )
        each = mig.count_each(profile, board_type)
        name = profile.name.removeprefix(_PREFIX)
        found.append(
            values.MigType(
                *(board_type.id, board_type.name, profile.id),
                *(name, count, each),
            )
        )
    return found


def _make_profile(profile: mig.Profile) -> values.GPUInstanceProfile:
    return values.GPUInstanceProfile(
        profile.id,
        profile.name.removeprefix(_PREFIX),
        profile.slices,
        profile.memory_mib,
        profile.maximum,
    )


def _sort(gpu: host.GPU) -> list[mig.Profile]:
    """In the order in which NVML numbers profiles."""
    return sorted(gpu.profiles, key=lambda profile: profile.number)
