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

"""The step that creates or removes GPU instances, executed.

What exists, and what has vGPUs or processes, is read again before, and what
became of it after.
"""

from collections.abc import Callable
import contextlib

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import gpu_instance_tool
from nova_vgpu.host import locks
from nova_vgpu.host import virtual_functions
from nova_vgpu.lifecycle import host_access
from nova_vgpu.reconcile import gpu_instance_steps


class GPUInstanceExecutor:
    """Executes these steps on one host.

    :param exclude_claims: a lock under which no server has a vGPU that its
        guest does not show yet.
    """

    def __init__(
        self,
        access: host_access.HostAccess,
        read_gpu: Callable[[str], values.PhysicalGPU],
        exclude_claims: Callable[[], contextlib.AbstractContextManager[None]],
    ) -> None:
        self._access = access
        self._read_gpu = read_gpu
        self._exclude_claims = exclude_claims

    def attempt(self, step: values.SetGPUInstances) -> bool:
        """Execute a step; False if it has to be tried again later.

        :raises StepFailed: if it cannot be done.
        :raises InUseError: if too many instances are in use.
        """
        try:
            if step.after > step.before:
                self._create(step)
            else:
                access = self._access
                with (
                    self._exclude_claims(),
                    locks.hold_creation(access.locks, access.timeout),
                ):
                    self._remove(step)
        except virtual_functions.NotYet:
            return False
        return True

    def _create(self, step: values.SetGPUInstances) -> None:
        existing = self._read(step)[0]
        missing = step.after - len(existing)
        if missing <= 0:
            return
        access = self._access
        gpu_instance_tool.create(
            access.run,
            access.nvidia_smi,
            values.PciAddress.parse(step.gpu),
            step.profile_id,
            missing,
            access.timeout,
        )
        existing = self._read(step)[0]
        complete = [i for i in existing if i.is_complete]
        if len(existing) < step.after or len(complete) < missing:
            raise exception.StepFailed(
                f'nvidia-smi reported success, but {len(complete)} GPU '
                f'instances of {step.profile} are there, with compute '
                'instances.',
                'See the kernel log.',
            )

    def _remove(self, step: values.SetGPUInstances) -> None:
        access = self._access
        while True:
            existing, removable = self._read(step)
            if len(existing) <= step.after:
                return
            idle = [i for i in existing if i.id in removable]
            if not idle:
                raise exception.InUseError(_refuse(step, existing))
            gpu_instance_tool.remove(
                access.run,
                access.nvidia_smi,
                values.PciAddress.parse(step.gpu),
                min(idle, key=lambda i: (i.is_complete, -i.id)),
                access.timeout,
            )
            if len(self._read(step)[0]) >= len(existing):
                raise exception.StepFailed(
                    'nvidia-smi reported success, but the GPU instance is '
                    'still there.',
                    'See the kernel log.',
                )

    def _read(
        self, step: values.SetGPUInstances
    ) -> tuple[tuple[values.GPUInstance, ...], frozenset[int]]:
        """The instances of the profile, and the ids of those not in use."""
        gpu = self._read_gpu(step.gpu)
        modes = self._access.read_modes(values.Host((gpu,))).of(gpu.address)
        if not step.after and modes.mig and not modes.mig.current:
            return (), frozenset()  # none without MIG mode
        if modes.gpu_instances is None:
            raise exception.StepFailed(
                'NVML does not tell which GPU instances exist.',
                'Is MIG mode on, and does "nvidia-smi mig -lgi" list them?',
            )
        return (
            modes.gpu_instances.list_of(step.profile_id),
            gpu_instance_steps.list_removable(gpu, modes),
        )


def _refuse(
    step: values.SetGPUInstances, existing: tuple[values.GPUInstance, ...]
) -> values.Refusal:
    return values.Refusal(
        step.gpu,
        f'GPU {step.gpu}: {len(existing)} GPU instances of {step.profile} are '
        f'there, and {step.after} are to be left; the others are in use, or '
        'that is not known.',
        'Remove their vGPUs, and end their processes (nvidia-smi), then run '
        'it again.',
    )
