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

import http.server
import json
import threading
import types
import typing

from django import test
from django.test import utils
from horizon import exceptions

from nova_vgpu import exception
from nova_vgpu_dashboard import connection

VERSION = {
    'id': 'v1.0',
    'min_version': '1.0',
    'max_version': '1.39',
    'status': 'CURRENT',
    'links': [{'rel': 'self', 'href': ''}],
}
ANSWERS: dict[str, typing.Any] = {
    '/': {'versions': [VERSION]},
    '/resource_providers': {'resource_providers': []},
    '/allocation_candidates': {'provider_summaries': {}},
}


class _Handler(http.server.BaseHTTPRequestHandler):
    """Placement of a cloud without hosts."""

    seen: typing.ClassVar[list[tuple[str, dict[str, str]]]]
    #: What requests with a token are answered with.
    refusal: typing.ClassVar[list[int]]

    def log_message(self, format: str, *_args: typing.Any) -> None:
        """Not on the terminal."""

    def do_GET(self) -> None:
        self.seen.append((self.path, dict(self.headers.items())))
        answer = ANSWERS.get(self.path.partition('?')[0])
        body = json.dumps(answer).encode()
        status = 404 if answer is None else 200
        if self.refusal and 'X-Auth-Token' in self.headers:
            (status,) = self.refusal
        self.send_response(status)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def request_of(*endpoints: tuple[str, str, str, str]) -> typing.Any:
    """A request; an endpoint is service, region, interface and URL."""
    catalog = [
        {
            'type': service,
            'endpoints': [
                {'region_id': region, 'interface': interface, 'url': url}
                for name, region, interface, url in endpoints
                if name == service
            ],
        }
        for service in {endpoint[0] for endpoint in endpoints}
    ]
    return types.SimpleNamespace(
        META={'REMOTE_ADDR': '192.0.2.7'},
        user=types.SimpleNamespace(
            token=types.SimpleNamespace(id='secret'),
            service_catalog=catalog,
            services_region='North',
        ),
    )


def everywhere(url: str) -> list[tuple[str, str, str, str]]:
    return [
        (service, 'North', 'public', url)
        for service in ('compute', 'identity', 'placement')
    ]


class TestConnection(test.SimpleTestCase):
    def setUp(self) -> None:
        super().setUp()
        seen: list[tuple[str, dict[str, str]]] = []
        self.refusal: list[int] = []
        handler = type(
            'Handler', (_Handler,), {'seen': seen, 'refusal': self.refusal}
        )
        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)
        self.addCleanup(server.server_close)
        threading.Thread(
            target=server.serve_forever, args=(0.01,), daemon=True
        ).start()
        self.addCleanup(server.shutdown)
        self.seen = seen
        self.url = f'http://127.0.0.1:{server.server_address[1]}'

    def test_services_are_asked_with_the_token_of_the_user(self) -> None:
        cloud = connection.connect(request_of(*everywhere(self.url)))
        self.assertEqual((), cloud.list_gpus())
        self.assertEqual('/', self.seen[0][0])
        self.assertIn('/resource_providers', [path for path, _ in self.seen])
        for path, headers in self.seen[1:]:
            self.assertEqual('secret', headers['X-Auth-Token'], path)
            self.assertIn('for=192.0.2.7', headers['Forwarded'], path)
            self.assertNotIn('auth', path, 'no other token is asked for')

    def test_the_region_and_the_type_of_endpoint(self) -> None:
        placement = (
            ('placement', 'South', 'public', 'http://127.0.0.1:1'),
            ('placement', 'North', 'public', 'http://127.0.0.1:2'),
            ('placement', 'North', 'internal', self.url),
        )
        others = [
            (service, 'North', 'internal', self.url)
            for service in ('compute', 'identity')
        ]
        with utils.override_settings(OPENSTACK_ENDPOINT_TYPE='internalURL'):
            cloud = connection.connect(request_of(*placement, *others))
        self.assertEqual((), cloud.list_gpus())

    def test_a_service_that_is_not_in_the_region(self) -> None:
        request = request_of(
            *everywhere(self.url)[:2],
            ('placement', 'South', 'public', self.url),
        )
        with self.assertRaises(exception.CloudError) as raised:
            connection.connect(request)
        self.assertIn(
            'no endpoint of the service placement in region North',
            str(raised.exception),
        )

    def test_a_placement_that_does_not_answer(self) -> None:
        with self.assertRaises(exception.CloudError) as raised:
            connection.connect(request_of(*everywhere('http://127.0.0.1:1')))
        self.assertIn('Placement did not tell', str(raised.exception))

    def test_a_token_that_no_service_accepts_leads_to_the_login(self) -> None:
        cloud = connection.connect(request_of(*everywhere(self.url)))
        self.refusal.append(401)
        for ask in (
            cloud.list_gpus,
            cloud.list_every_gpu,
            cloud.list_flavors,
            lambda: cloud.services.ask_keystone('list', '/projects'),
            lambda: cloud.services.ask_placement_each(['/a', '/b']),
        ):
            with self.assertRaises(exceptions.NotAuthenticated):
                ask()

    def test_a_permission_that_is_missing_does_not_log_out(self) -> None:
        cloud = connection.connect(request_of(*everywhere(self.url)))
        self.refusal.append(403)
        with self.assertRaises(exception.PlacementError) as raised:
            cloud.list_every_gpu()
        self.assertIn('requires the role "admin"', str(raised.exception))

    def test_a_service_that_hangs_is_not_waited_for_forever(self) -> None:
        cloud = connection.connect(request_of(*everywhere(self.url)))
        self.assertEqual(60.0, cloud.connection.session.timeout)

    def test_certificates(self) -> None:
        for settings, verify in (
            ({}, True),
            ({'OPENSTACK_SSL_CACERT': '/etc/ca.pem'}, '/etc/ca.pem'),
            ({'OPENSTACK_SSL_NO_VERIFY': True}, False),
            (
                {
                    'OPENSTACK_SSL_CACERT': '/etc/ca.pem',
                    'OPENSTACK_SSL_NO_VERIFY': True,
                },
                False,
            ),
        ):
            with utils.override_settings(**settings):
                cloud = connection.connect(request_of(*everywhere(self.url)))
            self.assertEqual(verify, cloud.connection.session.verify)
