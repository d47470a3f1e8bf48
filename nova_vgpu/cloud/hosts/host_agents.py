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

"""What the agents of the hosts tell through Prometheus.

Placement does not know virtual functions, the devices of vGPUs, the types that
are available now, problems and drift. ``nova-vgpu agent`` on each host does,
and Prometheus has its metrics. One request answers for all hosts, or for one.
Series of one agent have the same ``job`` and ``instance``; one of them has the
name of the compute node. Of two agents with one name, that with the newer
round counts: the other one is what was scraped at another address before.
"""

import collections
from collections.abc import Iterable
import dataclasses
import json

from nova_vgpu import exception
from nova_vgpu.cloud.hosts import prometheus

#: In seconds; ten rounds of an agent with its usual interval.
STALE_AFTER = 300

_PREFIX = 'nova_vgpu_'
_SERIES = (
    *('agent_info', 'last_round_timestamp_seconds', 'last_round_success'),
    *('functions', 'function_info', 'type_available'),
    *('problem_info', 'drift_info', 'refused_info'),
)
_GUEST_SERIES = ('agent_info', 'last_round_timestamp_seconds', 'guest_info')


@dataclasses.dataclass(frozen=True, slots=True)
class Function:
    """A vGPU, or a function without one; texts are empty if unknown."""

    gpu: str
    address: str
    state: str
    type: str = ''
    vgpu: str = ''
    server: str = ''


@dataclasses.dataclass(frozen=True, slots=True)
class Guest:
    """What the driver of a guest tells its host; texts are empty if unknown.

    ``driver`` is a version, or ``none``.
    """

    gpu: str
    vgpu: str
    server: str
    driver: str = ''
    licence: str = ''


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong, or that is refused, and its cure."""

    subject: str
    text: str
    cure: str
    severity: str = ''
    code: str = ''


@dataclasses.dataclass(frozen=True, slots=True)
class GPU:
    """What an agent tells of one GPU.

    ``enabled`` and ``possible`` count virtual functions; 0 without SR-IOV.
    ``available`` has types with the number of vGPUs for which there is room.
    """

    address: str
    enabled: int = 0
    possible: int = 0
    functions: tuple[Function, ...] = ()
    available: tuple[tuple[str, int], ...] = ()
    steps: tuple[str, ...] = ()
    refusals: tuple[Finding, ...] = ()
    problems: tuple[Finding, ...] = ()
    guests: tuple[Guest, ...] = ()

    @property
    def available_types(self) -> tuple[str, ...]:
        return tuple(name for name, _count in self.available)


@dataclasses.dataclass(frozen=True, slots=True)
class Agent:
    """What the agent of one host tells.

    ``age`` is the time since it last read the host, in seconds; None if it
    never did. ``problems`` are those that are not about one of its GPUs.
    """

    host: str
    age: float | None = None
    is_failing: bool = False
    gpus: tuple[GPU, ...] = ()
    problems: tuple[Finding, ...] = ()

    @property
    def is_stale(self) -> bool:
        return self.age is not None and self.age > STALE_AFTER

    @property
    def minutes(self) -> int:
        return int((self.age or 0) // 60)

    def find_gpu(self, address: str) -> GPU | None:
        return next((g for g in self.gpus if g.address == address), None)


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What is known of the hosts; ``failure`` says why nothing is."""

    is_configured: bool = True
    failure: str | None = None
    agents: tuple[Agent, ...] = ()

    def find(self, host: str) -> Agent | None:
        return next((a for a in self.agents if a.host == host), None)

    def list_guests(self) -> dict[str, tuple[Guest, ...]]:
        """The vGPUs of running guests by server, if the data is not old."""
        found: dict[str, tuple[Guest, ...]] = {}
        for agent in self.agents:
            for gpu in () if agent.is_stale else agent.gpus:
                for guest in gpu.guests:
                    others = found.get(guest.server, ())
                    found[guest.server] = (*others, guest)
        return found


def read(
    settings: prometheus.Settings | None, host: str | None = None
) -> Answer:
    """Ask for all hosts, or for one, by one request."""
    return _read(settings, write_query(host))


def read_guests(settings: prometheus.Settings | None) -> Answer:
    """Ask for the guests of all hosts only, by one request."""
    return _read(settings, write_query(None, _GUEST_SERIES))


def _read(settings: prometheus.Settings | None, query: str) -> Answer:
    if settings is None:
        return Answer(is_configured=False)
    try:
        samples = prometheus.ask(settings, query)
    except exception.CloudError as error:
        return Answer(failure=str(error))
    return Answer(agents=make_agents(samples))


def write_query(host: str | None, series: Iterable[str] = _SERIES) -> str:
    """PromQL; the name of a host is only a string in it."""
    query = f'{{__name__=~"{_PREFIX}({"|".join(series)})"}}'
    if host is None:
        return query
    # A string of JSON is one of PromQL as well.
    text = json.dumps(host, ensure_ascii=False)
    info = f'{_PREFIX}agent_info{{compute_node={text}}}'
    return f'{query} and on (job, instance) {info}'


def make_agents(samples: Iterable[prometheus.Sample]) -> tuple[Agent, ...]:
    """The agents in the order of their hosts."""
    scraped = collections.defaultdict(list)
    for sample in samples:
        target = sample.labels.get('job'), sample.labels.get('instance')
        scraped[target].append(sample)
    found: dict[str, Agent] = {}
    for of_agent in scraped.values():
        agent = _make_agent(of_agent)
        if agent is None:
            continue
        other = found.get(agent.host)
        if other is None or _is_newer(agent, other):
            found[agent.host] = agent
    return tuple(found[host] for host in sorted(found))


def _is_newer(agent: Agent, other: Agent) -> bool:
    if agent.age is None or other.age is None:
        return other.age is None
    return agent.age < other.age


def _make_agent(samples: Iterable[prometheus.Sample]) -> Agent | None:
    """An agent; None if it does not tell its host."""
    series = collections.defaultdict(list)
    for sample in samples:
        series[sample.name.removeprefix(_PREFIX)].append(sample)
    hosts = [s.labels.get('compute_node') for s in series['agent_info']]
    if not hosts or not hosts[0]:
        return None
    rounds = series['last_round_timestamp_seconds']
    gpus = _make_gpus(series)
    addresses = {gpu.address for gpu in gpus}
    return Agent(
        hosts[0],
        max(rounds[0].at - rounds[0].value, 0) if rounds else None,
        any(not sample.value for sample in series['last_round_success']),
        gpus,
        tuple(
            problem
            for problem in _make_problems(series['problem_info'])
            if problem.subject not in addresses
        ),
    )


_Series = dict[str, list[prometheus.Sample]]
_OF_GPUS = ('functions', 'function_info', 'type_available', 'guest_info')


def _make_gpus(series: _Series) -> tuple[GPU, ...]:
    addresses = {
        sample.labels.get('gpu', '')
        for name in _OF_GPUS
        for sample in series[name]
    }
    by_gpu: dict[str, _Series] = {
        address: collections.defaultdict(list) for address in addresses
    }
    for name, samples in list(series.items()):
        for sample in samples:
            labels = sample.labels
            gpu = labels.get('gpu', labels.get('subject', ''))
            if gpu in by_gpu:
                by_gpu[gpu][name].append(sample)
    return tuple(_make_gpu(gpu, by_gpu[gpu]) for gpu in sorted(by_gpu))


def _make_gpu(address: str, series: _Series) -> GPU:
    vfs = {s.labels.get('state'): int(s.value) for s in series['functions']}
    return GPU(
        address,
        vfs.get('enabled', 0),
        vfs.get('possible', 0),
        tuple(
            sorted(
                map(_make_function, series['function_info']),
                key=lambda found: (found.address, not found.vgpu, found.vgpu),
            )
        ),
        tuple(
            sorted(
                (sample.labels.get('type', ''), int(sample.value))
                for sample in series['type_available']
                if sample.value > 0
            )
        ),
        tuple(s.labels.get('step', '') for s in series['drift_info']),
        tuple(map(_make_refusal, series['refused_info'])),
        tuple(_make_problems(series['problem_info'])),
        tuple(map(_make_guest, series['guest_info'])),
    )


def _make_guest(sample: prometheus.Sample) -> Guest:
    labels = sample.labels
    return Guest(
        labels.get('gpu', ''),
        labels.get('vgpu', ''),
        labels.get('server', ''),
        labels.get('driver_version', ''),
        labels.get('licence', ''),
    )


def _make_function(sample: prometheus.Sample) -> Function:
    labels = sample.labels
    return Function(
        labels.get('gpu', ''),
        labels.get('function', ''),
        labels.get('state', ''),
        labels.get('type', ''),
        labels.get('vgpu', ''),
        labels.get('server', ''),
    )


def _make_refusal(sample: prometheus.Sample) -> Finding:
    labels = sample.labels
    texts = labels.get('finding', ''), labels.get('cure', '')
    return Finding(labels.get('gpu', ''), *texts)


_SEVERITIES = ('fatal', 'error', 'warning', 'note')


def _make_problems(samples: Iterable[prometheus.Sample]) -> list[Finding]:
    """Problems, the most severe first."""
    found = [
        Finding(
            sample.labels.get('subject', ''),
            sample.labels.get('finding', ''),
            sample.labels.get('cure', ''),
            sample.labels.get('severity', ''),
            sample.labels.get('code', ''),
        )
        for sample in samples
    ]
    order = {name: place for place, name in enumerate(_SEVERITIES)}
    found.sort(key=lambda p: (order.get(p.severity, len(order)), p.code))
    return found
