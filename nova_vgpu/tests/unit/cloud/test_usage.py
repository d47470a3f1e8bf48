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

import testtools

from nova_vgpu.cloud.orders import demands
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.cloud.usage import projects
from nova_vgpu.cloud.usage import servers
from nova_vgpu.cloud.usage import usage
from nova_vgpu.tests.unit.cloud import clouds

SIZE = 'CUSTOM_VGPU_FRAMEBUFFER_2G'
T4 = clouds.gpu('compute1 84', 8, 3, None, (*clouds.T4, SIZE))
A40 = clouds.gpu('compute2 41', 6, 1, None, clouds.A40)
UNKNOWN = clouds.gpu('compute3 41', 6, 1, None, ())
OWN = clouds.gpu('compute4 41', 6, 0, None, clouds.T4, 'CUSTOM_T4')
GPUS = (T4, A40, UNKNOWN, OWN)
PROJECTS = (projects.Project('p1', 'research'),)


class TestUsage(testtools.TestCase):
    DEMANDS = demands.find(
        [
            flavors.parse('any', {'resources:VGPU': '1'}),
            flavors.parse(
                't4',
                {
                    'resources:VGPU': '2',
                    'trait:CUSTOM_VGPU_TYPE_T4_2Q': 'required',
                },
            ),
            flavors.parse('own', {'resources:CUSTOM_T4': '1'}),
            flavors.parse('plain', {}),
        ],
        GPUS,
    )

    def add_up(
        self,
        *records: servers.Record,
        current: tuple[servers.Record, ...] = (),
    ) -> list[tuple[object, ...]]:
        return [
            (
                *(found.project_name, found.kind.name, found.vgpus),
                *(found.hours, found.gib_hours, found.servers),
            )
            for found in usage.add_up(records, current, self.DEMANDS, PROJECTS)
        ]

    def test_hours_count_for_each_vgpu(self) -> None:
        self.assertEqual(
            [('research', 'T4-2Q', 0, 30.0, 60.0, 2)],
            self.add_up(
                servers.Record('s1', 'a', 'p1', 't4', 10.0),
                servers.Record('s2', 'b', 'p1', 't4', 5.0),
                servers.Record('s3', 'c', 'p1', 'plain', 5.0),
            ),
        )

    def test_without_the_size_of_the_frame_buffer(self) -> None:
        self.assertEqual(
            [
                # The provider of its class has no trait of the size.
                ('p2', 'T4-2Q', 0, 5.0, None, 1),
                ('research', 'several', 0, 10.0, None, 1),
            ],
            self.add_up(
                servers.Record('s1', 'a', 'p1', 'any', 10.0),
                servers.Record('s2', 'b', 'p2', 'own', 5.0),
            ),
        )

    def test_what_is_used_now_is_not_what_was_used(self) -> None:
        self.assertEqual(
            [
                ('research', 'T4-2Q', 2, 0.0, 0.0, 0),
                ('research', 'several', 0, 10.0, None, 1),
            ],
            self.add_up(
                servers.Record('s1', 'a', 'p1', 'any', 10.0, False),
                current=(servers.Record('s2', 'b', 'p1', 't4'),),
            ),
        )

    def test_servers_of_unknown_flavors_do_not_count(self) -> None:
        self.assertEqual(
            [], self.add_up(servers.Record('s1', 'a', 'p1', 'gone', 10.0))
        )
