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

"""What is asked of Placement and Nova.

The number of requests does not depend on how many servers or vGPUs there are.
Lists take one request for all providers, one to a few for their summaries, and
up to ``_MOST_INVENTORIES`` for GPUs that may be fenced.
"""

from collections.abc import Callable
from collections.abc import Mapping
import functools

from openstack import connection as sdk_connection

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.cloud import names
from nova_vgpu.cloud import service_errors
from nova_vgpu.cloud import services
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.gpus import whole_gpu_fleet
from nova_vgpu.cloud.orders import fitting
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.cloud.usage import consumers
from nova_vgpu.cloud.usage import records
from nova_vgpu.placement import client
from nova_vgpu.placement import connection as placement_connection

_PROVIDERS = '/resource_providers'
# A tree has a summary if it has one of something free. Every compute node has
# memory; the others are asked for only if GPUs are missing in the answers.
_ASKED_FOR = ('MEMORY_MB', 'DISK_GB', 'VCPU', 'PCPU', 'VGPU')
_MOST_INVENTORIES = 50
_MOST_OTHERS = 10
# Nova keeps the zone of hosts as metadata of an aggregate.
_ZONE = 'availability_zone'

_of_nova = functools.partial(service_errors.explain, 'Nova')


class Cloud:
    """A cloud that is read with the permissions of one account."""

    def __init__(
        self,
        connection: sdk_connection.Connection,
        patient: placement_connection.RetryPolicy = services.PATIENCE,
    ) -> None:
        self.connection = connection
        self.services = services.Services(connection, patient)
        self._get = self.services.ask_placement

    def list_gpus(self) -> tuple[fleet.GPU, ...]:
        """All GPUs that serve vGPUs.

        :raises PlacementError: if Placement refuses or does not answer.
        """
        found = self._read_providers(fleet.is_node_device)
        return self._read_reserved(fleet.make_gpus(*found))

    def list_every_gpu(self) -> tuple[fleet.GPU, ...]:
        """Those, and the whole GPUs that Nova passes through.

        :raises PlacementError: if Placement refuses or does not answer.
        """
        found = self._read_providers(
            lambda name: (
                fleet.is_node_device(name) or whole_gpu_fleet.is_device(name)
            )
        )
        return self._read_reserved(
            fleet.sort(
                (*fleet.make_gpus(*found), *whole_gpu_fleet.make_gpus(*found))
            )
        )

    def _read_providers(
        self, is_device: Callable[[str], bool]
    ) -> tuple[list[fleet.Listed], dict[str, fleet.Summary]]:
        """All providers, and the summaries of those that are devices."""
        listed = [
            fleet.Listed(
                provider['uuid'],
                provider['name'],
                provider['parent_provider_uuid'],
                provider['root_provider_uuid'],
            )
            for provider in self._get(_PROVIDERS)['resource_providers']
        ]
        summaries: dict[str, fleet.Summary] = {}
        missing: tuple[fleet.Listed, ...] = ()
        for resource_class in _ASKED_FOR:
            summaries |= self._read_summaries(resource_class)
            missing = fleet.find_missing(listed, summaries, is_device)
            if not missing:
                break
        summaries |= self._read_each(listed, missing)
        return listed, summaries

    def list_flavors(self) -> tuple[flavors.Flavor, ...]:
        """All flavors, public or not.

        :raises CloudError: if Nova refuses or does not answer.
        """
        with _of_nova('list flavors'):
            return tuple(
                flavors.parse(
                    names.printable(found.name),
                    found.extra_specs or {},
                    flavors.Size(
                        found.vcpus,
                        found.ram,
                        found.disk,
                        found.ephemeral or 0,
                        found.swap or 0,
                    ),
                    bool(found.is_public),
                    found.id,
                    found.name,
                )
                for found in self.connection.compute.flavors(is_public='None')
            )

    def list_members(self, aggregate: str) -> frozenset[str]:
        """The compute nodes of an aggregate, by their names in Placement.

        :param aggregate: its name, id or UUID.
        :raises NotInCloud: if Nova has no such aggregate.
        """
        with _of_nova('list aggregates'):
            known = list(self.connection.compute.aggregates())
        for found in known:
            if aggregate in (found.name, str(found.id), found.uuid):
                answer = self._get(_PROVIDERS, member_of=found.uuid)
                return frozenset(
                    names.printable(provider['name'])
                    for provider in answer['resource_providers']
                )
        listed = ', '.join(sorted(names.printable(a.name) for a in known))
        raise exception.NotInCloud(
            f'Nova has no aggregate {names.printable(aggregate)}. '
            f'Aggregates: {listed or "none"}.'
        )

    def list_zone_aggregates(self, zone: str) -> tuple[str, ...]:
        """The aggregates that make an availability zone, by their UUIDs.

        :raises CloudError: if Nova refuses or does not answer.
        """
        with _of_nova('list aggregates'):
            return tuple(
                sorted(
                    found.uuid
                    for found in self.connection.compute.aggregates()
                    if (found.metadata or {}).get(_ZONE) == zone
                )
            )

    def list_consumers(self, gpu: fleet.GPU) -> tuple[consumers.Consumer, ...]:
        """What has vGPUs of a GPU, or the GPU, in the order of names.

        Placement is asked once for the consumers, and Nova once for the
        servers of the GPU's host: a host has few of them, whatever the size of
        the cloud, and their details have the project and the state. Nova asks
        Neutron for the security groups of all of them together. What is not a
        server of the host is a migration, or left over: Placement is asked
        about each, but not about more than ``_MOST_OTHERS``.

        :raises PlacementError: if Placement refuses or does not answer.
        :raises CloudError: if Nova does.
        """
        allocations = records.list_allocations(self.services, (gpu,))
        if not allocations:
            return ()
        servers = self._list_servers(gpu.host)
        others = consumers.find_others(allocations, servers)[:_MOST_OTHERS]
        answers = self.services.ask_placement_each(
            [f'/allocations/{uuid}' for uuid in others]
        )
        return consumers.merge(
            allocations,
            servers,
            {
                uuid: answer.get('project_id')
                for uuid, answer in zip(others, answers, strict=True)
                if answer is not None
            },
        )

    def _list_servers(self, host: str) -> dict[str, consumers.Server]:
        """The servers of a compute node by their UUIDs."""
        with _of_nova('list servers'):
            return {
                found.id: consumers.Server(
                    names.printable(found.name or ''),
                    found.project_id,
                    found.status,
                )
                for found in self.connection.compute.servers(
                    all_projects=True, node=host
                )
            }

    def read_candidates(self, query: Mapping[str, str]) -> fitting.Candidates:
        """The ways to serve a request now.

        :raises BadRequest: if it names what Placement does not know.
        """
        return fitting.parse_candidates(
            self._get('/allocation_candidates', **query)
        )

    def read_inventory(self, gpu: fleet.GPU) -> fleet.GPU:
        """The GPU with what is reserved.

        :raises Conflict: if its provider was deleted meanwhile.
        """
        path = f'{_PROVIDERS}/{gpu.uuid}/inventories'
        return fleet.complete(
            gpu,
            (
                values.Inventory(name, **fields)
                for name, fields in self._get(path)['inventories'].items()
            ),
        )

    def _read_reserved(
        self, gpus: tuple[fleet.GPU, ...]
    ) -> tuple[fleet.GPU, ...]:
        """Read the inventories of GPUs that may be fenced."""
        found = {gpu.uuid: gpu for gpu in gpus}
        left = _MOST_INVENTORIES
        while left and (unclear := fleet.find_unclear(found.values())):
            for gpu in unclear[:left]:
                left -= 1
                try:
                    found[gpu.uuid] = self.read_inventory(gpu)
                except client.Conflict:
                    del found[gpu.uuid]
        return tuple(found.values())

    def _read_summaries(self, resource_class: str) -> dict[str, fleet.Summary]:
        """Of all providers in trees that have some of a resource class."""
        answer = self._get(
            '/allocation_candidates', resources=f'{resource_class}:1'
        )
        return {
            uuid: fleet.Summary(
                tuple(
                    fleet.Stock(name, held['capacity'], held['used'])
                    for name, held in summary['resources'].items()
                ),
                frozenset(summary['traits']),
            )
            for uuid, summary in answer['provider_summaries'].items()
        }

    def _read_each(
        self, listed: list[fleet.Listed], missing: tuple[fleet.Listed, ...]
    ) -> dict[str, fleet.Summary]:
        """Of GPUs on hosts where nothing at all is free."""
        known = {provider.uuid: provider for provider in listed}
        placement = client.PlacementClient(self.services.placement)
        found: dict[str, fleet.Summary] = {}
        for root in sorted({provider.root for provider in missing}):
            wanted = {p.name for p in missing if p.root == root}
            wanted.add(known[root].name)
            with services.explain_role():
                tree = placement.read_tree(known[root].name, only=wanted)
            found |= {
                held.uuid: fleet.summarise(held)
                for held in tree.providers
                if held.name in wanted
            }
        return found
