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

"""What a flavor asks for in all, and the same in words.

By the flavor alone, so that it is the same for everyone who may see it. The
pages of Horizon say the same in the language of the user.
"""

import collections
from collections.abc import Iterator
import dataclasses

from nova_vgpu.cloud.gpus import provider_traits
from nova_vgpu.cloud.orders import demands
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.cloud.orders import whole_gpu_order

_MIB_PER_GIB = 1024
_ISOLATED = 'isolate'


@dataclasses.dataclass(slots=True)
class Total:
    """vGPUs of one type: how many, and in how many groups."""

    vgpus: int = 0
    groups: int = 0


def add_up(flavor: flavors.Flavor) -> dict[demands.Kind, Total]:
    """The vGPUs of each type, in the order of the groups."""
    totals: dict[demands.Kind, Total] = collections.defaultdict(Total)
    for demand in list_demands(flavor):
        total = totals[demand.kind]
        total.vgpus += demand.vgpus
        total.groups += 1
    return dict(totals)


def list_demands(flavor: flavors.Flavor) -> Iterator[demands.Demand]:
    """What each group asks for: every named group is served by one GPU."""
    for group in flavor.groups:
        alone = dataclasses.replace(flavor, groups=(group,))
        for demand in demands.find((alone,), ())[flavor.name]:
            kind = demand.kind
            if kind.framebuffer_mib is None:
                size = provider_traits.read(group.required).framebuffer_mib
                kind = dataclasses.replace(kind, framebuffer_mib=size)
            yield dataclasses.replace(demand, kind=kind)


def is_isolated(flavor: flavors.Flavor) -> bool:
    """Whether each group is served by another GPU."""
    return flavor.policy == _ISOLATED


def describe(flavor: flavors.Flavor) -> str:
    """The vGPUs and whole GPUs of a server; empty if there are none."""
    return '; '.join((*_describe_vgpus(flavor), *_describe_gpus(flavor)))


def _describe_vgpus(flavor: flavors.Flavor) -> Iterator[str]:
    for kind, total in add_up(flavor).items():
        of = kind.name or 'any type'
        parts = [f'{total.vgpus} vGPU{_plural(total.vgpus)} of {of}']
        if kind.framebuffer_mib is not None:
            size = _measure(kind.framebuffer_mib)
            parts.append(f'{size} each' if total.vgpus > 1 else size)
        if total.vgpus > 1:
            parts.append(_place(total, is_isolated(flavor)))
        yield ', '.join(parts)


def _describe_gpus(flavor: flavors.Flavor) -> Iterator[str]:
    for of, count in whole_gpu_order.list_devices(flavor).items():
        yield f'{count} whole GPU{_plural(count)} of model {of.title}'


def _measure(framebuffer_mib: int) -> str:
    gib, rest = divmod(framebuffer_mib, _MIB_PER_GIB)
    return f'{framebuffer_mib} MiB' if rest else f'{gib} GiB'


def _place(total: Total, isolated: bool) -> str:
    if total.groups == 1:
        return 'on one GPU'
    if isolated:
        return f'on {total.groups} different GPUs'
    return f'on up to {total.groups} GPUs'


def _plural(count: int) -> str:
    return '' if count == 1 else 's'
