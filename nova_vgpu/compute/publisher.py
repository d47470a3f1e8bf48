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

"""What Placement is told of GPUs, through Nova's provider tree."""

import collections
from collections.abc import Callable
from collections.abc import Collection
import copy
import typing

from nova import context as nova_context
from nova import exception as nova_exception
from nova.compute import provider_config
import nova.conf
from oslo_log import log as logging

from nova_vgpu import values
from nova_vgpu.compute import log
from nova_vgpu.compute import reshape
from nova_vgpu.compute import tree
from nova_vgpu.publish import providers

LOG = logging.getLogger(__name__)
CONF = nova.conf.CONF

MOVE_FAILED = 'Could not move what servers hold to the providers of GPUs'
#: Nova repeats an update three times; the last one has to end well.
_MOVES = 2

_Wanted = tuple[values.PhysicalGPU, values.Provider]
#: Nova's ``_reshape_gpu_resources``: allocations, root, providers by GPU.
MoveFromRoot = Callable[
    [tree.Allocations, typing.Any, dict[str, typing.Any]], None
]


class Publisher:
    """Brings a plan into Nova's provider tree.

    :param get_client: Nova's client of Placement.
    :param move_from_root: moves allocations of VGPU from the root provider
        to those of the GPUs that hold the vGPUs.
    """

    def __init__(
        self,
        declaration: values.Declaration,
        failures: log.FailureLog,
        get_client: Callable[[], typing.Any],
        move_from_root: MoveFromRoot,
    ) -> None:
        self._types = declaration.types
        self._classes = {
            declared.resource_class for declared in declaration.types
        }
        self._failures = failures
        self._get_client = get_client
        self._allocate_from_gpus = move_from_root
        # How often allocations may still be moved before an update goes on.
        self._moves_left = _MOVES
        # The resource classes of provider.yaml; read once, as Nova does.
        self._additional: frozenset[str] | None = None
        # The providers that follow from a plan, for a node.
        self._wanted: tuple[values.Plan, str, list[_Wanted]] | None = None

    def update(
        self, provider_tree: tree.Tree, node: str, plan: values.Plan
    ) -> None:
        """One provider per physical GPU, with traits.

        What was elsewhere before (on the root, on VFs) is moved with its
        allocations; providers that no GPU serves any more are removed, or
        fenced while they are used.
        """
        wanted = self._list_wanted(plan, node)
        names = {provider.name for _, provider in wanted}
        held = tree.list_held(provider_tree, node)
        if reshape.is_needed(held, node, plan, names):
            if self._moves_left:
                self._moves_left -= 1
                self._move_allocations(provider_tree, node, plan, names)
            # With the next update; this one has to come to an end.
            self._moves_left = _MOVES
            return
        self._moves_left = _MOVES
        stock = self._stock()
        tree.ensure_providers(provider_tree, node, held, wanted, stock)
        devices = {gpu.name for gpu in plan.gpus}
        awaited = providers.list_awaited(plan, self._types)
        for leftover in tree.list_leftovers(
            held, node, names, self._classes, devices
        ):
            device = leftover.name.removeprefix(f'{node}_')
            tree.fence(provider_tree, leftover, stock, device in awaited)

    def list_classes(self, provider_tree: tree.Tree) -> frozenset[str]:
        """The resource classes that providers of GPUs offer, or did."""
        return tree.list_classes(provider_tree, self._stock())

    def read_provider_config(self) -> None:
        """Read provider.yaml as Nova reads it; it may be changed later."""
        self._stock()

    def _list_wanted(self, plan: values.Plan, node: str) -> list[_Wanted]:
        """The providers of a plan, and of which GPUs they are."""
        before = self._wanted
        if before is None or before[0] is not plan or before[1] != node:
            wanted = [
                (assigned.gpu, provider)
                for assigned in plan.assignments
                if (provider := providers.make_provider(assigned, node))
            ]
            self._wanted = before = (plan, node, wanted)
        return before[2]

    def _move_allocations(
        self,
        provider_tree: tree.Tree,
        node: str,
        plan: values.Plan,
        names: Collection[str],
    ) -> typing.NoReturn:
        """Move what servers hold to the providers of GPUs, in Placement.

        :raises ResourceProviderUpdateConflict: whatever came of it, for what
            Nova knows of Placement is outdated then. Nova reads it again, and
            repeats the update.
        """
        root = provider_tree.data(node)
        try:
            self._reshape(root, plan, names)
        except nova_exception.NovaException as error:
            self._failures.say(MOVE_FAILED, error)
        else:
            self._failures.forget(MOVE_FAILED)
        raise nova_exception.ResourceProviderUpdateConflict(
            uuid=root.uuid,
            generation=root.generation,
            error='the driver moved allocations to providers of GPUs',
        )

    def _reshape(
        self, root: typing.Any, plan: values.Plan, names: Collection[str]
    ) -> None:
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
        before = copy.deepcopy(allocations)
        reshape.ensure_targets(fresh, root.name, names)
        reshape.move_from_functions(fresh, root.name, plan, allocations)
        self._move_from_root(fresh, root.name, plan, allocations)
        reshape.make_room(fresh, names, allocations)
        moved = {
            consumer: held
            for consumer, held in allocations.items()
            if held != before[consumer]
        }
        client.update_from_provider_tree(
            context, fresh, allocations=moved or None
        )
        LOG.info(
            'Moved what %s consumers hold to the providers of GPUs.',
            len(moved),
        )

    def _move_from_root(
        self,
        provider_tree: tree.Tree,
        node: str,
        plan: values.Plan,
        allocations: tree.Allocations,
    ) -> None:
        root = provider_tree.data(node)
        if 'VGPU' not in root.inventory:
            return
        by_gpu = {
            assigned.gpu.name: provider_tree.data(name)
            for assigned in plan.assignments
            if provider_tree.exists(
                name := providers.name_of(node, assigned.gpu.name)
            )
        }
        self._allocate_from_gpus(allocations, root, by_gpu)
        remaining = dict(root.inventory)
        del remaining['VGPU']
        provider_tree.update_inventory(node, remaining)

    def _stock(self) -> tree.Stock:
        if self._additional is None:
            configs = provider_config.get_provider_configs(
                CONF.compute.provider_config_location
            )
            self._additional = frozenset(
                name
                for config in configs.values()
                for given in config.get('inventories', {}).get(
                    'additional', ()
                )
                for name in given
            )
        return tree.Stock(self._read_used, self._additional)

    def _read_used(self, provider_uuid: str) -> dict[str, int]:
        """How much of each class is allocated from a provider."""
        found = self._get_client().get_allocations_for_resource_provider(
            nova_context.get_admin_context(), provider_uuid
        )
        used: collections.Counter[str] = collections.Counter()
        for consumer in found.allocations.values():
            used.update(consumer['resources'])
        return dict(used)
