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

"""Allocations that move from one provider to another.

They move all at once, with the inventories that they need, or not at all.
"""

import collections
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses

from nova_vgpu import values


@dataclasses.dataclass(frozen=True, slots=True)
class Transfer:
    """One vGPU of a consumer: whose it is counted as, and whose it shall be.

    ``source`` and ``target`` are as Placement holds them, or will.
    """

    consumer: values.Consumer
    resource_class: str
    source: values.PlacementProvider
    target: values.PlacementProvider


def make_reshape(
    node: str,
    transfers: Sequence[Transfer],
    inventories: Iterable[values.SetInventories],
) -> values.Reshape:
    """The request that moves allocations.

    :param inventories: of the providers that they leave or move to.
    """
    return values.Reshape(
        node,
        tuple(inventories),
        tuple(list_moved(transfers)),
        tuple(
            values.Move(t.consumer.uuid, t.resource_class, t.target.name)
            for t in transfers
        ),
    )


def list_moved(transfers: Iterable[Transfer]) -> Iterator[values.Consumer]:
    """The consumers with their allocations as they are to be."""
    by_consumer: dict[str, list[Transfer]] = collections.defaultdict(list)
    for transfer in transfers:
        by_consumer[transfer.consumer.uuid].append(transfer)
    for of_consumer in by_consumer.values():
        consumer = of_consumer[0].consumer
        amounts = collections.Counter(
            {
                (given.provider, given.resource_class): given.amount
                for given in consumer.allocations
            }
        )
        for moved in of_consumer:
            amounts[moved.source.uuid, moved.resource_class] -= 1
            amounts[moved.target.uuid, moved.resource_class] += 1
        yield dataclasses.replace(
            consumer,
            allocations=tuple(
                values.Allocation(provider, resource_class, amount)
                for (provider, resource_class), amount in amounts.items()
                if amount
            ),
        )
