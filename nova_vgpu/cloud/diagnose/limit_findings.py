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

"""Limits per type that cannot take effect.

Nova looks up the limit ``class:X`` of a resource class X that a flavor asks
for, among those that are registered for its own service and for the region of
its endpoint. Whether it does so at all (``[quota]driver``) cannot be read from
outside. Other regions of Nova have limits for GPUs of their own.
"""

import collections
from collections.abc import Iterator

from nova_vgpu import values
from nova_vgpu.cloud.diagnose import examination

_SOURCE = 'Keystone, registered limits'


def find(examined: examination.Examination) -> Iterator[values.Finding]:
    found = {
        limit: limit.resource_class
        for limit in examined.limits
        if limit.resource_class is not None
        and examined.is_vgpu_class(limit.resource_class)
    }
    types = _list_types(examined)
    effective = set()
    for limit, resource_class in found.items():
        if limit.region in examined.other_regions:
            continue
        if limit.service not in examined.services:
            yield _make_wrong_service(limit)
        elif limit.region not in examined.regions:
            yield _make_wrong_region(limit, examined)
        elif resource_class not in examined.offered:
            yield _make_without_class(limit, types)
        else:
            effective.add(resource_class)
            yield from _find_shared(limit, types[resource_class])
    if found:
        yield from _find_unlimited(effective, types)


def _list_types(
    examined: examination.Examination,
) -> dict[str, frozenset[str]]:
    """The types of each resource class."""
    found: dict[str, set[str]] = collections.defaultdict(set)
    for gpu in examined.gpus:
        for resource_class in gpu.classes:
            found[resource_class] |= {*gpu.facts.types}
    return {name: frozenset(types) for name, types in found.items()}


def _make(
    limit: examination.Limit, code: str, text: str, cure: str
) -> values.Finding:
    return values.Finding(
        values.Severity.WARNING,
        code,
        limit.name,
        text,
        (values.Evidence(_SOURCE, f'{limit.name}: {limit.default}'),),
        cure,
    )


def _make_wrong_service(limit: examination.Limit) -> values.Finding:
    return _make(
        limit,
        'limit-of-other-service',
        f'The limit {limit.name} is registered for a service that is not '
        'Nova: it has no effect.',
        'Register it for the service of type "compute".',
    )


def _make_wrong_region(
    limit: examination.Limit, examined: examination.Examination
) -> values.Finding:
    own = examined.regions - examined.other_regions
    known = ', '.join(sorted(filter(None, own))) or 'none'
    return _make(
        limit,
        'limit-of-other-region',
        f'The limit {limit.name} is registered for '
        f'{f"region {limit.region}" if limit.region else "no region"}, where '
        'Nova has no endpoint: it has no effect.',
        f"Register it with the region of Nova's endpoint: {known}.",
    )


def _make_without_class(
    limit: examination.Limit, types: dict[str, frozenset[str]]
) -> values.Finding:
    listed = ', '.join(sorted(types)) or 'none'
    return _make(
        limit,
        'limit-without-class',
        f'No GPU has the resource class of the limit {limit.name}: it has no '
        'effect. A flavor that selects a type by its trait counts for the '
        'class that it asks for.',
        'Set resource_class of the type in nova.conf, and ask for it in '
        f'flavors. Classes of GPUs: {listed}.',
    )


def _find_shared(
    limit: examination.Limit, types: frozenset[str]
) -> Iterator[values.Finding]:
    if len(types) > 1:
        yield _make(
            limit,
            'limit-shared',
            f'The limit {limit.name} counts vGPUs of several types together: '
            f'{", ".join(sorted(types))}.',
            'For a limit per type, give each type a resource class of its own '
            '(resource_class in nova.conf).',
        )


def _find_unlimited(
    effective: set[str], types: dict[str, frozenset[str]]
) -> Iterator[values.Finding]:
    """Classes without a limit, beside others with one."""
    limited = frozenset[str]().union(*(types[name] for name in effective))
    for resource_class in sorted(types.keys() - effective):
        bypassed = types[resource_class] & limited
        if bypassed:
            text = (
                f'{", ".join(sorted(bypassed))}: there is a limit, but not '
                f'for the resource class {resource_class}, which some GPUs '
                'with the type have.'
            )
        else:
            text = f'The resource class {resource_class} has no limit.'
        yield values.Finding(
            values.Severity.WARNING if bypassed else values.Severity.NOTE,
            'limit-bypassed' if bypassed else 'limit-missing',
            resource_class,
            text,
            (values.Evidence(_SOURCE, f'no class:{resource_class}'),),
            f'Register the limit {examination.OF_CLASS}{resource_class}.',
        )
