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

"""What a flavor brings, in words.

The words say what the flavor asks for: its vGPUs by type, how many GPUs they
are on, and whole GPUs. They are made here for every page, in the language of
the user who asks.
"""

from collections.abc import Iterator

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from nova_vgpu.cloud.orders import demands
from nova_vgpu.cloud.orders import flavor_totals
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.cloud.orders import whole_gpu_order

_MIB_PER_GIB = 1024


def describe(flavor: flavors.Flavor) -> str:
    """The vGPUs and whole GPUs of a server; empty if there are none."""
    return '; '.join((*_describe_vgpus(flavor), *_describe_gpus(flavor)))


def count(flavor: flavors.Flavor) -> int:
    """How many vGPUs and whole GPUs a server has."""
    return sum(
        demand.vgpus for demand in flavor_totals.list_demands(flavor)
    ) + sum(whole_gpu_order.list_devices(flavor).values())


def _describe_vgpus(flavor: flavors.Flavor) -> Iterator[str]:
    is_isolated = flavor_totals.is_isolated(flavor)
    for kind, total in flavor_totals.add_up(flavor).items():
        parts = [_name(kind, total.vgpus)]
        if kind.framebuffer_mib is not None:
            parts.append(_measure(kind.framebuffer_mib, total.vgpus))
        if total.vgpus > 1:
            parts.append(_place(total, is_isolated))
        yield ', '.join(parts)


def _describe_gpus(flavor: flavors.Flavor) -> Iterator[str]:
    for of, number in whole_gpu_order.list_devices(flavor).items():
        yield ngettext(
            '%(count)d whole GPU of model %(model)s',
            '%(count)d whole GPUs of model %(model)s',
            number,
        ) % {'count': number, 'model': of.title}


def _name(kind: demands.Kind, vgpus: int) -> str:
    if kind.name is None:
        text = ngettext(
            '%(count)d vGPU of any type', '%(count)d vGPUs of any type', vgpus
        )
        return str(text % {'count': vgpus})
    text = ngettext(
        '%(count)d vGPU of %(type)s', '%(count)d vGPUs of %(type)s', vgpus
    )
    return str(text % {'count': vgpus, 'type': kind.name})


def _measure(framebuffer_mib: int, vgpus: int) -> str:
    gib, rest = divmod(framebuffer_mib, _MIB_PER_GIB)
    size = (
        _('%(size)d MiB') % {'size': framebuffer_mib}
        if rest
        else _('%(size)d GiB') % {'size': gib}
    )
    text = ngettext('%(size)s', '%(size)s each', vgpus)
    return str(text % {'size': size})


def _place(total: flavor_totals.Total, is_isolated: bool) -> str:
    """Which GPUs several vGPUs are of: one group is served by one GPU."""
    if total.groups == 1:
        return str(_('on one GPU'))
    if is_isolated:
        text = _('on %(count)d different GPUs')
    else:
        text = _('on up to %(count)d GPUs')
    return str(text % {'count': total.groups})
