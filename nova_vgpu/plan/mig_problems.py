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

"""What keeps a GPU from serving its type, by its MIG mode and GPU instances.

Only NVML tells them; what is unknown makes no problem, unless an apply is to
switch the mode.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import readiness
from nova_vgpu.plan import type_matching

# Obstacles of a GPU that is bound to its own driver.
_WITH_DRIVER = frozenset(
    {'vfs-off', 'no-types-yet', 'no-types', 'vfs-passed-through'}
)

#: The codes of errors that are about MIG mode.
MODE_CODES = frozenset({'mig-off', 'mig-on'})
#: The codes of errors that are about MIG.
CODES = MODE_CODES | {'no-gpu-instance'}
#: The code of the warning that an apply cannot switch MIG mode.
UNKNOWN = 'mig-mode-unknown'


def find_wrong_mode(
    placed: values.Assignment, names: Mapping[str, str]
) -> Iterator[values.Problem]:
    """Whether the GPU's MIG mode, if it is known, fits its type."""
    mode, gpu = placed.modes.mig, placed.gpu
    declared = placed.declared.name
    wanted = placed.type.name if placed.type else names.get(declared)
    name = wanted or declared
    parsed = capabilities.parse_type_name(name)
    if mode is None or parsed is None:
        return
    if parsed.slices is not None and not mode.current:
        yield values.Problem(
            values.Severity.ERROR,
            'mig-off',
            str(gpu),
            f'GPU {gpu} is to serve {name}, which needs MIG mode.',
            'With [devices]switch_mig_mode = true, "nova-vgpu apply" turns it '
            'on while nothing uses the GPU. Or turn it on with nvidia-smi -i '
            f'{gpu} -mig 1, while its VFs are disabled, then run "nova-vgpu '
            'apply": it enables the VFs and creates the GPU instances.',
        )
    if parsed.slices is None and mode.current:
        yield values.Problem(
            values.Severity.ERROR,
            'mig-on',
            str(gpu),
            f'GPU {gpu} is to serve {name}, which cannot be created in MIG '
            'mode.',
            'With [devices]switch_mig_mode = true, "nova-vgpu apply" turns it '
            'off while nothing uses the GPU. Or turn it off with nvidia-smi '
            f'-i {gpu} -mig 0, while its VFs are disabled (nova-vgpu sriov '
            f'disable {gpu}), or choose a type that is backed by MIG.',
        )


def find_unknown(
    given: values.PlanInput,
    placed: Iterable[values.Assignment],
    names: Mapping[str, str],
) -> Iterator[values.Problem]:
    """GPUs whose MIG mode an apply may have to switch, and cannot read."""
    if not given.configuration.declaration.switches_mig_mode:
        return
    of_gpu = {a.gpu.name: a for a in placed if a.modes.mig is None}
    for assigned in of_gpu.values():
        gpu, obstacle = assigned.gpu, readiness.find_obstacle(assigned.gpu)
        if obstacle is not None and obstacle.code not in _WITH_DRIVER:
            continue
        declared = assigned.declared.name
        types = (
            values.VGPUType(declared, names.get(declared, declared)),
            *type_matching.list_types(gpu, names),
        )
        if not any(map(capabilities.is_backed_by_mig, types)):
            continue
        why = given.modes.unknown_because
        yield values.Problem(
            values.Severity.WARNING,
            'mig-mode-unknown',
            str(gpu),
            f'NVML does not tell the MIG mode of GPU {gpu}'
            f'{f" ({why})" if why else ""}: it is not switched, although '
            '[devices]switch_mig_mode is set.',
            'Install the extra nvml, and check that "nvidia-smi" shows the '
            'GPU. Or remove the option.',
        )


def find_no_instance(
    placed: values.Assignment, missing: values.MigType, where: str
) -> values.Problem:
    """A GPU without a GPU instance of the type's profile.

    :param where: the option that makes the GPU serve the type.
    """
    gpu = placed.gpu
    return values.Problem(
        values.Severity.ERROR,
        'no-gpu-instance',
        str(gpu),
        f'GPU {gpu} ({where}) cannot serve {missing.name or missing.type_id}: '
        f'no GPU instance of profile {missing.profile} exists.',
        'Run "nova-vgpu apply". Or create one, after the VFs are enabled: '
        f'nvidia-smi mig -i {gpu} -cgi {missing.profile_id} -C. sriov-manage '
        'removes those that were there before.',
    )


def find_too_few(
    resolved: values.Assignment,
    vgpu_type: values.VGPUType,
    counted: values.Capacity,
) -> Iterator[values.Problem]:
    """Whether there are GPU instances for the number that is written."""
    share, gpu = resolved.listed_share, resolved.gpu
    told = resolved.modes.find_mig_type(vgpu_type.id)
    if share is None or told is None or counted.bound != 'GPU instances':
        return
    option = resolved.declared.option('device_addresses')
    yield values.Problem(
        values.Severity.WARNING,
        'too-few-gpu-instances',
        str(gpu),
        f'GPU {gpu} is to serve {share} vGPUs of {vgpu_type}, and its GPU '
        f'instances of profile {told.profile} have room for {counted.total}.',
        'Run "nova-vgpu apply". Or create more: nvidia-smi mig -i '
        f'{gpu} -cgi {told.profile_id} -C. Or lower the number in {option}.',
    )


def describe_maximum(
    gpu: values.PhysicalGPU, vgpu_type: values.VGPUType
) -> tuple[str, str]:
    """How many vGPUs of a type a GPU can have, and the number to set."""
    shape = capabilities.mig_shape(gpu, vgpu_type)
    if shape is None:
        return 'as many as its GPU instances have', 'that number'
    if shape.vgpus == 1:
        return (
            'one for each GPU instance of its size',
            'the number of those instances',
        )
    return (
        f'{shape.vgpus} for each GPU instance of its size',
        f'{shape.vgpus} times the number of those instances',
    )
