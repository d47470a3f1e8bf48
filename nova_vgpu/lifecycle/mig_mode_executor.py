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


"""The step that turns MIG mode on or off, executed.

It resets the GPU, so whether anything uses the GPU is read again before, under
the lock with which VFs are disabled. The mode is read again after it: if
something has the GPU open, the mode is only pending.
"""

import collections
from collections.abc import Callable
import contextlib

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import gpu_instance_tool
from nova_vgpu.host import virtual_functions
from nova_vgpu.lifecycle import host_access
from nova_vgpu.plan import type_matching
from nova_vgpu.reconcile import mig_mode_steps

# What looks at the GPU for a moment, as monitoring does, is gone by then.
_MOST_TRIES = 5


class MigModeExecutor:
    """Executes these steps on one host.

    :param exclude_claims: a lock under which no server has a vGPU that its
        guest does not show yet.
    :param lock: what the program keeps until it ends.
    """

    def __init__(
        self,
        access: host_access.HostAccess,
        read_host: Callable[[], values.Host],
        read_usage: Callable[[], values.Usage],
        exclude_claims: Callable[[], contextlib.AbstractContextManager[None]],
        lock: int,
    ) -> None:
        self._access = access
        self._read_host = read_host
        self._read_usage = read_usage
        self._exclude_claims = exclude_claims
        self._lock = lock
        # How often the mode was pending after it was set.
        self._tries: collections.Counter[str] = collections.Counter()

    def attempt(self, step: values.SetMigMode, is_undoing: bool) -> bool:
        """Execute a step; False if it has to be tried again later.

        :raises StepFailed: if it cannot be done.
        :raises InUseError: if something uses the GPU.
        """
        with self._exclude_claims():
            host = self._read_host()
            gpu = _find(host, step.gpu)
            modes = self._read_modes(gpu)
            if modes.mig == values.GPUMode(step.after, step.after):
                return True
            self._require_unused(step, host, modes, is_undoing)
            access = self._access
            is_busy = False
            try:
                gpu_instance_tool.switch_mode(
                    access.run,
                    access.nvidia_smi,
                    values.PciAddress.parse(step.gpu),
                    step.after,
                    access.timeout,
                    (self._lock,),
                )
            except virtual_functions.NotYet:
                is_busy = True
            return self._is_set(step, self._read_modes(gpu), is_busy)

    def _require_unused(
        self,
        step: values.SetMigMode,
        host: values.Host,
        modes: values.GPUModes,
        is_undoing: bool,
    ) -> None:
        gpu = _find(host, step.gpu)
        use = mig_mode_steps.GPUUse(
            gpu,
            modes,
            self._read_usage(),
            step.after,
            type_matching.list_type_names(host),
            is_undoing=is_undoing,
        )
        refusal = mig_mode_steps.find_use(use)
        if refusal is not None:
            raise exception.InUseError(refusal)
        if gpu.vfs:
            raise exception.PlanOutdated(
                f'{len(gpu.vfs)} VFs are enabled.', 'Run it again.'
            )

    def _is_set(
        self, step: values.SetMigMode, modes: values.GPUModes, is_busy: bool
    ) -> bool:
        """Whether the mode is set, and not to be set again."""
        mode, word = modes.mig, 'on' if step.after else 'off'
        if mode is not None and mode.current is step.after:
            return True
        if mode is not None and mode.pending is step.after:
            self._tries[step.gpu] += 1
            if self._tries[step.gpu] < _MOST_TRIES:
                return False
            raise exception.StepFailed(
                f'MIG mode will be {word} only after a reset of the GPU: it '
                'is pending.',
                'Stop what has the GPU open, such as monitoring (DCGM, '
                'nvidia-persistenced), and run it again. Or reboot the host.',
            )
        if is_busy:
            return False
        raise exception.StepFailed(
            f'nvidia-smi reported success, but MIG mode is not {word}.',
            'See the kernel log.',
        )

    def _read_modes(self, gpu: values.PhysicalGPU) -> values.GPUModes:
        """The modes of a GPU, of which that of MIG is known.

        :raises StepFailed: if it is not.
        """
        read = self._access.read_modes(values.Host((gpu,)))
        modes = read.of(gpu.address)
        if modes.mig is None:
            why = f': {read.unknown_because}' if read.unknown_because else ''
            raise exception.StepFailed(
                f'NVML does not tell the MIG mode of the GPU{why}.',
                'Is nvidia-ml-py installed, and does "nvidia-smi" show the '
                'GPU?',
            )
        return modes


def _find(host: values.Host, name: str) -> values.PhysicalGPU:
    for gpu in host.gpus:
        if str(gpu) == name:
            return gpu
    raise exception.StepFailed(
        f'GPU {name} is not there any more.', 'See the kernel log.'
    )
