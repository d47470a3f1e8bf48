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

import socket
from urllib import request

import testtools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.lifecycle import agent
from nova_vgpu.lifecycle import exporter

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
