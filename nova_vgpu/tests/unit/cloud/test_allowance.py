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

import typing

import testtools

from nova_vgpu.cloud.usage import allowance

SCOPE = allowance.Scope('own', 'nova', 'RegionOne')


def limit(
    name: str = 'class:VGPU',
    service: str = 'nova',
    region: str | None = 'RegionOne',
    **fields: typing.Any,
) -> dict[str, typing.Any]:
    return {
        'resource_name': name,
        'service_id': service,
        'region_id': region,
        **fields,
    }


class Services:
    """What Placement and Keystone tell about limits and usage."""

    def __init__(self, **answers: typing.Any) -> None:
        self.answers = {
            'usages': {},
            'registered_limits': [],
            'limits': [],
            **answers,
        }
        self.queries: list[dict[str, str]] = []

    def ask_placement(self, path: str, **query: str) -> typing.Any:
        self.queries.append(query)
        return {path[1:]: self.answers[path[1:]]}

    def ask_keystone(self, what: str, path: str, **query: str) -> typing.Any:
        return self.ask_placement(path, **query)


class TestUsage(testtools.TestCase):
    def test_consumers_of_all_types_count(self) -> None:
        asked: typing.Any = Services(
            usages={
                'INSTANCE': {'consumer_count': 2, 'VGPU': 2, 'VCPU': 8},
                'MIGRATION': {'consumer_count': 1, 'VGPU': 1},
            }
        )
        found = allowance.read_usage(asked, 'own')
        self.assertEqual({'VGPU': 3, 'VCPU': 8}, found)
        self.assertEqual([{'project_id': 'own'}], asked.queries)

    def test_a_project_without_servers(self) -> None:
        asked: typing.Any = Services()
        self.assertEqual({}, allowance.read_usage(asked, 'own'))


class TestLimits(testtools.TestCase):
    def read(self, **answers: typing.Any) -> dict[str, int]:
        asked: typing.Any = Services(**answers)
        return allowance.read_limits(asked, SCOPE)

    def test_the_default(self) -> None:
        found = self.read(registered_limits=[limit(default_limit=8)])
        self.assertEqual({'VGPU': 8}, found)

    def test_that_of_the_project_replaces_the_default(self) -> None:
        found = self.read(
            registered_limits=[limit(default_limit=8)],
            limits=[limit(resource_limit=2, project_id='own')],
        )
        self.assertEqual({'VGPU': 2}, found)

    def test_those_of_other_projects_are_left_out(self) -> None:
        """Keystone gives an administrator all of them."""
        found = self.read(
            registered_limits=[limit(default_limit=8)],
            limits=[limit(resource_limit=99, project_id='other')],
        )
        self.assertEqual({'VGPU': 8}, found)

    def test_a_project_without_limit(self) -> None:
        found = self.read(
            registered_limits=[limit(default_limit=8)],
            limits=[limit(resource_limit=-1, project_id='own')],
        )
        self.assertEqual({}, found)

    def test_limits_without_effect(self) -> None:
        for other in (
            limit(service='cinder', default_limit=8),
            limit(region='RegionTwo', default_limit=8),
            limit(region=None, default_limit=8),
            limit('servers', default_limit=8),
        ):
            self.assertEqual(
                {}, self.read(registered_limits=[other]), str(other)
            )


class TestAllowance(testtools.TestCase):
    def test_one_more_server(self) -> None:
        found = allowance.combine({'VGPU': 3}, {'VGPU': 4})['VGPU']
        self.assertFalse(found.is_exceeded_by(1))
        self.assertTrue(found.is_exceeded_by(2))

    def test_no_limit(self) -> None:
        found = allowance.combine({'VGPU': 3}, {})['VGPU']
        self.assertFalse(found.is_exceeded_by(1000))

    def test_nothing_used_yet(self) -> None:
        found = allowance.combine({}, {'VGPU': 0})['VGPU']
        self.assertTrue(found.is_exceeded_by(1))
