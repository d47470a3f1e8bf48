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

"""Drivers and licences of guests in ``openstack vgpu server``."""

from collections.abc import Iterator
import contextlib
import http.server
import json
import threading
import typing

from nova_vgpu.cloud.hosts import prometheus
from nova_vgpu.tests import agent_samples
from nova_vgpu.tests.cloud import base
from nova_vgpu.tests.cloud import scene

FIRST, SECOND, TRAIN, *_ = scene.SERVERS


def encode(samples: list[prometheus.Sample]) -> bytes:
    """As Prometheus answers."""
    result = [
        {
            'metric': {'__name__': sample.name} | dict(sample.labels),
            'value': [sample.at, str(sample.value)],
        }
        for sample in samples
    ]
    data = {'resultType': 'vector', 'result': result}
    return json.dumps({'status': 'success', 'data': data}).encode()


@contextlib.contextmanager
def answering(*samples: prometheus.Sample) -> Iterator[tuple[str, list[str]]]:
    """The URL of a Prometheus that always says the same, and its requests."""
    content = encode([*samples])
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header('Content-Length', str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: typing.Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f'http://127.0.0.1:{server.server_port}', asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class GuestsTest(base.CloudTest):
    def setUp(self) -> None:
        super().setUp()
        self.url, self.asked = self.enterContext(
            answering(
                *agent_samples.agent(),
                *agent_samples.agent('compute2'),
                agent_samples.guest(FIRST.uuid),
                agent_samples.guest(
                    SECOND.uuid, licence='unlicensed-restricted'
                ),
                agent_samples.guest(
                    TRAIN.uuid, 'none', 'unlicensed', 'compute2'
                ),
            )
        )

    def test_the_page_has_real_output(self) -> None:
        self.compare(
            'openstack-server-list-guests.txt',
            *('server', 'list'),
            OS_NOVA_VGPU_PROMETHEUS=self.url,
        )
        self.compare(
            'openstack-server-show-unlicensed.txt',
            *('server', 'show', SECOND.name, '-c', 'guest_driver'),
            *('-c', 'licence', '-c', 'state', '-c', 'reasons'),
            OS_NOVA_VGPU_PROMETHEUS=self.url,
        )

    def test_one_request_tells_of_all_guests(self) -> None:
        for words in (('list',), ('list', '--long'), ('show', FIRST.name)):
            self.asked.clear()
            code, stdout, stderr = self.run_command(
                *('server', *words, '-f', 'json'),
                OS_NOVA_VGPU_PROMETHEUS=self.url,
            )
            self.assertEqual((0, ''), (code, stderr))
            self.assertEqual(1, len(self.asked))
            self.assertIn('550.144.03', stdout)

    def test_what_is_unknown_is_null(self) -> None:
        _code, stdout, _stderr = self.run_command(
            *('server', 'list', '-f', 'json'), OS_NOVA_VGPU_PROMETHEUS=self.url
        )
        found = {
            row['Server']: (row['Driver'], row['Licence'])
            for row in json.loads(stdout)
        }
        self.assertEqual(('550.144.03', 'licensed'), found[FIRST.name])
        self.assertEqual(('none', None), found[TRAIN.name])
        self.assertIn((None, None), found.values())

    def test_a_prometheus_that_fails_hides_nothing_else(self) -> None:
        for url, text in (
            ('http://127.0.0.1:1', 'cannot be reached'),
            ('127.0.0.1', 'nova_vgpu_prometheus is wrong'),
        ):
            for words in (('list',), ('show', FIRST.name)):
                code, stdout, stderr = self.run_command(
                    *('server', *words), OS_NOVA_VGPU_PROMETHEUS=url
                )
                self.assertEqual(0, code)
                self.assertIn(FIRST.name, stdout)
                self.assertIn(text, stderr)
                self.assertIn('Drivers and licences of guests', stderr)

    def test_clouds_yaml_has_the_setting(self) -> None:
        path = self.cloud.path / 'clouds-with-prometheus.yaml'
        # Who logs in is in the environment.
        setting = {'url': self.url, 'timeout': 5}
        cloud = {'auth': {}, 'nova_vgpu_prometheus': setting}
        path.write_text(json.dumps({'clouds': {'site': cloud}}))
        code, stdout, stderr = self.run_command(
            *('server', 'show', FIRST.name, '-f', 'value', '-c', 'licence'),
            OS_CLOUD='site',
            OS_CLIENT_CONFIG_FILE=str(path),
        )
        self.assertEqual((0, 'licensed\n', ''), (code, stdout, stderr))
