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
(:mod:`nova_vgpu.decisions.ownership`); Nova has others below the same node.
"""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Container
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import typing

from oslo_log import log as logging

from nova_vgpu import values
from nova_vgpu.decisions import ownership

LOG = logging.getLogger(__name__)

Tree = typing.Any  # nova.compute.provider_tree.ProviderTree
#: What Nova knows of providers, by their names.
Held = Mapping[str, typing.Any]


def list_held(tree: Tree, node: str) -> Held:
    """The providers below a node, and its own, as they are now."""
    found = (tree.data(uuid) for uuid in tree.get_provider_uuids(node))
    return {provider.name: provider for provider in found}


def ensure_providers(
    tree: Tree,
    node: str,
    held: Held,
    providers: Iterable[tuple[values.PhysicalGPU, values.Provider]],
) -> None:
    """Make the providers of the plan exist, with inventory and traits."""
    for gpu, provider in providers:
        before = held.get(provider.name)
        if before is None:
            tree.new_child(provider.name, node)
        inventory = {provider.resource_class: _inventory(provider.total)}
        if before is None or before.inventory != inventory:
            tree.update_inventory(provider.name, inventory)
        present = frozenset(before.traits) if before else frozenset()
        wanted = frozenset(provider.traits)
        if present == wanted:
            continue
        stale = ownership.find_stale(gpu, present, wanted)
        tree.remove_traits(provider.name, *stale)
        tree.add_traits(provider.name, *wanted)


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
                _make_value(provider), node, classes, devices
            )
        ):
            yield provider


def fence(
    tree: Tree, provider: typing.Any, has_allocations: Callable[[str], bool]
) -> None:
    """Take a provider out of service.

    It goes; or, while servers hold some of it, nothing more of it can be had.
    """
    if not has_allocations(provider.uuid):
        LOG.info('Removing provider %s: no GPU serves it.', provider.name)
        tree.remove(provider.name)
        return
    fenced = {
        name: {**inventory, 'reserved': inventory['total']}
        for name, inventory in provider.inventory.items()
    }
    if fenced != provider.inventory:
        LOG.warning(
            'Provider %s has allocations, but no GPU serves it any more: '
            'all of it is reserved until they are gone.',
            provider.name,
        )
        tree.update_inventory(provider.name, fenced)


def _make_value(provider: typing.Any) -> values.HeldProvider:
    """A provider of Nova's tree as a value of this project."""
    return values.HeldProvider(
        provider.uuid,
        provider.name,
        provider.generation or 0,
        provider.parent_uuid,
        tuple(
            values.Inventory(name, inventory['total'])
            for name, inventory in provider.inventory.items()
        ),
        traits=frozenset(provider.traits),
    )


def _inventory(total: int) -> dict[str, typing.Any]:
    return {
        'total': total,
        'reserved': 0,
        'min_unit': 1,
        'max_unit': total,
        'step_size': 1,
        # Two guests cannot share a vGPU.
        'allocation_ratio': 1.0,
    }
