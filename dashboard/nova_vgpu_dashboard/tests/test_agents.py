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

from django import test
from django.test import utils

from nova_vgpu import exception
from nova_vgpu.cloud.hosts import host_agents
from nova_vgpu.tests import agent_samples
from nova_vgpu_dashboard import agents
from nova_vgpu_dashboard import host_commands
from nova_vgpu_dashboard.tests import metrics


class TestQueries(test.SimpleTestCase):
    def test_one_request_for_one_host_or_all(self) -> None:
        with metrics.answer(agent_samples.host()) as queries:
            self.assertEqual(1, len(agents.read().agents))
            self.assertIsNotNone(agents.read('compute1').find('compute1'))
        self.assertEqual(2, len(queries))

    def test_prometheus_does_not_answer(self) -> None:
        with metrics.answer(exception.CloudError('It is down.')):
            answer = agents.read()
        self.assertEqual(('It is down.', ()), (answer.failure, answer.agents))

    def test_a_setting_that_is_wrong(self) -> None:
        with utils.override_settings(NOVA_VGPU_PROMETHEUS={'ca': 'x'}):
            answer = agents.read()
        self.assertTrue(answer.is_configured)
        self.assertIn('NOVA_VGPU_PROMETHEUS is wrong', answer.failure or '')

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
        used = host_agents.Function('g', 'f', 'taken', 't', 'v', 's')
        unused = dataclasses.replace(used, server='')
        free = host_agents.Function('g', 'f', 'free')
        for gpu, text, refusal in (
            (host_agents.GPU('g', 0, 32), 'enable', ''),
            (host_agents.GPU('g', 32, 32, (free,)), 'disable', ''),
            (
                host_agents.GPU('g', 32, 32, (unused,)),
                'disable',
                'It has vGPUs',
            ),
            (host_agents.GPU('g', 32, 32, (used,)), 'disable', 'Servers use'),
            (host_agents.GPU('g', 4, 32), 'disable', ''),
        ):
            command = host_commands.for_gpu(gpu)
            self.require(command, f'sriov {text} g', refusal)
        self.assertIsNone(host_commands.for_gpu(host_agents.GPU('g')))

    def test_functions(self) -> None:
        gpu = host_agents.GPU('g', available=(('A', 2),))
        many = host_agents.GPU('g', available=(('A', 2), ('B', 1)))
        none = host_agents.GPU('g')
        free = host_agents.Function('g', 'f', 'free')
        used = host_agents.Function('g', 'f', 'taken', 'A', 'v', 's')
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
        gpu = host_agents.GPU('g', available=(('A', 2), ('B', 1)))
        free = host_agents.Function('g', 'f', 'free')
        for served, text in (
            (('B',), 'B'),
            (('C',), 'TYPE'),
            (('A', 'B'), 'TYPE'),
        ):
            command = host_commands.for_function(gpu, free, served)
            self.require(command, f'device enable f --type {text}', '')

    def test_what_a_host_says_stays_one_word_of_the_command(self) -> None:
        found = host_agents.Function('g', '; reboot', 'free')
        command = host_commands.for_function(host_agents.GPU('g'), found)
        self.require(
            command,
            "device enable '; reboot' --type TYPE",
            'leave no room',
        )
