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

"""What the tests of pages have in common."""

import copy
import html.parser
import typing
from unittest import mock

from django import http
from django import urls
from openstack_dashboard.test import helpers

from nova_vgpu_dashboard import connection
from nova_vgpu_dashboard.tests import clouds

GPUS = 'horizon:admin:gpus:index'
GPU = 'horizon:admin:gpus:detail'
TYPES = 'horizon:admin:vgpu_types:index'
FLAVORS = 'horizon:project:vgpu_flavors:index'
WORDS = 'horizon:project:vgpu_flavors:words'
CREATE = 'horizon:admin:vgpu_types:create_flavor'
FUNCTIONS = 'horizon:admin:virtual_functions:index'
USAGE = 'horizon:admin:vgpu_types:usage'
USAGE_FILE = 'horizon:admin:vgpu_types:usage_file'


class Parser(html.parser.HTMLParser):
    """The elements of a page, and the text after its navigation."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._reads = False

    def handle_starttag(
        self, tag: str, attrs: list[tuple[str, str | None]]
    ) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == 'script':
            self._reads = False
        elif not {('id', 'content_body'), ('class', 'messages')}.isdisjoint(
            attrs
        ):
            self._reads = True

    def handle_data(self, data: str) -> None:
        if self._reads:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return ' '.join(' '.join(self.texts).split())

    def find(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        return [
            found
            for name, found in self.elements
            if name == tag
            and all(found.get(k) == text for k, text in attributes.items())
        ]

    def links(self) -> list[str]:
        return [found.get('href') or '' for found in self.find('a')]


class _Pages:
    """To be mixed with a test case of Horizon: its catalog has Placement."""

    client: typing.Any
    service_catalog: typing.Any

    def _setup_test_data(self) -> None:
        # Horizon's class, beside which this one is mixed in.
        super()._setup_test_data()  # type: ignore[misc]
        endpoint = {
            'region': 'RegionOne',
            'region_id': 'RegionOne',
            'interface': 'public',
            'url': 'http://placement.example/',
        }
        self.service_catalog = [
            *copy.deepcopy(self.service_catalog),
            {'type': 'placement', 'name': 'p', 'endpoints': [endpoint]},
        ]

    def setUp(self) -> None:
        # Horizon's class, beside which this one is mixed in.
        super().setUp()  # type: ignore[misc]
        self.cloud = clouds.Cloud()
        mock.patch.object(
            connection, 'connect', side_effect=lambda _request: self.cloud
        ).start()  # Horizon's test case stops it

    def open(
        self, name: str, query: str = '', args: typing.Sequence[str] = ()
    ) -> http.HttpResponse:
        url = urls.reverse(name, args=args)
        response: http.HttpResponse = self.client.get(
            f'{url}?{query}' if query else url
        )
        return response

    def read(
        self, name: str, query: str = '', args: typing.Sequence[str] = ()
    ) -> Parser:
        """The page that an administrator sees."""
        response = self.open(name, query, args)
        assert response.status_code == 200, response.status_code
        return parse(response)


def parse(response: http.HttpResponse) -> Parser:
    parser = Parser()
    parser.feed(response.content.decode())
    return parser


class AdminPages(_Pages, helpers.BaseAdminViewTests):
    """Pages as an administrator gets them."""


class UserPages(_Pages, helpers.TestCase):
    """Pages as an ordinary user gets them."""
