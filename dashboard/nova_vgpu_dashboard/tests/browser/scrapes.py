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

"""What pages read of agents, through a real Prometheus."""

import pathlib
import time

import fixtures
import testtools

from nova_vgpu import exception
from nova_vgpu.cloud.hosts import host_agents
from nova_vgpu.cloud.hosts import prometheus
from nova_vgpu.tests import certificates
from nova_vgpu_dashboard.tests.browser import scraping

SECONDS = 60
#: What a query would be if names were put into it as they are.
HOSTILE = 'x"} or {__name__=~".+", y="'


class TestScrapes(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        authority = certificates.Authority(directory, 'ca')
        running = self.useFixture(scraping.Agents(authority))
        self.directory = directory
        first, self.stop_first = running.start('compute1')
        ports = [
            first,
            running.start('compute2', age=600)[0],
            running.start(HOSTILE)[0],
        ]
        served = self.useFixture(
            scraping.RunningPrometheus(directory, authority)
        )
        served.start(ports)
        self.settings = served.settings

    def read(self, host: str | None = None) -> tuple[host_agents.Agent, ...]:
        query = host_agents.write_query(host)
        return host_agents.make_agents(prometheus.ask(self.settings, query))

    def wait_for(self, *expected: str) -> tuple[host_agents.Agent, ...]:
        deadline = time.monotonic() + SECONDS
        found: object = None
        while time.monotonic() < deadline:
            try:
                read = self.read()
            except exception.CloudError as error:
                found = error
            else:
                found = [agent.host for agent in read]
                if found == list(expected):
                    return read
            time.sleep(0.1)
        log = (self.directory / 'prometheus.log').read_text()
        raise AssertionError(f'{found} in place of {expected}: {log}')

    def test_pages_read_what_agents_tell(self) -> None:
        one, two, hostile = self.wait_for('compute1', 'compute2', HOSTILE)
        self.assertEqual((False, True), (one.is_stale, two.is_stale))
        self.assertFalse(one.is_failing)
        (gpu,) = one.gpus
        self.assertEqual((32, 32), (gpu.enabled, gpu.possible))
        self.assertIn('A40-2Q', gpu.available_types)
        used, *others = gpu.functions
        self.assertEqual(
            ('taken', 'A40-2Q', scraping.SERVER),
            (used.state, used.type, used.server),
        )
        self.assertEqual(31, len(others))
        self.assertEqual('<compute1>', gpu.problems[0].text)
        # A query for one host gets that host only, whatever it is called.
        for agent_of_host in (one, two, hostile):
            (found,) = self.read(agent_of_host.host)
            self.assertEqual(agent_of_host.gpus, found.gpus)
        self.assertEqual((), self.read('x'))
        self._require_refusals()
        self.stop_first()
        self.wait_for('compute2', HOSTILE)

    def _require_refusals(self) -> None:
        """Without the password, or without trust in its certificate."""
        settings = self.settings
        for wrong, text in (
            (
                prometheus.Settings(
                    settings.name, settings.url, settings.verify
                ),
                '(401)',
            ),
            (
                prometheus.Settings(settings.name, settings.url),
                'is not trusted',
            ),
        ):
            error = self.assertRaises(
                exception.CloudError, prometheus.ask, wrong, 'up'
            )
            self.assertIn(text, str(error))
