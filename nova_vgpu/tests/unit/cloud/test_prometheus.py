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

"""Prometheus on loopback, and what may go wrong with it."""

import base64
from collections.abc import Callable
import http.server
import json
import pathlib
import threading
import time
import typing
import urllib.parse

import fixtures
import testtools

from nova_vgpu import exception
from nova_vgpu.cloud.hosts import prometheus

NAME = 'the_setting'

VECTOR: dict[str, typing.Any] = {
    'status': 'success',
    'data': {
        'resultType': 'vector',
        'result': [
            {
                'metric': {'__name__': 'up', 'job': 'nova\n-vgpu'},
                'value': [1.5e9, '3'],
            }
        ],
    },
}
HIDDEN = 'secret'
Reply = Callable[[http.server.BaseHTTPRequestHandler], None]


def reply_with(content: bytes, status: int = 200, location: str = '') -> Reply:
    def reply(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        if location:
            handler.send_header('Location', location)
        handler.send_header('Content-Length', str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    return reply


class ServerTestCase(testtools.TestCase):
    """``requests`` are the paths and headers that the server got."""

    def setUp(self) -> None:
        super().setUp()
        self.reply = reply_with(json.dumps(VECTOR).encode())
        self.requests: list[tuple[str, typing.Any]] = []
        case = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                case.requests.append((self.path, self.headers))
                case.reply(self)

            def log_message(self, format: str, *args: typing.Any) -> None:
                pass

        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.url = f'http://127.0.0.1:{server.server_port}'

    def ask(self, **options: typing.Any) -> tuple[prometheus.Sample, ...]:
        settings = prometheus.Settings(NAME, self.url, **options)
        return prometheus.ask(settings, 'up{a="&b"}')

    def fail_to_ask(self, **options: typing.Any) -> str:
        with self.assertRaises(exception.CloudError) as caught:
            self.ask(**options)
        return str(caught.exception)


class TestAsk(ServerTestCase):
    def test_an_answer_in_values(self) -> None:
        self.assertEqual(
            (
                # What a terminal or page would not print is escaped.
                prometheus.Sample('up', {'job': r'nova\n-vgpu'}, 3.0, 1.5e9),
            ),
            self.ask(),
        )
        ((path, _headers),) = self.requests
        parsed = urllib.parse.urlsplit(path)
        self.assertEqual('/api/v1/query', parsed.path)
        self.assertEqual(
            {'query': ['up{a="&b"}']}, urllib.parse.parse_qs(parsed.query)
        )

    def test_who_asks(self) -> None:
        self.ask()
        self.ask(username='u', password=HIDDEN)
        self.ask(token=HIDDEN)
        basic = base64.b64encode(b'u:secret').decode()
        self.assertEqual(
            [None, f'Basic {basic}', 'Bearer secret'],
            [headers.get('Authorization') for _, headers in self.requests],
        )

    def test_a_password_with_any_characters(self) -> None:
        self.ask(username='ü', password='€')
        ((_path, headers),) = self.requests
        basic = base64.b64encode('ü:€'.encode()).decode()
        self.assertEqual(f'Basic {basic}', headers.get('Authorization'))

    def test_a_token_counts_before_what_is_in_netrc(self) -> None:
        netrc = self.useFixture(fixtures.TempDir()).join('netrc')
        pathlib.Path(netrc).write_text('default login a password b\n')
        self.useFixture(fixtures.EnvironmentVariable('NETRC', netrc))
        self.ask(token=HIDDEN)
        ((_path, headers),) = self.requests
        self.assertEqual('Bearer secret', headers.get('Authorization'))

    def test_a_redirect_does_not_get_the_password(self) -> None:
        self.reply = reply_with(b'', 302, f'{self.url}/elsewhere')
        self.assertIn('status 302', self.fail_to_ask(token=HIDDEN))
        self.assertEqual(1, len(self.requests))

    def test_no_permission(self) -> None:
        self.reply = reply_with(b'', 401)
        text = self.fail_to_ask(username='u', password=HIDDEN)
        self.assertIn('"username" and "password", or "token"', text)
        self.assertNotIn('secret', text)

    def test_it_hangs(self) -> None:
        ended = threading.Event()
        self.addCleanup(ended.set)
        self.reply = lambda _handler: typing.cast(None, ended.wait(60))
        begin = time.monotonic()
        self.assertIn('timed out after 0.2 s', self.fail_to_ask(timeout=0.2))
        self.assertLess(time.monotonic() - begin, 30)

    def test_it_is_not_there(self) -> None:
        self.url = 'http://127.0.0.1:1'
        text = self.fail_to_ask(token=HIDDEN)
        self.assertIn('Prometheus at http://127.0.0.1:1 cannot', text)
        self.assertNotIn('secret', text)

    def test_a_name_that_no_host_can_have(self) -> None:
        for host in ('a' * 64, 'a..b', 'a b'):
            self.url = f'http://{host}'
            self.assertIn('cannot be reached', self.fail_to_ask())

    def test_a_file_of_cas_that_is_not_there(self) -> None:
        self.url = self.url.replace('http', 'https')
        self.assertIn('"ca"', self.fail_to_ask(verify='/missing.pem'))

    def test_it_is_not_prometheus(self) -> None:
        vector = VECTOR['data']
        for content in (
            b'<html>',
            b'\xff',
            b'[' * 100000,
            b'null',
            b'[]',
            b'{}',
            *(
                json.dumps(answer).encode()
                for answer in (
                    VECTOR | {'status': 'error'},
                    VECTOR | {'data': None},
                    VECTOR | {'data': vector | {'resultType': 'matrix'}},
                    VECTOR | {'data': vector | {'result': 3}},
                    *(
                        VECTOR | {'data': vector | {'result': [sample]}}
                        for sample in (
                            None,
                            {'metric': {}, 'value': [1, '1']},
                            {'metric': {'__name__': 3}, 'value': [1, '1']},
                            {'metric': {'__name__': 'a'}, 'value': [1]},
                            {'metric': {'__name__': 'a'}, 'value': [1, 'x']},
                            {'metric': {'__name__': 'a'}, 'value': [1, 'NaN']},
                            {'metric': {'__name__': 'a'}, 'value': ['inf', 1]},
                            {'metric': [], 'value': [1, '1']},
                        )
                    ),
                )
            ),
        ):
            self.reply = reply_with(content)
            self.assertIn(
                'does not answer in the form', self.fail_to_ask(), str(content)
            )


class TestSettings(testtools.TestCase):
    def read(self, given: typing.Any) -> prometheus.Settings | None:
        return prometheus.parse_settings(given, NAME)

    def test_it_is_off_unless_set(self) -> None:
        self.assertIsNone(self.read(None))
        self.assertIsNone(self.read({}))

    def test_all_of_them(self) -> None:
        self.assertEqual(
            prometheus.Settings(
                NAME, 'https://p.example/x', '/ca.pem', 'u', 'p', 't', 3.0
            ),
            self.read(
                {
                    'url': 'https://p.example/x/',
                    'ca': '/ca.pem',
                    'username': 'u',
                    'password': 'p',
                    'token': 't',
                    'timeout': 3,
                }
            ),
        )

    def test_a_timeout_may_be_a_text(self) -> None:
        settings = self.read({'url': 'https://p.example', 'timeout': '2.5'})
        assert settings is not None
        self.assertEqual(2.5, settings.timeout)

    def test_a_password_may_be_a_number(self) -> None:
        settings = self.read(
            {'url': 'https://p.example', 'username': 5, 'password': 7}
        )
        assert settings is not None
        self.assertEqual(('5', '7'), (settings.username, settings.password))

    def test_secrets_are_not_printed(self) -> None:
        settings = prometheus.Settings(
            NAME, 'u', True, 'u', 'secret', 'secret'
        )
        self.assertNotIn('secret', repr(settings))

    def test_mistakes(self) -> None:
        url = 'http://p.example'
        for given, word in (
            ('http://p.example', 'dictionary'),
            ({'ca': 'x'}, '"url"'),
            ({'url': 'p.example:9090'}, 'https://'),
            ({'url': 'file:///etc/passwd'}, 'https://'),
            ({'url': 'http://u:secret@p.example'}, '"username"'),
            ({'url': 'http://[p.example'}, 'https://'),
            ({'url': url, 'token': 'secret\n'}, '"token"'),
            ({'url': url, 'token': 'my secret'}, '"token"'),
            ({'url': url, 'token': 'secrét'}, '"token"'),
            ({'url': url, 'token': ''}, '"token"'),
            ({'url': url, 'user': 'u'}, 'user is unknown'),
            ({'url': url, 'timeout': 0}, '"timeout"'),
            ({'url': url, 'timeout': 'soon'}, '"timeout"'),
            ({'url': url, 'timeout': []}, '"timeout"'),
            ({'url': url, 'timeout': 'nan'}, '"timeout"'),
        ):
            with self.assertRaises(exception.CloudError) as caught:
                self.read(given)
            self.assertIn(word, str(caught.exception))
            self.assertIn(NAME, str(caught.exception))
            self.assertNotIn('secret', str(caught.exception))
