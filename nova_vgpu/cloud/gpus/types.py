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

"""The vGPU types of a cloud: how many there are, and how many are left."""

import collections
from collections.abc import Iterable
from collections.abc import Sequence
import dataclasses

from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.gpus import provider_traits
from nova_vgpu.cloud.orders import flavors as cloud_flavors

#: GPUs with what each of them has of a resource class.
Stocks = Sequence[tuple[fleet.GPU, fleet.Stock]]


@dataclasses.dataclass(frozen=True, slots=True)
class TypeUsage:
    """A type with its resource class, on all GPUs that serve it.

    ``largest`` is the largest number of vGPUs that are free on one host.
    """

    facts: provider_traits.Facts
    resource_class: str
    gpus: int
    hosts: int
    total: int
    used: int
    reserved: int
    free: int
    largest: int
    flavors: tuple[str, ...] = ()

    @property
    def name(self) -> str | None:
        return self.facts.name


def list_types(
    gpus: Iterable[fleet.GPU],
    flavors: Sequence[cloud_flavors.Flavor] = (),
) -> tuple[TypeUsage, ...]:
    """One entry for each type and resource class, in their order.

    GPUs whose type is unknown are together, for each resource class.
    """
    groups = collections.defaultdict(list)
    for gpu in gpus:
        for stock in gpu.stocks:
            groups[gpu.facts.types, stock.resource_class].append((gpu, stock))
    return tuple(
        summarise(
            found[0][0].facts,
            resource_class,
            found,
            _list_asking(flavors, resource_class, found),
        )
        for (_, resource_class), found in sorted(groups.items())
    )


def summarise(
    facts: provider_traits.Facts,
    resource_class: str,
    found: Stocks,
    flavors: Iterable[str],
) -> TypeUsage:
    """What all GPUs have together.

    :param found: GPUs with what they have of the resource class.
    :param flavors: the names of those that can get it.
    """
    free: collections.Counter[str] = collections.Counter()
    for gpu, stock in found:
        free[gpu.host] += stock.free
    return TypeUsage(
        facts,
        resource_class,
        len(found),
        len(free),
        sum(stock.total for _, stock in found),
        sum(stock.used for _, stock in found),
        sum(stock.reserved or 0 for _, stock in found),
        free.total(),
        max(free.values()),
        tuple(sorted(flavors)),
    )


def _list_asking(
    flavors: Iterable[cloud_flavors.Flavor], resource_class: str, found: Stocks
) -> list[str]:
    kinds = fleet.list_kinds(gpu for gpu, _ in found)
    return [
        flavor.name
        for flavor in flavors
        if any(flavor.asks_for(gpu, resource_class) for gpu in kinds)
    ]
