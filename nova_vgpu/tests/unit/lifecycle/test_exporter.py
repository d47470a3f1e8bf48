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

"""Samples over HTTP."""

import socket
from urllib import request

import testtools

from nova_vgpu import exception
from nova_vgpu.lifecycle import exporter
from nova_vgpu.lifecycle import metrics

LOOPBACK = '127.0.0.1'


def drift_of(gpu: str) -> metrics.Sample:
    return metrics.Sample('nova_vgpu_drift_steps', (gpu,), 3.0)


class TestExporter(testtools.TestCase):
    def scrape(self, port: int) -> str:
        url = f'http://{LOOPBACK}:{port}/metrics'
        with request.urlopen(url, timeout=60) as answer:
            return str(answer.read().decode())

    def test_a_scrape_has_the_samples_of_the_moment(self) -> None:
        shown = exporter.Exporter()
        with exporter.serve(shown, LOOPBACK, 0) as port:
            shown.show([drift_of('a'), drift_of('b')])
            text = self.scrape(port)
            self.assertIn('nova_vgpu_drift_steps{gpu="a"} 3.0\n', text)
            shown.show([drift_of('b')])
            text = self.scrape(port)
            self.assertNotIn('gpu="a"', text)
            self.assertIn('nova_vgpu_drift_steps{gpu="b"} 3.0\n', text)

    def test_nobody_is_answered_after_the_end(self) -> None:
        with exporter.serve(exporter.Exporter(), LOOPBACK, 0) as port:
            pass
        with socket.socket() as client:
            self.assertNotEqual(0, client.connect_ex((LOOPBACK, port)))

    def test_an_address_that_cannot_be_had(self) -> None:
        with exporter.serve(exporter.Exporter(), LOOPBACK, 0) as port:
            for host, number in ((LOOPBACK, port), ('no.invalid', 0)):
                serving = exporter.serve(exporter.Exporter(), host, number)
                error = self.assertRaises(
                    exception.UsageError, serving.__enter__
                )
                self.assertIn(host, str(error))
                self.assertIn('--metrics-address', str(error))

    def test_label_values_are_quoted(self) -> None:
        shown = exporter.Exporter()
        shown.show([drift_of('a"\n')])
        with exporter.serve(shown, LOOPBACK, 0) as port:
            self.assertIn('{gpu="a\\"\\n"} 3.0\n', self.scrape(port))
