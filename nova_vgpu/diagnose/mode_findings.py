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

"""Findings about the modes of a GPU: ECC, MIG, heterogeneous, scheduler.

They are read through NVML; without it there are no findings. Only the vGPU
scheduler of NVIDIA's GPUs is shown by the driver's parameters too: they have
the policy at load time, which ``nvidia-smi`` may have changed since.
"""

from collections.abc import Iterator

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.knowledge import vgpu_scheduler
from nova_vgpu.plan import mig_problems

_NVIDIA_DRIVER = 'nvidia'


def find(examined: values.DoctorInput) -> Iterator[values.Finding]:
    if examined.modes is None:
        return
    for gpu in examined.host.gpus:
        modes = examined.modes.of(gpu.address)
        if modes.ecc is not None:
            yield from _find_ecc(examined, gpu, modes.ecc)
        if modes.mig is not None:
            yield from _find_mig(examined, gpu, modes.mig)
        is_divided = len(examined.plan.assignments_of(gpu.name)) > 1
        if modes.heterogeneous and not is_divided:
            yield _heterogeneous(examined, gpu, modes)


def _find_ecc(
    examined: values.DoctorInput,
    gpu: values.PhysicalGPU,
    ecc: values.GPUMode,
) -> Iterator[values.Finding]:
    if ecc.current is not ecc.pending:
        yield values.Finding(
            values.Severity.NOTE,
            'ecc-pending',
            str(gpu),
            f'GPU {gpu}: ECC will be {_word(ecc.pending)} after a reboot.',
            (values.Evidence('NVML, ECC mode', _say(ecc)),),
            'Reboot the host when no vGPU is in use.',
        )
    if ecc.current:
        yield from _find_ecc_on(examined, gpu, ecc)


def _find_ecc_on(
    examined: values.DoctorInput,
    gpu: values.PhysicalGPU,
    ecc: values.GPUMode,
) -> Iterator[values.Finding]:
    seen = values.Evidence('NVML, ECC mode', _say(ecc))
    vendor = capabilities.vendor_of(gpu)
    if vendor is None:
        return
    why = vendor.refuses_ecc(
        capabilities.model_of(gpu), _driver_version(examined)
    )
    if why is not None:
        yield values.Finding(
            values.Severity.ERROR
            if examined.is_wanted(gpu)
            else values.Severity.WARNING,
            'ecc-on',
            str(gpu),
            f'GPU {gpu}: {why}.',
            (seen,),
            f'Turn it off and reboot: nvidia-smi -i {gpu} -e 0',
        )
        return
    names = [
        (assigned.type and assigned.type.name) or assigned.declared.name
        for assigned in examined.plan.assignments_of(gpu.name)
    ]
    if names and all(vendor.heeds_ecc(name) is False for name in names):
        yield values.Finding(
            values.Severity.NOTE,
            'ecc-unused',
            str(gpu),
            f'GPU {gpu}: ECC is on, and vGPUs of {", ".join(names)} do not '
            'use it. On GPUs without HBM memory it reduces the frame buffer.',
            (seen,),
            f'To turn it off: nvidia-smi -i {gpu} -e 0, and reboot.',
        )


def _driver_version(examined: values.DoctorInput) -> str | None:
    if examined.modes is not None and examined.modes.driver_version:
        return examined.modes.driver_version
    around = examined.surroundings
    if around is None or around.driver_version is None:
        return None
    return around.driver_version.value


def _find_mig(
    examined: values.DoctorInput, gpu: values.PhysicalGPU, mode: values.GPUMode
) -> Iterator[values.Finding]:
    """What the plan says of the mode, and whether it is about to change."""
    seen = values.Evidence('NVML, MIG mode', _say(mode))
    for problem in examined.plan.problems:
        if problem.code in mig_problems.CODES and problem.subject == str(gpu):
            yield values.Finding(
                problem.severity,
                problem.code,
                problem.subject,
                problem.message,
                (seen,),
                problem.cure,
            )
    if mode.current is not mode.pending:
        yield values.Finding(
            values.Severity.WARNING,
            'mig-pending',
            str(gpu),
            f'GPU {gpu}: MIG mode will be {_word(mode.pending)} after a reset '
            'of the GPU.',
            (seen,),
            f'When no vGPU is in use, nvidia-smi -i {gpu} --gpu-reset, or '
            'reboot the host.',
        )


def _heterogeneous(
    examined: values.DoctorInput,
    gpu: values.PhysicalGPU,
    modes: values.GPUModes,
) -> values.Finding:
    seen = [values.Evidence('NVML, heterogeneous mode', 'on')]
    fixed = ''
    if modes.scheduler is values.SchedulerPolicy.FIXED_SHARE:
        seen.append(
            values.Evidence('NVML, vGPU scheduler', modes.scheduler.value)
        )
        fixed = ' The fixed share does not support vGPUs of several sizes.'
    return values.Finding(
        values.Severity.WARNING
        if examined.plan.assignments_of(gpu.name)
        else values.Severity.NOTE,
        'heterogeneous-on',
        str(gpu),
        f'GPU {gpu} is in heterogeneous mode, where fewer vGPUs of some types '
        'fit. It serves one type, which does not need this mode.'
        f'{fixed}',
        tuple(seen),
        f'Turn it off while the GPU has no vGPU: nvidia-smi vgpu -shm 0 -i '
        f'{gpu}',
    )


def _say(mode: values.GPUMode) -> str:
    if mode.current is mode.pending:
        return _word(mode.current)
    return f'{_word(mode.current)}, pending: {_word(mode.pending)}'


def _word(on: bool) -> str:
    return 'on' if on else 'off'


def find_scheduler(
    examined: values.DoctorInput,
) -> Iterator[values.Finding]:
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
        told = _tell_policy(examined, gpu)
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


def _tell_policy(
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
    return f'{word}, unless nvidia-smi changed it', _show_dwords(seen)


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
        (_show_dwords(wanted), _show_dwords(around.loaded_dwords)),
        'Rebuild the initial RAM disk (update-initramfs -u or dracut -f) '
        'and reboot, or remove the line.',
    )


def _show_dwords(dwords: values.Evidence) -> values.Evidence:
    return values.Evidence(
        dwords.source, dwords.value or f'{vgpu_scheduler.KEY} is not set'
    )
