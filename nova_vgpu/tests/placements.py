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

"""A real Placement for tests, and somebody else who works with it."""

from collections.abc import Iterable
from collections.abc import Mapping
import contextlib
import json
import pathlib
import sqlite3
import typing
import urllib.request
import uuid

import fixtures
from oslo_config import cfg
import testtools

from nova_vgpu import values
from nova_vgpu.placement import client
from nova_vgpu.placement import connection
from nova_vgpu.plan import mapper
from nova_vgpu.publish import providers
from nova_vgpu.sandbox import placement
from nova_vgpu.tests import plans
from nova_vgpu.tests import proxy

#: For a machine that is busy with other tests, and nobody to wait for.
PATIENT = connection.RetryPolicy(
    deadline=30, timeout=15, first_wait=0.001, longest_wait=0.01
)


class RunningPlacement(fixtures.Fixture):
    """Placement, a proxy in front of it, and an operator behind that."""

    url: str
    proxy: proxy.Proxy
    operator: 'Operator'

    def _setUp(self) -> None:
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self._directory = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path
        )
        # No test is about a machine that loses power: Placement does not wait
        # for the disk, which takes longer than most of its answers.
        with fixtures.EnvironmentVariable(
            'OS_PLACEMENT_DATABASE__SQLITE_SYNCHRONOUS', 'false'
        ):
            self.url = stack.enter_context(
                placement.run_placement(self._directory)
            )
        self.proxy = stack.enter_context(proxy.run_proxy(self.url))
        self.operator = Operator(self.url)

    def save(self, name: str) -> None:
        """Keep all that Placement holds, to come back to it."""
        self._copy('placement', name)

    def restore(self, name: str) -> None:
        """Let Placement hold what it did when that was saved."""
        self._copy(name, 'placement')

    def _copy(self, source: str, target: str) -> None:
        """By SQLite's own means, so that Placement notices."""
        with (
            contextlib.closing(self._open(source)) as original,
            contextlib.closing(self._open(target)) as copy,
        ):
            original.backup(copy)

    def _open(self, name: str) -> sqlite3.Connection:
        database = sqlite3.connect(self._directory / f'{name}.sqlite')
        database.execute('PRAGMA synchronous = OFF')
        return database


class PlacementTestCase(testtools.TestCase):
    """One Placement for all tests of a class, and empty for each.

    It takes longer to start than most tests do with it.
    """

    running: typing.ClassVar[RunningPlacement]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.running = RunningPlacement()
        cls.running.setUp()
        cls.addClassCleanup(cls.running.cleanUp)
        cls.running.save('empty')

    def setUp(self) -> None:
        super().setUp()
        self.running.restore('empty')
        self.operator = self.running.operator
        self.proxy = self.running.proxy
        self.proxy.reset()


def connect(
    url: str, patient: connection.RetryPolicy = PATIENT
) -> client.PlacementClient:
    """A client by a configuration of its own."""
    conf = cfg.ConfigOpts()
    connection.register_opts(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override('auth_type', 'none', connection.GROUP)
    conf.set_override('endpoint_override', url, connection.GROUP)
    return connection.connect(conf, patient=patient)


def make_target(
    node: str,
    host: values.Host,
    types: Iterable[values.DeclaredType],
    **options: typing.Any,
) -> providers.Target:
    """What to bring Placement to; GPUs that are not listed stay out."""
    declaration = values.Declaration(tuple(types), values.UnlistedGPUs.IGNORE)
    plan = plans.make_plan(declaration, host)
    mapper.require_valid(plan)
    return providers.Target(plan, node, **options)


def declare(
    name: str, *addresses: str, **options: typing.Any
) -> values.DeclaredType:
    return values.DeclaredType(name, f'vgpu_{name}', addresses, **options)


class Operator:
    """Somebody else with access to Placement, who uses none of our code."""

    def __init__(self, url: str) -> None:
        self._url = url

    def call(
        self, method: str, path: str, body: typing.Any = None
    ) -> typing.Any:
        request = urllib.request.Request(  # noqa: S310 - the URL is our own
            f'{self._url}{path}',
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                'X-Auth-Token': placement.TOKEN,
                'OpenStack-API-Version': 'placement 1.39',
                'Content-Type': 'application/json',
            },
        )
        with urllib.request.urlopen(request) as response:  # noqa: S310
            text = response.read()
        return json.loads(text) if text else None

    def find(self, name: str) -> str | None:
        """The UUID of a provider."""
        found = self.call('GET', f'/resource_providers?name={name}')
        return next((p['uuid'] for p in found['resource_providers']), None)

    def of(self, name: str, what: str) -> typing.Any:
        return self.call(
            'GET', f'/resource_providers/{self.find(name)}/{what}'
        )

    def traits(self, name: str) -> set[str]:
        return set(self.of(name, 'traits')['traits'])

    def inventories(self, name: str) -> dict[str, tuple[int, int]]:
        """Total and reserved by class."""
        found = self.of(name, 'inventories')['inventories']
        return {
            resource_class: (fields['total'], fields['reserved'])
            for resource_class, fields in found.items()
        }

    def used(self, name: str) -> dict[str, int]:
        found: dict[str, int] = self.of(name, 'usages')['usages']
        return found

    def create(self, name: str, parent: str | None = None) -> None:
        body = {
            'name': name,
            'uuid': str(uuid.uuid4()),
            'parent_provider_uuid': self.find(parent) if parent else None,
        }
        self.call('POST', '/resource_providers', body)

    def add_traits(self, name: str, *traits: str) -> None:
        for trait in traits:
            if trait.startswith('CUSTOM_'):
                self.call('PUT', f'/traits/{trait}')
        path = f'/resource_providers/{self.find(name)}/traits'
        body = self.call('GET', path)
        body['traits'] = sorted({*body['traits'], *traits})
        self.call('PUT', path, body)

    def set_inventory(self, name: str, **totals: int) -> None:
        path = f'/resource_providers/{self.find(name)}/inventories'
        body = self.call('GET', path)
        body['inventories'] = {
            resource_class: {'total': total, 'max_unit': total}
            for resource_class, total in totals.items()
        }
        self.call('PUT', path, body)

    def allocate(
        self, name: str, resource_class: str = 'VGPU', amount: int = 1
    ) -> str:
        """Give a new consumer some; returns the consumer."""
        return self.give({name: {resource_class: amount}})

    def give(
        self,
        resources: Mapping[str, dict[str, int]],
        consumer: str | None = None,
    ) -> str:
        """Give a new consumer some of several; returns the consumer."""
        consumer = consumer or str(uuid.uuid4())
        body = {
            'allocations': {
                self.find(name): {'resources': given}
                for name, given in resources.items()
            },
            'consumer_generation': None,
            'consumer_type': 'INSTANCE',
            'project_id': 'project',
            'user_id': 'user',
        }
        self.call('PUT', f'/allocations/{consumer}', body)
        return consumer

    def free(self, consumer: str) -> None:
        self.call('DELETE', f'/allocations/{consumer}')

    def allocations(self, consumer: str) -> typing.Any:
        return {
            provider: given['resources']
            for provider, given in self.call(
                'GET', f'/allocations/{consumer}'
            )['allocations'].items()
        }
