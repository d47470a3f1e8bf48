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

import types
import typing

import testtools

from nova_vgpu.cloud import reader
from nova_vgpu.cloud.usage import consumers
from nova_vgpu.placement import connection
from nova_vgpu.tests.unit.cloud import clouds

IMPATIENT = connection.RetryPolicy(deadline=0.0)
GPU = clouds.gpu('compute1 84', used=1)


class Placement:
    """Placement, with the resources that consumers have of a GPU."""

    def __init__(self, **held: dict[str, int]) -> None:
        self.held = held
        self.asked: list[str] = []

    def request(
        self, path: str, method: str, **_arguments: typing.Any
    ) -> types.SimpleNamespace:
        self.asked.append(path)
        answer: dict[str, typing.Any] = {'project_id': f'project of {path}'}
        if path.startswith('/resource_providers/'):
            answer = {
                'allocations': {
                    uuid: {'resources': resources}
                    for uuid, resources in self.held.items()
                }
            }
        return types.SimpleNamespace(
            status_code=200, content=b'{}', text='', json=lambda: answer
        )


class Nova:
    """Nova, with the servers of one compute node."""

    def __init__(self, *servers: types.SimpleNamespace) -> None:
        self.found = servers
        self.asked: list[dict[str, typing.Any]] = []

    def servers(
        self, **query: typing.Any
    ) -> tuple[types.SimpleNamespace, ...]:
        self.asked.append(query)
        return self.found


def server(
    uuid: str, name: str, status: str = 'ACTIVE'
) -> types.SimpleNamespace:
    return types.SimpleNamespace(
        id=uuid, name=name, status=status, project_id='research'
    )


def read(placement: Placement, nova: Nova) -> tuple[consumers.Consumer, ...]:
    made: typing.Any = types.SimpleNamespace(placement=placement, compute=nova)
    return reader.Cloud(made, IMPATIENT).list_consumers(GPU)


class TestConsumers(testtools.TestCase):
    def test_a_server_has_its_project_and_state_from_nova(self) -> None:
        nova = Nova(
            server('b', 'b\x1b', 'SHUTOFF'),
            server('a', 'a'),
            server('c', 'without a vGPU'),
        )
        self.assertEqual(
            (
                consumers.Consumer(
                    'a', 2, 'a', 'research', 'ACTIVE', ('VGPU',)
                ),
                consumers.Consumer(
                    *('b', 3, r'b\x1b', 'research', 'SHUTOFF'),
                    classes=('CUSTOM_X', 'VGPU'),
                ),
            ),
            read(Placement(a={'VGPU': 2}, b={'VGPU': 1, 'CUSTOM_X': 2}), nova),
        )
        self.assertEqual(
            [{'all_projects': True, 'node': 'compute1'}], nova.asked
        )

    def test_a_migration_has_its_project_from_placement(self) -> None:
        self.assertEqual(
            (
                consumers.Consumer(
                    *('m', 1, None, 'project of /allocations/m'),
                    classes=('VGPU',),
                ),
            ),
            read(Placement(m={'VGPU': 1}), Nova(server('a', 'a'))),
        )

    def test_requests_do_not_grow_with_servers(self) -> None:
        for number in (1, 300):
            names = [f's{n}' for n in range(number)]
            placement = Placement(**{name: {'VGPU': 1} for name in names})
            nova = Nova(*(server(name, name) for name in names))
            self.assertEqual(number, len(read(placement, nova)))
            self.assertEqual(1, len(placement.asked))
            self.assertEqual(1, len(nova.asked))

    def test_requests_do_not_grow_without_bounds_with_others(self) -> None:
        placement = Placement(**{f'm{n}': {'VGPU': 1} for n in range(300)})
        found = read(placement, Nova())
        self.assertEqual(11, len(placement.asked))
        self.assertEqual(290, sum(each.project is None for each in found))

    def test_nova_is_not_asked_about_a_gpu_that_is_not_used(self) -> None:
        nova = Nova()
        self.assertEqual((), read(Placement(), nova))
        self.assertEqual([], nova.asked)
