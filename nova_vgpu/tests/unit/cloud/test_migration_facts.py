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

"""What the agents of hosts tell about live migrations."""

import json
import typing
from unittest import mock

import testtools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.cloud.hosts import migration_facts
from nova_vgpu.cloud.hosts import prometheus
from nova_vgpu.lifecycle import agent
from nova_vgpu.lifecycle import exporter
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import agent_samples
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans

T4 = agent_samples.T4
SERVER = agent_samples.SERVER
GIB = 1024**3


def make(*samples: prometheus.Sample) -> migration_facts.HostFacts:
    hosts_found = migration_facts.make_hosts(
        [*agent_samples.agent(), *samples]
    )
    return migration_facts.Answer(hosts_found).find('compute1')


def vgpu(name: str, value: float, of: str = 'a') -> prometheus.Sample:
    labels = {'gpu': T4, 'vgpu': of, 'server': SERVER}
    return agent_samples.sample(name, value, **labels)


class RoundTripTest(testtools.TestCase):
    """What an agent writes is what is read: names and labels are the same."""

    def tell(self, **fields: typing.Any) -> migration_facts.HostFacts:
        host = hosts.make_host(hosts.gpu('84:00.0', boards.T4))
        report = values.DriftReport(
            plans.make_plan(values.Declaration(()), host, ()),
            host,
            values.Usage(),
            **fields,
        )
        collector = exporter.Collector('compute1')
        collector.show(report, agent.Tally(last_round=agent_samples.NOW))
        return make(
            *(
                agent_samples.sample(
                    sample.name.removeprefix('nova_vgpu_'),
                    sample.value,
                    **sample.labels,
                )
                for family in collector.collect()
                for sample in family.samples
            )
        )

    def test_a_host_of_which_all_is_known(self) -> None:
        address = values.PciAddress.parse(T4)
        vgpu = values.VGPUMigration('a', SERVER, True, 12, 4 * GIB)
        on = values.GPUModes(ecc=values.GPUMode(True, False))
        settings = values.MigrationSettings(False, 500000, 3, 3, 1024)
        found = self.tell(
            modes=values.ModesRead(((address, on),), '550.144.02'),
            software=values.HostSoftware(
                '6.8.0-31', (10, 0, 0), (8, 2, 2), '1.2', False
            ),
            migration=(values.GPUMigration(address, True, (10, 14), (vgpu,)),),
            settings=settings,
        )
        self.assertEqual(
            values.HostSoftware(
                '6.8.0-31', (10, 0, 0), (8, 2, 2), '550.144.02', False
            ),
            found.software,
        )
        self.assertEqual(settings, found.settings)
        self.assertEqual(
            migration_facts.GPUFacts(
                values.Framework.MDEV, True, True, (10, 14)
            ),
            found.find_gpu(T4),
        )
        self.assertEqual(
            migration_facts.ServerFacts(1, True, (12,), 4 * GIB),
            found.find_vgpus(T4),
        )

    def test_a_host_of_which_nothing_is_known(self) -> None:
        found = self.tell()
        self.assertEqual(values.UNKNOWN_SOFTWARE, found.software)
        self.assertEqual(values.UNKNOWN_SETTINGS, found.settings)
        self.assertEqual(
            migration_facts.GPUFacts(values.Framework.MDEV),
            found.find_gpu(T4),
        )
        self.assertEqual(migration_facts.ServerFacts(), found.find_vgpus(T4))


class FactsTest(testtools.TestCase):
    def test_several_vgpus_of_a_gpu(self) -> None:
        sizes = [vgpu('vgpu_state_bytes', GIB, each) for each in 'ab']
        can = [vgpu('vgpu_can_migrate', 1, each) for each in 'ab']
        versions = [
            vgpu('vgpu_version', 12, 'a'),
            vgpu('vgpu_version', 11, 'b'),
        ]
        for description, samples, expected in (
            (
                'all is told of both',
                (*sizes, *can, *versions),
                (2, True, (11, 12), 2 * GIB),
            ),
            (
                'one cannot',
                (can[0], vgpu('vgpu_can_migrate', 0, 'b')),
                (2, False, (), None),
            ),
            (
                'of one, nothing but its size is told',
                (*sizes, can[0], versions[0]),
                (2, None, (), 2 * GIB),
            ),
            (
                'the size of one is not told',
                (*can, sizes[0]),
                (2, True, (), None),
            ),
        ):
            self.assertEqual(
                migration_facts.ServerFacts(*expected),
                make(*samples).find_vgpus(T4),
                description,
            )

    def test_what_was_told_long_ago_does_not_count(self) -> None:
        info = agent_samples.sample('host_info', kernel='6.1.0')
        for age, expected in ((300, '6.1.0'), (301, None)):
            samples = [*agent_samples.agent(age=age), info]
            answer = migration_facts.Answer(
                migration_facts.make_hosts(samples)
            )
            self.assertEqual(expected, answer.find('compute1').software.kernel)

    def test_of_two_with_one_name_the_newer_counts(self) -> None:
        found = migration_facts.make_hosts(
            [
                *agent_samples.agent(age=5),
                agent_samples.sample('host_info', kernel='new'),
                *(
                    prometheus.Sample(
                        each.name,
                        {**each.labels, 'instance': 'old'},
                        each.value,
                        each.at,
                    )
                    for each in (
                        *agent_samples.agent(age=50),
                        agent_samples.sample('host_info', kernel='old'),
                    )
                ),
            ]
        )
        self.assertEqual(['new'], [f.software.kernel for _, f in found])

    def test_an_agent_that_is_older_than_these_series(self) -> None:
        self.assertEqual(migration_facts.HostFacts(), make())

    def test_texts_that_are_not_versions(self) -> None:
        for text in ('', 'x', '8.2.x', '8..2', '8.2.2.2.2', '\u0668.2'):
            self.assertIsNone(migration_facts.parse_version(text), text)

    def test_a_server_is_only_a_string_in_the_query(self) -> None:
        query = migration_facts.write_query('a"} or {x="')
        _, _, rest = query.partition(',server=')
        text, end = json.JSONDecoder().raw_decode(rest)
        self.assertEqual(('a"} or {x="', '}'), (text, rest[end:]))

    def test_a_prometheus_that_fails(self) -> None:
        settings = prometheus.Settings('setting', 'https://p.example')
        error = exception.CloudError('no')
        with mock.patch.object(prometheus, 'ask', side_effect=error):
            answer = migration_facts.read(settings, SERVER)
        self.assertEqual('no', answer.failure)
        self.assertEqual(
            migration_facts.Answer(), migration_facts.read(None, SERVER)
        )
