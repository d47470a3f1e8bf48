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

"""The recipe for quotas per type, with a real Keystone and Nova.

nova-api decides on a quota when it accepts a request for a server, by what
Placement says that the project has. No scheduler runs here: the allocation
that it would make is made by the test.
"""

import shlex
import typing

from openstack import connection as sdk_connection
from openstack import exceptions as sdk_exceptions

from nova_vgpu.tests.cloud import accounts
from nova_vgpu.tests.cloud import base
from nova_vgpu.tests.cloud import scene

RECIPE = base.EXAMPLES / 'quota-recipe.txt'
REFUSED = base.EXAMPLES / 'quota-refused.console'
L40S = scene.GPUS[3]


class QuotaTest(base.CloudTest):
    def make_image(self) -> str:
        """An image that servers can be built of: it has some data."""
        image = self.connection.image
        body = {
            'name': 'image',
            'disk_format': 'raw',
            'container_format': 'bare',
            'visibility': 'public',
        }
        made = image.post('/images', json=body)
        identity = str(made.json()['id'])
        image.put(
            f'/images/{identity}/file',
            data=b'data',
            headers={'Content-Type': 'application/octet-stream'},
        ).raise_for_status()
        self.addCleanup(image.delete_image, identity)
        return identity

    def order(
        self, user: sdk_connection.Connection, flavor: str
    ) -> dict[str, typing.Any]:
        """As an ordinary user, without a network."""
        (found,) = (
            f for f in user.compute.flavors(details=False) if f.name == flavor
        )
        response = user.compute.post(
            '/servers',
            json={
                'server': {
                    'name': 'ordered',
                    'flavorRef': found.id,
                    'imageRef': self.image,
                    'networks': 'none',
                }
            },
            microversion='2.37',
        )
        sdk_exceptions.raise_from_response(response)
        answer: dict[str, typing.Any] = response.json()['server']
        self.addCleanup(user.compute.delete_server, answer['id'])
        return answer

    def test_the_recipe_refuses_a_server_too_many(self) -> None:
        if not RECIPE.is_file():
            self.skipTest('the documentation is not part of a wheel')
        self.addCleanup(self.delete_limits)
        self.register_usual()
        joined = RECIPE.read_text().replace('\\\n', '')
        for line in joined.splitlines():
            words = shlex.split(line.removeprefix('$ '))
            code, _, stderr = self.run_program(words)
            self.assertEqual(0, code, stderr)
        self.image = self.make_image()
        user = self.cloud.connect(accounts.USER, accounts.USER_PROJECT)
        # Two servers of the project have one each; a third one is accepted.
        made = self.order(user, 'train')
        self.give_more(made['id'])
        error = self.assertRaises(
            sdk_exceptions.ForbiddenException, self.order, user, 'train'
        )
        refusal = str(error).partition(': ')[2].partition(', ')[2]
        if base.WRITES_EXAMPLES:
            REFUSED.write_text(f'{refusal}\n')
        self.assertEqual(REFUSED.read_text(), f'{refusal}\n')
        # Other types have limits of their own.
        self.order(user, 'desktop')

    def register_usual(self) -> None:
        """What "nova-manage limits migrate_to_unified_limits" registers."""
        identity: typing.Any = self.connection.identity
        (service,) = identity.services(type='compute')
        for name in (
            *('servers', 'class:VCPU', 'class:MEMORY_MB', 'class:DISK_GB'),
        ):
            identity.create_registered_limit(
                service_id=service.id,
                region_id=accounts.REGION,
                resource_name=name,
                default_limit=10**6,
            )

    def delete_limits(self) -> None:
        identity: typing.Any = self.connection.identity
        for limit in identity.limits():
            identity.delete_limit(limit)
        for limit in identity.registered_limits():
            identity.delete_registered_limit(limit)

    def give_more(self, consumer: str) -> None:
        """A GPU with room, and what the scheduler would do with it."""
        name = 'compute1_pci_0000_86_00_0'
        provider = scene.uuid_of(name)
        self.placement.create(name, provider, scene.uuid_of('compute1'))
        path = f'/resource_providers/{provider}'
        self.addCleanup(self.placement.call, 'DELETE', path)
        stock = {L40S.resource_class: {'total': 2, 'max_unit': 2}}
        self.placement.set(provider, 'inventories', stock)
        self.placement.allocate(consumer, provider, L40S.resource_class, 1)
        path = f'/allocations/{consumer}'
        self.addCleanup(self.placement.call, 'DELETE', path)
