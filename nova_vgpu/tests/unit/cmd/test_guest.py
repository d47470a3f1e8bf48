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

"""``nova-vgpu guest facts`` as an operator runs it."""

from importlib import metadata
import json
import pathlib
import subprocess
import sys

import fixtures

from nova_vgpu.guest import facts
from nova_vgpu.sandbox import guests
from nova_vgpu.tests.unit.cmd import test_commands


class GuestTestCase(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.root = self.directory / 'guest'
        for fact in facts.OVERRIDABLE:
            self.useFixture(
                fixtures.EnvironmentVariable(facts.name_variable(fact))
            )

    def show(self, name: str, *arguments: str) -> test_commands.Answer:
        guests.write_machine(guests.MACHINES[name], self.root)
        return self.again(*arguments)

    def again(self, *arguments: str) -> test_commands.Answer:
        return self.run_bare(
            'guest', 'facts', '--root', str(self.root), *arguments
        )

    @property
    def nvidia_smi(self) -> tuple[str, str]:
        return '--nvidia-smi', str(self.root / 'usr/bin/nvidia-smi')


class TestFacts(GuestTestCase):
    def test_the_table(self) -> None:
        answer = self.show('t4-vgpu', *self.nvidia_smi, '--max-width', '80')
        self.assertEqual((0, ''), (answer.code, answer.stderr))
        for words in (
            '| has_gpu               | yes ',
            '| drivers_needed        | vgpu-guest ',
            '0000:06:00.0 GRID T4-2Q',
            'host driver: 550.144.02, branch r550_00',
            'licensed (NVIDIA RTX Virtual Workstation',
            'installed: yes, loaded: yes, version 550.144.03',
        ):
            self.assertIn(words, answer.stdout)
        for line in answer.stdout.splitlines():
            self.assertLessEqual(len(line), 80)
        self.assertNotIn('detected', answer.stdout)

    def test_a_guest_that_needs_no_driver(self) -> None:
        answer = self.show('no-gpu')
        self.assertIn('| drivers_needed        | - ', answer.stdout)
        self.assertEqual([], self.again('-f', 'json').json['drivers_needed'])

    def test_json_is_what_the_file_prints(self) -> None:
        for name in guests.MACHINES:
            self.root = self.directory / name
            answer = self.show(name, '-f', 'json')
            self.assertEqual(0, answer.code, name)
            alone = subprocess.run(
                [
                    *(sys.executable, '-I', '-S', facts.__file__),
                    *('--root', str(self.root)),
                ],
                capture_output=True,
                check=True,
            )
            self.assertEqual(json.loads(alone.stdout), answer.json, name)

    def test_every_format(self) -> None:
        for form in ('table', 'json', 'yaml', 'shell', 'value'):
            self.root = self.directory / form
            answer = self.show('two-vendors', '-f', form)
            self.assertEqual(0, answer.code, form)
            for word in ('0000:06:00.0', '0000:08:00.0', 'vgpu-guest'):
                self.assertIn(word, answer.stdout, form)

    def test_a_field_can_be_chosen(self) -> None:
        answer = self.show('amd-vf', '-f', 'value', '-c', 'drivers_needed')
        self.assertEqual("['amd']\n", answer.stdout)
        answer = self.again('-c', 'detected', '-c', 'has_gpu')
        self.assertIn('detected', answer.stdout)

    def test_warnings_go_to_standard_error(self) -> None:
        answer = self.show('t4-vgpu-as-a-user')
        self.assertEqual(0, answer.code)
        self.assertIn(
            'warning: 0000:06:00.0 is of unknown kind', answer.stderr
        )
        self.assertIn('Run it as root', answer.stderr)
        self.assertIn('| is_virtual_gpu        | unknown ', answer.stdout)
        (problem,) = self.again('-f', 'json').json['problems']
        self.assertIn('unknown kind', problem)

    def test_names_are_printable(self) -> None:
        guests.write_machine(guests.MACHINES['a100-passthrough'], self.root)
        path = self.root / 'proc/driver/nvidia/gpus/0000:07:00.0/information'
        path.parent.mkdir(parents=True)
        path.write_text('Model: \x1b[2JA100\n')
        for form in ('table', 'json', 'value'):
            answer = self.again('-f', form)
            self.assertIn('[2JA100', answer.stdout)
            self.assertNotIn('\x1b', answer.stdout)
            self.assertNotIn('u001b', answer.stdout)

    def test_ids_that_cannot_be_read(self) -> None:
        gpu = self.root / 'sys/bus/pci/devices/0000:06:00.0'
        gpu.mkdir(parents=True)
        for name, text in (
            *(('vendor', '0x10de'), ('device', '0x1eb8')),
            ('class', '0x030200'),
        ):
            (gpu / name).write_text(text)
        answer = self.again()
        self.assertIn('subsystem unknown', answer.stdout)
        self.assertNotIn('None', answer.stdout)

    def test_nothing_there(self) -> None:
        self.root = self.directory / 'none'
        answer = self.again('-f', 'json')
        self.assertEqual(0, answer.code)
        self.assertIsNone(answer.json['has_gpu'])
        self.assertIn(str(self.root), answer.stderr)


class TestOverrides(GuestTestCase):
    def test_they_are_shown(self) -> None:
        answer = self.show('t4-vgpu', '--is-virtual-gpu', 'no')
        self.assertIn('| no (override; detected: yes) ', answer.stdout)
        self.assertIn('is_virtual_gpu (--is-virtual-gpu)', answer.stdout)
        self.assertIn('| datacenter ', answer.stdout)

    def test_in_json(self) -> None:
        found = self.show('no-gpu', '-f', 'json', '--is-gpu-cluster=yes').json
        self.assertEqual(
            {'is_gpu_cluster': {'value': True, 'source': '--is-gpu-cluster'}},
            found['overrides'],
        )
        self.assertIs(True, found['is_gpu_cluster'])

    def test_the_environment(self) -> None:
        variable = facts.name_variable(facts.IS_GPU_CLUSTER)
        self.useFixture(fixtures.EnvironmentVariable(variable, 'yes'))
        answer = self.show('no-gpu')
        self.assertIn(
            '| is_gpu_cluster        | yes (override) ', answer.stdout
        )
        self.assertIn(f'is_gpu_cluster ({variable})', answer.stdout)

    def test_help_names_every_one(self) -> None:
        answer = self.run_bare('guest', 'facts', '--help')
        for fact in facts.OVERRIDABLE:
            self.assertIn(f'--{fact.replace("_", "-")}', answer.stdout)
            self.assertIn(facts.name_variable(fact), answer.stdout)
        self.assertIn('/'.join(facts.OVERRIDES_FILE), answer.stdout)


class TestMistakes(GuestTestCase):
    def test_sources_that_are_for_hosts(self) -> None:
        for option, value in (
            ('--sysfs-root', str(self.sysfs)),
            ('--libvirt', 'test:///default'),
        ):
            answer = self.run_bare(option, value, 'guest', 'facts')
            self.assertEqual((2, ''), (answer.code, answer.stdout))
            self.assertIn('give --root instead', answer.stderr)

    def test_through_the_program_itself(self) -> None:
        """As it is installed."""
        (entry,) = metadata.entry_points(
            group='nova_vgpu.cli', name='guest_facts'
        )
        self.assertEqual('nova_vgpu.cmd.guest:ShowFacts', entry.value)
        guests.write_machine(guests.MACHINES['amd-vf'], self.root)
        for arguments, code, word in (
            (('-f', 'json'), 0, '"amd"'),
            (('--is-virtual-gpu', 'perhaps'), 2, 'is not yes or no'),
            (('-c', 'gpu'), 2, "No such column: 'gpu'"),
            (('GPU0',), 2, 'unrecognized arguments'),
        ):
            done = subprocess.run(
                [
                    *(sys.executable, '-m', 'nova_vgpu', 'guest', 'facts'),
                    *('--root', str(self.root), *arguments),
                ],
                cwd=pathlib.Path(facts.__file__).parents[2],
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(code, done.returncode, word)
            self.assertIn(word, done.stdout + done.stderr)
            self.assertNotIn('Traceback', done.stderr)
