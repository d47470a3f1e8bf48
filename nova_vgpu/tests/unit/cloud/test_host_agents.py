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


"""What the agents of the hosts tell through Prometheus."""

import dataclasses
import json

import testtools

from nova_vgpu.cloud.hosts import host_agents
from nova_vgpu.cloud.hosts import prometheus
from nova_vgpu.tests import agent_samples


class TestAgents(testtools.TestCase):
    def make(self, *samples: prometheus.Sample) -> host_agents.Agent:
        (agent,) = host_agents.make_agents(samples)
        return agent

    def test_a_host(self) -> None:
        agent = self.make(*agent_samples.host())
        self.assertEqual(('compute1', 20), (agent.host, agent.age))
        self.assertFalse(agent.is_stale or agent.is_failing)
        (gpu,) = agent.gpus
        self.assertEqual((32, 32), (gpu.enabled, gpu.possible))
        self.assertEqual(('A40-8Q',), gpu.available_types)
        self.assertEqual(
            [agent_samples.SERVER, '', ''], [f.server for f in gpu.functions]
        )

    def test_hosts_are_told_apart_by_what_prometheus_scrapes(self) -> None:
        found = host_agents.make_agents(
            [
                *agent_samples.agent('b'),
                *agent_samples.agent('a'),
                agent_samples.sample(
                    'drift_info', host='a', gpu='x', step='s'
                ),
                agent_samples.sample(
                    'type_available', 1, 'a', gpu='x', type='t'
                ),
            ]
        )
        self.assertEqual(['a', 'b'], [agent.host for agent in found])
        self.assertEqual([1, 0], [len(agent.gpus) for agent in found])
        self.assertEqual(('s',), found[0].gpus[0].steps)

    def test_an_agent_without_a_name_is_left_out(self) -> None:
        """It is older than these pages."""
        self.assertEqual((), host_agents.make_agents(agent_samples.host()[1:]))

    def test_of_two_with_one_name_the_newer_counts(self) -> None:
        new, old = agent_samples.agent(age=5), agent_samples.agent(age=500)
        moved = [
            dataclasses.replace(s, labels={**s.labels, 'instance': 'old:1'})
            for s in old
        ]
        self.assertEqual(5, self.make(*new, *moved).age)
        self.assertEqual(5, self.make(*moved, *new).age)

    def test_old_data_is_stale(self) -> None:
        self.assertFalse(self.make(*agent_samples.agent(age=300)).is_stale)
        agent = self.make(*agent_samples.agent(age=301))
        self.assertTrue(agent.is_stale)
        self.assertEqual(5, agent.minutes)

    def test_an_agent_that_never_read_its_host(self) -> None:
        info, _round, success = agent_samples.agent(success=0)
        agent = self.make(info, success)
        self.assertIsNone(agent.age)
        self.assertTrue(agent.is_failing)

    def test_problems_of_a_gpu_and_of_the_host(self) -> None:
        agent = self.make(
            *agent_samples.host(),
            agent_samples.sample(
                'problem_info',
                severity='warning',
                code='w',
                subject=agent_samples.A40,
                finding='It is hot.',
                cure='Cool it.',
            ),
            agent_samples.sample(
                'problem_info',
                severity='error',
                code='e',
                subject=agent_samples.A40,
            ),
            agent_samples.sample(
                'problem_info', code='o', subject='[devices]x'
            ),
        )
        (gpu,) = agent.gpus
        self.assertEqual(['e', 'w'], [found.code for found in gpu.problems])
        self.assertEqual('Cool it.', gpu.problems[1].cure)
        self.assertEqual(['o'], [found.code for found in agent.problems])

    def test_labels_that_are_missing_are_unknown(self) -> None:
        names = ('function_info', 'functions', 'type_available')
        agent = self.make(
            *agent_samples.agent(),
            *(agent_samples.sample(name) for name in names),
            agent_samples.sample('problem_info'),
            agent_samples.sample('drift_info'),
            agent_samples.sample('refused_info'),
        )
        self.assertEqual('', agent.gpus[0].address)


class TestQueries(testtools.TestCase):
    def test_a_host_is_only_a_string_in_it(self) -> None:
        for host in (
            'compute1',
            'a"} or {x="',
            'a\\',
            'a\nb',
            '\u00e9\U0001f600',
        ):
            query = host_agents.write_query(host)
            start = query.index('compute_node=') + len('compute_node=')
            text, end = json.JSONDecoder().raw_decode(query[start:])
            self.assertEqual(host, text)
            self.assertEqual('}', query[start + end :])
