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

"""What the agents of the hosts tell about live migrations.

One request to Prometheus is for the series of all hosts, and for those of the
vGPUs of one server. What an agent told long ago does not count.
"""

import collections
from collections.abc import Iterable
import dataclasses
import json
import re

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.cloud.hosts import host_agents
from nova_vgpu.cloud.hosts import prometheus

_PREFIX = 'nova_vgpu_'
_OF_HOSTS = (
    *('agent_info', 'last_round_timestamp_seconds', 'host_info'),
    *('libvirt_option', 'gpu_info', 'gpu_vgpu_version'),
)
_OF_SERVER = ('vgpu_can_migrate', 'vgpu_version', 'vgpu_state_bytes')
_WORDS = {'yes': True, 'no': False, 'on': True, 'off': False}
_VERSION = re.compile(r'[0-9]{1,4}(?:\.[0-9]{1,4}){0,3}', re.ASCII)
_Series = dict[str, list[prometheus.Sample]]


@dataclasses.dataclass(frozen=True, slots=True)
class GPUFacts:
    """What an agent tells of a GPU."""

    framework: values.Framework | None = None
    ecc: bool | None = None
    can_migrate: bool | None = None
    versions: tuple[int, int] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ServerFacts:
    """What an agent tells of the vGPUs of a server on one GPU."""

    vgpus: int = 0
    can_migrate: bool | None = None
    versions: tuple[int, ...] = ()
    state_bytes: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class HostFacts:
    """What the agent of a host tells; GPUs are by their PCI addresses."""

    software: values.HostSoftware = values.UNKNOWN_SOFTWARE
    settings: values.MigrationSettings = values.UNKNOWN_SETTINGS
    gpus: tuple[tuple[str, GPUFacts], ...] = ()
    of_server: tuple[tuple[str, ServerFacts], ...] = ()

    def find_gpu(self, address: str) -> GPUFacts:
        return dict(self.gpus).get(address, GPUFacts())

    def find_vgpus(self, address: str) -> ServerFacts:
        return dict(self.of_server).get(address, ServerFacts())


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """The facts of hosts by name; ``failure`` says why there are none."""

    hosts: tuple[tuple[str, HostFacts], ...] = ()
    failure: str | None = None

    def find(self, host: str) -> HostFacts:
        return dict(self.hosts).get(host, HostFacts())


def read(settings: prometheus.Settings | None, server: str) -> Answer:
    """Ask about all hosts and one server, by one request.

    :param server: its UUID.
    """
    if settings is None:
        return Answer()
    try:
        samples = prometheus.ask(settings, write_query(server))
    except exception.CloudError as error:
        return Answer(failure=str(error))
    return Answer(make_hosts(samples))


def write_query(server: str) -> str:
    """PromQL; the server is only a string in it."""
    of_hosts = f'{{__name__=~"{_PREFIX}({"|".join(_OF_HOSTS)})"}}'
    names = f'__name__=~"{_PREFIX}({"|".join(_OF_SERVER)})"'
    return f'{of_hosts} or {{{names},server={json.dumps(server)}}}'


def make_hosts(
    samples: Iterable[prometheus.Sample],
) -> tuple[tuple[str, HostFacts], ...]:
    """The facts of the hosts whose agents have read them lately."""
    by_target: dict[object, _Series] = collections.defaultdict(
        lambda: collections.defaultdict(list)
    )
    for sample in samples:
        target = sample.labels.get('job'), sample.labels.get('instance')
        name = sample.name.removeprefix(_PREFIX)
        by_target[target][name].append(sample)
    newest: dict[str, tuple[float, HostFacts]] = {}
    for series in by_target.values():
        hosts = [s.labels.get('compute_node') for s in series['agent_info']]
        rounds = series['last_round_timestamp_seconds']
        if not hosts or not hosts[0] or not rounds:
            continue
        age = rounds[0].at - rounds[0].value
        if age > host_agents.STALE_AFTER:
            continue
        if hosts[0] not in newest or age < newest[hosts[0]][0]:
            newest[hosts[0]] = age, _make_host(series)
    return tuple((host, facts) for host, (_, facts) in sorted(newest.items()))


def _make_host(series: _Series) -> HostFacts:
    ranges: dict[str, dict[str, int]] = collections.defaultdict(dict)
    for sample in series['gpu_vgpu_version']:
        bound = sample.labels.get('bound', '')
        ranges[sample.labels.get('gpu', '')][bound] = int(sample.value)
    of_server: dict[str, _Series] = collections.defaultdict(
        lambda: collections.defaultdict(list)
    )
    for name in _OF_SERVER:
        for sample in series[name]:
            of_server[sample.labels.get('gpu', '')][name].append(sample)
    return HostFacts(
        _make_software(series),
        _make_settings(series),
        tuple(
            (
                sample.labels.get('gpu', ''),
                _make_gpu(sample, ranges[sample.labels.get('gpu', '')]),
            )
            for sample in series['gpu_info']
        ),
        tuple((gpu, _make_vgpus(found)) for gpu, found in of_server.items()),
    )


def _make_software(series: _Series) -> values.HostSoftware:
    for sample in series['host_info']:
        labels = sample.labels
        return values.HostSoftware(
            kernel=labels.get('kernel') or None,
            libvirt=parse_version(labels.get('libvirt', '')),
            qemu=parse_version(labels.get('qemu', '')),
            driver=labels.get('driver_version') or None,
            dma_logging=_WORDS.get(labels.get('dma_logging', '')),
        )
    return values.HostSoftware()


def parse_version(text: str) -> values.Version | None:
    """The numbers of a version; None if it is something else."""
    if _VERSION.fullmatch(text) is None:
        return None
    return tuple(int(part) for part in text.split('.'))


def _make_settings(series: _Series) -> values.MigrationSettings:
    found = {
        sample.labels.get('option', ''): int(sample.value)
        for sample in series['libvirt_option']
    }
    post_copy = found.get('live_migration_permit_post_copy')
    return values.MigrationSettings(
        None if post_copy is None else bool(post_copy),
        found.get('live_migration_downtime'),
        found.get('live_migration_downtime_steps'),
        found.get('live_migration_downtime_delay'),
        found.get('live_migration_bandwidth'),
    )


def _make_gpu(sample: prometheus.Sample, bounds: dict[str, int]) -> GPUFacts:
    labels = sample.labels
    frameworks = {each.value: each for each in values.Framework}
    return GPUFacts(
        frameworks.get(labels.get('framework', '')),
        _WORDS.get(labels.get('ecc', '')),
        _WORDS.get(labels.get('can_migrate', '')),
        (bounds['min'], bounds['max'])
        if {'min', 'max'} <= bounds.keys()
        else None,
    )


def _make_vgpus(series: _Series) -> ServerFacts:
    """Of several vGPUs: whether all can migrate, and their states together.

    What is unknown of one of them is unknown.
    """
    can, versions, sizes = (
        {s.labels.get('vgpu', ''): s.value for s in series[name]}
        for name in _OF_SERVER
    )
    vgpus = can.keys() | versions.keys() | sizes.keys()
    is_told = can.keys() == vgpus
    return ServerFacts(
        len(vgpus),
        False if 0 in can.values() else (True if is_told else None),
        tuple(sorted(int(found) for found in versions.values()))
        if versions.keys() == vgpus
        else (),
        sum(int(found) for found in sizes.values())
        if sizes.keys() == vgpus
        else None,
    )
