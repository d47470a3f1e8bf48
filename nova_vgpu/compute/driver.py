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

"""Nova's libvirt driver, with this project's plan in the place of its own.

The classes below it are in :mod:`nova_vgpu.compute.planning`, which says how
they hang together. Here is what Placement is told.
"""

import collections
from collections.abc import Collection
from collections.abc import Iterator
import contextlib
import copy
import typing

from nova import context as nova_context
from nova import exception as nova_exception
from nova.compute import provider_config
import nova.conf
from oslo_log import log as logging

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.compute import locking
from nova_vgpu.compute import migration
from nova_vgpu.compute import reshape
from nova_vgpu.compute import tree
from nova_vgpu.plan import address_matching
from nova_vgpu.publish import providers

LOG = logging.getLogger(__name__)
CONF = nova.conf.CONF

LOOK_FAILED = 'Could not look at the GPUs of the host'
UPDATE_FAILED = 'Could not update the providers of GPUs'
MOVE_FAILED = 'Could not move what servers hold to the providers of GPUs'
#: Nova repeats an update three times; the last one has to end well.
_MOVES = 2

_Wanted = tuple[values.PhysicalGPU, values.Provider]


class LibvirtVGPUDriver(migration.Migration):
    """``compute_driver = vgpu.LibvirtVGPUDriver``."""

    #: How often allocations may still be moved before an update goes on.
    _moves_left = _MOVES
    #: The resource classes of provider.yaml; read once, as Nova does.
    _additional: frozenset[str] | None = None
    #: The providers that follow from a plan, for a node.
    _wanted: tuple[values.Plan, str, list[_Wanted]] | None = None

    def init_host(self, host: str) -> None:
        """Extends Nova's: a mistake in the configuration stops the service.

        Later, in the periodic update, Nova would log it and go on. And guests
        are started after this: virtual functions have their types by then.
        """
        super().init_host(host)
        if self._declaration.types:
            locking.get_directory()  # not only when a server is built
            self._stock()  # as Nova has read it; it may be changed later
            with self._surviving(LOOK_FAILED):
                self._look_first()
            # From now on nothing stops the service.
            self._validated = True

    def _look_first(self) -> None:
        """The first look, which finds mistakes in the configuration.

        :raises InvalidLibvirtGPUConfig: if there are any. An address for
            which Placement has a provider of this node is not a mistake: the
            GPU was here.
        """
        try:
            self._look_after(locking.START_SECONDS)
        except exception.InvalidLibvirtGPUConfig:
            published = self._list_published()
            if published <= self._seen:
                raise
            self._seen |= published
            self._look_after(locking.START_SECONDS)

    def _list_published(self) -> frozenset[str]:
        """Declared addresses for which Placement has a provider."""
        try:
            self._ensure_provider_tree(nova_context.get_admin_context())
        except nova_exception.ComputeHostNotFound:
            return frozenset()  # this node never ran before
        node = self._host.get_hostname()
        return frozenset(
            address
            for address in address_matching.list_addresses(
                self._declaration.types
            )
            if self.provider_tree.exists(
                providers.name_of(
                    node, values.PciAddress.parse(address).node_device_name
                )
            )
        )

    def _look_after(self, seconds: float = 0.0) -> values.Plan:
        """Upkeep as far as it goes; one guest must not stop all others.

        :param seconds: how long to wait for each lock. A report to Placement
            does not wait: Nova makes it under a lock that every build needs.
        """
        with self._trying():
            try:
                self._start_held_mdevs(seconds)
                self._attach_detached(seconds)
                return self._keep_up(seconds=seconds)
            except locking.BusyHereError as error:
                LOG.debug('vGPUs are not reconciled this time: %s', error)
        return self._make_plan()

    def _update_provider_tree_for_vgpu(
        self,
        provider_tree: typing.Any,
        nodename: str,
        allocations: dict[str, typing.Any] | None = None,
    ) -> None:
        """Replaces Nova's, which makes a provider per VF and leaves old ones.

        If it fails, the providers of GPUs stay as they were last published,
        and the node reports its CPUs, memory and disk as if it had no GPUs.
        With nothing declared, no provider is looked at.
        """
        if not self._declaration.types:
            return
        with (
            self._surviving(UPDATE_FAILED),
            tree.all_or_nothing(provider_tree, allocations),
        ):
            self._update_gpu_providers(provider_tree, nodename)

    @contextlib.contextmanager
    def _surviving(self, what: str) -> Iterator[None]:
        """Something about GPUs that must not fail the node.

        Sysfs, libvirt, Placement, the database and state files are read on
        the way, and each fails in its own way. Servers without a vGPU depend
        on none of that, so whatever it is, it is logged and tried again.
        """
        try:
            yield
        except (
            # Nova reads Placement again, and repeats the update.
            nova_exception.ResourceProviderUpdateConflict,
            exception.InvalidLibvirtGPUConfig,  # for the operator to correct
        ):
            raise
        except Exception as error:
            self._failures.say(what, error, with_traceback=True)
        else:
            self._failures.forget(what)

    def _update_gpu_providers(
        self, provider_tree: typing.Any, nodename: str
    ) -> None:
        """One provider per physical GPU, with traits.

        What was elsewhere before (on the root, on VFs) is moved with its
        allocations; providers that no GPU serves any more are removed, or
        fenced while they are used.
        """
        self._drop_old_notes()
        plan = self._look_after()
        wanted = self._list_wanted(plan, nodename)
        names = {provider.name for _, provider in wanted}
        held = tree.list_held(provider_tree, nodename)
        if reshape.is_needed(held, nodename, plan, names):
            if self._moves_left:
                self._moves_left -= 1
                self._move_allocations(provider_tree, nodename, plan, names)
            # With the next update; this one has to come to an end.
            self._moves_left = _MOVES
            return
        self._moves_left = _MOVES
        stock = self._stock()
        tree.ensure_providers(provider_tree, nodename, held, wanted, stock)
        devices = {gpu.name for gpu in plan.gpus}
        awaited = providers.list_awaited(plan, self._declaration.types)
        for leftover in tree.list_leftovers(
            held, nodename, names, self.mdev_classes, devices
        ):
            device = leftover.name.removeprefix(f'{nodename}_')
            tree.fence(provider_tree, leftover, stock, device in awaited)

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
        provider_tree: typing.Any,
        nodename: str,
        plan: values.Plan,
        names: Collection[str],
    ) -> typing.NoReturn:
        """Move what servers hold to the providers of GPUs, in Placement.

        :raises ResourceProviderUpdateConflict: whatever came of it, for what
            Nova knows of Placement is outdated then. Nova reads it again, and
            repeats the update.
        """
        root = provider_tree.data(nodename)
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
        client = self.virtapi.reportclient
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
        provider_tree: typing.Any,
        nodename: str,
        plan: values.Plan,
        allocations: dict[str, typing.Any],
    ) -> None:
        if not self._is_reshape_needed_vgpu_on_root(provider_tree, nodename):
            return
        root = provider_tree.data(nodename)
        by_gpu = {
            assigned.gpu.name: provider_tree.data(name)
            for assigned in plan.assignments
            if provider_tree.exists(
                name := providers.name_of(nodename, assigned.gpu.name)
            )
        }
        self._reshape_gpu_resources(allocations, root, by_gpu)
        remaining = dict(root.inventory)
        remaining.pop('VGPU', None)
        provider_tree.update_inventory(nodename, remaining)

    def _count_vgpus_per_pgpu(self, mdev_uuids: typing.Any) -> typing.Any:
        """Extends Nova's, for which the VF of an mdev is its GPU."""
        counts: dict[str, int] = collections.defaultdict(int)
        for parent, count in super()._count_vgpus_per_pgpu(mdev_uuids).items():
            counts[self._gpu_of(parent)] += count
        return counts

    def _get_supported_mdev_resource_classes(self) -> set[str]:
        """Extends Nova's: a server may hold a class that was declared before.

        ``resource_class`` can be changed while servers run.
        """
        found: set[str] = super()._get_supported_mdev_resource_classes()
        if self.provider_tree is None or not found:
            return found
        return found | tree.list_classes(self.provider_tree, self._stock())

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
        found = (
            self.virtapi.reportclient.get_allocations_for_resource_provider(
                nova_context.get_admin_context(), provider_uuid
            )
        )
        used: collections.Counter[str] = collections.Counter()
        for consumer in found.allocations.values():
            used.update(consumer['resources'])
        return dict(used)
