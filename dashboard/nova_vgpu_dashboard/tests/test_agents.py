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

"""From series of Prometheus to hosts, GPUs and functions."""

import dataclasses
import json

from django import test

from nova_vgpu import exception
from nova_vgpu_dashboard import agents
from nova_vgpu_dashboard import host_commands
from nova_vgpu_dashboard import prometheus
from nova_vgpu_dashboard.tests import metrics


class TestAgents(test.SimpleTestCase):
    def make(self, *samples: prometheus.Sample) -> agents.Agent:
        (agent,) = agents.make_agents(samples)
        return agent

    def test_a_host(self) -> None:
        agent = self.make(*metrics.host())
        self.assertEqual(('compute1', 20), (agent.host, agent.age))
        self.assertFalse(agent.is_stale or agent.is_failing)
        (gpu,) = agent.gpus
        self.assertEqual((32, 32), (gpu.enabled, gpu.possible))
        self.assertEqual(('A40-8Q',), gpu.available_types)
        self.assertEqual(
            [metrics.SERVER, '', ''], [f.server for f in gpu.functions]
        )

    def test_hosts_are_told_apart_by_what_prometheus_scrapes(self) -> None:
        found = agents.make_agents(
            [
                *metrics.agent('b'),
                *metrics.agent('a'),
                metrics.sample('drift_info', host='a', gpu='x', step='s'),
                metrics.sample('type_available', 1, 'a', gpu='x', type='t'),
            ]
        )
        self.assertEqual(['a', 'b'], [agent.host for agent in found])
        self.assertEqual([1, 0], [len(agent.gpus) for agent in found])
        self.assertEqual(('s',), found[0].gpus[0].steps)

    def test_an_agent_without_a_name_is_left_out(self) -> None:
        """It is older than these pages."""
        self.assertEqual((), agents.make_agents(metrics.host()[1:]))

    def test_of_two_with_one_name_the_newer_counts(self) -> None:
        new, old = metrics.agent(age=5), metrics.agent(age=500)
        moved = [
            dataclasses.replace(s, labels={**s.labels, 'instance': 'old:1'})
            for s in old
        ]
        self.assertEqual(5, self.make(*new, *moved).age)
        self.assertEqual(5, self.make(*moved, *new).age)

    def test_old_data_is_stale(self) -> None:
        self.assertFalse(self.make(*metrics.agent(age=300)).is_stale)
        agent = self.make(*metrics.agent(age=301))
        self.assertTrue(agent.is_stale)
        self.assertEqual(5, agent.minutes)

    def test_an_agent_that_never_read_its_host(self) -> None:
        info, _round, success = metrics.agent(success=0)
        agent = self.make(info, success)
        self.assertIsNone(agent.age)
        self.assertTrue(agent.is_failing)

    def test_problems_of_a_gpu_and_of_the_host(self) -> None:
        agent = self.make(
            *metrics.host(),
            metrics.sample(
                'problem_info',
                severity='warning',
                code='w',
                subject=metrics.A40,
                finding='It is hot.',
                cure='Cool it.',
            ),
            metrics.sample(
                'problem_info',
                severity='error',
                code='e',
                subject=metrics.A40,
            ),
            metrics.sample('problem_info', code='o', subject='[devices]x'),
        )
        (gpu,) = agent.gpus
        self.assertEqual(['e', 'w'], [found.code for found in gpu.problems])
        self.assertEqual('Cool it.', gpu.problems[1].cure)
        self.assertEqual(['o'], [found.code for found in agent.problems])

    def test_labels_that_are_missing_are_unknown(self) -> None:
        names = ('function_info', 'functions', 'type_available')
        agent = self.make(
            *metrics.agent(),
            *(metrics.sample(name) for name in names),
            metrics.sample('problem_info'),
            metrics.sample('drift_info'),
            metrics.sample('refused_info'),
        )
        self.assertEqual('', agent.gpus[0].address)


class TestQueries(test.SimpleTestCase):
    def test_a_host_is_only_a_string_in_it(self) -> None:
        for host in (
            'compute1',
            'a"} or {x="',
            'a\\',
            'a\nb',
            '\u00e9\U0001f600',
        ):
            query = agents.write_query(host)
            start = query.index('compute_node=') + len('compute_node=')
            text, end = json.JSONDecoder().raw_decode(query[start:])
            self.assertEqual(host, text)
            self.assertEqual('}', query[start + end :])

    def test_one_request_for_one_host_or_all(self) -> None:
        with metrics.answer(metrics.host()) as queries:
            self.assertEqual(1, len(agents.read().agents))
            self.assertIsNotNone(agents.read('compute1').find('compute1'))
        self.assertEqual(2, len(queries))

    def test_prometheus_does_not_answer(self) -> None:
        with metrics.answer(exception.CloudError('It is down.')):
            answer = agents.read()
        self.assertEqual(('It is down.', ()), (answer.failure, answer.agents))

    def test_without_prometheus(self) -> None:
        self.assertFalse(agents.read().is_configured)


class TestCommands(test.SimpleTestCase):
    """What is refused on the host is refused here, for the same reasons."""

    def require(
        self, command: host_commands.Command | None, text: str, refusal: str
    ) -> None:
        assert command is not None
        self.assertEqual(f'nova-vgpu {text}', command.text)
        self.assertIn(refusal, str(command.refusal))
        self.assertEqual(bool(refusal), bool(command.refusal))

    def test_sriov(self) -> None:
        used = agents.Function('g', 'f', 'taken', 't', 'v', 's')
        unused = dataclasses.replace(used, server='')
        free = agents.Function('g', 'f', 'free')
        for gpu, text, refusal in (
            (agents.GPU('g', 0, 32), 'enable', ''),
            (agents.GPU('g', 32, 32, (free,)), 'disable', ''),
            (agents.GPU('g', 32, 32, (unused,)), 'disable', 'It has vGPUs'),
            (agents.GPU('g', 32, 32, (used,)), 'disable', 'Servers use'),
            (agents.GPU('g', 4, 32), 'disable', ''),
        ):
            command = host_commands.for_gpu(gpu)
            self.require(command, f'sriov {text} g', refusal)
        self.assertIsNone(host_commands.for_gpu(agents.GPU('g')))

    def test_functions(self) -> None:
        gpu = agents.GPU('g', available=(('A', 2),))
        many = agents.GPU('g', available=(('A', 2), ('B', 1)))
        none = agents.GPU('g')
        free = agents.Function('g', 'f', 'free')
        used = agents.Function('g', 'f', 'taken', 'A', 'v', 's')
        enable = 'device enable f --type'
        for of_gpu, found, text, refusal in (
            (gpu, free, f'{enable} A', ''),
            (many, free, f'{enable} TYPE', ''),
            (none, free, f'{enable} TYPE', 'leave no room'),
            (
                gpu,
                dataclasses.replace(free, state='full'),
                f'{enable} A',
                'leave no room',
            ),
            (
                gpu,
                dataclasses.replace(free, state='no types'),
                f'{enable} A',
                'shows no vGPU types',
            ),
            (
                gpu,
                dataclasses.replace(free, server='s'),
                f'{enable} A',
                'Server s has it',
            ),
            (gpu, used, 'device disable v', 'Server s has it. Delete'),
            (
                gpu,
                dataclasses.replace(used, server=''),
                'device disable v',
                '',
            ),
        ):
            command = host_commands.for_function(of_gpu, found)
            self.require(command, text, refusal)

    def test_the_type_that_the_gpu_serves_is_meant(self) -> None:
        gpu = agents.GPU('g', available=(('A', 2), ('B', 1)))
        free = agents.Function('g', 'f', 'free')
        for served, text in (
            (('B',), 'B'),
            (('C',), 'TYPE'),
            (('A', 'B'), 'TYPE'),
        ):
            command = host_commands.for_function(gpu, free, served)
            self.require(command, f'device enable f --type {text}', '')

    def test_what_a_host_says_stays_one_word_of_the_command(self) -> None:
        found = agents.Function('g', '; reboot', 'free')
        command = host_commands.for_function(agents.GPU('g'), found)
        self.require(
            command,
            "device enable '; reboot' --type TYPE",
            'leave no room',
        )
