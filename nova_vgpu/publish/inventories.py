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

"""Inventories of a provider that is in use.

An instance keeps what it has: no inventory is made smaller than what is
allocated of it, and none goes while anything of it is allocated. What may not
be given out any more is reserved instead, so that Placement offers exactly
what the plan says.
"""

from collections.abc import Container
from collections.abc import Iterator
import dataclasses

from nova_vgpu import values


def plan_inventories(
    wanted: values.Provider,
    held: values.PlacementProvider,
    managed: Container[str] | None = None,
) -> tuple[values.Inventory, ...]:
    """What the provider is to have.

    :param managed: the resource classes that may be changed; None for all.
    """
    others = [
        inventory
        for inventory in held.inventories
        if inventory.resource_class != wanted.resource_class
    ]
    kept = tuple(_retire(others, held, managed))
    # vGPUs under another class, from before it was changed, take up the same
    # hardware.
    elsewhere = sum(
        held.used_of(inventory.resource_class)
        for inventory in kept
        if managed is None or inventory.resource_class in managed
    )
    allowed = max(wanted.total - elsewhere, 0)
    used = held.used_of(wanted.resource_class)
    total = max(wanted.total, used)
    own = values.Inventory(
        wanted.resource_class,
        total=total,
        reserved=total - allowed,
        max_unit=wanted.total,
    )
    return in_order((own, *kept))


def retire_inventories(
    held: values.PlacementProvider,
) -> tuple[values.Inventory, ...]:
    """What a provider that serves no more is to have: nothing to give."""
    return in_order(_retire(list(held.inventories), held, None))


def make_room(held: values.PlacementProvider) -> tuple[values.Inventory, ...]:
    """What a provider has to have for allocations that move to it.

    Placement takes them only as far as its inventory is not reserved. So what
    is used is all that there is, and nothing is reserved.

    :param held: with the usage that it is to have.
    """
    there = {i.resource_class: i for i in held.inventories}
    for name, used in held.used:
        before = there.get(name, values.Inventory(name, used))
        there[name] = dataclasses.replace(
            before,
            total=max(before.total - before.reserved, used),
            reserved=0,
            max_unit=max(before.max_unit, used),
        )
    return in_order(tuple(there.values()))


def in_order(
    inventories: tuple[values.Inventory, ...] | Iterator[values.Inventory],
) -> tuple[values.Inventory, ...]:
    return tuple(sorted(inventories, key=lambda i: i.resource_class))


def _retire(
    inventories: list[values.Inventory],
    held: values.PlacementProvider,
    managed: Container[str] | None,
) -> Iterator[values.Inventory]:
    for inventory in inventories:
        name = inventory.resource_class
        if managed is not None and name not in managed:
            yield inventory
        elif held.used_of(name):
            total = max(inventory.total, held.used_of(name))
            yield dataclasses.replace(inventory, total=total, reserved=total)
