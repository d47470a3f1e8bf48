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

"""Horizon's form that launches an instance, as a user fills it in."""

from nova_vgpu_dashboard.tests.browser import chromium

_FORM = '//div[contains(@class, "modal-dialog")]'


def launch(
    browser: chromium.Chromium, name: str, image: str, flavor: str
) -> None:
    """Launch an instance; the form is closed when Nova has the order."""
    open_form(browser)
    browser.find(f'{_FORM}//input[@name="name"]').send_keys(name)
    for step, choice in (('Source', image), ('Flavor', flavor)):
        open_step(browser, step)
        row = f'{_FORM}//tr[td[normalize-space()="{choice}"]]'
        browser.find(f'{row}//button[contains(@class, "fa-arrow-up")]').click()
    button = f'{_FORM}//button[normalize-space()="Launch Instance"]'
    browser.find(f'{button}[not(@disabled)]').click()
    browser.wait(lambda: not browser.driver.find_elements('xpath', _FORM))


def open_form(browser: chromium.Chromium) -> None:
    browser.open('/project/instances/')
    browser.find('//*[@id="instances__action_launch-ng"]').click()


def open_step(browser: chromium.Chromium, step: str) -> None:
    browser.find(f'{_FORM}//li[normalize-space()="{step}"]').click()
