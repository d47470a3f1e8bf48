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

"""GPUs whose driver enables virtual functions when it is loaded.

AMD's GIM does so, by one option of its module that has a number for each GPU.
Neither the number nor the partition of a GPU is changed here: the operator
reloads the driver, or runs AMD SMI, while no server has a function.
(amd/MxGPU-Virtualization, gim_shim/gim_config.c and gim_drv.c;
libgv/core/amdgv_gpumon.c.)
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import address_matching
from nova_vgpu.plan import readiness

Numbers = tuple[tuple[str, int], ...]

_INDEX = 'INDEX'


def is_fixed(gpu: values.PhysicalGPU) -> bool:
    """Whether only the operator changes the GPU's virtual functions."""
    return gpu.vf_profiles is not None and (
        gpu.vf_profiles.partitions is not None
    )


def list_numbers(
    host: values.Host, claims: Iterable[address_matching.Claim]
) -> Numbers:
    """How many VFs each such GPU is to have, in order of address."""
    declared = {claim.gpu.name: claim.declared.name for claim in claims}
    numbers: dict[values.PciAddress, int] = {}
    for gpu in host.gpus:
        if gpu.address is None or not is_fixed(gpu):
            continue
        made_by = capabilities.vendor_of(gpu)
        name = declared.get(gpu.name, '')
        profile = made_by.parse_vf_profile(name) if made_by else None
        wanted = profile.count if profile else None
        numbers[gpu.address] = wanted or len(gpu.vfs) or 1
    return tuple((str(gpu), numbers[gpu]) for gpu in sorted(numbers))


def find_impossible(
    gpu: values.PhysicalGPU, model: str, number: int
) -> readiness.Obstacle | None:
    """Whether the model cannot have that many VFs, if that is known."""
    made_by = capabilities.vendor_of(gpu)
    known = made_by.vf_numbers(gpu.ids) if made_by and gpu.ids else ()
    # What is there is possible.
    if not is_fixed(gpu) or not known or number in (*known, len(gpu.vfs)):
        return None
    return readiness.Obstacle(
        'vf-profile-count',
        f'it would have {number} VFs, and a {model} has {_join(known)}',
        f'Declare {_join([f"{model}-1of{each}" for each in known])}.',
    )


def has_partition(gpu: values.PhysicalGPU, wanted: str | None) -> bool:
    """Whether a GPU is partitioned as wanted; None will do with any."""
    partitions = gpu.vf_profiles.partitions if gpu.vf_profiles else None
    return wanted is None or (
        partitions is not None and partitions.mode == wanted
    )


def find_obstacle(
    placed: values.Assignment, number: int, partition: str | None
) -> readiness.Obstacle:
    """Why a GPU whose VFs differ from what is declared does not serve."""
    gpu, option = placed.gpu, placed.declared.option('partition')
    found = gpu.vf_profiles.partitions if gpu.vf_profiles else None
    partitions = found or values.Partitions()
    is_number = len(gpu.vfs) == number
    if is_number and partition is not None:
        if partitions.mode is None:
            return _obstacle(
                'vf-profile-unsupported',
                f'its partition is to be {partition} ({option}) and cannot be '
                'read, which only root may, on the host itself',
                f'Run the command as root, or remove {option}.',
            )
        accelerator = partition.partition('/')[0]
        if accelerator not in (*partitions.accelerator, *_all(partitions)):
            return _obstacle(
                'vf-profile-unsupported',
                f'its partition is to be {partition} ({option}), and with '
                f'{number} VFs its accelerator partition is '
                f'{_join(partitions.accelerator)}',
                f'Correct {option}.',
            )
    finding = f'it has {_describe(len(gpu.vfs), partitions.mode)}'
    finding += f' and is to have {_describe(number, partition)}'
    if partition is not None:
        finding += f' ({option})'
    cures = [] if is_number else [_set_number(placed, number)]
    cures += _set_partition(gpu, partitions, is_number, partition)
    return _obstacle('vfs-differ', finding, ' '.join(cures))


def _obstacle(code: str, finding: str, cure: str) -> readiness.Obstacle:
    """An obstacle, which is an error of its GPU (values.Severity.ERROR)."""
    return readiness.Obstacle(code, finding, cure)


def _all(partitions: values.Partitions) -> Sequence[str]:
    """Every partition, if it is not known which ones the GPU can have."""
    return () if partitions.accelerator else ('SPX', 'DPX', 'QPX', 'CPX')


def _describe(number: int, partition: str | None) -> str:
    vfs = f'{number} VF{"" if number == 1 else "s"}'
    return f'{vfs} in partition {partition}' if partition else vfs


def _set_number(placed: values.Assignment, number: int) -> str:
    """The option of the module; its last number is for all further GPUs."""
    numbers = placed.vf_numbers or ((str(placed.gpu), number),)
    gpus = [gpu for gpu, _ in numbers]
    option = ','.join(str(each) for _, each in numbers)
    order = (
        ' (one number for each GPU that gim finds, in the order of the bus: '
        f'{", ".join(gpus)})'
    )
    if len({each for _, each in numbers}) == 1:
        option, order = str(number), ''
    return (
        f'Write "options gim vf_num={option}" to /etc/modprobe.d/gim.conf'
        f'{order}, and reload the driver while no server has a VF of its '
        'GPUs: modprobe -r gim; modprobe gim.'
    )


def _set_partition(
    gpu: values.PhysicalGPU,
    partitions: values.Partitions,
    is_number: bool,
    wanted: str | None,
) -> Iterator[str]:
    """The commands that partition the GPU.

    Which accelerator partitions there are depends on the number of VFs, and
    loading the driver may change partitions.
    """
    if wanted is None or (partitions.mode == wanted and is_number):
        return
    accelerator, _, memory = wanted.partition('/')
    own, _, own_memory = (partitions.mode or '').partition('/')
    commands = []
    if not is_number or memory != own_memory:
        commands.append(f'amd-smi set --gpu={gpu} --memory-partition={memory}')
    if not is_number or accelerator != own:
        index = _INDEX
        if is_number and accelerator in partitions.accelerator:
            index = str(partitions.accelerator.index(accelerator))
        commands.append(
            f'amd-smi set --gpu={gpu} --accelerator-partition={index}'
        )
    then = 'Partition it' if is_number else 'Then partition it'
    where = (
        f' ("amd-smi partition --gpu={gpu} --accelerator" shows the index of '
        f'{accelerator})'
        if any(_INDEX in command for command in commands)
        else ''
    )
    yield (
        f'{then} while no server has a VF of it, or of a GPU that XGMI '
        f'connects to it: {"; ".join(commands)}{where}.'
    )


def _join(words: Iterable[object]) -> str:
    *first, last = map(str, words)
    return f'{", ".join(first)} or {last}' if first else last
