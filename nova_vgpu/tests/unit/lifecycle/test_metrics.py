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
SERVER = '2f6e4b0e-0000-4000-8000-000000000001'
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
            uuid=SERVER,
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

    def test_gpu_instances(self) -> None:
        card = hosts.gpu('41:00.0', boards.A100D, vfs=16)
        of_type = values.MigType(
            *('nvidia-699', 'GRID A100D-1-10C', 19, '1g.10gb', 2, 1)
        )
        modes = values.GPUModes(mig_types=(of_type,))
        found = self.count(
            card, modes=values.ModesRead(((card.address, modes),))
        )
        self.assertEqual(2, found['type_available', A40, 'A100D-1-10C'])

    def test_drivers_and_licences_of_guests(self) -> None:
        def of(vgpu: str, *driver: typing.Any) -> values.GuestDriver:
            address = values.PciAddress.parse(T4)
            return values.GuestDriver(address, SERVER, vgpu, *driver)

        licensed = values.GuestLicence.LICENSED
        found = self.count(
            self.t4,
            guest_drivers=(
                of('a', True, '550.144.03', licensed),
                of('b', False),
                of('c'),
            ),
        )
        for labels in (
            ('a', SERVER, '550.144.03', 'licensed'),
            ('b', SERVER, 'none', 'unknown'),
            ('c', SERVER, '', 'unknown'),
        ):
            self.assertEqual(1, found['guest_info', T4, *labels])

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

    def test_every_difference_is_told_in_words(self) -> None:
        planned = values.GPUSteps(
            A40,
            (values.SetVFs(A40, 0, 32),),
            (values.Refusal(A40, 'It is\nin use.', 'Move it.'),),
        )
        found = self.count(self.t4, self.a40, gpu_steps=(planned,))
        self.assertIn(
            ('drift_info', A40, f'enable the 32 VFs of GPU {A40}'), found
        )
        self.assertIn(
            ('refused_info', A40, 'It is in use.', 'Move it.'), found
        )
        (problem,) = (key for key in found if key[0] == 'problem_info')
        self.assertEqual(('error', 'vfs-off', A40), problem[1:4])
        self.assertIn('not enabled (0 of 32)', problem[4])
        self.assertIn(f'nova-vgpu sriov enable {A40}', problem[5])

    def test_a_gpu_that_is_gone_is_in_none(self) -> None:
        found = self.count(self.t4)
        self.assertFalse(any(A40 in labels for labels in found))


class TestFunctions(MetricsTestCase):
    def list_functions(self, found: Numbers) -> list[tuple[str, ...]]:
        return [key[1:] for key in found if key[0] == 'function_info']

    def test_vfs_that_are_not_enabled(self) -> None:
        found = self.count(hosts.gpu('41:00.0', boards.A40))
        self.assertEqual(0, found['functions', A40, 'enabled'])
        self.assertEqual(32, found['functions', A40, 'possible'])
        self.assertEqual([], self.list_functions(found))

    def test_a_virtual_function_is_a_vgpu_or_can_be_one(self) -> None:
        card = hosts.gpu(
            '41:00.0', boards.A40, 'nvidia-558', vfs=32, vendor_vfio=True
        )
        taken, *others = hosts.make_gpu(card).vfs
        guest = values.Guest(
            uuid=SERVER,
            name='instance-1',
            running=True,
            functions=frozenset({taken.address}),
        )
        found = self.count(card, guests=(guest,))
        first, *rest = self.list_functions(found)
        address = str(taken.address)
        self.assertEqual(
            (A40, address, 'taken', 'A40-2Q', address, SERVER), first
        )
        self.assertEqual(
            [(A40, str(vf.address), 'free', '', '', '') for vf in others],
            rest,
        )
        self.assertEqual(32, found['functions', A40, 'enabled'])

    def test_vgpus_and_room_on_the_gpu_itself(self) -> None:
        card = hosts.gpu('84:00.0', boards.T4, 'nvidia-231')
        (vgpu,) = hosts.make_gpu(card).all_vgpus
        guest = values.Guest(
            uuid=SERVER,
            name='instance-1',
            running=True,
            mdevs=frozenset({vgpu.name}),
        )
        found = self.count(card, guests=(guest,))
        self.assertEqual(
            [
                (T4, T4, 'taken', 'T4-2Q', vgpu.name, SERVER),
                (T4, T4, 'free', '', '', ''),
            ],
            self.list_functions(found),
        )
        self.assertNotIn(('functions', T4, 'possible'), found)

    def test_a_gpu_without_room_says_so(self) -> None:
        card = hosts.gpu('84:00.0', boards.T4, *['nvidia-231'] * 8)
        states = [key[2] for key in self.list_functions(self.count(card))]
        self.assertEqual(['taken'] * 8 + ['full'], states)

    def test_servers_are_not_named_by_what_users_call_them(self) -> None:
        card = hosts.gpu('84:00.0', boards.T4, 'nvidia-231')
        (vgpu,) = hosts.make_gpu(card).all_vgpus
        guest = values.Guest(SERVER, 'secret', True, frozenset({vgpu.name}))
        found = self.count(card, guests=(guest,))
        self.assertFalse(any('secret' in text for k in found for text in k))


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


class TestComputeNode(testtools.TestCase):
    def list_nodes(self, collector: exporter.Collector) -> list[str]:
        return [
            sample.labels['compute_node']
            for family in collector.collect()
            for sample in family.samples
            if sample.name == 'nova_vgpu_agent_info'
        ]

    def test_it_is_known_also_while_the_host_cannot_be_read(self) -> None:
        """Otherwise no page could say on which host the agent fails."""
        collector = exporter.Collector('short')
        collector.show(None, agent.Tally())
        self.assertEqual(['short'], self.list_nodes(collector))
        read = values.DriftReport(
            values.Plan(), values.Host(), values.Usage(), node='long.example'
        )
        collector.show(read, agent.Tally())
        collector.show(None, agent.Tally())
        self.assertEqual(['long.example'], self.list_nodes(collector))


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
