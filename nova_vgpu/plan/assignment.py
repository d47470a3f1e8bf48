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

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import available_types
from nova_vgpu.plan import capacity
from nova_vgpu.plan import mig
from nova_vgpu.plan import readiness
from nova_vgpu.plan import type_matching


def resolve(
    placed: values.Assignment, names: Mapping[str, str]
) -> tuple[values.Assignment, tuple[values.Problem, ...]]:
    """Resolve the type on the GPU and count; or report why not."""
    resolved, problems = _resolve(placed, names)
    return resolved, (*problems, *mig.find_problems(resolved, names))


def _resolve(
    placed: values.Assignment, names: Mapping[str, str]
) -> tuple[values.Assignment, tuple[values.Problem, ...]]:
    gpu, declared = placed.gpu, placed.declared
    obstacle = readiness.find_obstacle(gpu)
    if _is_of_another_vendor(placed, names):
        return placed, (_of_another_vendor(placed, obstacle),)
    if obstacle is not None:
        return placed, (_not_ready(placed, obstacle, names),)
    types = type_matching.list_types(gpu, names)
    matches = type_matching.find_matches(declared.name, types)
    if len(matches) > 1:
        return placed, (_ambiguous(placed, matches),)
    if not matches:
        if gpu.framework is values.Framework.VENDOR_VFIO and not gpu.types:
            unnamed = [t.id for t in types if t.name is None]
            if unnamed:
                return placed, (_unnamed(placed, unnamed),)
        if available_types.may_be_hidden(
            gpu, names.get(declared.name, declared.name)
        ):
            return placed, (_hidden(placed, names),)
        return placed, (_not_offered(placed, types),)
    counted = capacity.plan_capacity(
        gpu, matches[0], placed.functions, declared.max_instances, names
    )
    resolved = dataclasses.replace(placed, type=matches[0], capacity=counted)
    return resolved, _check_capacity(resolved, counted, names)


def _is_of_another_vendor(
    placed: values.Assignment, names: Mapping[str, str]
) -> bool:
    """Whether the type is known to be of another vendor."""
    declared = placed.declared.name
    types = type_matching.list_types(placed.gpu, names)
    if type_matching.find_matches(declared, types):
        return False
    of_gpu = capabilities.vendor_of(placed.gpu)
    of_type = capabilities.vendor_of_type(declared)
    return None not in (of_gpu, of_type) and of_gpu is not of_type


def _of_another_vendor(
    placed: values.Assignment, obstacle: readiness.Obstacle | None
) -> values.Problem:
    declared = placed.declared
    of_gpu = capabilities.vendor_of(placed.gpu)
    of_type = capabilities.vendor_of_type(declared.name)
    has_no_types = obstacle is not None and obstacle.code == 'no-types-ever'
    return _error(
        placed,
        'type-not-offered',
        f'is an {of_gpu.name if of_gpu else ""} GPU, and {declared.name!r} '
        f'is a type of {of_type.name if of_type else ""}',
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


def _check_capacity(
    resolved: values.Assignment,
    counted: values.Capacity,
    names: Mapping[str, str],
) -> tuple[values.Problem, ...]:
    vgpu_type = resolved.type
    if vgpu_type is None:
        return ()
    if counted.total == 0:
        return (_no_room(resolved, names),)
    return (
        *_check_maximum(resolved, vgpu_type, counted),
        *_check_cap(resolved, counted),
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
    if resolved.functions != gpu.functions:
        return  # the operator listed the functions to use
    if capabilities.is_backed_by_mig(vgpu_type):
        takes, number = mig.describe_maximum(gpu, vgpu_type)
        cure = (
            f'{number}. If that differs from GPU to GPU, list as many virtual '
            f'functions of each in {declared.option("device_addresses")} '
            'instead'
        )
        finding = (
            f'{vgpu_type} is backed by MIG: the GPU takes {takes}, and at '
            f'most {counted.total}'
        )
    elif capabilities.facts_of(gpu, vgpu_type).max_instances is None:
        finding = (
            f'its maximum of {vgpu_type} vGPUs is unknown; by its '
            f'{counted.bound} it would be {counted.total}'
        )
        cure = "the number in the vendor's documentation"
    else:
        return
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
    if cap is not None and counted.existing > cap:
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
    held = available_types.list_held(placed.gpu, names)
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
    held = available_types.list_held(resolved.gpu, names)
    finding = (
        f'has no room for {resolved.type}: it has vGPUs: {held}'
        if held
        else f'names {resolved.type} but has no room for it now'
    )
    return _error(resolved, 'no-room', finding, _find_cure(resolved, names))


def _find_cure(placed: values.Assignment, names: Mapping[str, str]) -> str:
    declared = placed.declared.name
    wanted = placed.type.name if placed.type else names.get(declared)
    return mig.find_cure(placed.gpu, wanted or declared, names)


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
    offered = available_types.list_offers(placed.gpu, types)
    if placed.reason is values.Reason.LISTED:
        near = available_types.find_meant(declared, types)
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
    where = (
        placed.declared.option('device_addresses')
        if placed.reason is values.Reason.LISTED
        else 'not listed, so it serves the first type'
    )
    return values.Problem(
        values.Severity.ERROR,
        code,
        str(placed.gpu),
        f'GPU {placed.gpu} ({where}) {finding}.',
        cure,
    )
