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

from nova_vgpu.cloud import examination
from nova_vgpu.cloud import examiner


class Services:
    """Answers of Nova and Keystone."""

    def __init__(self, *answers: typing.Any) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, str]] = []

    def ask_nova(
        self, _what: str, _path: str, _microversion: str, **query: str
    ) -> typing.Any:
        self.asked.append(query)
        return self.answers.pop(0)

    def ask_keystone(self, _what: str, _path: str) -> typing.Any:
        return self.answers.pop(0)


def page(*nodes: str, **others: typing.Any) -> dict[str, typing.Any]:
    found = [{'id': n[0], 'hypervisor_hostname': n} for n in nodes]
    return {'hypervisors': found} | others


class TestExaminer(testtools.TestCase):
    def test_pages_of_compute_nodes_are_read(self) -> None:
        asked: typing.Any = Services(
            page('a', 'b', hypervisors_links=[{'rel': 'next'}]), page('c\x1b')
        )
        self.assertEqual({'a', 'b', r'c\x1b'}, examiner.list_nodes(asked))
        self.assertEqual({'limit': '1000', 'marker': 'b'}, asked.asked[1])

    def test_names_of_limits_are_escaped(self) -> None:
        limit = {
            'resource_name': 'class:\x1b[2J',
            'default_limit': 3,
            'service_id': 'nova',
            'region_id': None,
        }
        asked: typing.Any = Services({'registered_limits': [limit]})
        self.assertEqual(
            (examination.Limit(r'class:\x1b[2J', 3, 'nova', None),),
            examiner.list_limits(asked),
        )
