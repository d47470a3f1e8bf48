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

"""Agents of hosts and a real Prometheus that scrapes them, on loopback.

Each connection has TLS: certificates of clients from Prometheus to the agents,
a password from Horizon to Prometheus.
"""

from collections.abc import Callable
import contextlib
import json
import pathlib
import socket
import subprocess
import time

import bcrypt
import fixtures

from nova_vgpu import values
from nova_vgpu.cloud.hosts import prometheus
from nova_vgpu.lifecycle import agent
from nova_vgpu.lifecycle import exporter
from nova_vgpu.lifecycle import metrics_server
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import certificates
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans

LOOPBACK = '127.0.0.1'
SERVER = '2f6e4b0e-0000-4000-8000-000000000001'
USER = 'horizon'
HIDDEN = 'secret'


def make_report(node: str) -> values.DriftReport:
    """A host with one vGPU in use."""
    card = hosts.gpu(
        '41:00.0', boards.A40, 'nvidia-558', vfs=32, vendor_vfio=True
    )
    (vgpu,) = hosts.make_gpu(card).all_vgpus
    address = values.PciAddress.parse_node_device_name(vgpu.function)
    assert address is not None
    guest = values.Guest(
        SERVER, 'instance-1', True, functions=frozenset({address})
    )
    host = hosts.make_host(card)
    declared = values.DeclaredType('A40-2Q', 'vgpu_A40-2Q')
    plan = plans.make_plan(values.Declaration((declared,)), host, ())
    problem = values.Problem(
        values.Severity.WARNING, 'odd', '0000:41:00.0', f'<{node}>', 'Cure.'
    )
    return values.DriftReport(
        values.Plan(plan.assignments, plan.left_alone, (problem,)),
        host,
        values.Usage((guest,)),
        node=node,
    )


class Agents(fixtures.Fixture):
    """Exporters of agents, as those of hosts."""

    def __init__(self, authority: certificates.Authority) -> None:
        super().__init__()
        pair = authority.issue('host')
        self._tls = metrics_server.TLS(
            pair.certificate, pair.key, authority.certificate
        )

    def start(
        self, node: str, age: float = 0
    ) -> tuple[int, Callable[[], None]]:
        collector = exporter.Collector()
        tally = agent.Tally(1, last_round=time.time() - age)
        collector.show(make_report(node), tally)
        serving = contextlib.ExitStack()
        self.addCleanup(serving.close)
        port = serving.enter_context(
            exporter.serve(collector, LOOPBACK, 0, self._tls)
        )
        return port, serving.close


class RunningPrometheus(fixtures.Fixture):
    """Prometheus with TLS and a password, as it is released.

    It has its URL before it is started.
    """

    def __init__(
        self, directory: pathlib.Path, authority: certificates.Authority
    ) -> None:
        super().__init__()
        self._directory = directory
        self._authority = authority
        with socket.create_server((LOOPBACK, 0)) as free:
            self._port = free.getsockname()[1]
        self.url = f'https://{LOOPBACK}:{self._port}'

    def start(self, ports: list[int]) -> None:
        """Scrape the agents with these ports."""
        scraper = self._authority.issue('prometheus')
        self._write(
            'prometheus.yml',
            {
                # A machine with much load needs time for an answer.
                'global': {'scrape_interval': '5s', 'scrape_timeout': '5s'},
                'scrape_configs': [
                    {
                        'job_name': 'nova-vgpu',
                        'scheme': 'https',
                        'tls_config': {
                            'ca_file': self._authority.certificate,
                            'cert_file': scraper.certificate,
                            'key_file': scraper.key,
                        },
                        'static_configs': [
                            {'targets': [f'{LOOPBACK}:{port}']}
                            for port in ports
                        ],
                    }
                ],
            },
        )
        own = self._authority.issue('web')
        hashed = bcrypt.hashpw(HIDDEN.encode(), bcrypt.gensalt(4)).decode()
        self._write(
            'web.yml',
            {
                'tls_server_config': {
                    'cert_file': own.certificate,
                    'key_file': own.key,
                },
                'basic_auth_users': {USER: hashed},
            },
        )
        with open(self._directory / 'prometheus.log', 'wb') as log:
            process = subprocess.Popen(
                [
                    '/usr/bin/prometheus',
                    f'--config.file={self._directory / "prometheus.yml"}',
                    f'--web.config.file={self._directory / "web.yml"}',
                    f'--storage.tsdb.path={self._directory / "data"}',
                    f'--web.listen-address={LOOPBACK}:{self._port}',
                ],
                stdout=log,
                stderr=log,
            )
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)

    @property
    def horizon_setting(self) -> dict[str, str]:
        """How Horizon asks it."""
        return {
            'url': self.url,
            'ca': self._authority.certificate,
            'username': USER,
            'password': HIDDEN,
        }

    @property
    def settings(self) -> prometheus.Settings:
        return prometheus.Settings(
            'the settings', self.url, self._authority.certificate, USER, HIDDEN
        )

    def _write(self, name: str, content: object) -> None:
        # JSON is YAML as well.
        (self._directory / name).write_text(json.dumps(content))
