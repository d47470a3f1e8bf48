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

"""Chromium without a window, as Debian has it, and a user of Horizon in it."""

import os
import pathlib
import tempfile
import typing

import fixtures
from PIL import Image
from selenium import webdriver
from selenium.common import exceptions
from selenium.webdriver.chrome import service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote import webelement
from selenium.webdriver.support import ui

from nova_vgpu_dashboard.tests.browser import pages

_OPTIONS = (
    '--headless=new',
    '--no-sandbox',  # which root cannot have
    '--disable-gpu',
    '--hide-scrollbars',
    '--no-first-run',
    '--no-proxy-server',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
)
_PATIENCE = 60
#: In pixels, of a picture.
_TALLEST = 1600
_COLOURS = 64
_PAUSE = 0.1
#: An element that AngularJS has drawn again meanwhile.
_GONE = (exceptions.StaleElementReferenceException,)
#: The time from the request to the first byte of the answer.
_TIME = """
const entry = performance.getEntriesByType("navigation")[0];
return entry.responseStart - entry.requestStart;
"""


#: What axe-core finds in the part of the page that is ours. The colours of
#: links, buttons, labels and messages are those of Horizon's theme.
_AXE = """
const done = arguments[arguments.length - 1];
const themed = "a, .btn, .label, .alert";
const is_ours = (rule, node) => rule != "color-contrast"
  || !document.querySelector(node.target[0]).closest(themed);
axe.run(arguments[0]).then(found => done(found.violations.map(each => [
  each.impact, each.id,
  each.nodes.filter(node => is_ours(each.id, node)).map(node => node.html)])));
"""
#: The cells of the first row with a text, by the titles of their columns.
_ROW = """
const row = [...document.querySelectorAll("#content_body tbody tr")].find(
  each => each.innerText.includes(arguments[0]));
return Object.fromEntries([...row.querySelectorAll("td[data-label]")].map(
  cell => [cell.dataset.label, cell.innerText.trim()]));
"""
#: The buttons whose text is wider than they are; rounded to pixels.
_NARROW = """
return [...document.querySelectorAll(`${arguments[0]} .btn`)]
  .filter(each => each.scrollWidth > each.clientWidth + 1)
  .map(each => each.textContent.trim());
"""


class Chromium(fixtures.Fixture):
    """A browser with one user, who is logged in."""

    def __init__(self, url: str, user: str) -> None:
        super().__init__()
        self.url = url
        self._user = user

    def _setUp(self) -> None:
        profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(profile.cleanup)
        options = webdriver.ChromeOptions()
        options.binary_location = '/usr/bin/chromium'
        for option in (*_OPTIONS, f'--user-data-dir={profile.name}'):
            options.add_argument(option)
        options.set_capability('goog:loggingPrefs', {'browser': 'ALL'})
        self.driver = webdriver.Chrome(
            options=options, service=service.Service('/usr/bin/chromedriver')
        )
        self.addCleanup(self.driver.quit)
        self.driver.set_page_load_timeout(_PATIENCE)
        self.resize('wide')
        self._log_in()

    def _log_in(self) -> None:
        self.open('/auth/login/')
        for field in ('username', 'password'):
            self.fill(field, self._user)
        self.driver.find_element(By.ID, 'loginBtn').click()
        self.wait(lambda: 'auth/login' not in self.driver.current_url)

    def wait(self, is_done: typing.Callable[[], typing.Any]) -> None:
        ui.WebDriverWait(self.driver, _PATIENCE, _PAUSE, _GONE).until(
            lambda _: is_done()
        )

    def open(self, path: str) -> float:
        """Open a page; gives the seconds until Horizon's answer.

        The renderer may hang once, on a machine with much load.
        """
        try:
            self.driver.get(f'{self.url}{path}')
        except exceptions.TimeoutException:
            self.driver.get(f'{self.url}{path}')
        return float(self.driver.execute_script(_TIME)) / 1000

    def fill(self, field: str, text: str) -> None:
        found = self.driver.find_element(By.NAME, field)
        found.clear()
        found.send_keys(text)

    def press(self, text: str) -> None:
        """A button of the page, by its text."""
        path = f'//form//button[normalize-space()="{text}"]'
        page = self.driver.find_element(By.TAG_NAME, 'html')
        self.driver.find_element(By.XPATH, path).click()
        ui.WebDriverWait(self.driver, _PATIENCE).until(
            lambda driver: driver.find_element(By.TAG_NAME, 'html') != page
        )

    def find(self, path: str) -> webelement.WebElement:
        """Wait for an element that is seen, by its XPath."""

        def find_seen(driver: webdriver.Chrome) -> typing.Any:
            found = driver.find_elements(By.XPATH, path)
            return next((each for each in found if each.is_displayed()), None)

        element: webelement.WebElement = ui.WebDriverWait(
            self.driver, _PATIENCE, _PAUSE, _GONE
        ).until(find_seen, path)
        return element

    def read_row(self, text: str) -> dict[str, str]:
        """The cells of the first row with a text, by their columns."""
        row: dict[str, str] = self.driver.execute_script(_ROW, text)
        return row

    def resize(self, name: str) -> None:
        self.driver.set_window_size(*pages.SIZES[name])

    @property
    def text(self) -> str:
        return str(self.driver.find_element(By.TAG_NAME, 'body').text)

    @property
    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(
            self.driver.execute_script(
                'return document.documentElement.scrollWidth '
                '- document.documentElement.clientWidth'
            )
        )

    @property
    def narrow_buttons(self) -> list[str]:
        """The buttons of the page that their text does not fit into."""
        texts: list[str] = self.driver.execute_script(_NARROW, pages.OURS)
        return texts

    @property
    def is_attacked(self) -> bool:
        return bool(self.driver.execute_script('return window.attacked'))

    def read_errors(self) -> list[str]:
        """Errors in the console since they were read the last time."""
        return [
            entry['message']
            for entry in self.driver.get_log('browser')
            if entry['level'] == 'SEVERE'
        ]

    def find_barriers(self, part: str) -> list[str]:
        """What keeps people with disabilities from using the page.

        ``NOVA_VGPU_AXE`` names the script of axe-core.

        :param part: the selector of the part of the page that is ours.
        """
        axe = pathlib.Path(os.environ['NOVA_VGPU_AXE']).read_text()
        self.driver.execute_script(axe)
        return [
            f'{impact}: {rule}: {elements}'
            for impact, rule, elements in self.driver.execute_async_script(
                _AXE, part
            )
            if elements and impact in ('serious', 'critical')
        ]

    def save_picture(self, path: pathlib.Path) -> None:
        """A picture of the page, also of what does not fit the window.

        It has few colours, so that its file is small.
        """
        size = self.driver.get_window_size()
        height = self.driver.execute_script(
            'return document.documentElement.scrollHeight'
        )
        self.driver.set_window_size(
            size['width'], min(int(height) + 150, _TALLEST)
        )
        self.driver.save_screenshot(str(path))
        self.driver.set_window_size(size['width'], size['height'])
        with Image.open(path) as picture:
            reduced = picture.convert('RGB').quantize(_COLOURS)
        reduced.save(path, optimize=True)
