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

from nova_vgpu import exception
from nova_vgpu_dashboard.tests import base
from nova_vgpu_dashboard.tests import clouds

DESKTOP = clouds.flavor(
    'desktop',
    resources__VGPU='1',
    trait__CUSTOM_VGPU_TYPE_T4_2Q='required',
)
LOST = clouds.flavor(
    'lost', resources__VGPU='1', trait__CUSTOM_VGPU_TYPE_H100_8Q='required'
)
WHOLE = clouds.flavor('whole', pci_passthrough__alias='gpu-A40:1')


class TestListOfTypes(base.AdminPages):
    def setUp(self) -> None:
        super().setUp()
        self.cloud.gpus = (
            clouds.gpu('compute1', '41', 6, 2),
            clouds.gpu('compute1', '42', 6, 1),
            clouds.gpu('compute2', '41', 1, 1, 5),
            clouds.gpu('compute2', '42', 16, traits=clouds.T4),
        )
        self.cloud.flavors = (DESKTOP,)

    def test_every_type_has_a_row(self) -> None:
        page = self.read(base.TYPES)
        self.assertIn(
            'A40-8Q A40 8 GiB Q VGPU 3 2 4 of 18, 5 fenced 9 9 None',
            page.text,
        )
        self.assertIn('T4-2Q T4 - - VGPU 1 1 0 of 16 16 16 desktop', page.text)
        self.assertIn('/admin/gpus/?type=A40-8Q', page.links())

    def test_a_type_leads_to_a_form_for_its_flavor(self) -> None:
        self.assertIn(
            '/admin/vgpu_types/create_flavor/?type=A40-8Q%2FVGPU',
            self.read(base.TYPES).links(),
        )

    def list_rows(self, query: str) -> list[str | None]:
        return [
            row['data-object-id']
            for row in self.read(base.TYPES, query).find('tr')
            if 'data-object-id' in row
        ]

    def test_orders(self) -> None:
        for sort, first in (('name', 'A40-8Q'), ('-free', 'T4-2Q')):
            rows = self.list_rows(f'sort={sort}')
            self.assertEqual(f'{first}/VGPU', rows[0], sort)

    def test_filters(self) -> None:
        self.cloud.whole = (clouds.whole('compute1'),)
        for query, rows in (
            ('name=a40', ['A40-8Q/VGPU', '/CUSTOM_GPU_A40']),
            ('name=DESK', ['T4-2Q/VGPU']),
            ('model=T4', ['T4-2Q/VGPU']),
            ('series=Q', ['A40-8Q/VGPU']),
            ('series=Q&model=T4', []),
            ('free=yes', ['A40-8Q/VGPU', 'T4-2Q/VGPU', '/CUSTOM_GPU_A40']),
        ):
            self.assertEqual(rows, self.list_rows(query), query)
        self.cloud.whole = (clouds.whole('compute1', used=1),)
        self.assertEqual(
            ['A40-8Q/VGPU', 'T4-2Q/VGPU'], self.list_rows('free=yes')
        )

    def test_a_filter_stays_in_the_form_and_in_the_links(self) -> None:
        page = self.read(base.TYPES, 'name=a40&sort=-free')
        (field,) = page.find('input', name='name')
        self.assertEqual('a40', field['value'])
        self.assertIn('?name=a40&sort=hosts', page.links())

    def test_flavors_lead_to_their_rows_in_horizons_list(self) -> None:
        self.assertIn(
            f'/admin/flavors/#flavors__row__{DESKTOP.id}',
            self.read(base.TYPES).links(),
        )

    def test_many_flavors_of_a_type_are_folded(self) -> None:
        self.cloud.flavors = tuple(
            clouds.flavor(f'any-{number}', resources__VGPU='1')
            for number in range(20)
        )
        page = self.read(base.TYPES)
        self.assertEqual(2, len(page.find('details')), 'one for each type')
        self.assertIn('12 more', page.text)
        self.assertEqual(
            40, sum('#flavors__row__' in link for link in page.links())
        )

    def test_whole_gpus_have_a_table_of_their_own(self) -> None:
        self.assertNotIn('Whole GPUs', self.read(base.TYPES).text)
        self.cloud.whole = (
            clouds.whole('compute1', used=1),
            clouds.whole('compute2'),
            clouds.whole('compute2', 'C2'),
        )
        self.cloud.flavors = (WHOLE,)
        page = self.read(base.TYPES)
        self.assertIn('Whole GPUs Model', page.text)
        self.assertIn('A40 CUSTOM_GPU_A40 2 1 of 3 2 2 whole', page.text)
        self.assertIn('/admin/gpus/?model=A40', page.links())
        self.assertIn(
            '/admin/vgpu_types/create_flavor/?type=%2FCUSTOM_GPU_A40',
            page.links(),
        )

    def test_a_cloud_of_whole_gpus_alone(self) -> None:
        self.cloud.gpus = ()
        self.cloud.whole = (clouds.whole('compute1'),)
        page = self.read(base.TYPES)
        self.assertIn('A40 CUSTOM_GPU_A40 1 0 of 1', page.text)
        self.assertNotIn('No GPU of the cloud serves', page.text)

    def test_a_flavor_that_no_gpu_can_serve(self) -> None:
        """In the words of the command "openstack vgpu doctor"."""
        self.assertNotIn('Problems of flavors', self.read(base.TYPES).text)
        self.cloud.flavors = (DESKTOP, LOST)
        page = self.read(base.TYPES)
        self.assertIn(
            'Problems of flavors: 1 Error: No GPU of the cloud has what '
            'flavor lost asks for. resources:VGPU=1 '
            'trait:CUSTOM_VGPU_TYPE_H100_8Q=required Change the flavor, or '
            'configure a GPU for it.',
            page.text,
        )

    def test_every_problem_of_flavors_that_the_doctor_finds(self) -> None:
        self.cloud.flavors = (
            clouds.flavor('wrong', resource__VGPU='1'),
            clouds.flavor('large', resources__VGPU='17'),
            WHOLE,
        )
        text = self.read(base.TYPES).text
        self.assertIn('"resource:VGPU" of flavor wrong is misspelled', text)
        self.assertIn('GPUs that fit have at most 16.', text)
        self.assertIn('No host has the whole GPUs that flavor whole', text)

    def test_many_problems_do_not_hide_the_types(self) -> None:
        self.cloud.flavors = tuple(
            clouds.flavor(f'lost-{number}', resources__VGPU='99')
            for number in range(1000)
        )
        page = self.read(base.TYPES)
        self.assertIn('Problems of flavors: 1000', page.text)
        self.assertIn('Not shown: 980 more.', page.text)
        self.assertEqual(20, page.text.count('Error:'))

    def test_a_type_that_is_unknown(self) -> None:
        self.cloud.gpus = (clouds.gpu('compute1', traits=()),)
        page = self.read(base.TYPES)
        self.assertIn('Unknown - - - VGPU 1 1 0 of 6 6 6', page.text)
        self.assertNotIn('create_flavor/?type', ' '.join(page.links()))

    def test_no_gpu_at_all(self) -> None:
        self.cloud.gpus = ()
        page = self.read(base.TYPES)
        self.assertIn('No GPU of the cloud serves vGPUs yet', page.text)

    def test_types_are_unknown_without_placement(self) -> None:
        self.cloud.failure = exception.PlacementError('It does not answer.')
        page = self.read(base.TYPES)
        self.assertIn('It does not answer.', page.text)
        self.assertNotIn('No GPU of the cloud', page.text)
