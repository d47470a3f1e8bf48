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

"""Only administrators may open the pages, each of them."""

from unittest import mock

from django import urls

from nova_vgpu_dashboard.tests import base
from nova_vgpu_dashboard.tests import clouds

GPU = clouds.gpu('compute1')
PAGES = {
    base.GPUS: (),
    base.GPU: (GPU.uuid,),
    base.TYPES: (),
    base.CREATE: (),
    base.FUNCTIONS: (),
    base.USAGE: (),
    base.USAGE_FILE: (),
}


class TestOrdinaryUser(base.UserPages):
    def setUp(self) -> None:
        super().setUp()
        self.cloud.gpus = (GPU,)

    def test_every_page_refuses(self) -> None:
        for name, args in PAGES.items():
            for method in (self.client.get, self.client.post):
                response = method(urls.reverse(name, args=args))
                self.assertEqual(403, response.status_code, name)
                self.assertNotIn('compute1', response.content.decode(), name)
        self.assertEqual([], self.cloud.connection.compute.created)

    def test_the_panels_are_not_in_the_navigation(self) -> None:
        page = base.parse(self.client.get(urls.reverse(base.GPUS)))
        self.assertNotIn('/admin/gpus/', page.links())


class TestAdministrator(base.AdminPages):
    def setUp(self) -> None:
        super().setUp()
        self.cloud.gpus = (GPU,)

    def test_every_page_opens(self) -> None:
        for name, args in PAGES.items():
            self.assertEqual(200, self.open(name, args=args).status_code)

    def test_the_panels_are_in_the_navigation(self) -> None:
        links = self.read(base.GPUS).links()
        self.assertIn('/admin/gpus/', links)
        self.assertIn('/admin/vgpu_types/', links)
        self.assertIn('/admin/virtual_functions/', links)

    def test_novas_policy_decides_who_creates_flavors(self) -> None:
        def refuse(rules: object, _request: object) -> bool:
            return rules != (
                ('compute', 'os_compute_api:os-flavor-manage:create'),
            )

        name = 'openstack_dashboard.policy.check'
        with mock.patch(name, side_effect=refuse):
            response = self.open(base.CREATE)
        self.assertEqual(403, response.status_code)

    def test_a_cloud_without_placement(self) -> None:
        self._setup_user(service_catalog=self.service_catalog[:-1])
        self.assertEqual(403, self.open(base.GPUS).status_code)
        self.assertEqual(403, self.open(base.TYPES).status_code)
        self.assertEqual(403, self.open(base.FUNCTIONS).status_code)
