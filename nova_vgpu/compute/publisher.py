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

"""What Placement is told of GPUs, through Nova's provider tree.

What the providers are to hold is decided by
:mod:`nova_vgpu.publish.decision`, as for the commands. Here Nova is asked for
what the decision needs, and its tree is changed.

Nova reshapes only while the service starts, and only if Placement can be
reached at that moment. So allocations are moved here, whenever they have to
be: a GPU may get ready later.
"""

import collections
from collections.abc import Callable
from collections.abc import Container
import dataclasses

from nova import context as nova_context
from nova import exception as nova_exception
from nova.compute import provider_config
import nova.conf
from oslo_log import log as logging

from nova_vgpu import values
from nova_vgpu.compute import log
from nova_vgpu.compute import nova_types
from nova_vgpu.compute import tree
from nova_vgpu.publish import decision
from nova_vgpu.publish import providers
from nova_vgpu.publish import take_over

LOG = logging.getLogger(__name__)
CONF = nova.conf.CONF

MOVE_FAILED = 'Could not move allocations to the providers of GPUs'
#: Nova repeats an update three times; the last one has to end well.
_MOVES = 2


class Publisher:
    """Brings a plan into Nova's provider tree.

    :param get_client: Nova's client of Placement.
    :param list_guests: the guests of the host, with their mdevs.
    """

    def __init__(
        self,
        failures: log.FailureLog,
        get_client: Callable[[], nova_types.ReportClient],
        list_guests: Callable[[], tuple[values.Guest, ...]],
    ) -> None:
        self._failures = failures
        self._problem_log = log.ProblemLog()
        self._get_client = get_client
        self._list_guests = list_guests
        # How often allocations may still be moved before an update goes on.
        self._moves_left = _MOVES
        self._additional: tree.Additional | None = None
        self._target = providers.Target(values.Plan(), '')
        # The tree of the last update, if that had nothing to change, whatever
        # is in use.
        self._settled: values.PlacementTree | None = None

    def update(
        self, provider_tree: tree.Tree, node: str, plan: values.Plan
    ) -> None:
        """One provider per physical GPU and type, with inventory and traits.

        What was elsewhere before (on the root, on VFs) is moved with its
        allocations; providers that no GPU serves any more are removed, or
        fenced while they are used.
        """
        if self._target.plan is not plan or self._target.node != node:
            self._target = providers.Target(plan, node, providers.Mode.DRIVER)
            self._settled = None
        before = tree.read(provider_tree, node)
        if before == self._settled:
            return
        self._settled = None
        unmoved: tuple[values.Problem, ...] = ()
        waiting: frozenset[str] = frozenset()
        if take_over.is_needed(self._target, before):
            unmoved = self._take_over(before)
            waiting = take_over.list_waiting(self._target, before)
        self._moves_left = _MOVES
        decided = decision.diff_all(self._target, before, waiting)
        if not decided.changes and not waiting:
            self._settled = before
        decided = self._decide_with_usage(decided, before, waiting)
        self._problem_log.say((*unmoved, *decided.problems))
        if not decided.changes:
            return
        with tree.all_or_nothing(provider_tree):
            tree.execute(provider_tree, decided.changes, {})
        for change in decided.changes:
            self._log(change)

    def prepare(self, provider_tree: tree.Tree, node: str) -> None:
        """Make the tree ready for Nova, whatever comes of an update."""
        tree.take_out(provider_tree, node, self.read_provider_config())

    def keep_on_root(
        self,
        provider_tree: tree.Tree,
        node: str,
        before: nova_types.Inventories,
    ) -> None:
        """Keep the VGPU that servers have of the node's own provider.

        :param before: what it offered before Nova's driver set its inventory.
        """
        root = provider_tree.data(node)
        kept = take_over.keep_on_root(
            tree.read_inventories(before), self._read_used(root.uuid)
        )
        provider_tree.update_inventory(
            node, {**root.inventory, **tree.to_nova(kept)}
        )

    def list_classes(self, provider_tree: tree.Tree) -> frozenset[str]:
        """The resource classes that providers of GPUs offer, or did."""
        additional = self.read_provider_config()
        return frozenset(
            inventory.resource_class
            for node in list(provider_tree.roots_by_name)
            for held in tree.read(provider_tree, node, additional).providers
            if providers.is_of_gpu(held, node, ())
            for inventory in held.inventories
        )

    def read_provider_config(self) -> tree.Additional:
        """The resource classes of provider.yaml.

        Read once, as Nova does: the files may change later.
        """
        if self._additional is None:
            configs = provider_config.get_provider_configs(
                CONF.compute.provider_config_location
            )
            self._additional = {
                provider: frozenset(
                    name
                    for given in config.get('inventories', {}).get(
                        'additional', ()
                    )
                    for name in given
                )
                for provider, config in configs.items()
            }
        return self._additional

    def _decide_with_usage(
        self,
        decided: values.Difference,
        before: values.PlacementTree,
        waiting: Container[str],
    ) -> values.Difference:
        """Decide again, with usage where it matters."""
        dependent = decision.list_dependent(decided)
        if not dependent:
            return decided
        with_usage = tuple(
            dataclasses.replace(held, used=self._read_used(held.uuid))
            if held.uuid in dependent
            else held
            for held in before.providers
        )
        return decision.diff_all(
            self._target,
            dataclasses.replace(before, providers=with_usage),
            waiting,
        )

    def _log(self, change: values.Change) -> None:
        match change:
            case values.DeleteProvider():
                LOG.info(
                    'Removing provider %s: no GPU serves it.', change.name
                )
            case values.SetInventories() if change.name in self._target.served:
                _, wanted = self._target.served[change.name]
                for inventory in change.after:
                    if inventory.resource_class != wanted.resource_class:
                        LOG.warning(
                            'Provider %s: %s is not declared any more, but '
                            'servers have allocations of it. The rest of it '
                            'is reserved until they are deleted or moved; %s '
                            'is offered as well.',
                            change.name,
                            inventory.resource_class,
                            wanted.resource_class,
                        )
            case values.SetInventories() if self._target.is_awaited(
                change.name
            ):
                LOG.warning(
                    'Provider %s: its free inventory is reserved until its '
                    'GPU can serve.',
                    change.name,
                )
            case values.SetInventories() if not change.after:
                LOG.info(
                    'Removing the inventory of provider %s: no GPU serves it. '
                    'It stays, because others use it too.',
                    change.name,
                )

    def _take_over(
        self, before: values.PlacementTree
    ) -> tuple[values.Problem, ...]:
        """Move allocations to the providers of GPUs, in Placement.

        :returns: why they are not moved with this update.
        :raises ResourceProviderUpdateConflict: if anything was tried, for
            what Nova knows of Placement is outdated then. Nova reads it again
            and repeats the update.
        """
        if not self._moves_left:
            # With the next update; this one has to come to an end.
            return ()
        self._moves_left -= 1
        root = before.providers[0]
        try:
            decided = self._reshape(root)
        except nova_exception.NovaException as error:
            self._failures.say(MOVE_FAILED, error)
        else:
            self._failures.forget(MOVE_FAILED)
            if decided.refused:
                return decided.problems
        raise nova_exception.ResourceProviderUpdateConflict(
            uuid=root.uuid,
            generation=root.generation,
            error='the driver moved allocations to providers of GPUs',
        )

    def _reshape(self, root: values.PlacementProvider) -> values.Difference:
        """The request to Placement, with everything read again."""
        context = nova_context.get_admin_context()
        client = self._get_client()
        # With sharing providers of other trees: what is missing is removed.
        fresh = client.get_provider_tree_and_ensure_root(
            context, root.uuid, name=root.name
        )
        allocations = client.get_allocations_for_provider_tree(
            context, root.name
        )
        decided = decision.decide(
            dataclasses.replace(self._target, guests=self._list_guests()),
            tree.read(fresh, root.name, allocations=allocations),
        )
        tree.execute(fresh, decided.changes, allocations)
        moved = {
            consumer.uuid: allocations[consumer.uuid]
            for change in decided.changes
            if isinstance(change, values.Reshape)
            for consumer in change.consumers
        }
        if decided.changes:
            client.update_from_provider_tree(
                context, fresh, allocations=moved or None
            )
            LOG.info(
                'Moved the allocations of %s consumers to the providers of '
                'GPUs.',
                len(moved),
            )
        return decided

    def _read_used(self, provider_uuid: str) -> tuple[tuple[str, int], ...]:
        """How much of each class is allocated from a provider."""
        found = self._get_client().get_allocations_for_resource_provider(
            nova_context.get_admin_context(), provider_uuid
        )
        used: collections.Counter[str] = collections.Counter()
        for consumer in found.allocations.values():
            used.update(consumer['resources'])
        return tuple(sorted(used.items()))
