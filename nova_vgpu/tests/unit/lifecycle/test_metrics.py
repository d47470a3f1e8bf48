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

"""A host in numbers."""

import typing

import testtools

from nova_vgpu import values
from nova_vgpu.lifecycle import agent
from nova_vgpu.lifecycle import exporter
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans

T4 = '0000:84:00.0'
A40 = '0000:41:00.0'
Numbers = dict[tuple[str, ...], float]


def list_numbers(
    report: values.DriftReport | None, counted: agent.Tally
) -> Numbers:
    return {
        (
            sample.name.removeprefix('nova_vgpu_'),
            *sample.labels.values(),
        ): sample.value
        for family in exporter.make_families(report, counted)
        for sample in family.samples
    }


def is_of(name: str, family: exporter.Family) -> bool:
    return family.name == f'nova_vgpu_{name.removesuffix("_total")}'


class MetricsTestCase(testtools.TestCase):
    def count(
        self,
        *cards: simulation.GPU,
        guests: tuple[values.Guest, ...] = (),
        **of_report: typing.Any,
    ) -> Numbers:
        host = hosts.make_host(*cards)
        declaration = values.Declaration(
            (
                values.DeclaredType('T4-2Q', 'vgpu_T4-2Q', (T4,)),
                values.DeclaredType(
                    'A40-8Q', 'vgpu_A40-8Q', (A40,), 'CUSTOM_BIG'
                ),
            ),
            unlisted=values.UnlistedGPUs.IGNORE,
        )
        report = values.DriftReport(
            plans.make_plan(declaration, host, ()),
            host,
            values.Usage(guests),
            **of_report,
        )
        for family in exporter.make_families(report, agent.Tally()):
            (labels,) = (m[2] for m in exporter.METRICS if is_of(m[1], family))
            for sample in family.samples:
                self.assertEqual(set(labels), {*sample.labels}, str(sample))
        return list_numbers(report, agent.Tally())


class TestHost(MetricsTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.t4 = hosts.gpu('84:00.0', boards.T4, 'nvidia-231', 'nvidia-231')
        self.a40 = hosts.gpu('41:00.0', boards.A40)
        self.alone = hosts.gpu('c1:00.0', boards.A40)

    def test_gpus_by_what_they_do(self) -> None:
        found = self.count(self.t4, self.a40, self.alone)
        self.assertEqual(1, found['gpus', 'serving'])
        self.assertEqual(1, found['gpus', 'not-serving'])
        self.assertEqual(1, found['gpus', 'left-alone'])

    def test_capacity_and_what_is_there(self) -> None:
        (vgpu, _) = hosts.make_gpu(self.t4).all_vgpus
        guest = values.Guest(
            uuid='2f6e4b0e-0000-4000-8000-000000000001',
            name='instance-1',
            running=False,
            mdevs=frozenset({vgpu.name}),
        )
        found = self.count(self.t4, self.a40, guests=(guest,))
        self.assertEqual(8, found['capacity', T4, 'T4-2Q', 'VGPU'])
        self.assertEqual(0, found['capacity', A40, 'A40-8Q', 'CUSTOM_BIG'])
        self.assertEqual(2, found['existing', T4, 'T4-2Q'])
        self.assertEqual(1, found['used', T4, 'T4-2Q'])
        self.assertEqual(6, found['type_available', T4, 'T4-2Q'])
        self.assertEqual(0, found['type_available', T4, 'T4-4Q'])

    def test_problems_drift_and_the_last_apply(self) -> None:
        planned = values.GPUSteps(
            A40,
            (values.SetVFs(A40, 0, 32), values.AwaitTypes(A40)),
            (values.Refusal(A40, 'm', 'c'),),
        )
        found = self.count(
            self.t4, self.a40, gpu_steps=(planned,), last_apply=1.5e9
        )
        self.assertEqual(1, found['problems', 'error', 'vfs-off'])
        self.assertEqual(2, found['drift_steps', A40])
        self.assertEqual(1, found['refused', A40])
        self.assertEqual(1.5e9, found['last_apply_timestamp_seconds',])
        self.assertNotIn(
            ('last_apply_timestamp_seconds',), self.count(self.t4, self.a40)
        )

    def test_a_gpu_that_is_gone_is_in_none(self) -> None:
        found = self.count(self.t4)
        self.assertFalse(any(A40 in labels for labels in found))


class TestSeries(testtools.TestCase):
    def test_two_ids_with_one_name_are_one_series(self) -> None:
        offers = tuple(
            values.Offer(values.VGPUType(type_id, 'GRID T4-2Q'), 1)
            for type_id in ('nvidia-1', 'nvidia-2')
        )
        gpu = values.PhysicalGPU('mtty_mtty', offers=offers)
        report = values.DriftReport(
            values.Plan(left_alone=(values.LeftAlone(gpu, 'x'),)),
            values.Host((gpu,)),
            values.Usage(),
        )
        series = [
            (sample.name, *sample.labels.values())
            for family in exporter.make_families(report, agent.Tally())
            for sample in family.samples
        ]
        self.assertEqual(len(set(series)), len(series))
        self.assertIn(
            ('nova_vgpu_type_available', 'mtty_mtty', 'T4-2Q'), series
        )


class TestAgent(testtools.TestCase):
    def test_without_a_look_at_the_host_there_is_the_agent(self) -> None:
        self.assertEqual(
            {
                ('rounds_total',): 9,
                ('round_failures_total',): 2,
                ('last_round_success',): 0,
                ('last_round_timestamp_seconds',): 5.0,
                ('repair_steps_total', 'done'): 4,
                ('repair_steps_total', 'failed'): 0,
                ('repair_steps_total', 'refused'): 0,
            },
            list_numbers(None, agent.Tally(9, 2, True, 5.0, (('done', 4),))),
        )

    def test_counters_are_there_from_the_start(self) -> None:
        found = list_numbers(None, agent.Tally())
        self.assertEqual(0, found['rounds_total',])
        self.assertEqual(1, found['last_round_success',])
        self.assertNotIn(('last_round_timestamp_seconds',), found)


class TestNames(testtools.TestCase):
    def test_they_are_as_prometheus_wants_them(self) -> None:
        for kind, name, _labels, _text in exporter.METRICS:
            self.assertRegex(name, r'^[a-z_]+$')
            is_counter = kind(name, name).type == 'counter'
            self.assertEqual(is_counter, name.endswith('_total'))
            if 'timestamp' in name:
                self.assertEqual('_seconds', name[-8:])
        names = {metric[1] for metric in exporter.METRICS}
        self.assertEqual(len(names), len(exporter.METRICS))
