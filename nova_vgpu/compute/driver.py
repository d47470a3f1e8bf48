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
from collections.abc import Iterator
import contextlib
import typing

from nova import context as nova_context
from nova import exception as nova_exception
from oslo_log import log as logging

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.compute import locking
from nova_vgpu.compute import migration
from nova_vgpu.compute import publisher
from nova_vgpu.compute import tree
from nova_vgpu.plan import address_matching
from nova_vgpu.publish import providers

LOG = logging.getLogger(__name__)

LOOK_FAILED = 'Could not look at the GPUs of the host'
UPDATE_FAILED = 'Could not update the providers of GPUs'


class LibvirtVGPUDriver(migration.Migration):
    """``compute_driver = vgpu.LibvirtVGPUDriver``."""

    def __init__(self, *args: typing.Any, **kwargs: typing.Any) -> None:
        super().__init__(*args, **kwargs)
        self._publisher = publisher.Publisher(
            self._declaration,
            self._failures,
            lambda: self.virtapi.reportclient,
            self._reshape_gpu_resources,
        )

    def init_host(self, host: str) -> None:
        """Extends Nova's: a mistake in the configuration stops the service.

        Later, in the periodic update, Nova would log it and go on. And guests
        are started after this: virtual functions have their types by then.
        """
        super().init_host(host)
        if self._declaration.types:
            locking.get_directory()  # not only when a server is built
            self._publisher.read_provider_config()
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
            self._drop_old_notes()
            self._publisher.update(provider_tree, nodename, self._look_after())

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
        return found | self._publisher.list_classes(self.provider_tree)
