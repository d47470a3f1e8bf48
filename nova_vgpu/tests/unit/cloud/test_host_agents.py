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
from unittest import mock

import testtools

from nova_vgpu import values
from nova_vgpu.cloud.hosts import host_agents
from nova_vgpu.cloud.hosts import prometheus
from nova_vgpu.lifecycle import agent
from nova_vgpu.lifecycle import exporter
from nova_vgpu.tests import agent_samples
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans


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

    def test_a_clock_that_is_ahead_of_that_of_prometheus(self) -> None:
        self.assertEqual(0, self.make(*agent_samples.agent(age=-7)).age)

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


class TestGuests(testtools.TestCase):
    def list_guests(
        self, *samples: prometheus.Sample
    ) -> dict[str, tuple[host_agents.Guest, ...]]:
        agents = host_agents.make_agents(samples)
        return host_agents.Answer(agents=agents).list_guests()

    def test_guests_are_found_by_their_server(self) -> None:
        server, mdev = agent_samples.SERVER, agent_samples.MDEV
        found = self.list_guests(
            *agent_samples.agent(),
            *agent_samples.agent('compute2'),
            agent_samples.guest(),
            agent_samples.guest(vgpu='second', driver_version='none'),
            agent_samples.guest('other', host='compute2'),
        )
        self.assertEqual({server, 'other'}, {*found})
        first = host_agents.Guest(
            *(agent_samples.T4, mdev, server, '550.144.03', 'licensed')
        )
        self.assertIn(first, found[server])
        self.assertEqual(
            {'550.144.03', 'none'}, {guest.driver for guest in found[server]}
        )

    def test_what_an_agent_told_long_ago_does_not_count(self) -> None:
        old = agent_samples.agent(age=301)
        self.assertEqual({}, self.list_guests(*old, agent_samples.guest()))

    def test_the_metrics_of_the_agent_are_read(self) -> None:
        """The names of series and labels are the same on both sides."""
        driver = values.GuestDriver(
            values.PciAddress.parse(agent_samples.T4),
            agent_samples.SERVER,
            agent_samples.MDEV,
            True,
            '550.144.03',
            values.GuestLicence.RESTRICTED,
        )
        host = hosts.make_host()
        report = values.DriftReport(
            plans.make_plan(values.Declaration(()), host, ()),
            host,
            values.Usage(),
            guest_drivers=(driver,),
        )
        collector = exporter.Collector('compute1')
        collector.show(report, agent.Tally())
        samples = [
            agent_samples.sample(
                sample.name.removeprefix('nova_vgpu_'),
                sample.value,
                **sample.labels,
            )
            for family in collector.collect()
            for sample in family.samples
        ]
        (guest,) = self.list_guests(*samples)[agent_samples.SERVER]
        self.assertEqual(
            ('550.144.03', 'unlicensed-restricted'),
            (guest.driver, guest.licence),
        )

    def test_only_series_of_guests_are_asked_for(self) -> None:
        asked: list[str] = []

        def ask(
            _settings: prometheus.Settings, query: str
        ) -> tuple[prometheus.Sample, ...]:
            asked.append(query)
            return (*agent_samples.agent(), agent_samples.guest())

        settings = prometheus.Settings('setting', 'https://p.example')
        with mock.patch.object(prometheus, 'ask', ask):
            answer = host_agents.read_guests(settings)
        self.assertEqual([agent_samples.SERVER], [*answer.list_guests()])
        (query,) = asked
        self.assertIn('guest_info', query)
        self.assertNotIn('function_info', query)

    def test_without_a_setting_nothing_is_asked(self) -> None:
        answer = host_agents.read_guests(None)
        self.assertFalse(answer.is_configured)
        self.assertEqual({}, answer.list_guests())


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
