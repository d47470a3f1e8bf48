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

"""Findings about the modes of a GPU: ECC, MIG, heterogeneous.

They are read through NVML; without it there are no findings.
"""

from collections.abc import Iterator

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities


def find(examined: values.DoctorInput) -> Iterator[values.Finding]:
    if examined.modes is None:
        return
    for gpu in examined.host.gpus:
        modes = examined.modes.of(gpu.address)
        name = _type_name(examined, gpu)
        if modes.ecc is not None:
            yield from _find_ecc(examined, gpu, modes.ecc, name)
        if modes.mig is not None:
            yield from find_mig(gpu, modes.mig, name)
        if modes.heterogeneous:
            yield _heterogeneous(examined, gpu, modes)


def _type_name(
    examined: values.DoctorInput, gpu: values.PhysicalGPU
) -> str | None:
    """The name of the type that the GPU is to serve, if known."""
    assigned = examined.assignment_of(gpu)
    if assigned is None:
        return None
    if assigned.type is not None and assigned.type.name:
        return assigned.type.name
    return assigned.declared.name


def _find_ecc(
    examined: values.DoctorInput,
    gpu: values.PhysicalGPU,
    ecc: values.Mode,
    name: str | None,
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
        yield from _find_ecc_on(examined, gpu, ecc, name)


def _find_ecc_on(
    examined: values.DoctorInput,
    gpu: values.PhysicalGPU,
    ecc: values.Mode,
    name: str | None,
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
    elif name is not None and vendor.heeds_ecc(name) is False:
        yield values.Finding(
            values.Severity.NOTE,
            'ecc-unused',
            str(gpu),
            f'GPU {gpu}: ECC is on, and vGPUs of {name} do not use it. On '
            'GPUs without HBM memory it reduces the frame buffer.',
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


def find_mig(
    gpu: values.PhysicalGPU, mig: values.Mode, name: str | None
) -> Iterator[values.Finding]:
    """Check a GPU's MIG mode against the type that it is to serve."""
    seen = values.Evidence('NVML, MIG mode', _say(mig))
    parsed = capabilities.parse_type_name(name) if name else None
    if parsed is not None and parsed.slices is not None and not mig.current:
        yield values.Finding(
            values.Severity.ERROR,
            'mig-off',
            str(gpu),
            f'GPU {gpu} is to serve {name}, which needs MIG mode.',
            (seen,),
            f'Turn it on with nvidia-smi -i {gpu} -mig 1, then enable its '
            'VFs, then create GPU instances: sriov-manage removes existing '
            'ones.',
        )
    if parsed is not None and parsed.slices is None and mig.current:
        yield values.Finding(
            values.Severity.ERROR,
            'mig-on',
            str(gpu),
            f'GPU {gpu} is to serve {name}, which cannot be created in MIG '
            'mode.',
            (seen,),
            f'Turn it off with nvidia-smi -i {gpu} -mig 0, while its VFs are '
            f'disabled (nova-vgpu sriov disable {gpu}), or choose a type that '
            'is backed by MIG.',
        )
    if mig.current is not mig.pending:
        yield values.Finding(
            values.Severity.WARNING,
            'mig-pending',
            str(gpu),
            f'GPU {gpu}: MIG mode will be {_word(mig.pending)} after a reset '
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
        if examined.assignment_of(gpu)
        else values.Severity.NOTE,
        'heterogeneous-on',
        str(gpu),
        f'GPU {gpu} is in heterogeneous mode, where fewer vGPUs of some types '
        'fit. A plan has one type for each GPU and does not need this mode.'
        f'{fixed}',
        tuple(seen),
        f'Turn it off while the GPU has no vGPU: nvidia-smi vgpu -shm 0 -i '
        f'{gpu}',
    )


def _say(mode: values.Mode) -> str:
    if mode.current is mode.pending:
        return _word(mode.current)
    return f'{_word(mode.current)}, pending: {_word(mode.pending)}'


def _word(on: bool) -> str:
    return 'on' if on else 'off'
