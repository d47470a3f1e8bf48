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

"""What the agents of hosts know, on the pages."""

import re

from django import http
from django.template import loader

from nova_vgpu import exception
from nova_vgpu.cloud.hosts import host_agents
from nova_vgpu.cloud.hosts import prometheus
from nova_vgpu.tests import agent_samples
from nova_vgpu_dashboard import gpu_section
from nova_vgpu_dashboard.tests import base
from nova_vgpu_dashboard.tests import clouds
from nova_vgpu_dashboard.tests import metrics
from nova_vgpu_dashboard.tests import test_hostile_names

GPU = clouds.gpu('compute1')
Samples = list[prometheus.Sample]


class TestVirtualFunctions(base.AdminPages):
    def setUp(self) -> None:
        super().setUp()
        self.cloud.gpus = (GPU,)
        self.samples: Samples | Exception = agent_samples.host()

    def show(self, query: str = '') -> base.Parser:
        with metrics.answer(self.samples) as queries:
            page = self.read(base.FUNCTIONS, query)
        self.assertEqual(1, len(queries))
        return page

    def list_rows(self, query: str = '') -> list[str]:
        rows = self.show(query).find('tr')
        ids = [row.get('data-object-id') or '' for row in rows]
        return [re.sub('^compute1/', '', found) for found in ids if found]

    def test_every_function_has_a_row(self) -> None:
        page = self.show()
        for text in (
            'compute1 0000:41:00.0 32 of 32 enabled SR-IOV enabled',
            'nova-vgpu sriov disable 0000:41:00.0 Refused: Servers use its '
            'functions: 1.',
            f'0000:41:00.4 In use A40-8Q 0000:41:00.4 {agent_samples.SERVER}',
            f'0000:41:00.5 vGPU, not in use A40-8Q {agent_samples.MDEV}',
            f'nova-vgpu device disable {agent_samples.MDEV}',
            '0000:41:00.6 Free - - - A40-8Q nova-vgpu device enable '
            '0000:41:00.6 --type A40-8Q',
            '1 to 4 of 4',
        ):
            self.assertIn(text, page.text)
        self.assertIn(f'/admin/gpus/{GPU.uuid}/', page.links())
        self.assertIn(
            f'/admin/instances/{agent_samples.SERVER}/detail', page.links()
        )

    def test_filters(self) -> None:
        for query, count in (
            ('host=E1', 4),
            ('host=e2', 0),
            ('gpu=0000%3A41%3A00.0', 4),
            ('gpu=0000%3A42%3A00.0', 0),
            ('type=A40-8Q', 3),
            ('type=A40-48Q', 0),
            ('use=server', 1),
            ('use=vgpu', 1),
            ('use=free', 1),
            ('use=sriov-on', 1),
            ('use=sriov-off', 0),
        ):
            self.assertEqual(count, len(self.list_rows(query)), query)

    def test_the_gpu_comes_before_its_functions(self) -> None:
        self.assertEqual(
            [
                '0000:41:00.0/sriov-on/',
                '0000:41:00.4/server/0000:41:00.4',
                f'0000:41:00.5/vgpu/{agent_samples.MDEV}',
                '0000:41:00.6/free/',
            ],
            self.list_rows(),
        )

    def test_a_gpu_without_virtual_functions_can_have_them(self) -> None:
        self.samples = [*agent_samples.agent(), *agent_samples.vfs(0)]
        page = self.show()
        self.assertIn('0 of 32 enabled SR-IOV disabled', page.text)
        self.assertIn('nova-vgpu sriov enable 0000:41:00.0', page.text)

    def test_many_available_types_are_folded(self) -> None:
        few = self.show()
        self.assertEqual([], few.find('details'))
        self.samples = [
            *agent_samples.host(),
            *(
                agent_samples.sample(
                    'type_available',
                    2,
                    gpu=agent_samples.A40,
                    type=f'A40-{size}Q',
                )
                for size in (1, 2, 4)
            ),
        ]
        page = self.show()
        self.assertEqual(1, len(page.find('details')))
        self.assertIn('4 types A40-1Q, A40-2Q, A40-4Q, A40-8Q', page.text)
        # The type that the GPU serves.
        self.assertIn('0000:41:00.6 --type A40-8Q', page.text)

    def test_a_gpu_that_placement_does_not_know_has_no_link(self) -> None:
        self.cloud.gpus = ()
        page = self.show()
        self.assertIn('0000:41:00.6 Free', page.text)
        self.assertNotIn(f'/admin/gpus/{GPU.uuid}/', page.links())

    def test_placement_does_not_answer(self) -> None:
        self.cloud.failure = exception.PlacementError('It is down.')
        page = self.show()
        self.assertIn('GPUs have no links: It is down.', page.text)
        self.assertIn('0000:41:00.6 Free', page.text)

    def test_without_prometheus_it_says_what_is_unknown(self) -> None:
        page = self.read(base.FUNCTIONS)
        self.assertIn('does not know virtual functions', page.text)
        self.assertIn('NOVA_VGPU_PROMETHEUS', page.text)
        self.assertEqual([], page.find('table', id='virtual_functions'))

    def test_prometheus_does_not_answer(self) -> None:
        self.samples = exception.CloudError('Prometheus is down.')
        self.assertIn('Prometheus is down.', self.show().text)

    def test_no_agent_is_scraped(self) -> None:
        self.samples = []
        page = self.show()
        self.assertIn('No agent tells of a function', page.text)

    def test_agents_that_are_stale_failing_or_silent(self) -> None:
        self.cloud.gpus = (GPU, clouds.gpu('compute7'))
        self.samples = [
            *agent_samples.host(),
            *agent_samples.agent('compute2', age=900),
            *agent_samples.agent('compute3', success=0),
        ]
        text = self.show().text
        self.assertIn('(age in minutes): compute2 (15)', text)
        self.assertIn('says why: compute3', text)
        self.assertIn('hosts with GPUs: compute7', text)

    def test_requests_do_not_grow(self) -> None:
        self.samples = [
            *agent_samples.host(),
            *(agent_samples.function(f'0000:42:00.{n}') for n in range(1000)),
        ]
        self.assertIn('of 1004', self.show().text)


class TestSectionOfAGPU(base.AdminPages):
    def show(self, samples: Samples | Exception) -> base.Parser:
        with metrics.answer(samples) as queries:
            parser = render()
        self.assertEqual([host_agents.write_query('compute1')], queries)
        return parser

    def test_all_that_the_agent_knows(self) -> None:
        page = self.show(
            [
                *agent_samples.host(),
                agent_samples.sample(
                    'problem_info',
                    severity='error',
                    code='mig-on',
                    subject=agent_samples.A40,
                    finding='It is in MIG mode.',
                    cure='Turn it off.',
                ),
                agent_samples.sample(
                    'drift_info', gpu=agent_samples.A40, step='set VF x'
                ),
                agent_samples.sample(
                    'refused_info',
                    gpu=agent_samples.A40,
                    finding='VF y is in use.',
                    cure='Move it.',
                ),
            ]
        )
        for text in (
            'Virtual functions 32 of 32 enabled',
            'Available types A40-8Q (4)',
            'error mig-on It is in MIG mode. Turn it off.',
            'nova-vgpu apply set VF x',
            'VF y is in use. Move it.',
            f'0000:41:00.4 In use A40-8Q 0000:41:00.4 {agent_samples.SERVER}',
            'nova-vgpu device enable 0000:41:00.6 --type A40-8Q',
        ):
            self.assertIn(text, page.text)
        self.assertIn(
            f'/admin/instances/{agent_samples.SERVER}/detail', page.links()
        )
        self.assertNotIn('A40-48Q', page.text)

    def test_it_is_on_the_page_of_the_gpu(self) -> None:
        self.cloud.gpus = (GPU,)
        with metrics.answer(agent_samples.host()) as queries:
            page = self.read(base.GPU, args=[GPU.uuid])
        self.assertEqual([host_agents.write_query('compute1')], queries)
        self.assertIn('Virtual functions 32 of 32 enabled', page.text)

    def test_a_host_in_order(self) -> None:
        page = self.show(agent_samples.host())
        self.assertIn('The agent found no problem.', page.text)
        self.assertNotIn('nova-vgpu apply', page.text)

    def test_old_data(self) -> None:
        page = self.show(
            agent_samples.agent(age=900) + agent_samples.host()[3:]
        )
        self.assertIn('This is 15 minutes old', page.text)

    def test_what_is_missing_is_said(self) -> None:
        for samples, text in (
            ([], 'has no data of the agent on compute1'),
            (agent_samples.agent(success=0), 'cannot read its host'),
            (agent_samples.agent(), 'The host has no GPU 0000:41:00.0 now.'),
            (exception.CloudError('It is down.'), 'It is down.'),
        ):
            self.assertIn(text, self.show(samples).text)

    def test_without_prometheus(self) -> None:
        page = render()
        self.assertIn('NOVA_VGPU_PROMETHEUS', page.text)
        self.assertIn('"nova-vgpu gpu show 0000:41:00.0"', page.text)


class TestHostileLabels(base.AdminPages):
    """A host can say anything in its metrics."""

    def test_every_label(self) -> None:
        attack = test_hostile_names.ATTACK
        self.cloud.gpus = (GPU,)
        problem = agent_samples.sample(
            'problem_info',
            subject=agent_samples.A40,
            severity='error',
            code='c',
            finding='f',
            cure='c',
        )
        samples = [
            *agent_samples.host(),
            problem,
            agent_samples.sample(
                'drift_info', gpu=agent_samples.A40, step='s'
            ),
            agent_samples.sample(
                'refused_info', gpu=agent_samples.A40, finding='f', cure='c'
            ),
        ]
        tried = set()
        for place, found in enumerate(samples):
            for label in set(found.labels) - {'job', 'instance'}:
                tried.add((found.name, label))
                hostile = prometheus.Sample(
                    found.name,
                    {**found.labels, label: attack},
                    found.value,
                    found.at,
                )
                given = [*samples[:place], hostile, *samples[place + 1 :]]
                with metrics.answer(given):
                    self.require_harmless(render())
                    response = self.open(base.FUNCTIONS)
                self.require_harmless(base.parse(response))
                self.assertNotIn('{$attack', response.content.decode())
        self.assertEqual(21, len(tried))

    def test_errors_and_hosts(self) -> None:
        attack = test_hostile_names.ATTACK
        self.cloud.gpus = (clouds.gpu(attack),)
        for samples in (
            agent_samples.agent(attack, age=9999, success=0),
            agent_samples.host(),
            exception.CloudError(attack),
        ):
            with metrics.answer(samples):
                page = self.read(base.FUNCTIONS)
            self.assertIn('attack onclick', page.text)
            self.require_harmless(page)

    def test_query_strings(self) -> None:
        for name in ('host', 'gpu', 'type', 'use', 'sort', 'page'):
            with metrics.answer(agent_samples.host()):
                query = f'{name}={test_hostile_names.QUOTED}'
                self.require_harmless(self.read(base.FUNCTIONS, query))

    def require_harmless(self, page: base.Parser) -> None:
        self.assertNotIn('attack', [tag for tag, _ in page.elements])
        for tag, attributes in page.elements:
            self.assertNotIn('onclick', attributes, tag)


def render() -> base.Parser:
    """The section, in the place where a page has it."""
    section = loader.render_to_string(
        'nova_vgpu_dashboard/agents/_gpu.html',
        {'gpu': GPU, **gpu_section.describe(GPU)},
    )
    page = f'<div id="content_body">{section}</div>'
    return base.parse(http.HttpResponse(page))
