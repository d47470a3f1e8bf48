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

"""Findings about the vGPU scheduler of NVIDIA's GPUs.

NVML shows the current policy. Without it the driver's parameters show the
policy at load time, which ``nvidia-smi`` may have changed since.
"""

from collections.abc import Iterator

from nova_vgpu import values
from nova_vgpu.knowledge import vgpu_scheduler

_NVIDIA_DRIVER = 'nvidia'


def find(examined: values.DoctorInput) -> Iterator[values.Finding]:
    gpus = [
        gpu
        for gpu in examined.host.gpus
        if gpu.driver == _NVIDIA_DRIVER and gpu.framework is not None
    ]
    if gpus:
        yield from _find_policies(examined, gpus)
        yield from _find_not_loaded(examined)


def _find_policies(
    examined: values.DoctorInput, gpus: list[values.PhysicalGPU]
) -> Iterator[values.Finding]:
    """One note for all GPUs with the same policy."""
    alike: dict[tuple[str, values.Evidence], list[str]] = {}
    for gpu in gpus:
        told = _tell(examined, gpu)
        if told is not None:
            alike.setdefault(told, []).append(str(gpu))
    for (policy, seen), names in alike.items():
        yield values.Finding(
            values.Severity.NOTE,
            'scheduler',
            ', '.join(names),
            f'vGPU scheduler of GPU {", ".join(names)}: {policy}.',
            (seen,),
            'To change it: nova-vgpu doctor --scheduler POLICY prints the '
            'file for modprobe.',
        )


def _tell(
    examined: values.DoctorInput, gpu: values.PhysicalGPU
) -> tuple[str, values.Evidence] | None:
    """The policy of a GPU in words, and its source."""
    if examined.modes is not None:
        policy = examined.modes.of(gpu.address).scheduler
        if policy is not None:
            return policy.value, values.Evidence(
                'NVML, vGPU scheduler', policy.value
            )
    around = examined.surroundings
    if around is None or around.loaded_dwords is None:
        return None
    seen = around.loaded_dwords
    policy = vgpu_scheduler.find_policy(seen.value)
    if around.loaded_dwords_per_gpu is not None and gpu.address is not None:
        own = vgpu_scheduler.find_policies_per_gpu(
            around.loaded_dwords_per_gpu.value
        )
        if gpu.address in own:
            policy, seen = own[gpu.address], around.loaded_dwords_per_gpu
    word = policy.value if policy else 'unknown'
    return f'{word}, unless nvidia-smi changed it', _show(seen)


def _find_not_loaded(
    examined: values.DoctorInput,
) -> Iterator[values.Finding]:
    """A file for modprobe that differs from the loaded parameters."""
    around = examined.surroundings
    if around is None or around.loaded_dwords is None:
        return
    if not around.modprobe_dwords:
        return
    # The last one counts.
    wanted = around.modprobe_dwords[-1]
    policy = vgpu_scheduler.find_policy(wanted.value)
    if policy == vgpu_scheduler.find_policy(around.loaded_dwords.value):
        return
    word = policy.value if policy else 'an unknown policy'
    yield values.Finding(
        values.Severity.WARNING,
        'scheduler-not-loaded',
        wanted.source,
        f'{wanted.source} sets {word}, but the driver was loaded otherwise.',
        (_show(wanted), _show(around.loaded_dwords)),
        'Rebuild the initial RAM disk (update-initramfs -u or dracut -f) '
        'and reboot, or remove the line.',
    )


def _show(dwords: values.Evidence) -> values.Evidence:
    return values.Evidence(
        dwords.source, dwords.value or f'{vgpu_scheduler.KEY} is not set'
    )
