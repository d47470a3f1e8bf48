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


"""A server that has vGPUs, and whose guest is defined anew.

It keeps them meanwhile, and finds them again if they are gone, which is what a
reboot of the host does: a type that was set is always gone, an mdev if nothing
defined it or started it.
"""

from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import typing

from nova import exception as nova_exception
from nova import objects
import nova.conf
from nova.virt.libvirt import utils as libvirt_utils
from oslo_log import log as logging

from nova_vgpu import values
from nova_vgpu.compute import allocation
from nova_vgpu.compute import guests

LOG = logging.getLogger(__name__)
CONF = nova.conf.CONF


class Recovery(allocation.Allocation):
    """Sees that a server has its own vGPUs."""

    @contextlib.contextmanager
    def _with_own_vgpus(
        self, context: typing.Any, instance: typing.Any
    ) -> Iterator[None]:
        """Let the server keep its vGPUs while its guest is not defined."""
        with self._operation():
            held = list(self._get_all_assigned_mediated_devices(instance))
            self._claims.add(held)
            if held:
                self._make_ready(context, instance, held)
            elif self._declaration.types:
                self._choose_anew(context, instance)
            try:
                yield
            finally:
                self.instance_claimed_mdevs.pop(instance.uuid, None)

    def _choose_anew(self, context: typing.Any, instance: typing.Any) -> None:
        """Choose vGPUs for a server that has none of those it holds.

        What it is entitled to is in its allocations, however its flavor asked
        for it.
        """
        allocations = self._get_allocations(context, instance)
        if allocations:
            LOG.info('Choosing vGPUs anew.', instance=instance)
            # Where Nova looks for vGPUs that no guest shows yet.
            self.instance_claimed_mdevs[instance.uuid] = self._allocate_mdevs(
                allocations
            )

    def _make_ready(
        self, context: typing.Any, instance: typing.Any, held: Sequence[str]
    ) -> None:
        """See that the vGPUs that a guest has are there; make them if not.

        :raises ComputeResourcesUnavailable: if one cannot be had.
        """
        functions = {name for name in held if guests.is_function(name)}
        if functions:
            there = guests.list_gpu_functions(self._keep_up())
            for name in sorted(functions):
                if name not in there or not there[name].vgpus:
                    raise _unavailable(
                        f'The vGPU of {instance.uuid} on {name} is not there '
                        'and cannot be made. "nova-vgpu check" may say why.'
                    )
        lost = self._list_lost_mdevs(set(held) - functions)
        if lost:
            self._start_inactive_mediated_devices()
            lost = self._list_lost_mdevs(lost)
        if lost:
            self._create_lost(context, instance, lost)

    def _list_lost_mdevs(self, uuids: set[str]) -> set[str]:
        """Those that do not exist, or are only defined."""
        if not uuids:
            return uuids
        inactive = {device.name() for device in self._list_inactive_mdevs()}
        there = set(self._host.list_mediated_devices() or ()) - inactive
        return {
            uuid
            for uuid in uuids
            if not any(
                # Newer libvirts append the parent.
                name.startswith(libvirt_utils.mdev_uuid2name(uuid))
                for name in there
            )
        }

    def _create_lost(
        self, context: typing.Any, instance: typing.Any, lost: set[str]
    ) -> None:
        """Create mdevs again, with their UUIDs, where Placement has them."""
        allocations = self._get_allocations(context, instance)
        asked = [
            self._get_gpu_name(provider)
            for provider, given in allocations.items()
            for _ in range(sum(given['resources'].values()))
        ]
        own = self._get_all_assigned_mediated_devices(instance)
        for vgpu in self._list_vgpus():
            gpu = self._gpu_of(vgpu.function)
            if vgpu.name in own and gpu in asked:
                asked.remove(gpu)
        # An mdev that Cyborg made is not among the allocations.
        for uuid, gpu in zip(sorted(lost), asked, strict=False):
            LOG.info('Creating vGPU %s again.', uuid, instance=instance)
            if self._create_new_mediated_device(gpu, uuid) is None:
                raise _unavailable(
                    f'vGPU {uuid} of {instance.uuid} is gone, and {gpu} has '
                    'no room to create it again.'
                )

    def _get_allocations(
        self, context: typing.Any, instance: typing.Any
    ) -> dict[str, typing.Any]:
        """What a server holds of vGPUs, by provider."""
        if self.provider_tree is None:
            # Guests are started before the first update of the providers.
            name = self._host.get_hostname()
            node = objects.ComputeNode.get_by_host_and_nodename(
                context, CONF.host, name
            )
            client = self.virtapi.reportclient
            self.provider_tree = client.get_provider_tree_and_ensure_root(
                context, node.uuid, name=name
            )
        held = self.virtapi.reportclient.get_allocations_for_consumer(
            context, instance.uuid
        )
        of_vgpus: dict[str, typing.Any] = self._vgpu_allocations(held)
        return of_vgpus

    def _get_gpu_name(self, provider: str) -> str:
        data = self.provider_tree.data(provider)
        node = self.provider_tree.data(data.parent_uuid).name
        return str(data.name).removeprefix(f'{node}_')

    def _list_vgpus(self) -> list[values.VGPU]:
        return [
            vgpu
            for assigned in self._make_plan().assignments
            for vgpu in assigned.gpu.all_vgpus
        ]


def _unavailable(reason: str) -> nova_exception.ComputeResourcesUnavailable:
    # Nova 33 says that a guest does not resume with its host, but not why.
    LOG.error(reason)
    return nova_exception.ComputeResourcesUnavailable(reason=reason)
