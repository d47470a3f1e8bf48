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

"""``openstack vgpu migration check``, in a real cloud."""

import contextlib
import functools
import json
import sqlite3
import typing

from nova_vgpu import exception
from nova_vgpu.cloud.hosts import migration_facts
from nova_vgpu.cloud.hosts import prometheus
from nova_vgpu.cloud.moves import migration_check
from nova_vgpu.migration import checks
from nova_vgpu.tests import agent_samples
from nova_vgpu.tests.cloud import base
from nova_vgpu.tests.cloud import scene
from nova_vgpu.tests.functional import test_openstack_guests

DESKTOP, _, TRAIN, _, RENDER, SIMULATE = scene.SERVERS
A40 = '0000:41:00.0'
DRIVER = '550.144.02'
#: What "gpu list" takes and the allocation; the server, and two pages of
#: compute nodes, the last of which is empty.
REQUESTS = (5 + 1, 3)
NOW, LONG_AGO = 'now', '2024-01-01'


def host(
    name: str,
    driver: str = DRIVER,
    ecc: str = 'on',
    framework: str = 'vendor VFIO',
    **options: float,
) -> list[prometheus.Sample]:
    """What the agent of a host with an A40 tells."""
    sample = functools.partial(agent_samples.sample, host=name)
    options = {
        'permit_post_copy': 0,
        'downtime': 500000,
        'downtime_steps': 3,
        'downtime_delay': 3,
        'bandwidth': 1024,
    } | options
    return [
        *agent_samples.agent(name),
        sample(
            'host_info',
            kernel='6.8.0-31-generic',
            libvirt='10.0.0',
            qemu='9.2.0',
            driver_version=driver,
            dma_logging='yes',
        ),
        sample(
            'gpu_info',
            gpu=A40,
            framework=framework,
            ecc=ecc,
            can_migrate='yes',
        ),
        sample('gpu_vgpu_version', 10, gpu=A40, bound='min'),
        sample('gpu_vgpu_version', 14, gpu=A40, bound='max'),
        *(
            sample('libvirt_option', value, option=f'live_migration_{option}')
            for option, value in options.items()
        ),
    ]


def vgpu(state_bytes: int = 6 * 1024**3) -> list[prometheus.Sample]:
    """What the agent of its host tells of the vGPU of the server."""
    labels = {'gpu': A40, 'vgpu': 'a', 'server': RENDER.uuid}
    return [
        agent_samples.sample(name, value, 'compute3', **labels)
        for name, value in (
            ('vgpu_can_migrate', 1),
            ('vgpu_version', 12),
            ('vgpu_state_bytes', state_bytes),
        )
    ]


class MigrationTest(base.CloudTest):
    def setUp(self) -> None:
        super().setUp()
        # No compute service runs, and Nova knows that.
        self.services_seen(NOW)
        self.addCleanup(self.services_seen, LONG_AGO)

    def services_seen(self, when: str, host: str = '%') -> None:
        """In Nova's database."""
        self.execute(
            'UPDATE services SET last_seen_up = datetime(?) WHERE host LIKE ?',
            *(when, host),
        )

    def execute(self, statement: str, *given: str) -> None:
        path = self.cloud.path / 'nova_cell1.sqlite'
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute(statement, given)
            database.commit()

    def check(
        self,
        server: scene.Server,
        *samples: prometheus.Sample,
        **arguments: typing.Any,
    ) -> migration_check.MigrationCheck:
        answer = migration_facts.Answer(migration_facts.make_hosts(samples))
        return migration_check.check(
            self.reader,
            server.uuid,
            ask_agents=lambda _server: answer,
            **arguments,
        )

    def codes_of(
        self,
        server: scene.Server,
        host: str,
        *samples: prometheus.Sample,
    ) -> list[str]:
        (found,) = self.check(server, *samples, host=host).destinations
        return [found.verdict.value, *(each.code for each in found.why)]

    def compare_page(
        self,
        name: str,
        *words: str,
        samples: list[prometheus.Sample],
        status: int = 0,
    ) -> None:
        with test_openstack_guests.answering(*samples) as (url, asked):
            self.compare(
                name,
                *('migration', 'check', *words),
                status=status,
                OS_NOVA_VGPU_PROMETHEUS=url,
            )
        self.assertEqual(1, len(asked), 'requests to Prometheus')

    def test_the_page_has_real_output(self) -> None:
        good = [*host('compute3'), *host('compute2'), *vgpu()]
        self.compare_page(
            'openstack-migration-check.txt', RENDER.name, samples=good
        )
        bad = [
            *host('compute3', downtime=500, permit_post_copy=1),
            *host('compute2', '570.133.10', ecc='off'),
            *vgpu(),
        ]
        self.compare_page(
            'openstack-migration-check-refused.txt',
            *(RENDER.name, '--host', 'compute2'),
            samples=bad,
            status=1,
        )
        self.compare_page(
            'openstack-migration-check-json.txt',
            *(RENDER.name, '--host', 'compute2', '-f', 'json'),
            samples=[
                *host('compute3', downtime=500),
                *host('compute2'),
                *vgpu(),
            ],
        )

    def test_without_agents_most_is_unknown(self) -> None:
        self.compare(
            'openstack-migration-check-unknown.txt',
            *('migration', 'check', RENDER.name, '--host', 'compute2'),
        )
        code, _stdout, _stderr = self.run_command(
            *('migration', 'check', RENDER.name, '--strict'),
        )
        self.assertEqual(1, code)

    def test_each_host_with_gpus_is_judged(self) -> None:
        found = self.check(
            RENDER, *host('compute3'), *host('compute2'), *vgpu()
        )
        self.assertEqual(
            [('compute2', 'yes'), ('compute1', 'no')],
            [(each.host, each.verdict.value) for each in found.destinations],
        )
        self.assertEqual(checks.Verdict.YES, found.verdict)
        self.assertEqual(6.0, found.expected and found.expected.seconds)

    def test_reasons_of_placement(self) -> None:
        self.assertIn('type-missing', self.codes_of(DESKTOP, 'compute2'))
        # The class of the L40S is on no other host.
        self.assertIn('type-missing', self.codes_of(TRAIN, 'compute1'))
        a40 = scene.GPUS[2]
        self.assertIn('unknown', self.codes_of(RENDER, 'compute2')[0])
        filler = scene.uuid_of('filler')
        self.placement.allocate(filler, a40.uuid, 'VGPU', a40.total)
        try:
            found = self.codes_of(RENDER, 'compute2')
        finally:
            self.placement.call('DELETE', f'/allocations/{filler}')
        self.assertEqual(['no', 'no-capacity'], found[:2])

    def test_states_of_hosts_and_of_the_server(self) -> None:
        self.services_seen(LONG_AGO, 'compute2')
        self.assertIn('host-down', self.codes_of(RENDER, 'compute2'))
        self.services_seen(LONG_AGO, 'compute3')
        self.assertIn('host-down', self.codes_of(RENDER, 'compute1'))
        self.services_seen(NOW)
        self.execute(
            "UPDATE instances SET vm_state = 'stopped' WHERE uuid = ?",
            RENDER.uuid,
        )
        try:
            found = self.codes_of(RENDER, 'compute2')
        finally:
            self.execute(
                "UPDATE instances SET vm_state = 'active' WHERE uuid = ?",
                RENDER.uuid,
            )
        self.assertEqual(['no', 'server-state'], found[:2])

    def test_post_copy_does_not_matter_for_a_paused_server(self) -> None:
        samples = (
            *host('compute3', permit_post_copy=1),
            *host('compute2'),
            *vgpu(),
        )
        found = self.codes_of(RENDER, 'compute2', *samples)
        self.assertEqual(['no', 'post-copy'], found[:2])
        self.execute(
            "UPDATE instances SET vm_state = 'paused' WHERE uuid = ?",
            RENDER.uuid,
        )
        try:
            found = self.codes_of(RENDER, 'compute2', *samples)
        finally:
            self.execute(
                "UPDATE instances SET vm_state = 'active' WHERE uuid = ?",
                RENDER.uuid,
            )
        self.assertEqual(['yes'], found)

    def test_a_disabled_host(self) -> None:
        root = scene.uuid_of('compute2')
        before = self.placement.call(
            'GET', f'/resource_providers/{root}/traits'
        )['traits']
        self.placement.set(
            root, 'traits', [*before, 'COMPUTE_STATUS_DISABLED']
        )
        try:
            found = self.codes_of(RENDER, 'compute2')
        finally:
            self.placement.set(root, 'traits', before)
        self.assertEqual(['no', 'host-disabled'], found[:2])

    def test_a_server_without_gpus_may_go_anywhere(self) -> None:
        path = f'/allocations/{DESKTOP.uuid}'
        before = self.placement.call('GET', path)
        self.placement.call('DELETE', path)
        try:
            code, stdout, stderr = self.run_command(
                'migration', 'check', DESKTOP.name, '-f', 'json'
            )
        finally:
            body = {**before, 'consumer_generation': None}
            self.placement.call('PUT', path, body)
        self.assertEqual((0, []), (code, json.loads(stdout)))
        self.assertIn('GPUs do not limit where it can go', stderr)

    def test_a_server_with_a_whole_gpu(self) -> None:
        found = self.codes_of(SIMULATE, 'compute1')
        self.assertEqual(['no', 'passthrough'], found[:2])

    def test_a_host_that_does_not_exist_or_has_the_server(self) -> None:
        for name, text in (
            ('nowhere', 'no GPU of host nowhere'),
            ('compute3', 'is on compute3 already'),
        ):
            error = self.assertRaises(
                exception.NotInCloud, self.check, RENDER, host=name
            )
            self.assertIn(text, str(error))

    def test_an_ordinary_user_is_told_what_role_is_required(self) -> None:
        self.refuse_ordinary_user('migration', 'check', DESKTOP.name)

    def test_a_bandwidth_that_is_not_a_number(self) -> None:
        for text in ('fast', '0', '-1', '1.5'):
            code, stdout, stderr = self.run_command(
                *('migration', 'check', RENDER.name, f'--bandwidth={text}')
            )
            self.assertEqual((2, ''), (code, stdout))
            self.assertIn('MiB per second', stderr)

    def test_the_json_has_all_reasons(self) -> None:
        _code, stdout, _stderr = self.run_command(
            *('migration', 'check', DESKTOP.name, '-f', 'json')
        )
        found = json.loads(stdout)
        self.assertEqual(
            ['Host', 'Possible', 'Downtime', 'State Bytes', 'Reasons'],
            [*found[0]],
        )
        effects = [each['effect'] for each in found[0]['Reasons']]
        self.assertEqual({'prevents', 'unknown'}, {*effects})
        self.assertEqual(sorted(effects), effects)

    def test_requests_do_not_grow_with_servers_or_vgpus(self) -> None:
        self.compare_requests(
            functools.partial(migration_check.check, wanted=RENDER.uuid),
            REQUESTS,
        )

    def test_what_fails_in_the_middle_is_named(self) -> None:
        self.fail_in_the_middle(
            functools.partial(migration_check.check, wanted=RENDER.name),
            REQUESTS,
        )

    def test_a_prometheus_that_fails_hides_nothing_else(self) -> None:
        code, stdout, stderr = self.run_command(
            *('migration', 'check', RENDER.name, '--host', 'compute2'),
            OS_NOVA_VGPU_PROMETHEUS='http://127.0.0.1:1',
        )
        self.assertEqual(0, code)
        self.assertIn('unknown', stdout)
        self.assertIn('options of hosts are unknown. Prometheus', stderr)
