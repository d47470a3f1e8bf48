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


"""Pages with what Prometheus has of the agents, without Prometheus."""

from collections.abc import Iterator
import contextlib
import typing
from unittest import mock

from django.test import utils

from nova_vgpu.cloud.hosts import prometheus


@contextlib.contextmanager
def answer(
    samples: list[prometheus.Sample] | Exception,
) -> Iterator[list[str]]:
    """Prometheus with these series; the queries that it gets."""
    queries: list[str] = []

    def ask(_settings: typing.Any, query: str) -> tuple[typing.Any, ...]:
        queries.append(query)
        if isinstance(samples, Exception):
            raise samples
        return tuple(samples)

    given = {'url': 'http://prometheus.example'}
    with (
        utils.override_settings(NOVA_VGPU_PROMETHEUS=given),
        mock.patch.object(prometheus, 'ask', ask),
    ):
        yield queries
