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

"""One GPU and its declared type: does it work, and for how many?"""

from collections.abc import Mapping
import dataclasses

from nova_vgpu import values
from nova_vgpu.decisions import capacity
from nova_vgpu.decisions import nearest
from nova_vgpu.decisions import readiness
from nova_vgpu.decisions import resolution
from nova_vgpu.knowledge import capabilities

_SHOWN_TYPES = 12


def settle(
    placed: values.Assignment, names: Mapping[str, str]
) -> tuple[values.Assignment, tuple[values.Problem, ...]]:
    """Resolve the type on the GPU and count; or say why that cannot be."""
    gpu, declared = placed.gpu, placed.declared
    obstacle = readiness.find_obstacle(gpu)
    if obstacle is not None:
        return placed, (
            _error(
                placed,
                obstacle.code,
                f'cannot serve {declared.name}: {obstacle.finding}',
                obstacle.cure,
            ),
        )
    types = resolution.list_types(gpu, names)
    matches = resolution.find_matches(declared.name, types)
    if len(matches) != 1:
        problem = (
            _ambiguous(placed, matches)
            if matches
            else _not_offered(placed, types)
        )
        return placed, (problem,)
    counted = capacity.plan_capacity(
        gpu, matches[0], placed.functions, declared.max_instances
    )
    settled = dataclasses.replace(placed, type=matches[0], capacity=counted)
    return settled, _check_capacity(settled, counted)


def _check_capacity(
    settled: values.Assignment, counted: values.Capacity
) -> tuple[values.Problem, ...]:
    gpu, vgpu_type = settled.gpu, settled.type
    if vgpu_type is None:
        return ()
    if counted.total == 0:
        return (_no_room(settled),)
    facts = capabilities.facts_of(gpu, vgpu_type)
    unbounded = facts.max_instances is None and gpu.vfs
    if unbounded and settled.declared.max_instances is None:
        option = settled.declared.option('max_instances')
        return (
            values.Problem(
                values.Severity.WARNING,
                'maximum-unknown',
                str(gpu),
                f'GPU {gpu}: nothing tells how many vGPUs of {vgpu_type} it '
                f'takes; its VFs would make it {counted.total}.',
                f"Set {option} to the number in the vendor's documentation.",
            ),
        )
    return ()


def _no_room(settled: values.Assignment) -> values.Problem:
    others: dict[str, int] = {}
    for vgpu in settled.gpu.all_vgpus:
        others[vgpu.type_id] = others.get(vgpu.type_id, 0) + 1
    held = ', '.join(f'{count} of {name}' for name, count in others.items())
    if held:
        return _error(
            settled,
            'no-room',
            f'has no room for {settled.type}: it holds vGPUs: {held}',
            'A GPU takes one size of vGPU at a time: it serves the type once '
            'the others are gone.',
        )
    return _error(
        settled,
        'no-room',
        f'names {settled.type} but would take none of it now',
        'See that the functions listed are enabled and, for a type backed by '
        'MIG, that GPU instances exist.',
    )


def _ambiguous(
    placed: values.Assignment, matches: tuple[values.VGPUType, ...]
) -> values.Problem:
    return _error(
        placed,
        'ambiguous-type',
        f'has more than one type that {placed.declared.name!r} can mean: '
        f'{", ".join(map(str, matches))}',
        'Write the id of the one that is meant.',
    )


def _not_offered(
    placed: values.Assignment, types: tuple[values.VGPUType, ...]
) -> values.Problem:
    declared = placed.declared.name
    shown = [capabilities.short_name(t) for t in types]
    offers = ', '.join(shown[:_SHOWN_TYPES])
    more = len(shown) - _SHOWN_TYPES
    if more > 0:
        command = f'nova-vgpu type list --gpu {placed.gpu}'
        offers += f' and {more} more ("{command}")'
    if placed.reason is values.Reason.LISTED:
        near = nearest.find_nearest(declared, [*shown, *(t.id for t in types)])
        meant = f'Did you mean {near}? ' if near else ''
        cure = f'{meant}List the GPU under a type that it offers.'
    else:
        cure = (
            'List the GPU under a type that it offers, or set '
            '[devices]unlisted_gpus = ignore.'
        )
    return _error(
        placed,
        'type-not-offered',
        f'does not offer {declared!r}. It offers: {offers}',
        cure,
    )


def _error(
    placed: values.Assignment, code: str, finding: str, cure: str
) -> values.Problem:
    where = (
        placed.declared.option('device_addresses')
        if placed.reason is values.Reason.LISTED
        else 'not listed, so of the first type'
    )
    return values.Problem(
        values.Severity.ERROR,
        code,
        str(placed.gpu),
        f'GPU {placed.gpu} ({where}) {finding}.',
        cure,
    )
