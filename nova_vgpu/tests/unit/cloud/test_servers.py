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

from nova_vgpu import exception
from nova_vgpu.cloud.orders import demands
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.cloud.usage import projects
from nova_vgpu.cloud.usage import servers
from nova_vgpu.tests.unit.cloud import clouds

T4 = clouds.gpu('compute1 84', 8, 3)
A40 = clouds.gpu('compute2 41', 6, 1, None, clouds.A40)
PROJECTS = (
    projects.Project('p1', 'research'),
    projects.Project('p2', 'studio'),
    projects.Project('p3', 'studio'),
)
RECORDS = (
    servers.Record('s1', 'desktop', 'p1', 'small'),
    servers.Record('s2', 'big', 'p2', 'large'),
    servers.Record('s3', 'astray', 'gone', 'large'),
)
ALLOCATIONS = (
    servers.Allocation('s1', T4, 'VGPU', 1),
    servers.Allocation('s2', T4, 'VGPU', 2),
    servers.Allocation('s2', A40, 'VGPU', 1),
    servers.Allocation('m1', T4, 'VGPU', 1),
    servers.Allocation('s3', A40, 'VGPU', 1),
)


class TestServers(testtools.TestCase):
    def rows(self, **filters: projects.Project) -> list[tuple[object, ...]]:
        return [
            (
                user.name,
                user.project_name,
                user.gpu and user.gpu.host,
                user.vgpus,
            )
            for user in servers.list_by_gpu(
                ALLOCATIONS, RECORDS, PROJECTS, **filters
            )
        ]

    def test_a_server_has_a_row_for_each_gpu(self) -> None:
        self.assertEqual(
            [
                # Keystone does not have its project any more.
                ('astray', 'gone', 'compute2', 1),
                ('big', 'studio', 'compute1', 2),
                ('big', 'studio', 'compute2', 1),
                ('desktop', 'research', 'compute1', 1),
                (None, None, 'compute1', 1),
            ],
            self.rows(),
        )

    def test_those_of_a_project(self) -> None:
        self.assertEqual(
            [('desktop', 'research', 'compute1', 1)],
            self.rows(project=PROJECTS[0]),
        )


class TestServersByFlavor(testtools.TestCase):
    DEMANDS = demands.find(
        [
            flavors.parse('large', {'resources:VGPU': '2'}),
            flavors.parse('plain', {}),
        ],
        (T4, A40),
    )

    def test_a_server_has_what_its_flavor_asks_for(self) -> None:
        found = servers.list_by_flavor(RECORDS, self.DEMANDS, PROJECTS)
        self.assertEqual(
            [
                ('astray', 'gone', 'several', 'VGPU', 2),
                ('big', 'studio', 'several', 'VGPU', 2),
            ],
            [
                (u.name, u.project_name, u.type, u.resource_class, u.vgpus)
                for u in found
            ],
        )

    def test_flavors_that_do_not_exist_any_more_are_named(self) -> None:
        records = (
            *RECORDS,
            servers.Record('s4', 'x', 'p1', '', 5.0),
            servers.Record('s5', 'y', 'p1', 'plain', 7.0),
        )
        self.assertEqual(
            servers.Unknown(2, 5.0, ('', 'small')),
            servers.find_unknown(records, self.DEMANDS),
        )


class TestProjects(testtools.TestCase):
    def test_a_project_is_found_by_its_name_or_id(self) -> None:
        self.assertEqual(PROJECTS[0], projects.find(PROJECTS, 'research'))
        self.assertEqual(PROJECTS[2], projects.find(PROJECTS, 'p3'))

    def test_a_name_of_two_projects_is_ambiguous(self) -> None:
        error = self.assertRaises(
            exception.NotInCloud, projects.find, PROJECTS, 'studio'
        )
        self.assertEqual(
            'More than one project has the name studio. Give the ID of one of '
            'them: p2, p3.',
            str(error),
        )

    def test_an_unknown_project_is_said_without_control_characters(
        self,
    ) -> None:
        error = self.assertRaises(
            exception.NotInCloud, projects.find, PROJECTS, 'a\nb'
        )
        self.assertEqual(r'Keystone has no project a\nb.', str(error))
