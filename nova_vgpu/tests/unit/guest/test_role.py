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

"""The Ansible role, from its variables and facts to its files.

Ansible does not run here: it does so in lab/cloud_init.
"""

import builtins
import dataclasses
import importlib.util
import json
import pathlib
import re
import tempfile
import types
import typing
from unittest import mock

import fixtures
import testtools

from nova_vgpu.conf import guest
from nova_vgpu.guest import cloud_config
from nova_vgpu.guest import facts
from nova_vgpu.guest import merging
from nova_vgpu.guest import role
from nova_vgpu.guest import setup
from nova_vgpu.sandbox import guests
from nova_vgpu.tests.unit import test_guards
from nova_vgpu.tests.unit.guest import test_cloud_config
from nova_vgpu.tests.unit.guest import test_setup

ROLE = test_guards.ROOT / 'ansible/roles/gpu_guest'
PACKAGE = {'driver_source': 'site-driver'}


def load_plugin() -> types.ModuleType:
    """The file of the role, as Ansible loads it: by its path."""
    spec = importlib.util.spec_from_file_location(
        'gpu_guest_filters', ROLE / 'filter_plugins/gpu_guest.py'
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load(name: str) -> typing.Any:
    return test_cloud_config.load((ROLE / name).read_text())


class RoleTestCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        if not ROLE.is_dir():
            self.skipTest('the role is not part of a wheel')
        self.directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.token = self.directory / 'token.tok'
        self.token.write_bytes(test_setup.TOKEN)
        self.plan = load_plugin().FilterModule().filters()['gpu_guest_plan']

    def find(self, machine: str, **overrides: bool) -> typing.Any:
        """The local fact, as Ansible reads it."""
        root = pathlib.Path(tempfile.mkdtemp(dir=self.directory))
        guests.write_machine(guests.MACHINES[machine], root)
        found = facts.collect(facts.Tree(str(root)), arguments=overrides)
        return json.loads(json.dumps(facts.make_plain(found)))

    def set_up(
        self,
        options: dict[str, typing.Any],
        found: typing.Any,
        *overrides: typing.Any,
    ) -> dict[str, typing.Any]:
        plan: dict[str, typing.Any] = self.plan(
            options, found, 'Debian', *overrides
        )
        return plan

    def read_files(self, plan: dict[str, typing.Any]) -> dict[str, str]:
        self.assertEqual([], plan['problems'])
        return {file['path']: file['content'] for file in plan['files']}


class TestPlan(RoleTestCase):
    def test_a_vgpu_gets_the_files_of_the_user_data(self) -> None:
        plan = self.set_up(
            {**PACKAGE, 'licence_token_file': str(self.token)},
            self.find('t4-vgpu-without-driver'),
        )
        request = setup.Request(
            driver='vgpu-guest',
            driver_source='site-driver',
            host_driver='550.144.02',
            licence_token=test_setup.TOKEN,
        )
        self.assertEqual(
            [
                {
                    'path': file.path,
                    'mode': f'{file.mode:04o}',
                    'content': file.content.decode(),
                    'is_secret': file.is_secret,
                }
                for file in cloud_config.list_files(setup.decide(request))
            ],
            plan['files'],
        )
        self.assertEqual(
            [
                *('/etc/apt/preferences.d', '/etc/modprobe.d'),
                *('/etc/nova-vgpu-guest', '/etc/nvidia'),
                *('/etc/nvidia/ClientConfigToken', '/usr/local/sbin'),
            ],
            plan['directories'],
        )

    def test_variables_count_before_facts(self) -> None:
        plan = self.set_up(
            {
                **PACKAGE,
                'host_driver': '535.230.02',
                'licence_token_file': str(self.token),
            },
            self.find('t4-vgpu-without-driver'),
        )
        pin = self.read_files(plan)['/etc/apt/preferences.d/nova-vgpu-guest']
        self.assertIn('535.*', pin)

    def test_variables_as_an_inventory_has_them(self) -> None:
        """Numbers, text in place of lists and truth values, and nothing."""
        plan = self.set_up(
            {
                'driver_source': 'site-driver',
                'driver_version': 510.54,
                'host_driver': '510.108.03',
                'licence_servers': 'a.example, b.example',
                'licence_token_file': '',
                'container_runtime': 'docker',
                'cdi': 'yes',
                'repository': None,
            },
            self.find('t4-vgpu-without-driver'),
        )
        files = self.read_files(plan)
        self.assertIn(
            'BackupServerAddress=b.example', files['/etc/nvidia/gridd.conf']
        )
        decided = json.loads(files[setup.PLAN])
        self.assertIs(True, decided['cdi'])
        self.assertEqual('510.54*', decided['packages'][-1]['version'])

    def test_guests_that_need_nothing(self) -> None:
        for machine, overrides, has_gpu in (
            ('no-gpu', (), False),
            ('intel-vf', (), True),
            ('amd-vf', (), True),
            ('t4-vgpu', (False,), False),
            ('t4-vgpu', ('no',), False),
        ):
            plan = self.set_up(PACKAGE, self.find(machine), *overrides)
            self.assertEqual(
                (has_gpu, False, [], []),
                (
                    *(plan['has_gpu'], plan['is_wanted']),
                    *(plan['problems'], plan['files']),
                ),
                machine,
            )

    def test_a_gpu_for_other_guests_is_left_alone(self) -> None:
        machine = guests.MACHINES['a100-passthrough']
        bound = dataclasses.replace(machine.devices[-1], driver='vfio-pci')
        root = pathlib.Path(tempfile.mkdtemp(dir=self.directory))
        guests.write_machine(
            dataclasses.replace(machine, devices=(bound,)), root
        )
        found = facts.make_plain(facts.collect(facts.Tree(str(root))))
        plan = self.set_up(PACKAGE, found)
        self.assertEqual(
            (True, False, []),
            (plan['has_gpu'], plan['is_wanted'], plan['problems']),
        )

    def test_overrides_of_facts(self) -> None:
        found = self.find(
            'a100-passthrough', is_virtual_gpu=True, is_gpu_cluster=True
        )
        plan = self.set_up(PACKAGE, found)
        said = ' '.join(plan['problems'])
        for name in ('host_driver', 'licence_token_file', 'device_plugin'):
            self.assertIn(f'Give gpu_guest_{name}', said)

    def test_a_gpu_that_is_not_seen(self) -> None:
        """An image is made where there is none."""
        for is_virtual, problems in (
            (True, []),
            ('no', []),
            (None, ['Which driver is not known. Give gpu_guest_driver.']),
        ):
            plan = self.set_up(
                {
                    'driver_source': 'site-driver',
                    'host_driver': '510.108.03',
                    'licence_servers': ['licences.example.org'],
                },
                self.find('no-gpu'),
                *('yes', is_virtual),
            )
            self.assertEqual(problems, plan['problems'], str(is_virtual))


class TestProblems(RoleTestCase):
    def test_what_the_guest_does_not_tell(self) -> None:
        for found, word in (
            (None, 'gpu.fact failed'),
            ('error loading facts as JSON', 'gpu.fact failed'),
            ({**self.find('no-gpu'), 'has_gpu': None}, 'is unknown'),
        ):
            plan = self.set_up(PACKAGE, found)
            (problem,) = plan['problems']
            self.assertIn(word, problem)
            self.assertIsNone(plan['has_gpu'])

    def test_a_driver_that_is_unknown_is_named_once(self) -> None:
        plan = self.set_up(PACKAGE, self.find('t4-vgpu-as-a-user'))
        (problem,) = plan['problems']
        self.assertIn('or set is_virtual_gpu', problem)

    def test_a_host_is_not_set_up(self) -> None:
        plan = self.set_up({'driver': 'none'}, self.find('vgpu-host'))
        self.assertIn('a host of vGPUs', plan['problems'][0])
        self.assertEqual([], plan['files'])

    def test_another_system_than_debian(self) -> None:
        found = self.find('a100-passthrough')
        plan = self.plan(PACKAGE, found, 'RedHat')
        (problem,) = plan['problems']
        self.assertIn('a RedHat, not a Debian', problem)

    def test_files_that_cannot_be_read(self) -> None:
        plan = self.set_up(
            {**PACKAGE, 'licence_token_file': str(self.directory / 'gone')},
            self.find('t4-vgpu-without-driver'),
        )
        (problem,) = plan['problems']
        self.assertIn('gpu_guest_licence_token_file: ', problem)
        self.assertIn('no such file', problem)

    def test_no_message_names_an_option_of_the_command(self) -> None:
        """All that set-up can say, with the names of the variables."""
        pattern = re.compile(r'--[a-z][a-z0-9-]+')
        folder = test_guards.PACKAGE / 'guest'
        texts = [
            (folder / f'{name}.py').read_text()
            for name in (
                *('setup', 'licences', 'driver_versions', 'device_plugin'),
            )
        ]
        options = set(pattern.findall('\n'.join(texts)))
        self.assertIn('--driver-sha256', options)
        for option in options - {'--armor', '--export', '--facts'}:
            named = role.name_variables(option)
            self.assertIn(
                named.removeprefix(role.PREFIX),
                (*role.OPTIONS, 'is_gpu_cluster'),
            )
        self.assertEqual(
            'gpg --armor --export.',
            role.name_variables('gpg --armor --export.'),
        )

    def test_messages_do_not_ask_for_facts(self) -> None:
        for request in (setup.Request(), setup.Request(driver='vgpu-guest')):
            problems = setup.find_problems(request)
            self.assertIn('--facts', ' '.join(problems))
            for problem in problems:
                named = role.name_variables(problem)
                self.assertNotIn('--', named)
                self.assertTrue(named.endswith('.'), named)


class TestFiles(RoleTestCase):
    """The files of the role, beside what they are about."""

    def test_the_variables_are_the_options_of_guest(self) -> None:
        options = {option.name for option in guest.guest_options()}
        self.assertEqual(options - {'gpu_cluster'}, set(role.OPTIONS))
        expected = {f'{role.PREFIX}{name}' for name in role.OPTIONS}
        self.assertEqual(expected, set(load('defaults/main.yml')))
        overrides = {'has_gpu', 'is_virtual_gpu', 'is_gpu_cluster'}
        specs = load('meta/argument_specs.yml')['argument_specs']['main']
        self.assertEqual(expected | overrides, set(specs['options']))
        self.assertEqual(
            {name: f'{{{{ {role.PREFIX}{name} }}}}' for name in role.OPTIONS},
            load('vars/main.yml')['gpu_guest_options'],
        )
        text = (ROLE / 'README.md').read_text()
        for name in expected | overrides:
            self.assertIn(f'`{name}`', text)

    def test_nothing_is_kept_for_the_role_by_default(self) -> None:
        self.assertEqual({None}, set(load('defaults/main.yml').values()))

    def test_options_of_a_request_can_all_be_said(self) -> None:
        named = {name for names in merging.TOGETHER for name in names}
        fields = set(setup.Request.__dataclass_fields__)
        self.assertEqual(
            {'licence_token'}, fields - named, 'has licence_token_file'
        )

    def test_the_program_is_that_of_the_tasks(self) -> None:
        tasks = load('tasks/set_up.yml')
        (command,) = (
            task['ansible.builtin.command']
            for task in tasks
            if 'ansible.builtin.command' in task
        )
        self.assertEqual(cloud_config.PROGRAM, command)

    def test_what_is_secret_is_not_logged(self) -> None:
        for task in load('tasks/set_up.yml'):
            of_secrets = "selectattr('is_secret')" in task.get(
                'loop', ''
            ) and ('rejectattr' not in task['loop'])
            self.assertIs(of_secrets, task.get('no_log', False), task['name'])

    def test_without_nova_vgpu_it_says_so(self) -> None:
        importing = builtins.__import__

        def fail(name: str, *rest: typing.Any) -> typing.Any:
            if name.startswith('nova_vgpu'):
                raise ModuleNotFoundError("No module named 'nova_vgpu'")
            return importing(name, *rest)

        with mock.patch('builtins.__import__', fail):
            filters = load_plugin().FilterModule().filters()
        for name, arguments in (
            ('gpu_guest_fact_program', ()),
            ('gpu_guest_plan', ({}, {}, 'Debian')),
        ):
            error = self.assertRaises(RuntimeError, filters[name], *arguments)
            self.assertIn('nova-vgpu is not installed', str(error))

    def test_the_fact_is_the_program_of_the_package(self) -> None:
        filters = load_plugin().FilterModule().filters()
        self.assertEqual(facts.__file__, filters['gpu_guest_fact_program']())
