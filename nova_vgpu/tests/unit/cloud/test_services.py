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

from keystoneauth1 import exceptions as ksa_exceptions
import testtools

from nova_vgpu import exception
from nova_vgpu.cloud import services
from nova_vgpu.placement import connection

IMPATIENT = connection.RetryPolicy(deadline=0.0)


class Adapter:
    """Answers some requests, and then no more."""

    def __init__(self, answered: int) -> None:
        self.answered = answered
        self.asked: list[str] = []

    def request(
        self, path: str, method: str, **_arguments: typing.Any
    ) -> types.SimpleNamespace:
        self.asked.append(path)
        if len(self.asked) > self.answered:
            raise ksa_exceptions.ConnectFailure('it is down')
        status = 404 if path.endswith('/gone') else 200
        return types.SimpleNamespace(
            status_code=status,
            content=b'{}',
            text='',
            json=lambda: {'path': path},
        )


def make(adapter: Adapter) -> services.Services:
    cloud: typing.Any = types.SimpleNamespace(placement=adapter)
    return services.Services(cloud, IMPATIENT)


class TestManyRequests(testtools.TestCase):
    def test_answers_are_in_the_order_of_requests(self) -> None:
        paths = [f'/resource_providers/{n}' for n in range(50)]
        answers = make(Adapter(50)).ask_placement_each(paths)
        self.assertEqual(paths, [answer['path'] for answer in answers])

    def test_a_provider_that_was_deleted_has_no_answer(self) -> None:
        paths = ['/resource_providers/1', '/resource_providers/gone']
        answers = make(Adapter(2)).ask_placement_each(paths)
        self.assertEqual([{'path': paths[0]}, None], answers)

    def test_no_more_requests_are_sent_when_one_fails(self) -> None:
        adapter = Adapter(20)
        paths = [f'/resource_providers/{n}' for n in range(1_000)]
        error = self.assertRaises(
            exception.PlacementError, make(adapter).ask_placement_each, paths
        )
        self.assertIn('it is down', str(error))
        # Those of the other connections, which were under way.
        self.assertLessEqual(len(adapter.asked), 20 + 8)


class TestRefusal(testtools.TestCase):
    def test_placement_refuses_and_the_message_names_the_role(self) -> None:
        def refuse(
            _path: str, _method: str, **_arguments: typing.Any
        ) -> types.SimpleNamespace:
            return types.SimpleNamespace(
                status_code=403, content=b'{}', text='no', json=dict
            )

        adapter: typing.Any = types.SimpleNamespace(request=refuse)
        error = self.assertRaises(
            exception.PlacementForbidden,
            make(adapter).ask_placement,
            '/allocations/x',
        )
        self.assertIn('the role "admin"', str(error))
