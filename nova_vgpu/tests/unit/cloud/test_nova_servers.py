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

from nova_vgpu import exception
from nova_vgpu.cloud.usage import nova_servers

UUID = '11111111-2222-4333-8444-555555555555'


def answer(name: str = 'web', **more: object) -> dict[str, typing.Any]:
    return {
        'id': UUID,
        'name': name,
        'tenant_id': 'p1',
        'status': 'ACTIVE',
        'flavor': {'original_name': 'small', 'extra_specs': {}},
        **more,
    }


class Nova:
    """Answers what it is told to, one after the other; None is a refusal."""

    def __init__(self, *answers: typing.Any) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self._answers = list(answers)
        self.services: typing.Any = types.SimpleNamespace(
            ask_nova=self._ask, try_nova=self._try
        )

    def _ask(
        self, what: str, path: str, microversion: str, **query: str
    ) -> typing.Any:
        self.asked.append((path, query))
        return self._answers.pop(0)

    def _try(
        self,
        what: str,
        path: str,
        microversion: str,
        status: int,
        **query: str,
    ) -> typing.Any:
        return self._ask(what, path, microversion, **query)


class TestFind(testtools.TestCase):
    def test_a_uuid_takes_one_request(self) -> None:
        nova = Nova({'server': answer()})
        found = nova_servers.find(nova.services, UUID.upper())
        self.assertEqual('web', found.name)
        self.assertEqual([(f'/servers/{UUID}', {})], nova.asked)

    def test_a_name_is_compared_exactly(self) -> None:
        servers = [answer('a.b(1)'), answer('A.B(1)')]
        nova = Nova({'servers': servers})
        found = nova_servers.find(nova.services, 'a.b(1)')
        self.assertEqual('a.b(1)', found.name)
        ((path, query),) = nova.asked
        self.assertEqual('/servers/detail', path)
        self.assertEqual({'name': r'^a\.b\(1\)$', 'all_tenants': '1'}, query)

    def test_a_user_who_may_not_see_all_projects_sees_the_own(self) -> None:
        nova = Nova(None, {'servers': [answer()]})
        self.assertEqual('web', nova_servers.find(nova.services, 'web').name)
        self.assertNotIn('all_tenants', nova.asked[1][1])

    def test_none_and_several(self) -> None:
        for names, expected in (
            ([], r'Nova has no server w\x1b, or you may not see it.'),
            (['w\x1b'] * 2, r'More than one server has the name w\x1b. Give '),
        ):
            nova = Nova({'servers': list(map(answer, names))})
            error = self.assertRaises(
                exception.NotInCloud, nova_servers.find, nova.services, 'w\x1b'
            )
            self.assertIn(expected, str(error))

    def test_a_name_that_is_not_utf_8_is_not_asked_for(self) -> None:
        nova = Nova()
        error = self.assertRaises(
            exception.NotInCloud, nova_servers.find, nova.services, 'w\udcff'
        )
        self.assertIn(r'Nova has no server w\udcff, or you ', str(error))


class TestParse(testtools.TestCase):
    def test_what_only_administrators_are_told(self) -> None:
        found = nova_servers.parse(
            answer(
                'x\x1b',
                **{
                    'OS-EXT-SRV-ATTR:hypervisor_hostname': 'compute1',
                    'OS-EXT-STS:task_state': 'spawning',
                    'fault': {'message': 'no\x1b[2J'},
                },
            )
        )
        self.assertEqual(
            (r'x\x1b', 'compute1', 'spawning', r'no\x1b[2J', True),
            (
                found.name,
                found.host,
                found.task,
                found.fault,
                found.has_extra_specs,
            ),
        )

    def test_what_ordinary_users_are_told(self) -> None:
        found = nova_servers.parse(answer(flavor={'original_name': 'small'}))
        self.assertEqual(
            (None, None, None, False),
            (found.host, found.task, found.fault, found.has_extra_specs),
        )
