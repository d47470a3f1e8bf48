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

Only NVML tells them; what is unknown makes no problem.
"""

from collections.abc import Iterator
from collections.abc import Mapping

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities

#: The codes of errors that are about MIG.
CODES = frozenset({'mig-off', 'mig-on', 'no-gpu-instance'})


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
            f'Turn it on with nvidia-smi -i {gpu} -mig 1, while its VFs are '
            'disabled and nothing uses the GPU, then run "nova-vgpu apply": '
            'it enables the VFs and creates the GPU instances.',
        )
    if parsed.slices is None and mode.current:
        yield values.Problem(
            values.Severity.ERROR,
            'mig-on',
            str(gpu),
            f'GPU {gpu} is to serve {name}, which cannot be created in MIG '
            'mode.',
            f'Turn it off with nvidia-smi -i {gpu} -mig 0, while its VFs are '
            f'disabled (nova-vgpu sriov disable {gpu}), or choose a type that '
            'is backed by MIG.',
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
