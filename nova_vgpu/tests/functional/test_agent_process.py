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

"""The agent as a process: signals, systemd and Prometheus."""

import contextlib
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
import typing
from urllib import request

import fixtures
import testtools

import nova_vgpu
from nova_vgpu.lifecycle import exporter
from nova_vgpu.tests import certificates
from nova_vgpu.tests.functional import agent_program

SECONDS = 60
CONFIGURATION = '[devices]\nenabled_vgpu_types = A40-8Q\n'


class ProcessTestCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.config = self.directory / 'nova.conf'
        self.config.write_text(CONFIGURATION)
        self.systemd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.systemd.close)
        self.systemd.settimeout(1)
        self.systemd.bind(str(self.directory / 'notify'))

    def start(
        self, *options: str, **environment: str
    ) -> subprocess.Popen[str]:
        """Start the agent; nobody else hears of it."""
        process = subprocess.Popen(
            [
                *(sys.executable, agent_program.__file__),
                *('--config-file', str(self.config)),
                *('--state-dir', str(self.directory / 'state')),
                *('agent', '--metrics-address', '127.0.0.1:0', *options),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                'PYTHONPATH': os.pathsep.join(
                    [str(pathlib.Path(nova_vgpu.__path__[0]).parent)]
                    + [p for p in sys.path if p]
                ),
                'NOTIFY_SOCKET': str(self.directory / 'notify'),
                **environment,
            },
        )
        self.addCleanup(self.end, process)
        self.process = process
        return process

    def end(self, process: subprocess.Popen[str]) -> None:
        if process.poll() is None:
            process.kill()
        process.communicate()

    def hear(self, wanted: str) -> str:
        """What systemd is told, up to the first that has this."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(TimeoutError):
                text = self.systemd.recv(4096).decode()
                if wanted in text:
                    return text
                continue
            if self.process.poll() is not None:
                self.fail(f'it ended: {self.finish(self.process)}')
        raise AssertionError(f'systemd was not told: {wanted}')

    def finish(
        self, process: subprocess.Popen[str], text: str = ''
    ) -> tuple[int, str]:
        _, said = process.communicate(text, timeout=SECONDS)
        self.assertNotIn('Traceback', said)
        return process.returncode, said


class TestSignals(ProcessTestCase):
    def test_a_wait_ends(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            process = self.start('--interval', '3600')
            self.assertIn('STATUS=0 of 1 GPUs serve', self.hear('READY=1'))
            process.send_signal(number)
            self.hear('STOPPING=1')
            code, said = self.finish(process)
            self.assertEqual(0, code, said)
            self.assertEqual('stopped', said.splitlines()[-1])

    def test_an_apply_ends_after_its_step(self) -> None:
        process = self.start('--enforce')
        self.hear('READY=1')
        stdout = typing.cast(typing.TextIO, process.stdout)
        self.assertEqual(agent_program.BEGUN, stdout.readline().strip())
        process.send_signal(signal.SIGTERM)
        code, said = self.finish(process, '\n')
        self.assertEqual(0, code, said)
        self.assertRegex(said, 'done: .* enable the 32 VFs')
        self.assertNotRegex(said, 'done: .* wait for the vGPU types')
        self.assertEqual('stopped', said.splitlines()[-1])
        self.hear('STOPPING=1')


class TestSystemd(ProcessTestCase):
    def test_the_watchdog_hears_of_it_during_a_wait(self) -> None:
        self.start('--interval', '3600', WATCHDOG_USEC='300000')
        self.hear('READY=1')
        for _ in range(5):
            self.hear('WATCHDOG=1')


class TestMetrics(ProcessTestCase):
    def find_url(self, process: subprocess.Popen[str]) -> str:
        for line in typing.cast(typing.TextIO, process.stderr):
            found = re.fullmatch(
                r'metrics: (https?://127\.0\.0\.1:\d+/metrics)\n', line
            )
            if found:
                return found[1]
        raise AssertionError('it does not say where its metrics are')

    def scrape(self, url: str, context: ssl.SSLContext | None = None) -> str:
        with request.urlopen(  # noqa: S310 - the URL is our own
            url, timeout=SECONDS, context=context
        ) as answer:
            return str(answer.read().decode())

    def test_with_tls_only_prometheus_can_scrape_them(self) -> None:
        authority = certificates.Authority(self.directory, 'ca')
        own, client = authority.issue('host'), authority.issue('prometheus')
        process = self.start(
            *('--interval', '3600', '--metrics-cert', own.certificate),
            *('--metrics-key', own.key),
            *('--metrics-client-ca', authority.certificate),
        )
        self.hear('READY=1')
        url = self.find_url(process)
        context = ssl.create_default_context(cafile=authority.certificate)
        self.assertRaises(OSError, self.scrape, url, context)
        context.load_cert_chain(client.certificate, client.key)
        self.assertIn('nova_vgpu_rounds_total 1.0', self.scrape(url, context))

    def test_they_can_be_scraped_on_loopback(self) -> None:
        process = self.start('--interval', '3600')
        self.hear('READY=1')
        url = self.find_url(process)
        self.assertEqual('http', url.partition(':')[0])
        text = self.scrape(url)
        self.assertIn('nova_vgpu_gpus{state="not-serving"} 1.0\n', text)
        self.assertIn('nova_vgpu_drift_steps{gpu="0000:41:00.0"} 2.0\n', text)
        self.assertIn('nova_vgpu_rounds_total 1.0\n', text)
        self.assertIn(
            'nova_vgpu_agent_info{compute_node="simulated"} 1.0\n', text
        )
        self.assertIn(
            'nova_vgpu_functions{gpu="0000:41:00.0",state="possible"} 32.0\n',
            text,
        )
        for kind, name, _labels, _text in exporter.METRICS:
            family = kind(name, name)
            self.assertIn(f'# TYPE nova_vgpu_{name} {family.type}\n', text)

    def test_an_address_that_is_taken_ends_it_at_once(self) -> None:
        taken = socket.create_server(('127.0.0.1', 0))
        self.addCleanup(taken.close)
        port = taken.getsockname()[1]
        process = self.start('--metrics-address', f'127.0.0.1:{port}')
        code, said = self.finish(process)
        self.assertEqual(2, code)
        self.assertIn(f'127.0.0.1, port {port}', said)
        self.assertIn('--metrics-address', said)
