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

import datetime
import typing

import testtools

from nova_vgpu.cloud.usage import projects
from nova_vgpu.cloud.usage import records

START = datetime.datetime(2024, 2, 1, tzinfo=datetime.UTC)
END = datetime.datetime(2024, 3, 1, 12, tzinfo=datetime.UTC)


def server(name: str, **others: typing.Any) -> dict[str, typing.Any]:
    return {
        'instance_id': f'uuid of {name}',
        'name': name,
        'tenant_id': 'p1',
        'flavor': 'small',
        'hours': 1.5,
        'ended_at': None,
        'state': 'active',
    } | others


class Services:
    """Answers of Nova, page by page."""

    def __init__(self, *pages: dict[str, typing.Any]) -> None:
        self.pages = list(pages)
        self.asked: list[tuple[str, dict[str, str]]] = []

    def ask_nova(
        self, _what: str, path: str, _microversion: str, **query: str
    ) -> typing.Any:
        self.asked.append((path, query))
        return self.pages.pop(0)

    def ask_keystone(self, _what: str, path: str, **query: str) -> typing.Any:
        self.asked.append((path, query))
        return self.pages.pop(0)


class TestRecords(testtools.TestCase):
    def test_pages_are_read_until_there_is_no_next_one(self) -> None:
        link = {'rel': 'next', 'href': 'http://x/y?limit=1&marker=uuid+of+a'}
        asked: typing.Any = Services(
            {
                'tenant_usages': [{'server_usages': [server('a')]}],
                'tenant_usages_links': [link],
            },
            {'tenant_usages': [{'server_usages': [server('b\x1b')]}]},
        )
        found = records.list_records(asked, START, END)
        self.assertEqual(['a', r'b\x1b'], [record.name for record in found])
        (first, query), (_, then) = asked.asked
        self.assertEqual('/os-simple-tenant-usage', first)
        self.assertEqual('2024-03-01T12:00:00', query['end'])
        self.assertEqual('uuid of a', then['marker'])

    def test_projects_are_read_until_there_is_no_next_page(self) -> None:
        asked: typing.Any = Services(
            {
                'projects': [{'id': '1', 'name': 'a'}],
                'links': {'next': 'http://x/projects?limit=1000&marker=1'},
            },
            {
                'projects': [{'id': '2', 'name': 'b'}],
                'links': {'next': None},
            },
        )
        found = records.list_projects(asked)
        self.assertEqual(['a', 'b'], [project.name for project in found])
        (_, first), (_, then) = asked.asked
        self.assertEqual({'limit': '1000'}, first)
        self.assertEqual({'limit': '1000', 'marker': '1'}, then)

    def test_hours_are_never_negative(self) -> None:
        usages = [server('a', hours=-2.5)]
        asked: typing.Any = Services(
            {'tenant_usages': [{'server_usages': usages}]}
        )
        (found,) = records.list_records(asked, START, END)
        self.assertEqual(0.0, found.hours)

    def test_a_project_without_servers_has_no_records(self) -> None:
        asked: typing.Any = Services({'tenant_usage': {}})
        project = projects.Project('p1', 'research')
        self.assertEqual((), records.list_records(asked, START, END, project))
        self.assertEqual('/os-simple-tenant-usage/p1', asked.asked[0][0])

    def test_servers_that_have_a_host_are_current(self) -> None:
        usages = [
            server('a'),
            server('b', ended_at='2024-02-02T00:00:00', state='terminated'),
            server('c', state='shelved_offloaded'),
            server('d', state='stopped'),
        ]
        asked: typing.Any = Services(
            {'tenant_usages': [{'server_usages': usages}]}
        )
        found = records.list_current(asked, END)
        self.assertEqual(['a', 'd'], [record.name for record in found])
