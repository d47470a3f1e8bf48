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

"""Modes of NVIDIA's GPUs: read through NVML, set by nvidia-smi.

An unknown value is None: a GPU without ECC, a driver that is too old and a
host without NVML look alike, and nothing is guessed.

Heterogeneous mode allows vGPUs of different sizes on one GPU. It can be
changed only while the GPU has no vGPU, and is lost when the host reboots. ::

    nvidia-smi vgpu -shm 1 -i <GPU>

MIG mode is set in :mod:`nova_vgpu.host.gpu_instance_tool`.
"""

from collections.abc import Sequence
import dataclasses
import typing

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import gpu_instances
from nova_vgpu.host import gpu_processes
from nova_vgpu.host import nvml
from nova_vgpu.host import tools
from nova_vgpu.host import vgpu_slots

# nvml.h: NVML_VGPU_SCHEDULER_POLICY_*
_POLICIES = {
    1: values.SchedulerPolicy.BEST_EFFORT,
    2: values.SchedulerPolicy.EQUAL_SHARE,
    3: values.SchedulerPolicy.FIXED_SHARE,
}
DEFAULT_TOOL = '/usr/bin/nvidia-smi'


def read_modes(host: values.Host) -> values.ModesRead:
    """Read the modes of the GPUs that NVIDIA's driver has."""
    return read_gpus(nvml.list_addresses(host))


def read_gpus(
    addresses: Sequence[values.PciAddress], seconds: float = nvml.SECONDS
) -> values.ModesRead:
    """Read the modes of these GPUs."""
    if not addresses:
        return values.ModesRead()
    try:
        return nvml.use(
            lambda library: values.ModesRead(
                tuple((a, _read_gpu(library, a)) for a in addresses),
                library.ask('nvmlSystemGetDriverVersion', nvml.parse_text),
            ),
            seconds,
        )
    except nvml.UnavailableError as error:
        return values.ModesRead(unknown_because=str(error))


def _read_gpu(
    library: nvml.Library, address: values.PciAddress
) -> values.GPUModes:
    handle = library.find_gpu(address)
    if handle is None:
        return values.GPUModes()
    mig = library.ask('nvmlDeviceGetMigMode', _mode, handle)
    heterogeneous = library.ask(
        'nvmlDeviceGetVgpuHeterogeneousMode', bool, handle
    )
    is_divided = mig is not None and mig.current
    return values.GPUModes(
        ecc=library.ask('nvmlDeviceGetEccMode', _mode, handle),
        mig=mig,
        heterogeneous=heterogeneous,
        scheduler=library.ask(
            'nvmlDeviceGetVgpuSchedulerState',
            lambda state: _POLICIES.get(state.schedulerPolicy),
            handle,
        ),
        mig_types=(
            gpu_instances.read_mig_types(library, handle)
            if is_divided
            else None
        ),
        gpu_instances=(
            gpu_instances.read_gpu_instances(library, handle)
            if is_divided
            else None
        ),
        slots=(
            None
            if heterogeneous is None
            else vgpu_slots.read_slots(library, handle)
        ),
        processes=(
            None
            if mig is None
            else gpu_processes.list_processes(library, handle)
        ),
    )


def _mode(answer: tuple[int, int]) -> values.GPUMode:
    current, pending = answer
    return values.GPUMode(bool(current), bool(pending))


def pack(read: values.ModesRead) -> list[typing.Any]:
    """The modes as lists, texts and numbers, for another process.

    Without the GPU instances one by one, and the processes: only an apply
    needs them.
    """
    return [
        [[str(address), *_pack_gpu(modes)] for address, modes in read.modes],
        read.driver_version,
        read.unknown_because,
    ]


def _pack_gpu(modes: values.GPUModes) -> list[typing.Any]:
    types = modes.mig_types
    return [
        modes.ecc and dataclasses.astuple(modes.ecc),
        modes.mig and dataclasses.astuple(modes.mig),
        modes.heterogeneous,
        modes.scheduler and modes.scheduler.value,
        types and [dataclasses.astuple(of_type) for of_type in types],
        modes.slots
        and [dataclasses.astuple(of_type) for of_type in modes.slots],
    ]


def unpack(packed: Sequence[typing.Any]) -> values.ModesRead:
    """The modes that were packed."""
    gpus, driver_version, unknown_because = packed
    modes = tuple(
        (values.PciAddress.parse(address), _unpack_gpu(*of_gpu))
        for address, *of_gpu in gpus
    )
    return values.ModesRead(modes, driver_version, unknown_because)


def _unpack_gpu(
    ecc: Sequence[bool] | None,
    mig: Sequence[bool] | None,
    heterogeneous: bool | None,
    scheduler: str | None,
    types: Sequence[typing.Any] | None,
    slots: Sequence[typing.Any] | None,
) -> values.GPUModes:
    return values.GPUModes(
        values.GPUMode(*ecc) if ecc else None,
        values.GPUMode(*mig) if mig else None,
        heterogeneous,
        values.SchedulerPolicy(scheduler) if scheduler else None,
        None if types is None else tuple(values.MigType(*t) for t in types),
        None
        if slots is None
        else tuple(
            values.TypeSlots(type_id, name, size, tuple(starts))
            for type_id, name, size, starts in slots
        ),
    )


def set_heterogeneous(
    run: tools.Run,
    path: str,
    gpu: values.PciAddress,
    wanted: bool,
    seconds: float,
) -> None:
    """Allow vGPUs of different sizes on a GPU, or of one size only.

    :raises StepFailed: if it cannot be done.
    """
    argv = [path, 'vgpu', '-shm', '1' if wanted else '0', '-i', str(gpu)]
    try:
        finished = run(argv, seconds)
    except (tools.MissingError, tools.TimedOut) as error:
        raise exception.StepFailed(
            f'{error}.', 'Is the vGPU host driver installed and running?'
        ) from error
    if finished.code:
        raise exception.StepFailed(
            f'nvidia-smi ended with exit code {finished.code} and printed: '
            f'{finished.said}.',
            'Not every GPU and driver supports mixed sizes; without it, all '
            'vGPUs of a GPU must have one size.',
        )
