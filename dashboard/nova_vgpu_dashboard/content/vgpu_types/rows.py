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
"""The lists of vGPU types and whole GPUs: what is read, and their order.

Both lists have rows of the same kind. A whole GPU has a model and no type.
"""

from collections.abc import Sequence
import dataclasses
import typing

from django.utils.translation import gettext_lazy as _

from nova_vgpu import values
from nova_vgpu.cloud import reader
from nova_vgpu.cloud.diagnose import diagnosis
from nova_vgpu.cloud.diagnose import examination
from nova_vgpu.cloud.gpus import types
from nova_vgpu.cloud.orders import whole_gpu_listing
from nova_vgpu_dashboard import listing
from nova_vgpu_dashboard.content.gpus import choosers

_FREE = 'yes'


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """What the page shows: types that GPUs serve, and models of whole GPUs.

    ``flavor_ids`` are by the names of flavors.
    """

    served: tuple[types.TypeUsage, ...] = ()
    models: tuple[types.TypeUsage, ...] = ()
    findings: tuple[values.Finding, ...] = ()
    flavor_ids: dict[str, str] = dataclasses.field(default_factory=dict)


def read(cloud: reader.Cloud) -> Found:
    """Ask for all GPUs and all flavors, once each.

    :raises PlacementError: if Placement refuses or does not answer.
    :raises CloudError: if Nova does.
    """
    examined = examination.of_gpus(
        cloud.list_every_gpu(), cloud.list_flavors()
    )
    return Found(
        types.list_types(examined.gpus, examined.flavors),
        whole_gpu_listing.list_models(examined.whole, examined.flavors),
        diagnosis.diagnose_flavors(examined),
        {flavor.name: flavor.id for flavor in examined.flavors},
    )


def _name(usage: types.TypeUsage) -> tuple[object, ...]:
    return (
        usage.name is None,
        listing.natural(usage.name or ''),
        usage.resource_class,
    )


def _share(usage: types.TypeUsage) -> tuple[float, int]:
    return usage.used / usage.total if usage.total else 0.0, usage.total


def _by_name(usage: types.TypeUsage, text: str) -> bool:
    names = (usage.name, usage.facts.model, *usage.flavors)
    return any(text.casefold() in (name or '').casefold() for name in names)


RULES: listing.Rules[types.TypeUsage] = listing.Rules(
    filters={
        'name': _by_name,
        'model': lambda usage, text: usage.facts.model == text,
        'series': lambda usage, text: usage.facts.series == text,
        'free': lambda usage, text: text != _FREE or usage.free > 0,
    },
    orders={
        'name': _name,
        'model': lambda usage: listing.natural(usage.facts.model or ''),
        'resource_class': lambda usage: usage.resource_class,
        'framebuffer': lambda usage: usage.facts.framebuffer_mib or 0,
        'series': lambda usage: usage.facts.series or '',
        'gpus': lambda usage: usage.gpus,
        'hosts': lambda usage: usage.hosts,
        'usage': _share,
        'free': lambda usage: usage.free,
        'largest': lambda usage: usage.largest,
    },
    default='name',
)


def list_choosers(
    usages: Sequence[types.TypeUsage], place: listing.Place
) -> list[choosers.Chooser]:
    """The filters whose values can be listed."""
    facts = [usage.facts for usage in usages]
    free: list[tuple[str, typing.Any]] = [(_FREE, _('Some are free'))]
    return [
        choosers.Chooser(name, label, choices, place.filter_of(name))
        for name, label, choices in (
            (
                'model',
                _('Model'),
                listing.pair_choices(of.model for of in facts),
            ),
            (
                'series',
                _('Series'),
                listing.pair_choices(of.series for of in facts),
            ),
            ('free', _('Free'), free),
        )
    ]
