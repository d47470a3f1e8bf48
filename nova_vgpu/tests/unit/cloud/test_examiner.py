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

from nova_vgpu.cloud.diagnose import examination
from nova_vgpu.cloud.diagnose import examiner
from nova_vgpu.tests.unit.cloud import clouds


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

    def ask_keystone(
        self, _what: str, _path: str, **_query: str
    ) -> typing.Any:
        return self.answers.pop(0)


class Compute:
    """Nova, with the region that is asked for and that of its endpoint."""

    def __init__(self, region: str | None, found: str | None = None) -> None:
        self.region_name = region
        self.found = found

    def get_endpoint_data(self) -> types.SimpleNamespace | None:
        if self.found is None:
            return None
        return types.SimpleNamespace(region_name=self.found)


def page(*nodes: str) -> dict[str, typing.Any]:
    found = [{'id': n[0], 'hypervisor_hostname': n} for n in nodes]
    return {'hypervisors': found}


class TestExaminer(testtools.TestCase):
    def test_pages_of_compute_nodes_are_read(self) -> None:
        asked: typing.Any = Services(
            # Some nodes of a short page were left out: it has no link.
            page('a', 'b'),
            page('c\x1b'),
            page(),
        )
        self.assertEqual({'a', 'b', r'c\x1b'}, examiner.list_nodes(asked))
        self.assertEqual({'limit': '1000', 'marker': 'c'}, asked.asked[2])

    def test_the_region_is_that_of_the_nova_which_is_asked(self) -> None:
        for compute, region in (
            (Compute('A'), 'A'),
            # The account did not say which.
            (Compute(None, 'B'), 'B'),
            (Compute(None, None), None),
        ):
            asked: typing.Any = Services()
            asked.connection = types.SimpleNamespace(compute=compute)
            self.assertEqual(region, examiner.find_region(asked))

    def test_whole_gpus_are_not_taken_for_those_with_vgpus(self) -> None:
        shared, whole = clouds.gpu('c 84'), clouds.whole('c C1')
        asked: typing.Any = Services(
            page(),
            {'services': [{'id': 'nova'}]},
            {
                'endpoints': [
                    {'service_id': 'nova', 'region_id': 'A'},
                    {'service_id': 'glance', 'region_id': 'C'},
                ]
            },
            {'registered_limits': []},
        )
        asked.connection = types.SimpleNamespace(compute=Compute('A'))
        cloud: typing.Any = types.SimpleNamespace(
            services=asked,
            list_every_gpu=lambda: (shared, whole),
            list_flavors=lambda: (),
        )
        found = examiner.examine(cloud)
        self.assertEqual(((shared,), (whole,)), (found.gpus, found.whole))
        self.assertEqual(('A', {'A'}), (found.region, found.regions))

    def test_gpus_are_examined_without_keystone(self) -> None:
        shared, whole = clouds.gpu('c 84'), clouds.whole('c C1')
        asked: typing.Any = Services(page('c'), page())
        cloud: typing.Any = types.SimpleNamespace(
            services=asked, list_flavors=lambda: ()
        )
        found = examiner.examine_gpus(cloud, (shared, whole))
        self.assertEqual(((shared,), (whole,)), (found.gpus, found.whole))
        self.assertEqual(({'c'}, ()), (found.nodes, found.limits))
        self.assertEqual([], asked.answers)

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
