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

"""Goes through the pages as people do, in a browser, with real services.

``NOVA_VGPU_PICTURES`` names a directory for a picture of each page, and
``NOVA_VGPU_AXE`` the file of axe-core, which looks for barriers.
"""

import os
import pathlib
import typing

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
import testtools

from nova_vgpu.tests.cloud import accounts
from nova_vgpu.tests.cloud import filling
from nova_vgpu.tests.cloud import running as cloud_running
from nova_vgpu.tests.cloud import scene
from nova_vgpu_dashboard.tests.browser import big_fleet
from nova_vgpu_dashboard.tests.browser import chromium
from nova_vgpu_dashboard.tests.browser import running

_GPU = scene.GPUS[0]
_HOSTS = [f'compute{number}' for number in range(4, 19)]
#: With five GPUs of the scene they are 10, then 100 on 20 hosts.
_FEW = big_fleet.make_gpus([big_fleet.LONG], 5)
_MANY = [
    *big_fleet.make_gpus(_HOSTS, 5),
    *big_fleet.make_gpus([big_fleet.ATTACK], 15),
]
PAGES = {
    'gpus': '/admin/gpus/',
    'gpus-filtered': '/admin/gpus/?model=A40&sort=-usage',
    'gpus-none': '/admin/gpus/?host=nothing',
    'gpu': f'/admin/gpus/{_GPU.uuid}/',
    'vgpu-types': '/admin/vgpu_types/',
    'create-flavor': '/admin/vgpu_types/create_flavor/',
}
_HYPERVISORS = '/admin/hypervisors/'


class TestPages(testtools.TestCase):
    """One cloud, one Horizon and one administrator for all tests."""

    cloud: typing.ClassVar[cloud_running.RunningCloud]
    horizon: typing.ClassVar[running.RunningHorizon]
    admin: typing.ClassVar[chromium.Chromium]
    #: The requests of each page with 10 GPUs.
    requests: typing.ClassVar[dict[str, int]]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.cloud = cloud_running.RunningCloud()
        cls.horizon = running.RunningHorizon(cls.cloud)
        cls.cloud.setUp()
        cls.addClassCleanup(cls.cloud.cleanUp)
        cls.horizon.setUp()
        cls.addClassCleanup(cls.horizon.cleanUp)
        connection = cls.cloud.connect()
        filling.fill(connection)
        connection.compute.create_flavor(
            name=big_fleet.ATTACK, ram=1, vcpus=1, disk=0
        )
        placement = filling.Placement(connection)
        big_fleet.add_gpus(placement, _FEW)
        cls.admin = chromium.Chromium(cls.horizon.url, accounts.ADMIN)
        cls.admin.setUp()
        cls.addClassCleanup(cls.admin.cleanUp)
        cls.requests = {
            name: cls.count_requests(path) for name, path in PAGES.items()
        }
        big_fleet.add_gpus(placement, _MANY)

    @classmethod
    def count_requests(cls, path: str) -> int:
        """What a page asks of Placement and Nova."""
        for proxy in cls.cloud.proxies.values():
            proxy.reset()
        cls.admin.open(path)
        return sum(len(proxy.seen) for proxy in cls.cloud.proxies.values())

    def setUp(self) -> None:
        super().setUp()
        self.admin.resize('wide')
        # Of the pages before: some of Horizon's own have errors.
        self.admin.read_errors()

    def test_every_page_fits_the_window_and_has_no_errors(self) -> None:
        directory = os.environ.get('NOVA_VGPU_PICTURES')
        for name, path in PAGES.items():
            for size in chromium.SIZES:
                self.admin.resize(size)
                self.admin.open(path)
                self.assertEqual([], self.admin.read_errors(), name)
                self.assertEqual(0, self.admin.overflow, f'{name} {size}')
                self.assertFalse(self.admin.is_attacked, name)
                if directory:
                    self.admin.save_picture(
                        pathlib.Path(directory, f'{name}-{size}.png')
                    )

    def test_no_page_has_barriers(self) -> None:
        file = os.environ.get('NOVA_VGPU_AXE')
        if not file:
            self.skipTest('NOVA_VGPU_AXE is not set')
        axe = pathlib.Path(file).read_text()
        for name, path in PAGES.items():
            self.admin.open(path)
            self.assertEqual([], self.admin.find_barriers(axe), name)

    def test_a_hostile_name_is_shown_as_it_is(self) -> None:
        self.admin.open('/admin/gpus/?host=onerror')
        self.assertIn('window.attacked', self.admin.text)
        self.assertFalse(self.admin.is_attacked)

    def test_requests_do_not_grow_with_the_number_of_gpus(self) -> None:
        """But for inventories of those that may be fenced, which are few."""
        fenced = sum(1 for gpu in _MANY if gpu.reserved)
        for name, path in PAGES.items():
            more = self.count_requests(path) - self.requests[name]
            self.assertLessEqual(more, fenced + len(big_fleet.MODELS), name)

    def test_pages_are_not_slower_than_horizons_own(self) -> None:
        usual = min(self.admin.open(_HYPERVISORS) for _ in range(3))
        for name, path in PAGES.items():
            time = min(self.admin.open(path) for _ in range(3))
            self.assertLess(time, 2 * usual, name)

    def test_the_list_is_filtered_and_put_in_order(self) -> None:
        self.admin.open('/admin/gpus/')
        self.admin.fill('host', f'compute2{Keys.ENTER}')
        self.admin.wait(lambda: 'host=compute2' in self.url)
        self.admin.driver.find_element(By.LINK_TEXT, 'Free').click()
        self.admin.wait(lambda: 'sort=free' in self.url)
        self.assertIn('host=compute2', self.url, 'the filter is kept')
        link = self.admin.driver.find_element(By.LINK_TEXT, '0000:41:00.0')
        link.click()
        self.admin.wait(lambda: 'on compute2' in self.admin.driver.title)

    def test_a_server_is_found_from_its_gpu(self) -> None:
        self.admin.open(PAGES['gpu'])
        link = self.admin.driver.find_element(By.LINK_TEXT, 'desktop-1')
        self.assertIn(
            f'/admin/instances/{scene.SERVERS[0].uuid}/',
            link.get_attribute('href'),
        )

    def test_a_flavor_is_created_by_the_form(self) -> None:
        self.admin.open(f'{PAGES["create-flavor"]}?type=T4-2Q%2FVGPU')
        for field, text in (
            ('name', 'from-the-form'),
            ('vcpus', '2'),
            ('ram', '2048'),
            ('disk', '10'),
        ):
            self.admin.fill(field, text)
        self.admin.press('Preview')
        self.assertIn('resources:VGPU=1', self.admin.text)
        self.assertNotIn('from-the-form', self.list_flavors())
        self.admin.press('Create Flavor')
        self.assertIn('Flavor from-the-form was created.', self.admin.text)
        self.assertEqual(
            {
                'resources:VGPU': '1',
                'trait:CUSTOM_VGPU_TYPE_T4_2Q': 'required',
            },
            self.list_flavors()['from-the-form'],
        )

    def test_an_ordinary_user_sees_flavors_only(self) -> None:
        user = self.useFixture(
            chromium.Chromium(self.horizon.url, accounts.USER)
        )
        for path in PAGES.values():
            user.open(path)
            self.assertIn('not authorized', user.text, path)
            self.assertNotIn('compute1', user.text, path)
        user.open('/project/vgpu_flavors/')
        self.assertIn('T4-2Q', user.text)

    @property
    def url(self) -> str:
        return str(self.admin.driver.current_url)

    def list_flavors(self) -> dict[str, dict[str, str]]:
        """The extra specs of flavors by their names."""
        found = self.cloud.connect().compute.flavors()
        return {flavor.name: dict(flavor.extra_specs) for flavor in found}
