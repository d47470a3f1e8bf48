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

"""The plan in Nova's provider tree.

The tree is Nova's picture of Placement: it is changed here, and Nova sends
what differs. Only providers that are certainly those of GPUs are changed
(:mod:`nova_vgpu.publish.ownership`); Nova has others below the same node.
"""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Container
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import copy
import dataclasses
import typing

from oslo_log import log as logging

from nova_vgpu import values
from nova_vgpu.publish import inventories
from nova_vgpu.publish import ownership

LOG = logging.getLogger(__name__)

Tree = typing.Any  # nova.compute.provider_tree.ProviderTree
#: What consumers hold, as Nova has it.
Allocations = dict[str, typing.Any]
#: What Nova knows of providers, by their names.
Held = Mapping[str, typing.Any]
#: What a provider offers, by resource class, as Nova has it.
Inventories = Mapping[str, Mapping[str, typing.Any]]


@dataclasses.dataclass(frozen=True, slots=True)
class Stock:
    """What has to be known before inventories are changed.

    ``read_used`` asks Placement how much of each class is allocated from a
    provider. ``additional`` are the classes of ``provider.yaml``: Nova adds
    them after this driver, and refuses if they are there already.
    """

    read_used: Callable[[str], Mapping[str, int]]
    additional: frozenset[str]

    def without_additional(self, inventory: Inventories) -> Inventories:
        return {
            name: of_class
            for name, of_class in inventory.items()
            if name not in self.additional
        }


@contextlib.contextmanager
def all_or_nothing(
    tree: Tree, allocations: Allocations | None
) -> Iterator[None]:
    """Undo every change of the tree and of allocations if the block fails."""
    tree_before = copy.deepcopy(tree)
    allocations_before = copy.deepcopy(allocations)
    try:
        yield
    except BaseException:
        # In place: both belong to the caller.
        with tree.lock:
            tree.roots_by_uuid = tree_before.roots_by_uuid
            tree.roots_by_name = tree_before.roots_by_name
        if allocations is not None:
            allocations.clear()
            allocations.update(allocations_before or {})
        raise


def list_held(tree: Tree, node: str) -> Held:
    """The providers below a node, and its own, as they are now."""
    found = (tree.data(uuid) for uuid in tree.get_provider_uuids(node))
    return {provider.name: provider for provider in found}


def ensure_providers(
    tree: Tree,
    node: str,
    held: Held,
    providers: Iterable[tuple[values.PhysicalGPU, values.Provider]],
    stock: Stock,
) -> None:
    """Make the providers of the plan exist, with inventory and traits."""
    for gpu, provider in providers:
        before = held.get(provider.name)
        if before is None:
            tree.new_child(provider.name, node)
            before = tree.data(provider.name)
        _offer(tree, provider, before, stock)
        present = frozenset(before.traits)
        wanted = frozenset(provider.traits)
        if present == wanted:
            continue
        stale = ownership.find_stale(gpu, present, wanted)
        tree.remove_traits(provider.name, *stale)
        tree.add_traits(provider.name, *wanted)


def _offer(
    tree: Tree, provider: values.Provider, before: typing.Any, stock: Stock
) -> None:
    """Set the inventory of a provider; what servers hold of it stays."""
    own = stock.without_additional(before.inventory)
    after = {provider.resource_class: _inventory(provider.total)}
    if own and own != after:
        used = stock.read_used(before.uuid)
        after = to_nova(
            inventories.plan_inventories(
                provider, make_value(before, own, used)
            )
        )
    if own != after:
        for name in after.keys() - {provider.resource_class}:
            LOG.warning(
                'Provider %s: servers hold %s, which is not declared any '
                'more. It is reserved until they are gone; %s is offered '
                'beside it.',
                provider.name,
                name,
                provider.resource_class,
            )
    if before.inventory != after:
        tree.update_inventory(provider.name, after)


def list_leftovers(
    held: Held,
    node: str,
    wanted: Container[str],
    classes: Collection[str],
    devices: Container[str],
) -> Iterator[typing.Any]:
    """Providers of GPUs below the node that the plan does not have.

    :param classes: the resource classes that types are declared with.
    :param devices: names of the GPUs of the host.
    """
    root = held[node].uuid
    for provider in held.values():
        if (
            provider.parent_uuid == root
            and provider.name not in wanted
            and ownership.is_of_gpu(
                make_value(provider, provider.inventory),
                node,
                classes,
                devices,
            )
        ):
            yield provider


def fence(
    tree: Tree, provider: typing.Any, stock: Stock, awaited: bool
) -> None:
    """Take a provider out of service.

    It goes; or, while servers hold some of it, nothing more of it can be had.

    :param awaited: the GPU is to serve and cannot (yet). Its provider stays,
        with what others set on it.
    """
    is_used = bool(stock.read_used(provider.uuid))
    if not is_used and not awaited:
        LOG.info('Removing provider %s: no GPU serves it.', provider.name)
        tree.remove(provider.name)
        return
    own = stock.without_additional(provider.inventory)
    fenced = {
        name: {**of_class, 'reserved': of_class['total']}
        for name, of_class in own.items()
    }
    if fenced != own and is_used:
        LOG.warning(
            'Provider %s has allocations, but no GPU serves it any more: '
            'all of it is reserved until they are gone.',
            provider.name,
        )
    elif fenced != own:
        LOG.warning(
            'Provider %s: all of it is reserved until its GPU can serve.',
            provider.name,
        )
    if fenced != provider.inventory:
        tree.update_inventory(provider.name, fenced)


def list_classes(tree: Tree, stock: Stock) -> frozenset[str]:
    """The resource classes that providers of GPUs offer, or did."""
    found: set[str] = set()
    for uuid in tree.get_provider_uuids():
        provider = tree.data(uuid)
        if provider.parent_uuid is None:
            continue
        own = stock.without_additional(provider.inventory)
        node = tree.data(provider.parent_uuid).name
        if ownership.is_of_gpu(make_value(provider, own), node, ()):
            found |= own.keys()
    return frozenset(found)


def make_value(
    provider: typing.Any,
    inventory: Inventories,
    used: Mapping[str, int] | None = None,
) -> values.PlacementProvider:
    """A provider of Nova's tree as a value of this project."""
    return values.PlacementProvider(
        provider.uuid,
        provider.name,
        provider.generation or 0,
        provider.parent_uuid,
        tuple(
            values.Inventory(name, **of_class)
            for name, of_class in inventory.items()
        ),
        tuple(sorted((used or {}).items())),
        frozenset(provider.traits),
    )


def to_nova(
    planned: Iterable[values.Inventory],
) -> dict[str, dict[str, typing.Any]]:
    found = {}
    for inventory in planned:
        of_class = dataclasses.asdict(inventory)
        found[of_class.pop('resource_class')] = of_class
    return found


def _inventory(total: int) -> dict[str, typing.Any]:
    # Two guests cannot share a vGPU: the ratio is 1.
    (of_class,) = to_nova(
        [values.Inventory('VGPU', total, max_unit=total)]
    ).values()
    return of_class
