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

"""Nova's provider tree: as values, changes of it, and who has what of it.

The tree is Nova's picture of Placement: it is changed here, and Nova sends
what differs. What to change is decided by :mod:`nova_vgpu.publish.decision`.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import copy
import dataclasses
import typing

from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
import nova.conf

from nova_vgpu import values
from nova_vgpu.compute import allocator
from nova_vgpu.compute import nova_types
from nova_vgpu.publish import providers as publish_providers

CONF = nova.conf.CONF

Tree = nova_types.ProviderTree
#: Resource classes of provider.yaml by the names or UUIDs of providers.
Additional = Mapping[str, frozenset[str]]


@contextlib.contextmanager
def all_or_nothing(tree: Tree) -> Iterator[None]:
    """Undo every change of the tree if the block fails."""
    before = copy.deepcopy(tree)
    try:
        yield
    except BaseException:
        # In place: it belongs to the caller.
        with tree.lock:
            tree.roots_by_uuid = before.roots_by_uuid
            tree.roots_by_name = before.roots_by_name
        raise


def read(
    tree: Tree,
    node: str,
    additional: Additional | None = None,
    allocations: nova_types.Consumers | None = None,
) -> values.PlacementTree:
    """The providers of a node; without usage, which Nova does not have here.

    :param additional: classes that Nova adds to providers; these are left
        out.
    """
    found = (tree.data(uuid) for uuid in tree.get_provider_uuids(node))
    return values.PlacementTree(
        node,
        tuple(
            _read_provider(provider, additional or {}) for provider in found
        ),
        consumers=tuple(
            _read_consumer(uuid, of_consumer)
            for uuid, of_consumer in (allocations or {}).items()
        ),
    )


def read_inventories(
    found: nova_types.Inventories,
) -> tuple[values.Inventory, ...]:
    return tuple(
        values.Inventory(name, **of_class) for name, of_class in found.items()
    )


def execute(
    tree: Tree,
    changes: Iterable[values.Change],
    allocations: nova_types.Consumers,
) -> None:
    """Change the tree, and in place the allocations that move."""
    for change in changes:
        match change:
            case values.CreateProvider():
                tree.new_child(change.name, change.parent, uuid=change.uuid)
            case values.SetInventories():
                tree.update_inventory(change.uuid, to_nova(change.after))
            case values.SetTraits():
                tree.update_traits(change.uuid, change.after)
            case values.DeleteProvider():
                tree.remove(change.uuid)
            case values.Reshape():
                execute(tree, change.inventories, allocations)
                for moved in change.consumers:
                    after = _list_allocations(moved)
                    allocations[moved.uuid]['allocations'] = after


def take_out(tree: Tree, node: str, additional: Additional) -> None:
    """Take the classes of provider.yaml from the providers below the node.

    Nova adds them after this driver, in the same update, and fails the update
    if they are there already.
    """
    for uuid in tree.get_provider_uuids(node)[1:] if additional else ():
        provider = tree.data(uuid)
        own = _leave_out(provider, additional)
        if own != provider.inventory:
            tree.update_inventory(uuid, own)


def _leave_out(
    provider: nova_types.Provider, additional: Additional
) -> nova_types.Inventories:
    added = additional.get(provider.name, frozenset()) | additional.get(
        provider.uuid, frozenset()
    )
    return {
        name: of_class
        for name, of_class in provider.inventory.items()
        if name not in added
    }


def _read_provider(
    provider: nova_types.Provider, additional: Additional
) -> values.PlacementProvider:
    return values.PlacementProvider(
        provider.uuid,
        provider.name,
        provider.generation or 0,
        provider.parent_uuid,
        read_inventories(_leave_out(provider, additional)),
        traits=frozenset(provider.traits),
    )


def _read_consumer(
    uuid: str, found: Mapping[str, typing.Any]
) -> values.Consumer:
    return values.Consumer(
        uuid,
        found['consumer_generation'],
        found['project_id'],
        found['user_id'],
        tuple(
            values.Allocation(provider, resource_class, amount)
            for provider, given in found['allocations'].items()
            for resource_class, amount in given['resources'].items()
        ),
    )


def _list_allocations(consumer: values.Consumer) -> nova_types.Consumers:
    made: nova_types.Consumers = {}
    for given in consumer.allocations:
        of_provider = made.setdefault(given.provider, {'resources': {}})
        of_provider['resources'][given.resource_class] = given.amount
    return made


def to_nova(planned: Iterable[values.Inventory]) -> nova_types.Inventories:
    """Inventories by resource class, as Nova has them."""
    found = {}
    for inventory in planned:
        of_class = dataclasses.asdict(inventory)
        found[of_class.pop('resource_class')] = of_class
    return found


class ServerAllocations:
    """Reads allocations and the providers that they are of."""

    def __init__(self, nova: nova_types.Driver) -> None:
        self._nova = nova

    def read(
        self, context: nova_types.Context, instance: nova_types.Instance
    ) -> nova_types.Allocations:
        """What a server holds of vGPUs of this host, by provider.

        :raises ComputeResourcesUnavailable: if Placement does not tell: the
            server must not start without its vGPUs.
        """
        tree = self.ensure_provider_tree(context)
        held = self._nova.virtapi.reportclient.get_allocations_for_consumer(
            context, instance.uuid
        )
        if not held:  # which is also how Nova says that Placement is down
            raise allocator.unavailable(
                'Placement did not return the allocations of server '
                f'{instance.uuid}. Start the server again when Placement '
                'answers.'
            )
        return {
            provider: of_provider
            for provider, of_provider in self._nova._vgpu_allocations(
                held
            ).items()
            if tree.exists(provider)
        }

    def list_here(
        self, allocations: nova_types.Allocations
    ) -> nova_types.Allocations:
        """Without those of other hosts, if there are any of this one.

        A server that is evacuated still holds what it had on its old host.
        """
        tree = self._nova.provider_tree
        here = {
            provider: of_provider
            for provider, of_provider in allocations.items()
            if tree is not None and tree.exists(provider)
        }
        return here or allocations

    def ensure_provider_tree(
        self, context: nova_types.Context
    ) -> nova_types.ProviderTree:
        """Guests are started before Nova first updates the providers."""
        if self._nova.provider_tree is None:
            name = self._nova._host.get_hostname()
            node = objects.ComputeNode.get_by_host_and_nodename(
                context, CONF.host, name
            )
            client = self._nova.virtapi.reportclient
            self._nova.provider_tree = (
                client.get_provider_tree_and_ensure_root(
                    context, node.uuid, name=name
                )
            )
        return self._nova.provider_tree

    def get_gpu_name(
        self, context: nova_types.Context, provider_uuid: str
    ) -> str:
        """The GPU or function that a provider stands for."""
        tree = self.ensure_provider_tree(context)
        provider = tree.data(provider_uuid)
        node = tree.data(provider.parent_uuid).name
        return provider.name.removeprefix(f'{node}_')

    def list_published(self, addresses: Iterable[str]) -> frozenset[str]:
        """Those addresses for which Placement has a provider of this node."""
        context = nova_context.get_admin_context()
        try:
            tree = self.ensure_provider_tree(context)
        except nova_exception.ComputeHostNotFound:
            return frozenset()  # this node never ran before
        node = self._nova._host.get_hostname()
        return frozenset(
            address
            for address in addresses
            if tree.exists(
                publish_providers.name_of(
                    node, values.PciAddress.parse(address).node_device_name
                )
            )
        )
