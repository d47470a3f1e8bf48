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
    'desktop-10',
    resources__VGPU='1',
    trait__CUSTOM_VGPU_TYPE_T4_2Q='required',
)
RENDER = clouds.flavor(
    'desktop-9',
    resources1__VGPU='1',
    trait1__CUSTOM_VGPU_TYPE_A40_8Q='required',
    resources2__VGPU='1',
    trait2__CUSTOM_VGPU_TYPE_A40_8Q='required',
    group_policy='none',
)
ANY = clouds.flavor('any', resources__VGPU='1')
PLAIN = clouds.flavor('plain')


class TestFlavorsOfAProject(base.UserPages):
    """An ordinary user may open this page."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud.flavors = (DESKTOP, RENDER, ANY, PLAIN)

    def test_flavors_with_vgpus(self) -> None:
        page = self.read(base.FLAVORS)
        self.assertIn(
            'any 1 Any 1 0 0 desktop-9 2 A40-8Q 1 0 0 desktop-10 1 T4-2Q 1 0',
            page.text,
        )
        self.assertNotIn('plain', page.text)

    def test_orders(self) -> None:
        page = self.read(base.FLAVORS, 'sort=-vgpus')
        self.assertIn('Root Disk (GiB) desktop-9 2', page.text)

    def test_the_cloud_is_not_asked_for_gpus(self) -> None:
        """Placement would refuse it."""
        self.cloud.failure = exception.PlacementError('Forbidden')
        self.assertIn('desktop-9', self.read(base.FLAVORS).text)

    def test_no_flavor_with_vgpus(self) -> None:
        self.cloud.flavors = (PLAIN,)
        page = self.read(base.FLAVORS)
        self.assertIn('No flavor that this project can use', page.text)

    def test_the_panel_is_in_the_navigation(self) -> None:
        links = self.read(base.FLAVORS).links()
        self.assertIn('/project/vgpu_flavors/', links)
        self.assertNotIn('/admin/gpus/', links)

    def test_nova_does_not_answer(self) -> None:
        self.cloud.flavor_failure = exception.CloudError('It does not answer.')
        page = self.read(base.FLAVORS)
        self.assertIn('The flavors are unknown.', page.text)
        self.assertIn('It does not answer.', page.text)
