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

NVML comes with the driver, its binding with the package nvidia-ml-py; a host
may lack either. An unknown value is None: a GPU without ECC, a driver that is
too old and a host without NVML look alike, and nothing is guessed.

Heterogeneous mode allows vGPUs of different sizes on one GPU. It can be
changed only while the GPU has no vGPU, and is lost when the host reboots. ::

    nvidia-smi vgpu -shm 1 -i <GPU>
"""

from collections.abc import Callable
import types
import typing

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import tools

_Answer = typing.TypeVar('_Answer')

#: NVIDIA's driver for the GPUs that NVML knows.
DRIVER = 'nvidia'

# nvml.h: NVML_VGPU_SCHEDULER_POLICY_*
_POLICIES = {
    1: values.SchedulerPolicy.BEST_EFFORT,
    2: values.SchedulerPolicy.EQUAL_SHARE,
    3: values.SchedulerPolicy.FIXED_SHARE,
}
DEFAULT_TOOL = '/usr/bin/nvidia-smi'


def read_modes(host: values.Host) -> values.ModesRead:
    """Read the modes of the GPUs that NVIDIA's driver has."""
    addresses = [
        gpu.address
        for gpu in host.gpus
        if gpu.address is not None and gpu.driver == DRIVER
    ]
    if not addresses:
        return values.ModesRead()
    try:
        import pynvml
    except ImportError:
        return values.ModesRead(
            unknown_because='the Python package nvidia-ml-py is not installed'
        )
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return values.ModesRead(unknown_because=f'NVML failed: {error}')
    library = _Library(pynvml)
    try:
        return values.ModesRead(
            tuple((a, library.read_gpu(a)) for a in addresses),
            library.read_driver_version(),
        )
    finally:
        library.ask('nvmlShutdown', lambda _: None)


class _Library:
    """NVML, where every call may fail."""

    def __init__(self, pynvml: types.ModuleType) -> None:
        self._pynvml = pynvml

    def ask(
        self,
        function: str,
        read: Callable[[typing.Any], _Answer],
        *arguments: typing.Any,
    ) -> _Answer | None:
        """The result of a function; None if it fails or does not exist."""
        asked = getattr(self._pynvml, function, None)
        if asked is None:
            return None  # an older binding
        try:
            answer = asked(*arguments)
        except self._pynvml.NVMLError:
            return None
        return read(answer)

    def read_driver_version(self) -> str | None:
        return self.ask('nvmlSystemGetDriverVersion', _text)

    def read_gpu(self, address: values.PciAddress) -> values.GPUModes:
        handle = self.ask(
            'nvmlDeviceGetHandleByPciBusId', lambda found: found, str(address)
        )
        if handle is None:
            return values.GPUModes()
        return values.GPUModes(
            ecc=self.ask('nvmlDeviceGetEccMode', _mode, handle),
            mig=self.ask('nvmlDeviceGetMigMode', _mode, handle),
            heterogeneous=self.ask(
                'nvmlDeviceGetVgpuHeterogeneousMode', bool, handle
            ),
            scheduler=self.ask(
                'nvmlDeviceGetVgpuSchedulerState',
                lambda state: _POLICIES.get(state.schedulerPolicy),
                handle,
            ),
        )


def _mode(answer: tuple[int, int]) -> values.GPUMode:
    current, pending = answer
    return values.GPUMode(bool(current), bool(pending))


def _text(answer: str | bytes) -> str:
    # Older bindings return bytes.
    if isinstance(answer, bytes):
        return answer.decode('utf-8', 'replace')
    return answer


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
