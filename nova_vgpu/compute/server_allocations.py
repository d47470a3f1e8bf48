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

"""What Placement has for the servers of this host, and on which GPUs."""

from collections.abc import Iterable

from nova import objects
import nova.conf

from nova_vgpu import values
from nova_vgpu.compute import nova_types
from nova_vgpu.compute import operations
from nova_vgpu.publish import providers

CONF = nova.conf.CONF


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
            raise operations.unavailable(
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

    def list_published(
        self, context: nova_types.Context, addresses: Iterable[str]
    ) -> frozenset[str]:
        """Those addresses for which Placement has a provider of this node."""
        tree = self.ensure_provider_tree(context)
        node = self._nova._host.get_hostname()
        return frozenset(
            address
            for address in addresses
            if tree.exists(
                providers.name_of(
                    node, values.PciAddress.parse(address).node_device_name
                )
            )
        )
