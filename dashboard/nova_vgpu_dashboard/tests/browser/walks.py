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

20 nova-computes with this project's driver publish 100 GPUs. Requests are
counted while two of them run, and again with all. Then a Prometheus has what
the agents of the hosts tell. ``NOVA_VGPU_PICTURES`` names a directory for a
picture of each page, and ``NOVA_VGPU_AXE`` the file of axe-core, which looks
for barriers.
"""

from collections.abc import Callable
import functools
import json
import os
import pathlib
import typing

import fixtures
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
import testtools

from nova_vgpu.tests import certificates
from nova_vgpu.tests.cloud import accounts
from nova_vgpu.tests.cloud import fleet
from nova_vgpu.tests.cloud import running as cloud_running
from nova_vgpu.tests.cloud import whole_nova_service
from nova_vgpu_dashboard.tests.browser import chromium
from nova_vgpu_dashboard.tests.browser import furnishing
from nova_vgpu_dashboard.tests.browser import launching
from nova_vgpu_dashboard.tests.browser import pages
from nova_vgpu_dashboard.tests.browser import running
from nova_vgpu_dashboard.tests.browser import scraping

_FENCED = tuple(f'{host.name}_pci_0000_45_00_0' for host in fleet.BROKEN)
#: How many requests a page may need beyond those for 10 GPUs: the inventory of
#: each GPU that may be fenced, and one of each model that is new.
_MORE = len(_FENCED) + 2
#: How often a page is measured, unless it is quick before.
_ROUNDS = 8
_SECONDS = 600

_Fixture = typing.TypeVar('_Fixture', bound=fixtures.Fixture)


class TestPages(testtools.TestCase):
    """One cloud, one Horizon and one administrator for all tests."""

    cloud: typing.ClassVar[cloud_running.RunningCloud]
    horizon: typing.ClassVar[running.RunningHorizon]
    admin: typing.ClassVar[chromium.Chromium]
    furnishing: typing.ClassVar[furnishing.Furnishing]
    #: The paths of the pages by their names.
    paths: typing.ClassVar[dict[str, str]]
    #: The requests of each page with 10 GPUs.
    requests: typing.ClassVar[dict[str, int]]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        directory = pathlib.Path(cls.use(fixtures.TempDir()).path)
        authority = certificates.Authority(directory, 'ca')
        prometheus = cls.use(scraping.RunningPrometheus(directory, authority))
        setting = json.dumps(prometheus.horizon_setting)
        cls.use(fixtures.EnvironmentVariable('NOVA_VGPU_PROMETHEUS', setting))
        cls.cloud = cls.use(
            cloud_running.RunningCloud(has_images=True, has_computes=True)
        )
        cls.horizon = cls.use(running.RunningHorizon(cls.cloud))
        connection = cls.cloud.connect()
        cls.furnishing = furnishing.Furnishing(connection)
        cls.furnishing.furnish()
        cls.furnishing.boot(furnishing.SERVERS)
        # No GPU is fenced yet.
        cls.paths = cls.list_paths(cls.furnishing.find_gpu('desktop-1'))
        cls.admin = cls.use(chromium.Chromium(cls.horizon.url, accounts.ADMIN))
        cls.requests = {
            name: len(cls.list_requests(path))
            for name, path in cls.paths.items()
        }
        cls.save_picture('virtual-functions-unknown', cls.open_functions)
        pair = authority.issue('host')
        ports = connection.compute.post(
            whole_nova_service.START,
            json=(pair.certificate, pair.key, authority.certificate),
            timeout=_SECONDS,
        ).json()
        prometheus.start(ports)
        for name in _FENCED:
            cls.furnishing.fence(name)
        cls.paths = cls.list_paths(cls.furnishing.find_provider(_FENCED[0]))
        cls.furnishing.boot(furnishing.MORE_SERVERS)
        connection.compute.post(whole_nova_service.READ)
        cls.admin.wait(cls.is_scraped)
        cls.save_pictures()
        cls.furnishing.add_hostile_names()

    @classmethod
    def use(cls, fixture: _Fixture) -> _Fixture:
        fixture.setUp()
        cls.addClassCleanup(fixture.cleanUp)
        return fixture

    @classmethod
    def list_paths(cls, fenced: str) -> dict[str, str]:
        gpu = cls.furnishing.find_gpu('desktop-1')
        server = cls.furnishing.find_server('desktop-1').id
        return {
            name: path.format(gpu=gpu, server=server, fenced=fenced)
            for name, path in pages.ALL.items()
        }

    @classmethod
    def is_scraped(cls) -> bool:
        """Whether Prometheus has the agents of all hosts, and all servers."""
        cls.open_functions()
        if 'no data of the agents' in cls.admin.text:
            return False
        cls.admin.open(cls.paths['virtual-functions-used'])
        last = cls.furnishing.find_server('studio-2').id
        return last in cls.admin.text

    @classmethod
    def save_pictures(cls) -> None:
        for name, path in cls.paths.items():
            cls.save_picture(name, functools.partial(cls.admin.open, path))
        cls.save_picture('create-flavor-preview', cls.open_preview)
        cls.save_picture('launch-form', cls.open_launch_form)

    @classmethod
    def save_picture(cls, name: str, show: Callable[[], object]) -> None:
        directory = os.environ.get('NOVA_VGPU_PICTURES')
        if not directory:
            return
        for size in pages.SIZES:
            # A narrow launch form does not show its steps.
            cls.admin.resize('wide')
            show()
            cls.admin.resize(size)
            cls.admin.save_picture(
                pathlib.Path(directory, f'{name}-{size}.png')
            )

    @classmethod
    def open_functions(cls) -> None:
        cls.admin.open(cls.paths['virtual-functions'])

    @classmethod
    def open_preview(cls, name: str = 'desktop-large') -> None:
        path = cls.paths['create-flavor']
        cls.admin.open(f'{path}?type=T4-2Q%2FVGPU')
        for field, text in (
            ('name', name),
            ('vcpus', '2'),
            ('ram', '2048'),
            ('disk', '10'),
        ):
            cls.admin.fill(field, text)
        cls.admin.press('Preview')

    @classmethod
    def open_launch_form(cls) -> None:
        launching.open_form(cls.admin)
        launching.open_step(cls.admin, 'Flavor')
        cls.admin.wait(lambda: '1 vGPU of T4-2Q' in cls.admin.text)
        # There is no Neutron for Horizon to ask.
        cls.admin.find('//toast//a[@class="close"]').click()

    @classmethod
    def list_requests(cls, path: str) -> list[object]:
        """What a page asks of Placement and Nova."""
        for proxy in cls.cloud.proxies.values():
            proxy.reset()
        cls.admin.open(path)
        return [
            request
            for proxy in cls.cloud.proxies.values()
            for request in proxy.seen
        ]

    def setUp(self) -> None:
        super().setUp()
        self.admin.resize('wide')
        # Of the pages before: some of Horizon's own have errors.
        self.admin.read_errors()

    # -- every page -----------------------------------------------------------

    def test_every_page_fits_the_window_and_has_no_errors(self) -> None:
        for name, path in self.paths.items():
            for size in pages.SIZES:
                self.admin.resize(size)
                self.admin.open(path)
                self.assertEqual([], self.admin.read_errors(), name)
                self.assertEqual(0, self.admin.overflow, f'{name} {size}')
                self.assertEqual([], self.admin.narrow_buttons, name)
                self.assertFalse(self.admin.is_attacked, name)

    def test_no_page_has_barriers(self) -> None:
        found = {}
        for name, path in self.paths.items():
            self.admin.open(path)
            part = pages.PARTS.get(name, pages.OURS)
            found[name] = self.admin.find_barriers(part)
        self.assertEqual(
            {}, {name: each for name, each in found.items() if each}
        )

    def test_requests_do_not_grow_with_the_number_of_gpus(self) -> None:
        for name, path in self.paths.items():
            seen = self.list_requests(path)
            more = len(seen) - self.requests[name]
            self.assertLessEqual(more, _MORE, f'{name}: {seen}')

    def test_pages_are_not_slower_than_horizons_own(self) -> None:
        """Where they seem to be, both are measured again, some times."""
        slow = dict(self.paths)
        server = self.furnishing.find_server('desktop-1').id
        own = {
            name: path.format(server=server)
            for name, path in pages.OWN_TABS.items()
        }
        fastest: dict[str, float] = {}

        def measure(path: str) -> None:
            time = self.admin.open(path)
            fastest[path] = min(time, fastest.get(path, time))

        self.admin.open(pages.HYPERVISORS)
        rounds = 0
        while slow and rounds < _ROUNDS:
            rounds += 1
            for name, path in slow.items():
                measure(own.get(name, pages.HYPERVISORS))
                measure(path)
            slow = {
                name: path
                for name, path in slow.items()
                if fastest[path]
                > 2 * fastest[own.get(name, pages.HYPERVISORS)]
            }
        self.assertEqual({}, slow, str(fastest))

    # -- what an administrator does -------------------------------------------

    def test_a_hostile_name_is_shown_as_it_is(self) -> None:
        for path in ('/admin/gpus/?host=onerror', self.paths['gpu']):
            self.admin.open(path)
            self.assertIn('window.attacked', self.admin.text)
            self.assertFalse(self.admin.is_attacked)

    def test_the_list_is_filtered_and_put_in_order(self) -> None:
        self.admin.open('/admin/gpus/')
        self.admin.fill('host', f'compute12{Keys.ENTER}')
        self.admin.wait(lambda: 'host=compute12' in self.url)
        self.admin.driver.find_element(By.LINK_TEXT, 'Free').click()
        self.admin.wait(lambda: 'sort=free' in self.url)
        self.assertIn('host=compute12', self.url, 'the filter is kept')
        link = self.admin.driver.find_element(By.LINK_TEXT, '0000:41:00.0')
        link.click()
        self.admin.wait(lambda: 'on compute12' in self.admin.driver.title)

    def test_a_server_is_found_from_its_gpu(self) -> None:
        self.admin.open(self.paths['gpu'])
        link = self.admin.driver.find_element(By.LINK_TEXT, 'desktop-1')
        server = self.furnishing.find_server('desktop-1')
        self.assertIn(
            f'/admin/instances/{server.id}/', link.get_attribute('href')
        )

    def test_the_device_of_a_server_is_found(self) -> None:
        server = self.furnishing.find_server('render-1').id
        self.admin.open('/admin/virtual_functions/?host=compute2&use=server')
        row = self.admin.read_row(server)
        self.assertEqual('A40-8Q', row['vGPU Type'])
        self.assertIn('device disable', row['Command on the Host'])
        self.assertIn(f'Server {server} has it', row['Command on the Host'])
        self.admin.open('/admin/virtual_functions/?host=compute2&use=free')
        self.assertNotIn(server, self.admin.text)

    def test_a_problem_of_a_host_is_shown_with_its_cure(self) -> None:
        self.admin.open(self.paths['gpu-fenced'])
        self.assertIn('0 of 32 enabled', self.admin.text)
        self.assertIn('nova-vgpu sriov enable 0000:45:00.0', self.admin.text)

    def test_a_server_gets_a_vgpu_by_a_flavor_of_the_form(self) -> None:
        self.create_flavor('from-the-form')
        used = self.read_used()
        launching.launch(
            self.admin, 'launched', furnishing.IMAGE, 'from-the-form'
        )
        self.furnishing.wait_until_active('launched')
        gpu = f'/admin/gpus/{self.furnishing.find_gpu("launched")}/'
        self.admin.open(gpu)
        self.assertIn('launched', self.admin.text)
        self.assertEqual(used + 1, self.read_used())
        self.furnishing.delete_server('launched')
        self.admin.open(gpu)
        self.assertNotIn('launched', self.admin.text)
        self.assertEqual(used, self.read_used())

    def create_flavor(self, name: str) -> None:
        self.open_preview(name)
        self.assertIn('resources:VGPU=1', self.admin.text)
        self.assertNotIn(name, self.furnishing.list_flavors())
        self.admin.press('Create Flavor')
        self.assertIn(f'Flavor {name} was created.', self.admin.text)
        self.assertEqual(
            {
                'resources:VGPU': '1',
                'trait:CUSTOM_VGPU_TYPE_T4_2Q': 'required',
            },
            self.furnishing.list_flavors()[name],
        )

    def read_used(self) -> int:
        """How many vGPUs of T4-2Q are in use, as the page says."""
        self.admin.open(self.paths['vgpu-types'])
        used = self.admin.read_row('T4-2Q')['vGPUs Used']
        return int(used.split()[0])

    # -- what an ordinary user does -------------------------------------------

    def test_an_ordinary_user_sees_pages_of_projects_only(self) -> None:
        user = self.useFixture(
            chromium.Chromium(self.horizon.url, accounts.USER)
        )
        for name in pages.ADMIN:
            user.open(self.paths[name])
            self.assertIn('not authorized', user.text, name)
            self.assertNotIn('compute1', user.text, name)
        user.read_errors()
        for name in pages.PROJECT:
            user.open(self.paths[name])
            self.assertIn('T4-2Q', user.text, name)
            self.assertEqual([], user.read_errors(), name)
            self.assertFalse(user.is_attacked, name)

    @property
    def url(self) -> str:
        return str(self.admin.driver.current_url)
