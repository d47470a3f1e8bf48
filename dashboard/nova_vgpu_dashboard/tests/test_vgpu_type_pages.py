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

    def test_orders(self) -> None:
        for sort, first in (('name', 'A40-8Q'), ('-free', 'T4-2Q')):
            page = self.read(base.TYPES, f'sort={sort}')
            rows = [
                row['data-object-id']
                for row in page.find('tr')
                if 'data-object-id' in row
            ]
            self.assertEqual(f'{first}/VGPU', rows[0], sort)

    def test_a_flavor_that_no_gpu_can_serve(self) -> None:
        self.assertNotIn('no GPU has', self.read(base.TYPES).text)
        self.cloud.flavors = (DESKTOP, LOST)
        page = self.read(base.TYPES)
        self.assertIn('cannot be built: lost', page.text)

    def test_a_type_that_is_unknown(self) -> None:
        self.cloud.gpus = (clouds.gpu('compute1', traits=()),)
        page = self.read(base.TYPES)
        self.assertIn('Unknown - - - VGPU 1 1 0 of 6 6 6', page.text)
        self.assertNotIn('create_flavor/?type', ' '.join(page.links()))

    def test_no_gpu_at_all(self) -> None:
        self.cloud.gpus = ()
        page = self.read(base.TYPES)
        self.assertIn('No GPU of the cloud serves vGPUs yet.', page.text)

    def test_types_are_unknown_without_placement(self) -> None:
        self.cloud.failure = exception.PlacementError('It does not answer.')
        page = self.read(base.TYPES)
        self.assertIn('It does not answer.', page.text)
        self.assertNotIn('No GPU of the cloud', page.text)
