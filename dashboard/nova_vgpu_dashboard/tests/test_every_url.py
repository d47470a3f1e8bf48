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

"""Who may open what: every URL of the plugin, also those to come."""

from collections.abc import Iterator
import uuid

from django import test
from django import urls
from django.conf import settings

from nova_vgpu_dashboard.tests import base

#: What stands for a part of a path, by the name of its converter.
_SAMPLES = {
    'IntConverter': 1,
    'SlugConverter': 'x',
    'StringConverter': 'x',
    'UUIDConverter': uuid.UUID(int=1),
}
_PROJECT = '/project/'


def list_urls() -> list[str]:
    """The URLs of this plugin in Horizon."""
    return sorted(_walk(urls.get_resolver(), '/'))


def _walk(resolver: urls.URLResolver, before: str) -> Iterator[str]:
    for pattern in resolver.url_patterns:
        path = before + _fill(pattern.pattern)
        if isinstance(pattern, urls.URLResolver):
            yield from _walk(pattern, path)
        elif pattern.lookup_str.startswith('nova_vgpu_dashboard.'):
            yield path


def _fill(pattern: object) -> str:
    """The path of a pattern, with samples for its parts."""
    text = str(pattern).removeprefix('^').removesuffix('$')
    for name, converter in getattr(pattern, 'converters', {}).items():
        sample = _SAMPLES[type(converter).__name__]
        start = text.index('<')
        assert text[start:].partition('>')[0].endswith(name)
        text = text[:start] + str(sample) + text[text.index('>') + 1 :]
    return text


class TestURLs(base.UserPages):
    def test_they_are_found(self) -> None:
        found = list_urls()
        self.assertIn('/admin/gpus/', found)
        self.assertIn(f'/admin/gpus/{_SAMPLES["UUIDConverter"]}/', found)
        self.assertIn('/project/vgpu_flavors/', found)
        for url in found:
            self.assertNotIn('<', url)
            self.assertTrue(urls.resolve(url), url)

    def test_an_ordinary_user_is_refused(self) -> None:
        for url in list_urls():
            if url.startswith(_PROJECT):
                continue
            for send in (self.client.get, self.client.post):
                self.assertEqual(403, send(url).status_code, url)
        self.assertEqual([], self.cloud.connection.compute.created)

    def test_who_is_not_logged_in_is_led_to_the_login(self) -> None:
        self.setActiveUser()
        for url in list_urls():
            for send in (self.client.get, self.client.post):
                response = send(url)
                self.assertEqual(302, response.status_code, url)
                self.assertIn(settings.LOGIN_URL, response['Location'], url)


class TestForgedRequests(base.AdminPages):
    """Another site has the browser of an administrator send a form."""

    def test_every_url_refuses_them(self) -> None:
        forged = test.Client(enforce_csrf_checks=True)
        forged.cookies = self.client.cookies
        for url in list_urls():
            for send in (forged.post, forged.put, forged.delete):
                self.assertEqual(403, send(url).status_code, url)
        self.assertEqual([], self.cloud.connection.compute.created)
