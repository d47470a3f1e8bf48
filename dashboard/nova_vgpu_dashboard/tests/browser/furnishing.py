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

"""What the cloud of the walk is used for: flavors, servers, hostile names.

Everything comes in by the APIs of the services. What none of the computes
publishes is written to Placement: a host with a hostile name, a GPU that is
passed through, a fence.
"""

from collections.abc import Mapping
import dataclasses
import time
import typing

from openstack import connection as sdk_connection

from nova_vgpu.tests.cloud import filling
from nova_vgpu.tests.cloud import fleet
from nova_vgpu.tests.cloud import scene

#: It would be a part of the page, and of the template that AngularJS sees.
ATTACK = (
    'zone-<img src=x onerror="window.attacked=1">'
    "{$constructor.constructor('window.attacked=1')()$}"
)
IMAGE = 'debian'
FLAVORS: dict[str, dict[str, str]] = {
    'desktop': {
        'resources:VGPU': '1',
        'trait:CUSTOM_VGPU_TYPE_T4_2Q': 'required',
    },
    'render': {
        'resources:VGPU': '1',
        'trait:CUSTOM_VGPU_TYPE_A40_8Q': 'required',
    },
    'train': {
        'resources:VGPU': '2',
        'trait:CUSTOM_VGPU_TYPE_H100_80C': 'required',
    },
    'plain': {},
}
#: Servers on the first hosts: the flavor by the name, and the host.
SERVERS = {
    'desktop-1': ('desktop', fleet.HOSTS[0].name),
    'desktop-2': ('desktop', fleet.HOSTS[0].name),
    'desktop-3': ('desktop', fleet.HOSTS[0].name),
    'render-1': ('render', fleet.HOSTS[1].name),
    'render-2': ('render', fleet.HOSTS[1].name),
}
#: Servers where the scheduler wants them.
MORE_SERVERS = {
    **{f'office-{number}': ('desktop', None) for number in range(5)},
    **{f'studio-{number}': ('render', None) for number in range(3)},
}
_PATIENCE = 120
_PAUSE = 0.2


@dataclasses.dataclass
class Furnishing:
    """The cloud as an administrator changes it."""

    connection: sdk_connection.Connection

    @property
    def placement(self) -> filling.Placement:
        return filling.Placement(self.connection)

    def furnish(self) -> None:
        """An image and flavors."""
        self.connection.image.create_image(
            IMAGE,
            data=b'of a test',
            disk_format='raw',
            container_format='bare',
            visibility='public',
        )
        for name, extra_specs in FLAVORS.items():
            self.create_flavor(name, extra_specs)

    def create_flavor(self, name: str, extra_specs: dict[str, str]) -> None:
        compute = self.connection.compute
        made = compute.create_flavor(name=name, ram=512, vcpus=1, disk=1)
        compute.create_flavor_extra_specs(made, extra_specs)

    def boot(self, servers: Mapping[str, tuple[str, str | None]]) -> None:
        """Boot servers, and wait for them; each has its flavor and host."""
        compute = self.connection.compute
        (image,) = self.connection.image.images(name=IMAGE)
        flavors = {flavor.name: flavor.id for flavor in compute.flavors()}
        made = [
            compute.create_server(
                name=name,
                image_id=image.id,
                flavor_id=flavors[flavor],
                networks='none',
                **({'host': host} if host else {}),
            )
            for name, (flavor, host) in servers.items()
        ]
        for server in made:
            compute.wait_for_server(server, wait=_PATIENCE, interval=_PAUSE)

    def add_hostile_names(self) -> None:
        """A flavor, a server, and a host that Nova itself would refuse."""
        self.create_flavor(ATTACK, {'resources:VGPU': '1'})
        self.boot({ATTACK: ('desktop', fleet.HOSTS[0].name)})
        placement = self.placement
        uuid = scene.uuid_of(ATTACK)
        placement.create(ATTACK, uuid)
        memory = {'total': scene.MEMORY}
        placement.set(uuid, 'inventories', {'MEMORY_MB': memory})
        for gpu in (
            scene.GPU(ATTACK, 'pci_0000_41_00_0', *_A40),
            scene.whole(ATTACK, '0000:C1:00.0', 'A40'),
        ):
            filling.add_gpu(placement, gpu)

    def fence(self, name: str) -> None:
        """What the driver does to a GPU that left the configuration."""
        uuid = self.find_provider(name)
        path = f'/resource_providers/{uuid}'
        used = self.placement.call('GET', f'{path}/usages')['usages']['VGPU']
        held = self.placement.call('GET', f'{path}/inventories')
        stock = held['inventories']['VGPU']
        stock['reserved'] = stock['total'] - used
        self.placement.set(uuid, 'inventories', {'VGPU': stock})

    # -- what is asked ------------------------------------------------------

    def find_provider(self, name: str) -> str:
        path = f'/resource_providers?name={name}'
        (found,) = self.placement.call('GET', path)['resource_providers']
        return str(found['uuid'])

    def find_server(self, name: str) -> typing.Any:
        return self.connection.compute.find_server(name, ignore_missing=True)

    def find_gpu(self, server: str) -> str:
        """The UUID of the GPU that a server has a vGPU of."""
        uuid = self.find_server(server).id
        held = self.placement.call('GET', f'/allocations/{uuid}')
        (gpu,) = (
            provider
            for provider, allocation in held['allocations'].items()
            if 'VGPU' in allocation['resources']
        )
        return str(gpu)

    def wait_until_active(self, name: str) -> None:
        end = time.monotonic() + _PATIENCE
        while not (found := self.find_server(name)):
            assert time.monotonic() < end, name
            time.sleep(_PAUSE)
        self.connection.compute.wait_for_server(
            found, wait=_PATIENCE, interval=_PAUSE
        )

    def delete_server(self, name: str) -> None:
        found = self.find_server(name)
        self.connection.compute.delete_server(found)
        self.connection.compute.wait_for_delete(
            found, wait=_PATIENCE, interval=_PAUSE
        )

    def list_flavors(self) -> dict[str, dict[str, str]]:
        """The extra specs of flavors by their names."""
        found = self.connection.compute.flavors()
        return {flavor.name: dict(flavor.extra_specs) for flavor in found}


_A40 = ('A40', 'A40_8Q', '8G', 6)
