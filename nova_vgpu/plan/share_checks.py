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

"""Whether the shares of a GPU fit on it, before anything is changed.

They are compared with what an empty GPU can have, so that the answer is the
same whatever servers use. A GPU whose virtual functions are off is checked by
the names of the types.
"""

import collections
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import capacity
from nova_vgpu.plan import shares
from nova_vgpu.plan import slot_placing

_MOVE = 'list the GPU under one of them only'


@dataclasses.dataclass(frozen=True, slots=True)
class _Part:
    """A declared type with its number of vGPUs, and what it is."""

    declared: values.DeclaredType
    type: values.VGPUType
    count: int

    def __str__(self) -> str:
        return f'{self.count} x {capabilities.short_name(self.type)}'


@dataclasses.dataclass(frozen=True, slots=True)
class _Board:
    """A GPU, its modes, and the names of types by their ids."""

    gpu: values.PhysicalGPU
    modes: values.GPUModes
    names: Mapping[str, str]


def find_misfits(
    assignments: Iterable[values.Assignment], names: Mapping[str, str]
) -> Iterator[values.Problem]:
    """The problems of the numbers that are declared, GPU by GPU."""
    by_gpu: dict[str, list[values.Assignment]] = {}
    for assigned in assignments:
        if assigned.share is not None or assigned.listed_share is not None:
            by_gpu.setdefault(assigned.gpu.name, []).append(assigned)
    for of_gpu in by_gpu.values():
        yield from _check_gpu(of_gpu, names)


def _check_gpu(
    of_gpu: Sequence[values.Assignment], names: Mapping[str, str]
) -> Iterator[values.Problem]:
    gpu, modes = of_gpu[0].gpu, of_gpu[0].modes
    parts = [part for part in (_make_part(a, names) for a in of_gpu) if part]
    board = _Board(gpu, modes, names)
    reason = _find_misfit(board, parts)
    if reason is not None:
        yield _does_not_fit(board, parts, reason)
        return
    if 0 < len(gpu.vfs) < sum(part.count for part in parts):
        yield _too_few_functions(gpu, parts)
    if _has_sizes_to_mix(gpu, parts):
        if modes.scheduler is values.SchedulerPolicy.FIXED_SHARE:
            yield _fixed_share(gpu, parts)
        elif modes.heterogeneous is False:
            yield _not_heterogeneous(gpu, parts)


def _make_part(
    assigned: values.Assignment, names: Mapping[str, str]
) -> _Part | None:
    declared = assigned.declared
    share = assigned.share or values.Share(
        declared, '', assigned.listed_share or 0, assigned.functions
    )
    found = assigned.type or shares.type_of(share, assigned.gpu, names)
    return _Part(declared, found, share.count) if found else None


def _find_misfit(board: _Board, parts: Sequence[_Part]) -> str | None:
    """Why the parts do not fit on the GPU together; None if they do."""
    gpu = board.gpu
    mismatch = _find_mismatch(parts)
    if mismatch is not None:
        return mismatch
    vfs = _count_functions(gpu)
    total = sum(part.count for part in parts)
    if vfs and total > vfs:
        return f'it has {vfs} virtual functions'
    for part in parts:
        found = capacity.find_maximum(gpu, part.type, board.names)
        if found is not None and part.count > found[0]:
            label = capabilities.short_name(part.type)
            return f'it can have {found[0]} x {label} at most'
    if parts and capabilities.is_backed_by_mig(parts[0].type):
        return _compare_slices(gpu, parts)
    if not _has_sizes_to_mix(gpu, parts):
        return _compare_memory(gpu, parts)
    if capabilities.mixes_sizes(gpu) is False:
        return 'this model has vGPUs of one size at a time'
    return _compare_memory(gpu, parts) or _compare_slots(board, parts)


def _find_mismatch(parts: Sequence[_Part]) -> str | None:
    """Why the types cannot be on one GPU, whatever their numbers are."""
    if len({capabilities.is_backed_by_mig(part.type) for part in parts}) > 1:
        return 'types that are backed by MIG do not mix with others'
    if len({part.type.id for part in parts}) < len(parts):
        return 'two of them are the same type'
    return None


def _count_functions(gpu: values.PhysicalGPU) -> int:
    """The virtual functions that a GPU can have, enabled or not."""
    return max(len(gpu.vfs), gpu.sriov.total if gpu.sriov else 0)


def _compare_slices(
    gpu: values.PhysicalGPU, parts: Sequence[_Part]
) -> str | None:
    shape = capabilities.mig_shape(gpu, parts[0].type)
    every = [part.type for part in parts for _ in range(part.count)]
    used, memory = capacity.count_slices(gpu, every)
    if shape is None:
        return None
    if used > shape.gpu_slices:
        return f'they take {used} slices of it, and it has {shape.gpu_slices}'
    if memory > shape.gpu_memory_slices:
        return (
            f'they take {memory} slices of its memory, and it has '
            f'{shape.gpu_memory_slices}'
        )
    return None


def _compare_memory(
    gpu: values.PhysicalGPU, parts: Sequence[_Part]
) -> str | None:
    memory = capacity.find_memory(gpu, (part.type for part in parts))
    if memory is None:
        return None
    sizes = [
        (capabilities.facts_of(gpu, part.type).framebuffer_mib or 0)
        * part.count
        for part in parts
    ]
    if sum(sizes) <= memory:
        return None
    return f'they take {sum(sizes)} MiB of it, and it has {memory} MiB'


def _compare_slots(board: _Board, parts: Sequence[_Part]) -> str | None:
    """Whether there are slots for all of them, if NVML tells the slots."""
    known = {slots.type_id: slots for slots in board.modes.slots or ()}
    wanted = [
        (known[part.type.id], part.count)
        for part in parts
        if part.type.id in known
    ]
    if len(wanted) < len(parts) or slot_placing.can_place(wanted):
        return None
    return 'vGPUs of these sizes have no slots for that in its memory'


def _has_sizes_to_mix(gpu: values.PhysicalGPU, parts: Sequence[_Part]) -> bool:
    sizes = collections.Counter(
        capabilities.facts_of(gpu, part.type).framebuffer_mib
        for part in parts
        if not capabilities.is_backed_by_mig(part.type)
    )
    return len(sizes) > 1


def _does_not_fit(
    board: _Board, parts: Sequence[_Part], reason: str
) -> values.Problem:
    gpu = board.gpu
    options = ', '.join(
        part.declared.option('device_addresses') for part in parts
    )
    fitting = [
        f'{capabilities.short_name(part.type)} to {count}'
        for part in parts
        if len(parts) > 1 and (count := _count_beside(board, part, parts))
    ]
    if len(parts) == 1:
        most = _count_beside(board, parts[0], parts)
        cure = 'Lower the number' + (f' to {most}.' if most else '.')
    elif fitting:
        cure = f'Lower {", or ".join(fitting)}, or {_MOVE}.'
    elif _find_mismatch(parts) is not None:
        cure = f'{_MOVE[0].upper()}{_MOVE[1:]}.'
    else:
        cure = f'Lower more than one of the numbers, or {_MOVE}.'
    return values.Problem(
        values.Severity.FATAL,
        'shares-do-not-fit',
        str(gpu),
        f'GPU {gpu} is to serve {" and ".join(map(str, parts))} ({options}), '
        f'but {reason}.',
        cure,
    )


def _count_beside(board: _Board, part: _Part, parts: Sequence[_Part]) -> int:
    """The highest number of a part at which all fit; 0 if there is none."""
    for count in range(part.count - 1, 0, -1):
        lowered = [
            dataclasses.replace(p, count=count) if p is part else p
            for p in parts
        ]
        if _find_misfit(board, lowered) is None:
            return count
    return 0


def _fixed_share(
    gpu: values.PhysicalGPU, parts: Sequence[_Part]
) -> values.Problem:
    return values.Problem(
        values.Severity.ERROR,
        'scheduler-fixed-share',
        str(gpu),
        f'GPU {gpu} is to serve {" and ".join(map(str, parts))}, which differ '
        'in size, and its vGPU scheduler is the fixed share, which does not '
        'support that.',
        'Set another vGPU scheduler: "nova-vgpu doctor --scheduler '
        'equal-share" prints how.',
    )


def _not_heterogeneous(
    gpu: values.PhysicalGPU, parts: Sequence[_Part]
) -> values.Problem:
    return values.Problem(
        values.Severity.ERROR,
        'heterogeneous-off',
        str(gpu),
        f'GPU {gpu} is to serve {" and ".join(map(str, parts))}, which differ '
        'in size, and its heterogeneous mode is off.',
        'Run "nova-vgpu apply" while no server has a vGPU of it: it removes '
        'those that are left, and sets the mode.',
    )


def _too_few_functions(
    gpu: values.PhysicalGPU, parts: Sequence[_Part]
) -> values.Problem:
    return values.Problem(
        values.Severity.ERROR,
        'too-few-functions',
        str(gpu),
        f'GPU {gpu} is to serve {" and ".join(map(str, parts))}, and has '
        f'{len(gpu.vfs)} of its {_count_functions(gpu)} virtual functions '
        'enabled. Each vGPU needs one.',
        f'Disable them while the GPU has no vGPU (nova-vgpu sriov disable '
        f'{gpu}), and run "nova-vgpu apply", which enables all of them.',
    )
