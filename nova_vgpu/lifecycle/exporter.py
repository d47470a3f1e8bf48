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

"""Metrics for Prometheus, over HTTP.

Nothing is counted up here: a scrape gets the samples of the last round as they
are. So no series outlives the GPU that it is about.
"""

from collections.abc import Iterable
from collections.abc import Iterator
import contextlib

import prometheus_client
from prometheus_client import core
from prometheus_client import registry

from nova_vgpu import exception
from nova_vgpu.lifecycle import metrics


class Exporter(registry.Collector):
    """The samples of the moment, in the words of Prometheus's library."""

    def __init__(self) -> None:
        self._samples: tuple[metrics.Sample, ...] = ()
        self.registry = registry.CollectorRegistry()
        self.registry.register(self)

    def show(self, samples: Iterable[metrics.Sample]) -> None:
        """Take these instead of all that were there."""
        # One assignment, so that no scrape sees half of it.
        self._samples = tuple(samples)

    def collect(self) -> Iterator[core.Metric]:
        samples = self._samples
        for metric in metrics.METRICS:
            family = core.Metric(
                metric.name.removesuffix('_total'),
                metric.text,
                metric.kind.value,
            )
            for sample in samples:
                if sample.name == metric.name:
                    labels = dict(
                        zip(metric.labels, sample.labels, strict=True)
                    )
                    family.add_sample(sample.name, labels, sample.value)
            yield family


@contextlib.contextmanager
def serve(exporter: Exporter, host: str, port: int) -> Iterator[int]:
    """Answer scrapes until the context ends.

    :param port: 0 is any that is free.
    :returns: the port that it became.
    :raises UsageError: if the address cannot be had.
    """
    try:
        server, thread = prometheus_client.start_http_server(
            port, host, exporter.registry
        )
    except OSError as error:
        raise exception.UsageError(
            f'No metrics can be served on {host}, port {port}: '
            f'{(error.strerror or str(error)).lower()}. Choose another '
            '--metrics-address, or --no-metrics.'
        ) from error
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
