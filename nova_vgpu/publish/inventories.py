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

"""Inventories: the one place that says how much a provider offers.

A server keeps what it has: no inventory is made smaller than what is
allocated of it, and none goes while anything of it is allocated. What is free
and may not be given out is reserved.

What is allocated is never reserved. Up to 2025.1 Placement refuses to move an
allocation that is: a server could not be migrated away. So the vGPU of a
server that leaves is on offer until the next update; nova-compute refuses a
server that comes in that time.
"""

from collections.abc import Container
from collections.abc import Iterable
import dataclasses

from nova_vgpu import values


def plan_inventories(
    wanted: values.Provider,
    held: values.PlacementProvider,
    managed: Container[str] | None = None,
) -> tuple[values.Inventory, ...]:
    """What the provider of a GPU that serves is to have.

    :param managed: the resource classes that may be changed; None for all.
    """
    others = [
        inventory
        for inventory in held.inventories
        if inventory.resource_class != wanted.resource_class
    ]
    kept = [i for i in others if not _is_managed(i, managed)]
    former = [
        _reserve(inventory, held)
        for inventory in others
        if _is_managed(inventory, managed)
        and held.used_of(inventory.resource_class)
    ]
    # vGPUs under another class, from before it was changed, take up the same
    # hardware.
    elsewhere = sum(held.used_of(i.resource_class) for i in former)
    used = held.used_of(wanted.resource_class)
    total = max(wanted.total, used)
    # Two servers cannot share a vGPU: the ratio is 1.
    own = values.Inventory(
        wanted.resource_class,
        total=total,
        reserved=total - max(wanted.total - elsewhere, used),
        max_unit=wanted.total,
    )
    return in_order((own, *former, *kept))


def fence(held: values.PlacementProvider) -> tuple[values.Inventory, ...]:
    """What a provider is to have that gives out nothing more for now."""
    return in_order(_reserve(i, held) for i in held.inventories)


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
    return in_order(there.values())


def plan_function(
    held: values.PlacementProvider, classes: Iterable[str], vgpus: int
) -> tuple[values.Inventory, ...]:
    """What the provider of a virtual function is to have for Nova's driver.

    :param classes: those of the vGPUs that are on the function.
    :param vgpus: how many these are.
    """
    after = {i.resource_class: i for i in held.inventories}
    for name in classes:
        before = held.inventory_of(name)
        total = max(before.total if before else 0, vgpus)
        after[name] = values.Inventory(name, total, max_unit=total)
    return in_order(after.values())


def in_order(
    inventories: Iterable[values.Inventory],
) -> tuple[values.Inventory, ...]:
    return tuple(sorted(inventories, key=lambda i: i.resource_class))


def _reserve(
    inventory: values.Inventory, held: values.PlacementProvider
) -> values.Inventory:
    used = held.used_of(inventory.resource_class)
    total = max(inventory.total, used)
    return dataclasses.replace(inventory, total=total, reserved=total - used)


def _is_managed(
    inventory: values.Inventory, managed: Container[str] | None
) -> bool:
    return managed is None or inventory.resource_class in managed
