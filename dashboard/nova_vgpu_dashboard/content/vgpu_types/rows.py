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

"""The list of vGPU types: its order, and flavors that no GPU can serve."""

from collections.abc import Iterable
from collections.abc import Sequence

from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.gpus import types
from nova_vgpu.cloud.orders import flavor_listing
from nova_vgpu.cloud.orders import flavors
from nova_vgpu_dashboard import listing


def _name(usage: types.TypeUsage) -> tuple[object, ...]:
    return (
        usage.name is None,
        listing.natural(usage.name or ''),
        usage.resource_class,
    )


def _share(usage: types.TypeUsage) -> tuple[float, int]:
    return usage.used / usage.total if usage.total else 0.0, usage.total


RULES: listing.Rules[types.TypeUsage] = listing.Rules(
    filters={},
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


def find_unserved(
    listed: Sequence[flavors.Flavor], gpus: Sequence[fleet.GPU]
) -> tuple[str, ...]:
    """The names of flavors that ask for a vGPU which no GPU has."""
    return tuple(
        found.flavor.name
        for found in flavor_listing.list_vgpu_flavors(listed, gpus)
        if not _is_served(found.flavor, gpus)
    )


def _is_served(flavor: flavors.Flavor, gpus: Iterable[fleet.GPU]) -> bool:
    return any(
        flavor.asks_for(gpu, stock.resource_class)
        for gpu in gpus
        for stock in gpu.stocks
    )
