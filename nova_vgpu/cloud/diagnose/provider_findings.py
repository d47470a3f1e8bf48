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

"""Providers of GPUs that do not agree with each other, or serve nothing."""

import collections
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from nova_vgpu import values
from nova_vgpu.cloud.diagnose import examination
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.gpus import type_choice
from nova_vgpu.cloud.gpus import types
from nova_vgpu.knowledge import traits

# How many of many are shown.
_EXAMPLES = 3


def find(examined: examination.Examination) -> Iterator[values.Finding]:
    by_host: dict[str, list[fleet.GPU]] = collections.defaultdict(list)
    by_type: dict[str, list[fleet.GPU]] = collections.defaultdict(list)
    for gpu in examined.gpus:
        by_host[gpu.host].append(gpu)
        if len(gpu.facts.types) == 1:
            by_type[gpu.facts.types[0]].append(gpu)
    for host, gpus in by_host.items():
        if host not in examined.nodes:
            yield _make_host_unknown(host, gpus)
        yield from _find_missing_traits(host, gpus)
    for gpu in examined.gpus:
        yield from _find_on_gpu(gpu)
    for name, gpus in sorted(by_type.items()):
        yield from _find_different_traits(name, gpus)
        yield from _find_different_classes(name, gpus)
    yield from _find_unreachable(examined)
    yield from _find_unread((*examined.gpus, *examined.whole))


def _make_host_unknown(host: str, gpus: Sequence[fleet.GPU]) -> values.Finding:
    return values.Finding(
        values.Severity.WARNING,
        'host-unknown',
        host,
        f'Nova does not list a compute node {host}, but Placement has its '
        'GPUs. Nova leaves out a host that is not mapped to a cell, or that '
        'has no nova-compute service. If it is none of these, the GPUs are '
        'left over.',
        _give_examples((gpu.name, f'used: {gpu.used}') for gpu in gpus),
        'Run "nova-manage cell_v2 discover_hosts", and see whether '
        '"openstack compute service list" has the host. Only if the host was '
        'removed, delete its resource providers, after the allocations that '
        'are left on them ("nova-manage placement audit").',
    )


def _find_unread(gpus: Sequence[fleet.GPU]) -> Iterator[values.Finding]:
    """More than the reader of a cloud asks Placement about, one by one."""
    unread = fleet.find_unclear(gpus)
    if unread:
        yield values.Finding(
            values.Severity.WARNING,
            'gpus-not-examined',
            f'{len(unread)} GPUs',
            f'At least {len(unread)} GPUs with nothing free were not '
            'examined: there are too many that may be fenced. They count as '
            'full, and what they reserve is not known.',
            _give_examples((gpu.name, f'used: {gpu.used}') for gpu in unread),
            'See each of them with "openstack vgpu gpu show". Mend the GPUs '
            'that are fenced, and run the command again.',
        )


def _find_missing_traits(
    host: str, gpus: Sequence[fleet.GPU]
) -> Iterator[values.Finding]:
    bare = [gpu for gpu in gpus if not gpu.facts.types]
    if bare:
        yield values.Finding(
            values.Severity.WARNING,
            'traits-missing',
            host,
            f'GPUs of host {host} have no trait that names their type. '
            'Flavors can neither select nor exclude them by type.',
            _give_examples(
                (gpu.name, f'no {traits.TYPE_PREFIX}*') for gpu in bare
            ),
            'Run "nova-vgpu provider sync" on the host, or use the driver of '
            'nova-vgpu there.',
        )


def _find_on_gpu(gpu: fleet.GPU) -> Iterator[values.Finding]:
    where = f'GPU {gpu.address} of host {gpu.host}'
    if len(gpu.facts.types) > 1:
        yield values.Finding(
            values.Severity.ERROR,
            'several-types',
            gpu.name,
            f'{where} has traits of several types. A server that asks for one '
            'of them may get another one.',
            (values.Evidence(gpu.name, ', '.join(gpu.facts.types)),),
            'Remove those that it does not serve. "nova-vgpu provider diff" '
            'on the host shows them.',
        )
    if not gpu.stocks:
        yield values.Finding(
            values.Severity.WARNING,
            'provider-empty',
            gpu.name,
            f'The provider of {where} has no inventory: it offers nothing.',
            (values.Evidence(gpu.name, 'no inventory'),),
            'See "nova-vgpu gpu list" on the host. If the GPU is no longer '
            f'there, delete the provider {gpu.uuid}.',
        )
    elif gpu.state is fleet.State.FENCED:
        yield values.Finding(
            values.Severity.WARNING,
            'gpu-fenced',
            gpu.name,
            f'{where} is fenced: all vGPUs that are not in use are reserved.',
            (
                values.Evidence(
                    gpu.name, f'reserved: {gpu.reserved}, used: {gpu.used}'
                ),
            ),
            'If it is to serve, see "nova-vgpu doctor" on the host. If not, '
            'move its servers to other GPUs.',
        )
    yield from _find_former_classes(gpu, where)


def _find_former_classes(
    gpu: fleet.GPU, where: str
) -> Iterator[values.Finding]:
    """Classes that it does not give out any more, beside one that it does."""
    for stock in gpu.stocks:
        if gpu.free and stock.used and not stock.free:
            yield values.Finding(
                values.Severity.NOTE,
                'class-leftover',
                gpu.name,
                f'{where} has changed its resource class. Servers still use '
                f'{stock.resource_class}, which it no longer gives out.',
                (
                    values.Evidence(
                        gpu.name, f'{stock.resource_class}: {stock.used} used'
                    ),
                ),
                'Resize or recreate these servers with a flavor that asks for '
                'the new class.',
            )


def _find_different_traits(
    name: str, gpus: Sequence[fleet.GPU]
) -> Iterator[values.Finding]:
    own = {gpu: _own_traits(gpu) for gpu in gpus}
    usual, number = collections.Counter(own.values()).most_common(1)[0]
    if number == len(gpus):
        return
    yield values.Finding(
        values.Severity.WARNING,
        'traits-differ',
        name,
        f'GPUs with the type {name} do not have the same traits. A flavor '
        'that asks for one of them reaches only some.',
        _give_examples(
            (gpu.name, _describe_difference(found, usual))
            for gpu, found in own.items()
            if found != usual
        ),
        'Run the same version of nova-vgpu on all hosts, and "nova-vgpu '
        'provider sync" where Nova\'s own driver is used.',
    )


def _find_different_classes(
    name: str, gpus: Sequence[fleet.GPU]
) -> Iterator[values.Finding]:
    by_class = collections.defaultdict(list)
    for gpu in gpus:
        if len(gpu.stocks) == 1:
            by_class[gpu.stocks[0].resource_class].append(gpu)
    if len(by_class) > 1:
        yield values.Finding(
            values.Severity.WARNING,
            'classes-differ',
            name,
            f'The type {name} has several resource classes. A flavor, and a '
            'limit, is about one of them only.',
            tuple(
                values.Evidence(
                    resource_class, f'{found[0].name} ({len(found)} GPUs)'
                )
                for resource_class, found in sorted(by_class.items())
            ),
            'Set the same resource_class for the type on all hosts.',
        )


def _find_unreachable(
    examined: examination.Examination,
) -> Iterator[values.Finding]:
    given_out = {
        (gpu.facts.types, stock.resource_class)
        for gpu in examined.gpus
        for stock in gpu.stocks
        if _is_given_out(gpu, stock)
    }
    for usage in types.list_types(examined.gpus, examined.flavors):
        asked = usage.facts.types, usage.resource_class
        if usage.flavors or asked not in given_out:
            continue
        name = usage.name or 'unknown'
        yield values.Finding(
            values.Severity.WARNING,
            'type-unreachable',
            usage.name or usage.resource_class,
            f'No flavor asks for vGPUs of type {name}, resource class '
            f'{usage.resource_class}.',
            (
                values.Evidence(
                    f'{usage.gpus} GPUs of {usage.hosts} hosts',
                    f'{usage.total} vGPUs',
                ),
            ),
            _order_flavor(usage),
        )


def _is_given_out(gpu: fleet.GPU, stock: fleet.Stock) -> bool:
    """Whether a new flavor could get some of it, now or later.

    Of two resource classes without room, one may be the former.
    """
    return type_choice.is_live(stock) and bool(
        stock.free or len(gpu.stocks) == 1
    )


def _order_flavor(usage: types.TypeUsage) -> str:
    asked = f'resources:{usage.resource_class}=1'
    if len(usage.facts.types) != 1:
        return f'Create a flavor with the extra spec {asked}.'
    return (
        f'Create one: "openstack vgpu flavor create NAME --type {usage.name} '
        f'--resource-class {usage.resource_class} --vcpus NUMBER --ram MIB '
        '--disk GIB".'
    )


def _own_traits(gpu: fleet.GPU) -> frozenset[str]:
    return frozenset(
        trait for trait in gpu.traits if trait.startswith(traits.OWN_PREFIXES)
    )


def _describe_difference(found: frozenset[str], usual: frozenset[str]) -> str:
    parts = (('lacks', usual - found), ('has', found - usual))
    return ', '.join(
        f'{word} {" ".join(sorted(which))}' for word, which in parts if which
    )


def _give_examples(
    seen: Iterable[tuple[str, str]],
) -> tuple[values.Evidence, ...]:
    found = [values.Evidence(source, value) for source, value in seen]
    more = len(found) - _EXAMPLES
    if more <= 0:
        return tuple(found)
    return (*found[:_EXAMPLES], values.Evidence('and more', str(more)))
