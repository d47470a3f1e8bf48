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

"""Metrics of a host for Prometheus, over HTTP.

A scrape gets the numbers of the agent's last round. Nothing is counted here,
so no series outlives the GPU that it describes, and there are no numbers of
the host while it cannot be read.
"""

import collections
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib

import prometheus_client
from prometheus_client import core
from prometheus_client import registry

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.lifecycle import agent
from nova_vgpu.lifecycle import details
from nova_vgpu.lifecycle import metrics_server
from nova_vgpu.lifecycle import migration_details
from nova_vgpu.plan import capacity
from nova_vgpu.plan import type_matching

_GAUGE = core.GaugeMetricFamily
_COUNTER = core.CounterMetricFamily

#: Kind, name, labels and description.
METRICS = (
    (_GAUGE, 'gpus', ('state',), 'GPUs of the host.'),
    (
        _GAUGE,
        'capacity',
        ('gpu', 'type', 'resource_class'),
        'vGPUs of its declared type that a GPU serves in total.',
    ),
    (_GAUGE, 'existing', ('gpu', 'type'), 'vGPUs that exist on a GPU.'),
    (_GAUGE, 'used', ('gpu', 'type'), 'vGPUs on a GPU that guests use.'),
    (
        _GAUGE,
        'type_available',
        ('gpu', 'type'),
        'vGPUs of a type that can still be created on a GPU.',
    ),
    (
        _GAUGE,
        'functions',
        ('gpu', 'state'),
        'Virtual functions of a GPU.',
    ),
    (
        _GAUGE,
        'function_info',
        ('gpu', 'function', 'state', 'type', 'vgpu', 'server'),
        'A function that can have vGPUs, or a vGPU on it.',
    ),
    (
        _GAUGE,
        'guest_info',
        ('gpu', 'vgpu', 'server', 'driver_version', 'licence'),
        'The driver of a running guest for a vGPU, and its licence.',
    ),
    (
        _GAUGE,
        'host_info',
        ('kernel', 'libvirt', 'qemu', 'driver_version', 'dma_logging'),
        'The versions of what the host runs guests with.',
    ),
    (
        _GAUGE,
        'libvirt_option',
        ('option',),
        "An option of Nova's section [libvirt].",
    ),
    (
        _GAUGE,
        'gpu_info',
        ('gpu', 'framework', 'ecc', 'can_migrate'),
        'The framework and the ECC mode of a GPU.',
    ),
    (
        _GAUGE,
        'gpu_vgpu_version',
        ('gpu', 'bound'),
        'The range of versions of vGPUs that a GPU takes.',
    ),
    (
        _GAUGE,
        'vgpu_can_migrate',
        ('gpu', 'vgpu', 'server'),
        'Whether the vGPU of a running guest can migrate.',
    ),
    (
        _GAUGE,
        'vgpu_version',
        ('gpu', 'vgpu', 'server'),
        'The version of the vGPU of a running guest.',
    ),
    (
        _GAUGE,
        'vgpu_state_bytes',
        ('gpu', 'vgpu', 'server'),
        'The size of the state of the vGPU of a running guest.',
    ),
    (_GAUGE, 'problems', ('severity', 'code'), 'Problems of the host.'),
    (
        _GAUGE,
        'problem_info',
        ('severity', 'code', 'subject', 'finding', 'cure'),
        'A problem of the host.',
    ),
    (_GAUGE, 'drift_steps', ('gpu',), 'Steps that an apply would take now.'),
    (
        _GAUGE,
        'drift_info',
        ('gpu', 'step'),
        'A step that an apply would take now.',
    ),
    (
        _GAUGE,
        'refused',
        ('gpu',),
        'Differences from the declaration that stay because of guests.',
    ),
    (
        _GAUGE,
        'refused_info',
        ('gpu', 'finding', 'cure'),
        'A difference that stays because of a guest.',
    ),
    (
        _GAUGE,
        'agent_info',
        ('compute_node',),
        'The name of the compute node in Nova and Placement.',
    ),
    (
        _GAUGE,
        'last_apply_timestamp_seconds',
        (),
        'When an apply last changed the host.',
    ),
    (
        _GAUGE,
        'last_round_timestamp_seconds',
        (),
        'When the host was last read.',
    ),
    (
        _GAUGE,
        'last_round_success',
        (),
        'Whether the last round of the agent succeeded.',
    ),
    (_COUNTER, 'rounds_total', (), 'Rounds of the agent.'),
    (_COUNTER, 'round_failures_total', (), 'Rounds that failed.'),
    (_COUNTER, 'repair_steps_total', ('outcome',), 'Steps of the repairs.'),
)

Family = core.GaugeMetricFamily | core.CounterMetricFamily


class Collector(registry.Collector):
    """The numbers of the last round.

    :param node: what Nova calls the compute node, until a round tells.
    """

    def __init__(self, node: str = '') -> None:
        self._node = node
        self._families: tuple[Family, ...] = ()
        self.registry = registry.CollectorRegistry()
        self.registry.register(self)

    def show(
        self, report: values.DriftReport | None, tally: agent.Tally
    ) -> None:
        """Replace all numbers."""
        if report is not None and report.node is not None:
            self._node = report.node
        # One assignment, so that no scrape sees half of it.
        self._families = make_families(report, tally, self._node)

    def collect(self) -> Iterator[core.Metric]:
        yield from self._families


def make_families(
    report: values.DriftReport | None, tally: agent.Tally, node: str = ''
) -> tuple[Family, ...]:
    """Every metric; without a report only the numbers of the agent."""
    families = {
        name: kind(f'nova_vgpu_{name}', text, labels=labels)
        for kind, name, labels, text in METRICS
    }
    numbers = [*_count_rounds(tally)]
    if node:
        numbers.append(('agent_info', (node,), 1))
    if report is not None:
        names = type_matching.list_type_names(report.host)
        numbers += _count_gpus(report, names)
        numbers += _count_vgpus(report, names)
        numbers += _count_drift(report)
        numbers += details.describe_functions(
            report, lambda type_id: _label(type_id, names)
        )
        numbers += details.describe_guests(report)
        numbers += details.describe_findings(report)
        numbers += migration_details.describe(report)
    # Two ids with one name are one series: the same one twice is an error.
    series = {(name, labels): value for name, labels, value in numbers}
    for (name, labels), value in series.items():
        families[name].add_metric(labels, value)
    return tuple(families.values())


def _count_rounds(tally: agent.Tally) -> Iterator[details.Number]:
    yield 'rounds_total', (), tally.rounds
    yield 'round_failures_total', (), tally.failures
    yield 'last_round_success', (), not tally.is_failing
    if tally.last_round is not None:
        yield 'last_round_timestamp_seconds', (), tally.last_round
    counts = dict(tally.steps)
    for outcome in agent.OUTCOMES:
        yield 'repair_steps_total', (outcome,), counts.get(outcome, 0)


def _count_gpus(
    report: values.DriftReport, names: Mapping[str, str]
) -> Iterator[details.Number]:
    plan = report.plan
    serving = len(plan.serving)
    assigned_gpus = len(plan.gpus) - len(plan.left_alone)
    yield 'gpus', ('serving',), serving
    yield 'gpus', ('not-serving',), assigned_gpus - serving
    yield 'gpus', ('left-alone',), len(plan.left_alone)
    for assigned in plan.assignments:
        declared = assigned.declared
        wanted = assigned.type.id if assigned.type else declared.name
        label = _label(wanted, names)
        total = assigned.capacity.total if assigned.capacity else 0
        yield (
            'capacity',
            (str(assigned.gpu), label, declared.resource_class),
            total,
        )
    for gpu in plan.gpus:
        for vgpu_type in type_matching.list_types(gpu, names):
            counted = capacity.plan_capacity(
                *(gpu, vgpu_type, gpu.functions, None, names),
                report.modes.of(gpu.address),
            )
            free = max(counted.total - counted.existing, 0)
            label = _label(vgpu_type.id, names)
            yield 'type_available', (str(gpu), label), free


def _count_vgpus(
    report: values.DriftReport, names: Mapping[str, str]
) -> Iterator[details.Number]:
    owners = report.usage.owners
    for gpu in report.plan.gpus:
        existing: collections.Counter[str] = collections.Counter()
        used: collections.Counter[str] = collections.Counter()
        for vgpu in gpu.all_vgpus:
            label = _label(vgpu.type_id, names)
            existing[label] += 1
            used[label] += vgpu.name in owners
        for label, count in sorted(existing.items()):
            yield 'existing', (str(gpu), label), count
            yield 'used', (str(gpu), label), used[label]


def _count_drift(report: values.DriftReport) -> Iterator[details.Number]:
    found = collections.Counter(
        (p.severity.value, p.code) for p in report.plan.problems
    )
    for labels, count in sorted(found.items()):
        yield 'problems', labels, count
    for of_gpu in report.gpu_steps:
        yield 'drift_steps', (of_gpu.gpu,), len(of_gpu.steps)
        yield 'refused', (of_gpu.gpu,), len(of_gpu.refusals)
    if report.last_apply is not None:
        yield 'last_apply_timestamp_seconds', (), report.last_apply


def _label(type_id: str, names: Mapping[str, str]) -> str:
    """The name of a type, which stays the same when its id changes."""
    named = values.VGPUType(type_id, names.get(type_id))
    return capabilities.short_name(named)


@contextlib.contextmanager
def serve(
    collector: Collector,
    host: str,
    port: int,
    tls: metrics_server.TLS | None = None,
) -> Iterator[int]:
    """Answer scrapes until the context ends.

    :param port: 0 for any free port.
    :returns: the port in use.
    :raises UsageError: if the address or a file of TLS cannot be used.
    """
    application = prometheus_client.make_wsgi_app(collector.registry)
    with contextlib.ExitStack() as stack:
        try:
            used = stack.enter_context(
                metrics_server.serve(application, host, port, tls)
            )
        except OSError as error:
            raise exception.UsageError(
                f'Metrics cannot be served on {host}, port {port}: '
                f'{(error.strerror or str(error)).lower()}. Choose another '
                '--metrics-address, or --no-metrics.'
            ) from error
        yield used
