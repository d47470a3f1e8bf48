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
"""Placement, Nova and Keystone over HTTP, as far as pages ask them.

A cloud of any size is answered from memory, and requests are counted. The
pages of lists are as long as those of the services.
"""

from collections.abc import Callable
import dataclasses
import datetime
import http.server
import json
import threading
import typing
import urllib.parse

from nova_vgpu.cloud import reader
from nova_vgpu_dashboard import connection
from nova_vgpu_dashboard.tests import clouds
from nova_vgpu_dashboard.tests import test_connection

Answer = typing.Any
# The test case of pages replaces it.
_CONNECT = connection.connect
_PAGE = 1000
_GPUS_OF_A_HOST = 5
FLAVOR = {
    'id': clouds.uuid_of('render'),
    'name': 'render',
    'vcpus': 1,
    'ram': 1,
    'disk': 1,
    'OS-FLV-EXT-DATA:ephemeral': 0,
    'swap': 0,
    'os-flavor-access:is_public': True,
    'extra_specs': {
        'resources:VGPU': '1',
        'trait:CUSTOM_VGPU_TYPE_A40_8Q': 'required',
    },
    'links': [],
}


@dataclasses.dataclass
class Services:
    """The services; a context manager that makes them listen.

    ``refusals`` are statuses by the beginnings of paths.
    """

    gpus: int = 0
    servers: list[dict[str, typing.Any]] = dataclasses.field(
        default_factory=list
    )
    flavors: list[dict[str, typing.Any]] = dataclasses.field(
        default_factory=lambda: [FLAVOR]
    )
    projects: dict[str, str] = dataclasses.field(
        default_factory=lambda: {clouds.PROJECT: 'research'}
    )
    refusals: dict[str, int] = dataclasses.field(default_factory=dict)
    seen: list[str] = dataclasses.field(default_factory=list)

    def __enter__(self) -> 'Services':
        handler = type('Handler', (_Handler,), {'services': self})
        self._server = http.server.ThreadingHTTPServer(
            ('127.0.0.1', 0), handler
        )
        threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        ).start()
        self.url = f'http://127.0.0.1:{self._server.server_address[1]}'
        return self

    def __exit__(self, *_raised: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def connect(self) -> reader.Cloud:
        return _CONNECT(
            test_connection.request_of(
                *(
                    (service, 'North', 'public', f'{self.url}/{service}')
                    for service in ('compute', 'identity', 'placement')
                )
            )
        )

    def answer(self, path: str, query: dict[str, str]) -> Answer:
        for start, status in self.refusals.items():
            if path.startswith(start):
                return status
        answers: dict[str, Callable[[], Answer]] = {
            '/placement': lambda: {'versions': [test_connection.VERSION]},
            '/compute': lambda: _version('v2.1', f'{self.url}/compute/'),
            '/identity': lambda: _version('v3.14', f'{self.url}/identity/'),
            '/placement/resource_providers': self._list_providers,
            '/placement/allocation_candidates': self._list_summaries,
            '/compute/flavors/detail': lambda: {'flavors': self.flavors},
            '/identity/projects': lambda: {
                'projects': [
                    {'id': identity, 'name': name}
                    for identity, name in self.projects.items()
                ],
                'links': {'next': None},
            },
            '/compute/os-simple-tenant-usage': lambda: self._list_usage(query),
        }
        found = answers.get(path.rstrip('/'))
        return found() if found else 404

    def _list_hosts(self) -> list[str]:
        hosts = -(-self.gpus // _GPUS_OF_A_HOST)
        return [f'compute{number}' for number in range(hosts)]

    def _list_gpus(self) -> list[tuple[str, str]]:
        """Hosts, and names of providers."""
        hosts = self._list_hosts()
        return [
            (host, f'{host}_pci_0000_{4 + number % _GPUS_OF_A_HOST}1_00_0')
            for number in range(self.gpus)
            for host in [hosts[number // _GPUS_OF_A_HOST]]
        ]

    def _list_providers(self) -> Answer:
        roots = [(host, host) for host in self._list_hosts()]
        return {
            'resource_providers': [
                {
                    'uuid': clouds.uuid_of(name),
                    'name': name,
                    'parent_provider_uuid': None
                    if name == host
                    else clouds.uuid_of(host),
                    'root_provider_uuid': clouds.uuid_of(host),
                    'generation': 1,
                }
                for host, name in [*roots, *self._list_gpus()]
            ]
        }

    def _list_summaries(self) -> Answer:
        of_hosts = {
            clouds.uuid_of(host): {
                'resources': {'MEMORY_MB': {'capacity': 9, 'used': 0}},
                'traits': [],
            }
            for host in self._list_hosts()
        }
        of_gpus = {
            clouds.uuid_of(name): {
                'resources': {'VGPU': {'capacity': 6, 'used': 1}},
                'traits': list(clouds.A40),
            }
            for _, name in self._list_gpus()
        }
        return {'provider_summaries': of_hosts | of_gpus}

    def _list_usage(self, query: dict[str, str]) -> Answer:
        """A page; Nova's marker is the last server of the page before."""
        for moment in (query['start'], query['end']):
            datetime.datetime.fromisoformat(moment)
        ids = [server['instance_id'] for server in self.servers]
        first = ids.index(query['marker']) + 1 if 'marker' in query else 0
        page = self.servers[first : first + _PAGE]
        links = []
        if first + _PAGE < len(ids):
            marker = ids[first + _PAGE - 1]
            href = f'{self.url}/compute/x?marker={marker}'
            links = [{'rel': 'next', 'href': href}]
        return {
            'tenant_usages': [
                {
                    'tenant_id': 'any',
                    'server_usages': page,
                }
            ],
            'tenant_usages_links': links,
        }


def _version(name: str, url: str) -> Answer:
    return {
        'version': {
            'id': name,
            'status': 'CURRENT',
            'version': '2.100' if name == 'v2.1' else '',
            'min_version': '2.1' if name == 'v2.1' else '',
            'links': [{'rel': 'self', 'href': url}],
        }
    }


class _Handler(http.server.BaseHTTPRequestHandler):
    services: typing.ClassVar[Services]
    protocol_version = 'HTTP/1.1'

    def log_message(self, format: str, *_args: typing.Any) -> None:
        """Not on the terminal."""

    def do_GET(self) -> None:
        self.services.seen.append(self.path)
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        answer = self.services.answer(url.path, query)
        status = answer if isinstance(answer, int) else 200
        body = json.dumps({} if status != 200 else answer).encode()
        self.send_response(status)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
