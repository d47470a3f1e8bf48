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

"""Resolve the declared type of one GPU, and its capacity."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import capacity
from nova_vgpu.plan import mig_capacity
from nova_vgpu.plan import mig_problems
from nova_vgpu.plan import readiness
from nova_vgpu.plan import type_matching
from nova_vgpu.plan import vf_profiles


def resolve(
    placed: values.Assignment, names: Mapping[str, str]
) -> tuple[values.Assignment, tuple[values.Problem, ...]]:
    """Resolve the type on the GPU and count; or report why not."""
    if placed.gpu.vf_profiles is not None:
        placed = vf_profiles.add_vgpus(placed)
    found = _find_type(placed, names)
    if isinstance(found, values.Problem):
        problems: Iterable[values.Problem] = (found,)
    else:
        counted = capacity.plan_capacity(
            placed.gpu,
            found,
            placed.functions,
            placed.declared.max_instances,
            names,
            placed.modes,
            placed.listed_share,
            placed.beside,
        )
        placed = dataclasses.replace(placed, type=found, capacity=counted)
        if counted.total == 0:
            missing = mig_capacity.find_without_instance(placed, names)
            problems = (
                mig_problems.find_no_instance(placed, missing, _where(placed))
                if missing
                else _no_room(placed, names),
            )
        else:
            problems = (
                *_check_maximum(placed, found, counted),
                *mig_problems.find_too_few(placed, found, counted),
                *_check_cap(placed, counted),
            )
    wrong = tuple(mig_problems.find_wrong_mode(placed, names))
    if wrong and not placed.gpu.all_vgpus:
        problems = (p for p in problems if p.code != 'no-room')  # for the mode
    return placed, (*problems, *wrong)


def _find_type(
    placed: values.Assignment, names: Mapping[str, str]
) -> values.VGPUType | values.Problem:
    """The type that the GPU is to serve, or why there is none."""
    gpu, declared = placed.gpu, placed.declared.name
    types = type_matching.list_types(gpu, names)
    matches = type_matching.find_matches(declared, types)
    obstacle = readiness.find_obstacle(gpu)
    if obstacle is not None and obstacle.code == 'no-types-ever':
        obstacle = vf_profiles.find_obstacle(placed) or obstacle
    if not matches:
        of_gpu = capabilities.vendor_of(gpu)
        of_type = capabilities.vendor_of_type(declared)
        if of_gpu and of_type and of_gpu is not of_type:
            return _of_another_vendor(
                placed, of_gpu.name, of_type.name, obstacle
            )
        missing = mig_capacity.find_without_instance(placed, names)
        is_ready = obstacle is None or obstacle.code == 'no-types-yet'
        if is_ready and missing is not None:
            return mig_problems.find_no_instance(
                placed, missing, _where(placed)
            )
    if obstacle is not None:
        return _not_ready(placed, obstacle, names)
    if len(matches) > 1:
        return _ambiguous(placed, matches)
    if matches:
        return matches[0]
    if gpu.framework is values.Framework.VENDOR_VFIO and not gpu.types:
        unnamed = [t.id for t in types if t.name is None]
        if unnamed:
            return _unnamed(placed, unnamed)
    if type_matching.may_be_hidden(gpu, names.get(declared, declared)):
        return _hidden(placed, names)
    return _not_offered(placed, types)


def _of_another_vendor(
    placed: values.Assignment,
    of_gpu: str,
    of_type: str,
    obstacle: readiness.Obstacle | None,
) -> values.Problem:
    declared = placed.declared
    has_no_types = obstacle is not None and obstacle.code == 'no-types-ever'
    return _error(
        placed,
        'type-not-offered',
        f'is an {of_gpu} GPU, and {declared.name!r} is a type of {of_type}',
        f'Remove its address from {declared.option("device_addresses")}.'
        if has_no_types
        else _move(placed),
    )


def _not_ready(
    placed: values.Assignment,
    obstacle: readiness.Obstacle,
    names: Mapping[str, str],
) -> values.Problem:
    declared = placed.declared.name
    model = capabilities.model_of(placed.gpu)
    # An id alone does not name the model; another GPU may name it.
    name = capabilities.complete_name(names.get(declared, declared), model)
    if (
        model
        and name
        and not (
            name.model == model and capabilities.may_have(placed.gpu, name)
        )
    ):
        # No need to prepare the GPU for this type.
        return _error(
            placed,
            'type-not-offered',
            f'is of model {model} and never offers {declared!r}',
            _move(placed),
        )
    return _error(
        placed,
        obstacle.code,
        f'cannot serve {declared}: {obstacle.finding}',
        obstacle.cure,
    )


def _unnamed(
    placed: values.Assignment, type_ids: Sequence[str]
) -> values.Problem:
    """A full GPU in the vendor-specific VFIO framework lists no types."""
    return _error(
        placed,
        'type-unnamed',
        'is full, and its driver names no types then: it is unknown whether '
        f'{", ".join(type_ids)} is {placed.declared.name!r}',
        f'Declare the type by its id, {type_ids[0]}, or try again when a '
        'vGPU was removed.',
    )


def _check_maximum(
    resolved: values.Assignment,
    vgpu_type: values.VGPUType,
    counted: values.Capacity,
) -> Iterator[values.Problem]:
    """Whether the maximum of vGPUs on the GPU is known."""
    gpu, declared = resolved.gpu, resolved.declared
    if not gpu.vfs or not counted.room or declared.max_instances is not None:
        return
    if resolved.listed_share is not None:
        return  # the operator wrote the number
    if resolved.functions != gpu.functions:
        return  # the operator listed the functions to use
    if capacity.is_maximum_known(gpu, vgpu_type, resolved.modes):
        return
    if capabilities.is_backed_by_mig(vgpu_type):
        takes, number = mig_problems.describe_maximum(gpu, vgpu_type)
        cure = (
            f'{number}. If that differs from GPU to GPU, list as many virtual '
            f'functions of each in {declared.option("device_addresses")} '
            'instead'
        )
        finding = (
            f'{vgpu_type} is backed by MIG: the GPU takes {takes}, and at '
            f'most {counted.total}'
        )
    else:
        finding = (
            f'its maximum of {vgpu_type} vGPUs is unknown; by its '
            f'{counted.bound} it would be {counted.total}'
        )
        cure = "the number in the vendor's documentation"
    yield values.Problem(
        values.Severity.WARNING,
        'maximum-unknown',
        str(gpu),
        f'GPU {gpu}: {finding}.',
        f'Set {declared.option("max_instances")} to {cure}.',
    )


def _check_cap(
    resolved: values.Assignment, counted: values.Capacity
) -> Iterator[values.Problem]:
    cap = resolved.declared.max_instances
    if cap is not None and cap < counted.existing <= counted.total:
        option = resolved.declared.option('max_instances')
        yield values.Problem(
            values.Severity.WARNING,
            'more-than-maximum',
            str(resolved.gpu),
            f'GPU {resolved.gpu} has {counted.existing} vGPUs of its type, '
            f'more than {option} ({cap}). Its inventory is '
            f'{counted.existing}, and no more are created.',
            f'Raise {option}, or remove vGPUs that are not in use.',
        )


def _hidden(
    placed: values.Assignment, names: Mapping[str, str]
) -> values.Problem:
    held = type_matching.list_held(placed.gpu, names)
    return _error(
        placed,
        'no-room',
        f'does not offer {placed.declared.name!r} now: it has vGPUs '
        f'({held}), and lists only the types that fit beside them',
        _find_cure(placed, names),
    )


def _no_room(
    resolved: values.Assignment, names: Mapping[str, str]
) -> values.Problem:
    taken = _list_taken(resolved, names)
    if taken:
        return _error(
            resolved,
            'no-room',
            f'has no room for {resolved.type}: the listed VFs have vGPUs of '
            f'other types: {", ".join(taken)}',
            'List VFs that are free or have a vGPU of this type: "nova-vgpu '
            f'device list --gpu {resolved.gpu}" shows them.',
        )
    held = type_matching.list_held(resolved.gpu, names)
    finding = (
        f'has no room for {resolved.type}: it has vGPUs: {held}'
        if held
        else f'names {resolved.type} but has no room for it now'
    )
    return _error(resolved, 'no-room', finding, _find_cure(resolved, names))


def _list_taken(
    resolved: values.Assignment, names: Mapping[str, str]
) -> list[str]:
    """The listed VFs with their vGPUs, if some are listed and none is free.

    Time-sliced types have no room on other VFs either: their sizes differ.
    """
    gpu = resolved.gpu
    if not resolved.type or not capabilities.is_backed_by_mig(resolved.type):
        return []
    listed = [vf for vf in gpu.vfs if vf.name in resolved.functions]
    if len(listed) == len(gpu.vfs) or resolved.pci_devices:
        return []
    if not all(vf.vgpus for vf in listed):
        return []
    return [
        f'{vf.address} has {values.VGPUType(found, names.get(found))}'
        for vf in listed
        for found in sorted({vgpu.type_id for vgpu in vf.vgpus})
    ]


def _find_cure(placed: values.Assignment, names: Mapping[str, str]) -> str:
    declared = placed.declared.name
    wanted = placed.type.name if placed.type else names.get(declared)
    return readiness.find_room_cure(
        placed.gpu, wanted or declared, names, placed.share is not None
    )


def _ambiguous(
    placed: values.Assignment, matches: tuple[values.VGPUType, ...]
) -> values.Problem:
    return _error(
        placed,
        'ambiguous-type',
        f'has more than one type that {placed.declared.name!r} can mean: '
        f'{", ".join(map(str, matches))}',
        'Declare the type by its id.',
    )


def _not_offered(
    placed: values.Assignment, types: tuple[values.VGPUType, ...]
) -> values.Problem:
    declared = placed.declared.name
    offered = type_matching.list_offers(placed.gpu, types)
    if placed.reason is values.Reason.LISTED:
        near = type_matching.find_meant(declared, types)
        meant = f'Did you mean {near}? ' if near else ''
        cure = f'{meant}{_move(placed)}'
    else:
        cure = _move(placed)
    return _error(
        placed,
        'type-not-offered',
        f'does not offer {declared!r}. It offers: {offered}',
        cure,
    )


def _move(placed: values.Assignment) -> str:
    """The cure for a GPU that is listed under the wrong type."""
    if placed.reason is values.Reason.LISTED:
        return 'List the GPU under a type that it offers.'
    return (
        'List the GPU under a type that it offers, or set '
        '[devices]unlisted_gpus = ignore.'
    )


def _error(
    placed: values.Assignment, code: str, finding: str, cure: str
) -> values.Problem:
    return values.Problem(
        values.Severity.ERROR,
        code,
        str(placed.gpu),
        f'GPU {placed.gpu} ({_where(placed)}) {finding}.',
        cure,
    )


def _where(placed: values.Assignment) -> str:
    """The option that makes the GPU serve its type."""
    if placed.reason is values.Reason.LISTED:
        return placed.declared.option('device_addresses')
    return 'not listed, so it serves the first type'
