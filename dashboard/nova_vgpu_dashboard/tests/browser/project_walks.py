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

"""A walk through what projects see, in a browser.

``python -m testtools.run nova_vgpu_dashboard.tests.browser.project_walks``
starts the services and Horizon as :mod:`walks` does. An ordinary user opens
the launch form and the page of flavors.
"""

import typing

from selenium.webdriver.common.by import By
import testtools

from nova_vgpu.tests.cloud import accounts
from nova_vgpu.tests.cloud import filling
from nova_vgpu.tests.cloud import running as cloud_running
from nova_vgpu.tests.cloud import scene
from nova_vgpu_dashboard.tests.browser import chromium
from nova_vgpu_dashboard.tests.browser import launching
from nova_vgpu_dashboard.tests.browser import pages
from nova_vgpu_dashboard.tests.browser import running

#: It would be a part of the page, and of the template that AngularJS sees.
_ATTACK = (
    '<img src=x onerror="window.attacked=1">'
    "{$constructor.constructor('window.attacked=1')()$}"
)
_FLAVORS = '/project/vgpu_flavors/'
#: How often the page has asked for the words.
_COUNT = """
return performance.getEntriesByType("resource").filter(
  entry => entry.name.endsWith("/vgpu_flavors/words/")).length;
"""
_WORDS = '2 vGPUs of A40-8Q, 8 GiB each, on 2 different GPUs'


#: The limits of every project; Nova does not start servers without them.
_LIMITS = {
    'servers': 10,
    'class:VCPU': 20,
    'class:MEMORY_MB': 2 * scene.MEMORY,
    'class:VGPU': 4,
}


def _set_limits(connection: typing.Any) -> None:
    nova = connection.identity.find_service('nova')
    for name, limit in _LIMITS.items():
        connection.identity.create_registered_limit(
            service_id=nova.id,
            region_id=accounts.REGION,
            resource_name=name,
            default_limit=limit,
        )


class TestProjectPages(testtools.TestCase):
    """One cloud, one Horizon and one ordinary user for all tests."""

    cloud: typing.ClassVar[cloud_running.RunningCloud]
    horizon: typing.ClassVar[running.RunningHorizon]
    user: typing.ClassVar[chromium.Chromium]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.cloud = cloud_running.RunningCloud(has_images=True)
        cls.horizon = running.RunningHorizon(cls.cloud)
        cls.cloud.setUp()
        cls.addClassCleanup(cls.cloud.cleanUp)
        cls.horizon.setUp()
        cls.addClassCleanup(cls.horizon.cleanUp)
        connection = cls.cloud.connect()
        filling.fill(connection)
        _set_limits(connection)
        hostile = connection.compute.create_flavor(
            name=_ATTACK, ram=1, vcpus=1, disk=0
        )
        connection.compute.create_flavor_extra_specs(
            hostile, {'resources:VGPU': '1'}
        )
        cls.user = chromium.Chromium(cls.horizon.url, accounts.USER)
        cls.user.setUp()
        cls.addClassCleanup(cls.user.cleanUp)

    def setUp(self) -> None:
        super().setUp()
        self.user.resize('wide')
        self.user.read_errors()

    def test_the_launch_form_says_which_vgpus_a_flavor_brings(self) -> None:
        self.open_flavors_of_the_launch_form()
        self.user.wait(lambda: _WORDS in self.user.text)
        rows = {
            name: words
            for name, words, *_ in map(self.read_cells, self.list_rows())
        }
        self.assertEqual(_WORDS, rows['render-2'])
        self.assertEqual('1 whole GPU of model A40', rows['simulate'])
        self.assertEqual('1 vGPU of any type', rows[_ATTACK])
        self.assertEqual('None', rows['plain'])
        self.assertFalse(self.user.is_attacked)
        self.assertEqual([], self.read_errors())

    def test_the_form_is_narrow(self) -> None:
        self.open_flavors_of_the_launch_form()
        self.user.resize('phone')
        self.user.wait(lambda: _WORDS in self.user.text)

    def test_one_request_for_each_form(self) -> None:
        self.open_flavors_of_the_launch_form()
        self.user.wait(lambda: _WORDS in self.user.text)
        self.assertEqual(1, self.user.driver.execute_script(_COUNT))

    def test_the_words_stay_with_the_flavor_that_is_chosen(self) -> None:
        self.open_flavors_of_the_launch_form()
        self.user.wait(lambda: _WORDS in self.user.text)
        for row in self.list_rows():
            if 'render-2' in row.text:
                row.find_element(By.TAG_NAME, 'button').click()
        chosen = '.transfer-allocated hz-cell'
        self.user.wait(lambda: len(self.find(chosen)) > 1)
        self.assertEqual(
            ['render-2', _WORDS], [c.text for c in self.find(chosen)[:2]]
        )

    def test_a_user_sees_flavors_and_the_limit(self) -> None:
        for size in pages.SIZES:
            self.user.resize(size)
            self.user.open(_FLAVORS)
            self.assertEqual([], self.read_errors())
            self.assertEqual(0, self.user.overflow, size)
        self.assertIn(_WORDS, self.user.text)
        self.assertIn(
            'VGPU: this project uses 3. Its limit is 4.', self.user.text
        )
        self.assertIn('Limit of the project reached', self.user.text)
        self.assertIn('Placement does not tell projects', self.user.text)
        self.assertNotRegex(self.user.text, r'\d+ free')
        self.assertFalse(self.user.is_attacked)

    def test_no_page_has_barriers(self) -> None:
        self.user.open(_FLAVORS)
        self.assertEqual([], self.user.find_barriers(pages.OURS))

    def read_errors(self) -> list[str]:
        """Without those of Horizon's own forms, which ask for Neutron."""
        return [
            error for error in self.user.read_errors() if '/api/' not in error
        ]

    def open_flavors_of_the_launch_form(self) -> None:
        launching.open_form(self.user)
        launching.open_step(self.user, 'Flavor')
        self.user.wait(self.list_rows)

    def find(self, selector: str) -> list[typing.Any]:
        return [
            found
            for found in self.user.driver.find_elements(
                By.CSS_SELECTOR, selector
            )
            if found.is_displayed()
        ]

    def list_rows(self) -> list[typing.Any]:
        """Those of the flavors that can be chosen."""
        return [
            row
            for row in self.find('.transfer-available tbody tr')
            if len(row.find_elements(By.CSS_SELECTOR, 'hz-cell')) > 1
        ]

    def read_cells(self, row: typing.Any) -> list[str]:
        cells = row.find_elements(By.CSS_SELECTOR, 'hz-cell')
        return [str(cell.text) for cell in cells]
