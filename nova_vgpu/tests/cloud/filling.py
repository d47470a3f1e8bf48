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

"""Brings the scene into the cloud, by the APIs of its services."""

import typing

from openstack import connection as sdk_connection

from nova_vgpu.tests.cloud import accounts
from nova_vgpu.tests.cloud import scene

_VERSION = '1.39'


class Placement:
    """Placement as an administrator uses it, without this project's code."""

    def __init__(self, connection: sdk_connection.Connection) -> None:
        self._adapter = connection.placement

    def call(
        self, method: str, path: str, body: typing.Any = None
    ) -> typing.Any:
        response = self._adapter.request(
            path, method, json=body, microversion=_VERSION, raise_exc=True
        )
        return response.json() if response.content else None

    def create(self, name: str, uuid: str, parent: str | None = None) -> None:
        body = {'name': name, 'uuid': uuid, 'parent_provider_uuid': parent}
        self.call('POST', '/resource_providers', body)

    def set(self, uuid: str, what: str, value: typing.Any) -> None:
        """The inventories or the traits of a provider."""
        path = f'/resource_providers/{uuid}'
        generation = self.call('GET', path)['generation']
        body = {'resource_provider_generation': generation, what: value}
        self.call('PUT', f'{path}/{what}', body)

    def allocate(
        self,
        consumer: str,
        provider: str,
        resource_class: str,
        amount: int,
        project: str = 'research',
    ) -> None:
        body = {
            'allocations': {provider: {'resources': {resource_class: amount}}},
            'consumer_generation': None,
            'consumer_type': 'INSTANCE',
            'project_id': accounts.PROJECTS[project],
            'user_id': 'user',
        }
        self.call('PUT', f'/allocations/{consumer}', body)


def fill(connection: sdk_connection.Connection) -> None:
    placement = Placement(connection)
    for host in scene.HOSTS:
        uuid = scene.uuid_of(host)
        placement.create(host, uuid)
        stock = {
            'MEMORY_MB': {'total': scene.MEMORY},
            'VCPU': {'total': 64, 'allocation_ratio': 4.0},
            'DISK_GB': {'total': 2048},
        }
        placement.set(uuid, 'inventories', stock)
    placement.allocate(
        *(scene.uuid_of('memory'), scene.uuid_of(scene.FULL_HOST)),
        *('MEMORY_MB', scene.MEMORY),
    )
    for gpu in (*scene.GPUS, *scene.WHOLE_GPUS):
        add_gpu(placement, gpu)
    for name, extra_specs in scene.FLAVORS.items():
        flavor = connection.compute.create_flavor(
            name=name, ram=1024, vcpus=1, disk=1
        )
        if extra_specs:
            connection.compute.create_flavor_extra_specs(flavor, extra_specs)
    for name, hosts in scene.AGGREGATES.items():
        aggregate = connection.compute.create_aggregate(name=name)
        for host in hosts:
            connection.compute.add_host_to_aggregate(aggregate, host)


def add_gpu(placement: Placement, gpu: scene.GPU) -> None:
    placement.create(gpu.name, gpu.uuid, scene.uuid_of(gpu.host))
    if gpu.resource_class != 'VGPU':
        placement.call('PUT', f'/resource_classes/{gpu.resource_class}')
    stock = {'total': gpu.total, 'max_unit': gpu.total}
    placement.set(gpu.uuid, 'inventories', {gpu.resource_class: stock})
    for trait in gpu.traits:
        if trait.startswith('CUSTOM_'):
            placement.call('PUT', f'/traits/{trait}')
    placement.set(gpu.uuid, 'traits', list(gpu.traits))
    projects = {server.uuid: server.project for server in scene.SERVERS}
    for consumer in gpu.consumers:
        placement.allocate(
            *(consumer, gpu.uuid, gpu.resource_class, 1),
            projects.get(consumer, accounts.USER_PROJECT),
        )
    if gpu.reserved:
        stock['reserved'] = gpu.reserved
        placement.set(gpu.uuid, 'inventories', {gpu.resource_class: stock})
