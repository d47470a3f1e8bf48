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

"""The content of Placement, and changes of it."""

import dataclasses

from nova_vgpu.values import planning


@dataclasses.dataclass(frozen=True, slots=True)
class Inventory:
    """A provider's inventory of one resource class."""

    resource_class: str
    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int = 1
    step_size: int = 1
    allocation_ratio: float = 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class PlacementProvider:
    """A resource provider in Placement.

    ``parent`` is the UUID of the parent provider. ``used`` are the allocated
    amounts of classes that have any. Inventories, usage and traits are empty
    if they were not read.
    """

    uuid: str
    name: str
    generation: int
    parent: str | None = None
    inventories: tuple[Inventory, ...] = ()
    used: tuple[tuple[str, int], ...] = ()
    traits: frozenset[str] = frozenset()

    @property
    def in_use(self) -> bool:
        return any(amount for _, amount in self.used)

    def used_of(self, resource_class: str) -> int:
        return dict(self.used).get(resource_class, 0)

    def inventory_of(self, resource_class: str) -> Inventory | None:
        return next(
            (
                i
                for i in self.inventories
                if i.resource_class == resource_class
            ),
            None,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Allocation:
    """An allocated amount of one resource class of a provider."""

    provider: str
    resource_class: str
    amount: int


@dataclasses.dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer with all of its allocations.

    For Nova it is a server, or the migration of one.
    """

    uuid: str
    generation: int
    project: str
    user: str
    allocations: tuple[Allocation, ...]

    def held_of(self, provider: str) -> tuple[Allocation, ...]:
        return tuple(a for a in self.allocations if a.provider == provider)


@dataclasses.dataclass(frozen=True, slots=True)
class PlacementTree:
    """The providers of a compute node, the root first.

    ``known_traits`` and ``known_classes`` are those of the whole Placement,
    ``consumers`` those of the providers for which they were read.
    """

    node: str
    providers: tuple[PlacementProvider, ...] = ()
    known_traits: frozenset[str] = frozenset()
    known_classes: frozenset[str] = frozenset()
    consumers: tuple[Consumer, ...] = ()

    @property
    def root(self) -> PlacementProvider | None:
        return self.providers[0] if self.providers else None

    def find(self, name: str) -> PlacementProvider | None:
        return next((p for p in self.providers if p.name == name), None)


@dataclasses.dataclass(frozen=True, slots=True)
class CreateTrait:
    name: str

    def __str__(self) -> str:
        return f'create trait {self.name}'


@dataclasses.dataclass(frozen=True, slots=True)
class CreateResourceClass:
    name: str

    def __str__(self) -> str:
        return f'create resource class {self.name}'


@dataclasses.dataclass(frozen=True, slots=True)
class CreateProvider:
    """``parent`` is the UUID of the parent provider, None for a root."""

    uuid: str
    name: str
    parent: str | None

    def __str__(self) -> str:
        return f'{self.name}: create provider'


@dataclasses.dataclass(frozen=True, slots=True)
class SetInventories:
    """All inventories of a provider, before and after."""

    uuid: str
    name: str
    before: tuple[Inventory, ...]
    after: tuple[Inventory, ...]

    def __str__(self) -> str:
        return f'{self.name}: set inventory'


@dataclasses.dataclass(frozen=True, slots=True)
class SetTraits:
    """All traits of a provider, before and after."""

    uuid: str
    name: str
    before: frozenset[str]
    after: frozenset[str]

    @property
    def added(self) -> tuple[str, ...]:
        return tuple(sorted(self.after - self.before))

    @property
    def removed(self) -> tuple[str, ...]:
        return tuple(sorted(self.before - self.after))

    def __str__(self) -> str:
        return f'{self.name}: set traits'


@dataclasses.dataclass(frozen=True, slots=True)
class Move:
    """An allocation of one resource moves to another provider.

    ``target`` is the name of that provider.
    """

    consumer: str
    resource_class: str
    target: str


@dataclasses.dataclass(frozen=True, slots=True)
class Reshape:
    """Inventories and allocations that change together or not at all.

    ``name`` is the node's. ``consumers`` have all of their new allocations;
    ``moves`` describes the difference.
    """

    name: str
    inventories: tuple[SetInventories, ...]
    consumers: tuple[Consumer, ...]
    moves: tuple[Move, ...]

    def __str__(self) -> str:
        return f'{self.name}: move allocations'


@dataclasses.dataclass(frozen=True, slots=True)
class DeleteProvider:
    uuid: str
    name: str

    def __str__(self) -> str:
        return f'{self.name}: delete provider'


#: One request that changes something. They are made in the order given.
Change = (
    CreateTrait
    | CreateResourceClass
    | CreateProvider
    | SetInventories
    | SetTraits
    | Reshape
    | DeleteProvider
)


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """Where the plan and Placement differ.

    ``changes`` bring Placement to the plan; ``problems`` are the differences
    that they cannot or must not remove. There are no changes beside a fatal
    problem.
    """

    changes: tuple[Change, ...] = ()
    problems: tuple[planning.Problem, ...] = ()

    @property
    def refused(self) -> bool:
        fatal = planning.Severity.FATAL
        return any(p.severity is fatal for p in self.problems)
