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

"""Metrics over HTTP."""

import contextlib
import io
import pathlib
import socket
import ssl
from urllib import request

import fixtures
import testtools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.lifecycle import agent
from nova_vgpu.lifecycle import exporter
from nova_vgpu.lifecycle import metrics_server
from nova_vgpu.tests import certificates

LOOPBACK = '127.0.0.1'


def drift_of(*gpus: str) -> values.DriftReport:
    step = values.AwaitTypes('0000:84:00.0')
    return values.DriftReport(
        values.Plan(),
        values.Host(),
        values.Usage(),
        gpu_steps=tuple(values.GPUSteps(gpu, (step,) * 3) for gpu in gpus),
    )


class TestExporter(testtools.TestCase):
    def scrape(self, port: int) -> str:
        url = f'http://{LOOPBACK}:{port}/metrics'
        with request.urlopen(url, timeout=60) as answer:
            return str(answer.read().decode())

    def test_a_scrape_has_the_numbers_of_the_last_round(self) -> None:
        shown = exporter.Collector()
        with exporter.serve(shown, LOOPBACK, 0) as port:
            shown.show(drift_of('a', 'b'), agent.Tally())
            text = self.scrape(port)
            self.assertIn('nova_vgpu_drift_steps{gpu="a"} 3.0\n', text)
            shown.show(drift_of('b'), agent.Tally())
            text = self.scrape(port)
            self.assertNotIn('gpu="a"', text)
            self.assertIn('nova_vgpu_drift_steps{gpu="b"} 3.0\n', text)

    def test_no_scrape_is_answered_after_the_end(self) -> None:
        with exporter.serve(exporter.Collector(), LOOPBACK, 0) as port:
            pass
        with socket.socket() as client:
            self.assertNotEqual(0, client.connect_ex((LOOPBACK, port)))

    def test_an_address_that_cannot_be_used(self) -> None:
        with exporter.serve(exporter.Collector(), LOOPBACK, 0) as port:
            for host, number in ((LOOPBACK, port), ('no.invalid', 0)):
                serving = exporter.serve(exporter.Collector(), host, number)
                error = self.assertRaises(
                    exception.UsageError, serving.__enter__
                )
                self.assertIn(host, str(error))
                self.assertIn('--metrics-address', str(error))

    def test_label_values_are_quoted(self) -> None:
        shown = exporter.Collector()
        shown.show(drift_of('a"\n'), agent.Tally())
        with exporter.serve(shown, LOOPBACK, 0) as port:
            self.assertIn('{gpu="a\\"\\n"} 3.0\n', self.scrape(port))


class TestTLS(testtools.TestCase):
    """A Prometheus on another host, which has a certificate."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.ours = certificates.Authority(self.directory, 'ours')
        self.theirs = certificates.Authority(self.directory, 'theirs')
        self.host = self.ours.issue('host')

    def serve(self, client_ca: str | None) -> int:
        shown = exporter.Collector()
        shown.show(drift_of('a'), agent.Tally())
        tls = metrics_server.TLS(
            self.host.certificate, self.host.key, client_ca
        )
        server = contextlib.ExitStack()
        self.addCleanup(server.close)
        return server.enter_context(exporter.serve(shown, LOOPBACK, 0, tls))

    def scrape(
        self,
        port: int,
        trusted: certificates.Authority,
        own: certificates.Pair | None = None,
    ) -> str:
        context = ssl.create_default_context(cafile=trusted.certificate)
        if own is not None:
            context.load_cert_chain(own.certificate, own.key)
        url = f'https://{LOOPBACK}:{port}/metrics'
        with request.urlopen(url, timeout=60, context=context) as answer:
            return str(answer.read().decode())

    def test_a_client_of_the_ca_reads_them(self) -> None:
        port = self.serve(self.ours.certificate)
        text = self.scrape(port, self.ours, self.ours.issue('prometheus'))
        self.assertIn('nova_vgpu_drift_steps{gpu="a"} 3.0\n', text)

    def test_other_clients_are_refused(self) -> None:
        port = self.serve(self.ours.certificate)
        for own in (None, self.theirs.issue('prometheus')):
            # URLError, or a reset of the connection: both are OSErrors.
            self.assertRaises(OSError, self.scrape, port, self.ours, own)
        with self.assertRaises(OSError):
            url = f'http://{LOOPBACK}:{port}/metrics'
            request.urlopen(url, timeout=60)
        text = self.scrape(port, self.ours, self.ours.issue('prometheus'))
        self.assertIn('nova_vgpu_drift_steps', text)

    def test_a_client_notices_another_host(self) -> None:
        port = self.serve(None)
        self.assertRaises(OSError, self.scrape, port, self.theirs)
        self.assertIn('nova_vgpu', self.scrape(port, self.ours))

    def test_a_client_that_is_silent_keeps_no_other_out(self) -> None:
        """Nor does it keep the agent from ending: see the clean-up."""
        port = self.serve(None)
        with socket.create_connection((LOOPBACK, port)):
            self.assertIn('nova_vgpu', self.scrape(port, self.ours))

    def test_a_client_that_is_silent_is_disconnected(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_vgpu.lifecycle.metrics_server._Handler.timeout', 0.1
            )
        )
        port = self.serve(None)
        with socket.create_connection((LOOPBACK, port), 60) as client:
            self.assertEqual(b'', client.recv(1))

    def test_refused_clients_leave_nothing_in_the_log(self) -> None:
        said = io.StringIO()
        self.useFixture(fixtures.MonkeyPatch('sys.stderr', said))
        port = self.serve(self.ours.certificate)
        self.assertRaises(OSError, self.scrape, port, self.ours)
        self.assertEqual('', said.getvalue())

    def test_files_that_cannot_be_used(self) -> None:
        nonsense = self.directory / 'nonsense.pem'
        nonsense.write_text('nonsense')
        certificate, key = self.host.certificate, self.host.key
        other = self.theirs.issue('host').key
        for tls, option in (
            (metrics_server.TLS('/missing.pem', key), '--metrics-cert'),
            (metrics_server.TLS(certificate, '/missing.key'), '--metrics-key'),
            (metrics_server.TLS(certificate, other), '--metrics-key'),
            (metrics_server.TLS(str(nonsense), key), '--metrics-cert'),
            (
                metrics_server.TLS(certificate, key, str(nonsense)),
                '--metrics-client-ca',
            ),
            (
                metrics_server.TLS(certificate, key, '/missing.pem'),
                '--metrics-client-ca',
            ),
        ):
            serving = exporter.serve(exporter.Collector(), LOOPBACK, 0, tls)
            error = self.assertRaises(exception.UsageError, serving.__enter__)
            self.assertIn(option, str(error))
            self.assertIn('PEM format', str(error))
