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

"""A host in numbers, for monitoring.

The numbers are made of what the last reading of the host told and of nothing
else. A GPU that is gone is in none of them, and while the host cannot be
looked at there are none about it.
"""

import collections
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import enum

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import capacity
from nova_vgpu.plan import type_matching


class Kind(enum.Enum):
    """How a number moves."""

    GAUGE = 'gauge'
    COUNTER = 'counter'


@dataclasses.dataclass(frozen=True, slots=True)
class Metric:
    """A name, and what the numbers under it are about."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """One number, with a value for each label of its metric."""

    name: str
    labels: tuple[str, ...]
    value: float


@dataclasses.dataclass(frozen=True, slots=True)
class Tally:
    """What the agent did since it was started.

    ``steps`` are those of its repairs, by what became of them.
    ``last_round`` is when the host was last read, None if it never was.
    """

    rounds: int = 0
    failures: int = 0
    is_failing: bool = False
    last_round: float | None = None
    steps: tuple[tuple[str, int], ...] = ()


OUTCOMES = ('done', 'failed', 'refused')

_GPU_TYPE = ('gpu', 'type')


def _gauge(name: str, labels: tuple[str, ...], text: str) -> Metric:
    return Metric(f'nova_vgpu_{name}', Kind.GAUGE, labels, text)


def _counter(name: str, labels: tuple[str, ...], text: str) -> Metric:
    return Metric(f'nova_vgpu_{name}', Kind.COUNTER, labels, text)


METRICS = (
    _gauge('gpus', ('state',), 'GPUs of the host.'),
    _gauge(
        'capacity',
        ('gpu', 'type', 'resource_class'),
        'vGPUs of its declared type that a GPU serves in all.',
    ),
    _gauge('existing', _GPU_TYPE, 'vGPUs that there are on a GPU.'),
    _gauge('used', _GPU_TYPE, 'vGPUs on a GPU that guests have.'),
    _gauge(
        'type_available',
        _GPU_TYPE,
        'How many more vGPUs of a type a GPU takes now.',
    ),
    _gauge('problems', ('severity', 'code'), 'Problems of the host.'),
    _gauge('drift_steps', ('gpu',), 'Steps that an apply would take now.'),
    _gauge(
        'refused', ('gpu',), 'Things not as declared because guests have them.'
    ),
    _gauge(
        'last_apply_timestamp_seconds',
        (),
        'When an apply last changed the host.',
    ),
    _gauge('last_round_timestamp_seconds', (), 'When the host was last read.'),
    _gauge(
        'last_round_success', (), 'Whether the last round of the agent worked.'
    ),
    _counter('rounds_total', (), 'Rounds of the agent.'),
    _counter('round_failures_total', (), 'Rounds that failed.'),
    _counter(
        'repair_steps_total',
        ('outcome',),
        'Steps of the repairs of the agent.',
    ),
)


def list_samples(
    report: values.DriftReport | None, tally: Tally
) -> tuple[Sample, ...]:
    """Every number; without a report those about the agent itself."""
    samples = list(_tell_agent(tally))
    if report is not None:
        samples += _tell_gpus(report)
        samples += _tell_vgpus(report)
        samples += _tell_state(report)
    # Two ids with one name are one series: the same one twice is an error.
    return tuple({(s.name, s.labels): s for s in samples}.values())


def _tell_agent(tally: Tally) -> Iterator[Sample]:
    yield _sample('rounds_total', tally.rounds)
    yield _sample('round_failures_total', tally.failures)
    yield _sample('last_round_success', not tally.is_failing)
    if tally.last_round is not None:
        yield _sample('last_round_timestamp_seconds', tally.last_round)
    counts = dict(tally.steps)
    for outcome in OUTCOMES:
        yield _sample('repair_steps_total', counts.get(outcome, 0), outcome)


def _tell_gpus(report: values.DriftReport) -> Iterator[Sample]:
    plan = report.plan
    serving = sum(assigned.serves for assigned in plan.assignments)
    not_serving = len(plan.assignments) - serving
    yield _sample('gpus', serving, 'serving')
    yield _sample('gpus', not_serving, 'not-serving')
    yield _sample('gpus', len(plan.left_alone), 'left-alone')
    names = type_matching.list_type_names(report.host)
    for assigned in plan.assignments:
        declared = assigned.declared
        wanted = assigned.type.id if assigned.type else declared.name
        total = assigned.capacity.total if assigned.capacity else 0
        yield _sample(
            'capacity',
            total,
            str(assigned.gpu),
            _label(wanted, names),
            declared.resource_class,
        )
    for gpu in plan.gpus:
        for vgpu_type in type_matching.list_types(gpu, names):
            counted = capacity.plan_capacity(
                gpu, vgpu_type, gpu.functions, None, names
            )
            free = max(counted.total - counted.existing, 0)
            label = _label(vgpu_type.id, names)
            yield _sample('type_available', free, str(gpu), label)


def _tell_vgpus(report: values.DriftReport) -> Iterator[Sample]:
    names = type_matching.list_type_names(report.host)
    owners = report.usage.owners
    for gpu in report.plan.gpus:
        existing: collections.Counter[str] = collections.Counter()
        used: collections.Counter[str] = collections.Counter()
        for vgpu in gpu.all_vgpus:
            label = _label(vgpu.type_id, names)
            existing[label] += 1
            used[label] += vgpu.name in owners
        for label, count in sorted(existing.items()):
            yield _sample('existing', count, str(gpu), label)
            yield _sample('used', used[label], str(gpu), label)


def _tell_state(report: values.DriftReport) -> Iterator[Sample]:
    found = collections.Counter(
        (p.severity.value, p.code) for p in report.plan.problems
    )
    for labels, count in sorted(found.items()):
        yield _sample('problems', count, *labels)
    for of_gpu in report.gpu_steps:
        yield _sample('drift_steps', len(of_gpu.steps), of_gpu.gpu)
        yield _sample('refused', len(of_gpu.refusals), of_gpu.gpu)
    if report.last_apply is not None:
        yield _sample('last_apply_timestamp_seconds', report.last_apply)


def _sample(name: str, value: float, *labels: str) -> Sample:
    return Sample(f'nova_vgpu_{name}', labels, float(value))


def _label(type_id: str, names: Mapping[str, str]) -> str:
    """What a type is called: by its name, which outlives its id."""
    named = values.VGPUType(type_id, names.get(type_id))
    return capabilities.short_name(named)
