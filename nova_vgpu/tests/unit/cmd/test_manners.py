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

"""Exit codes, streams, help and mistakes: how the program behaves."""

import logging
import pathlib
import re
import subprocess
import sys
import types
import typing
from unittest import mock

import fixtures

import nova_vgpu
from nova_vgpu.tests.unit.cmd import test_commands

GOOD = test_commands.CONFIGURATION
WARNING = GOOD + '[vgpu_T4-4Q]\n'
ERROR = GOOD.replace('41:00.0', '41:00.0, c1:00.0')
FATAL = GOOD.replace('41:00.0', '41:00.0, 99:00.0')


class WithoutLibvirt(fixtures.Fixture):
    """An installation that lacks the binding of libvirt."""

    def _setUp(self) -> None:
        from nova_vgpu import host

        modules: dict[str, types.ModuleType | None] = {
            **sys.modules,
            'libvirt': None,
        }
        modules.pop('nova_vgpu.host.libvirt_nodes', None)
        patch = mock.patch.dict(
            'sys.modules', typing.cast(typing.Any, modules), clear=True
        )
        patch.start()
        self.addCleanup(patch.stop)
        if hasattr(host, 'libvirt_nodes'):
            self.useFixture(
                fixtures.MonkeyPatch(
                    'nova_vgpu.host.libvirt_nodes', fixtures.MonkeyPatch.delete
                )
            )


class TestExitCodes(test_commands.CommandTestCase):
    def test_check(self) -> None:
        for case, text, strict, expected in (
            ('clean', GOOD, False, 0),
            ('clean', GOOD, True, 0),
            ('a warning', WARNING, False, 0),
            ('a warning', WARNING, True, 1),
            ('an error', ERROR, False, 2),
            ('an error', ERROR, True, 2),
            ('a mistake', FATAL, False, 2),
            ('a mistake', FATAL, True, 2),
        ):
            self.config.write_text(text)
            answer = self.run_on_host('check', *(['--strict'] * strict))
            self.assertEqual(expected, answer.code, f'{case} {strict}')

    def test_check_lists_problems_as_data(self) -> None:
        self.config.write_text(FATAL)
        answer = self.run_on_host('check', '-f', 'json')
        (problem,) = answer.json
        self.assertNotIn('99:00.0', answer.stderr)
        self.assertEqual('fatal', problem['Severity'])
        self.assertEqual('not-on-host', problem['Code'])
        self.assertEqual('[vgpu_A40-8Q]device_addresses', problem['Subject'])
        self.assertIn('99:00.0', problem['Problem'])
        self.assertIn('The GPUs of this host', problem['Cure'])

    def test_plan_fails_if_the_service_would_not_start(self) -> None:
        for text, expected in (
            (GOOD, 0),
            (WARNING, 0),
            (ERROR, 0),
            (FATAL, 2),
        ):
            self.config.write_text(text)
            answer = self.run_on_host('plan', '--node', 'x')
            self.assertEqual(expected, answer.code)
            self.assertIn('0000:41:00.0', answer.stdout)

    def test_the_exception_that_stops_nova_compute_is_named(self) -> None:
        line = 'InvalidLibvirtGPUConfig: nova-compute does not start'
        state = ('--state-dir', str(self.directory / 'state'))
        for text, is_named in ((ERROR, False), (FATAL, True)):
            self.config.write_text(text)
            for command in (
                ('check',),
                ('check', '-f', 'json'),
                ('plan', '--node', 'x'),
                ('provider', 'diff', '--node', 'x'),
            ):
                answer = self.run_on_host(*state, *command)
                self.assertEqual(is_named, line in answer.stderr, str(command))
                self.assertNotIn(line, answer.stdout)

    def test_without_a_configuration(self) -> None:
        answer = self.run_on_host('check', '-f', 'json', config=False)
        self.assertEqual(2, answer.code)
        (problem,) = answer.json
        self.assertEqual(
            ('error', 'no-configuration'),
            (problem['Severity'], problem['Code']),
        )
        for word in ('--config-file', 'config generate'):
            self.assertIn(word, problem['Cure'])

    def test_with_a_configuration_that_is_empty(self) -> None:
        self.config.write_text('')
        answer = self.run_on_host('check', '-f', 'json')
        self.assertEqual(0, answer.code)
        (problem,) = answer.json
        self.assertEqual('nothing-enabled', problem['Code'])
        self.assertIn(str(self.config), problem['Problem'])

    def test_a_fault_is_told_and_the_rest_shown(self) -> None:
        device = self.sysfs / 'bus/pci/devices/0000:84:00.0/vendor'
        device.write_text('mess')
        answer = self.run_on_host('gpu', 'list', '-f', 'value')
        self.assertEqual(0, answer.code)
        self.assertIn('0000:85:00.0', answer.stdout)
        self.assertIn('warning: pci_0000_84_00_0', answer.stderr)
        answer = self.run_on_host('check', '-f', 'json')
        self.assertEqual(2, answer.code)
        self.assertEqual(
            ['unreadable', 'listed-but-unreadable'],
            [problem['Code'] for problem in answer.json],
        )


class TestMistakes(test_commands.CommandTestCase):
    def assertRefused(self, answer: test_commands.Answer, *words: str) -> None:
        self.assertEqual((2, ''), (answer.code, answer.stdout))
        for word in words:
            self.assertIn(word, answer.stderr)

    def test_a_gpu_that_is_not_there(self) -> None:
        for command in (
            ('gpu', 'show', '99:00.0'),
            ('type', 'list', '--gpu', '99:00.0'),
            ('device', 'list', '--gpu', '99:00.0'),
            ('plan', '--node', 'x', '--gpu', '99:00.0'),
        ):
            answer = self.run_on_host(*command)
            self.assertRefused(answer, '99:00.0', '0000:84:00.0')

    def test_files_that_cannot_be_read(self) -> None:
        no_text = self.directory / 'no-text.conf'
        no_text.write_bytes(b'\xff\xfe[devices]\n')
        no_ini = self.directory / 'no-ini.conf'
        no_ini.write_text('[devices\n')
        for option, path in (
            ('--config-file', self.directory / 'none.conf'),
            ('--config-file', self.directory),
            ('--config-file', no_text),
            ('--config-file', no_ini),
            ('--config-dir', self.directory / 'none.d'),
            ('--sysfs-root', self.directory / 'none'),
        ):
            for command in (('check',), ('plan', '--node', 'x')):
                answer = self.run_on_host(option, str(path), *command)
                self.assertRefused(answer, str(path))

    def test_commands_and_options_that_are_none(self) -> None:
        for arguments, word in (
            (('frobnicate',), 'frobnicate'),
            (('gpu', 'lst'), 'gpu list'),
            (('gpu', 'show'), 'GPU'),
            (('gpu', 'list', '--frobnicate'), '--frobnicate'),
            (('gpu', 'list', '-f', 'xml'), 'xml'),
            (('--sysfs-root',), '--sysfs-root'),
        ):
            self.assertRefused(self.run_bare(*arguments), word)

    def test_an_option_before_the_command_that_is_none(self) -> None:
        root = str(self.sysfs)
        for arguments, word in (
            (('--sysfs-rot', root, 'plan'), 'Did you mean --sysfs-root?'),
            (('--sysfs-rot=' + root, 'plan'), 'Did you mean --sysfs-root?'),
            (('--config-fiel', 'x', 'check'), 'Did you mean --config-file?'),
            (('--sysfs-rot', root), 'Did you mean --sysfs-root?'),
            (('-f', 'json', 'gpu', 'list'), 'go after the command'),
            (('--strict', 'check'), 'go after the command'),
        ):
            answer = self.run_bare(*arguments)
            name = arguments[0].partition('=')[0]
            self.assertRefused(answer, f'{name} is not an option', word)
            self.assertNotIn('is not a command', answer.stderr)

    def test_a_column_that_is_not_there(self) -> None:
        for command, column in (
            (('check',), 'Severity'),
            (('gpu', 'list'), 'Framework'),
            (('gpu', 'show', '84:00.0'), 'framework'),
            (('plan', '--node', 'x'), 'Bound by'),
        ):
            for more in ((), ('-c', column)):
                for format_ in ('table', 'json'):
                    answer = self.run_on_host(
                        *(*command, '-c', 'NOSUCH', *more, '-f', format_)
                    )
                    self.assertRefused(answer, "'NOSUCH'", column)

    def test_columns_in_other_spellings_are_the_same(self) -> None:
        for column in ('Bound by', 'bound by', 'BOUND_BY'):
            answer = self.run_on_host('plan', '--node', 'x', '-c', column)
            self.assertEqual(0, answer.code, column)
            self.assertIn('Bound by', answer.stdout)

    def test_libvirt_that_does_not_answer(self) -> None:
        answer = self.run_bare(
            '--libvirt', 'nonsense:///system', 'gpu', 'list'
        )
        self.assertRefused(answer, 'nonsense:///system')

    def test_libvirt_that_is_not_installed(self) -> None:
        self.useFixture(WithoutLibvirt())
        answer = self.run_bare('--libvirt', 'qemu:///system', 'gpu', 'list')
        self.assertRefused(answer, 'python3-libvirt', 'nova-vgpu[libvirt]')

    def test_everything_else_works_without_libvirt(self) -> None:
        self.useFixture(WithoutLibvirt())
        for command in test_commands.COMMANDS:
            self.assertEqual(0, self.run_on_host(*command).code, str(command))


class TestHelp(test_commands.CommandTestCase):
    def test_every_command_has_help(self) -> None:
        for command in (
            *test_commands.COMMANDS,
            ('provider', 'show'),
            ('provider', 'diff'),
            ('provider', 'sync'),
            ('provider', 'hand-back'),
            ('config', 'generate'),
            ('doctor',),
            ('topology',),
            ('guest', 'facts'),
            ('guest', 'cloud-init'),
            ('apply',),
            ('restore',),
            ('sriov', 'enable'),
            ('sriov', 'disable'),
            ('device', 'enable'),
            ('device', 'disable'),
            ('demo',),
            ('agent',),
        ):
            words = command[:2]
            if command[0] in ('check', 'plan'):
                words = command[:1]
            for arguments in ((*words, '--help'), ('help', *words)):
                answer = self.run_bare(*arguments)
                self.assertEqual(0, answer.code, str(arguments))
                self.assertIn(
                    f'usage: nova-vgpu {" ".join(words)}', answer.stdout
                )
                self.assertEqual('', answer.stderr, str(arguments))

    def test_the_program_has_help(self) -> None:
        for arguments in ((), ('--help',), ('-h',), ('help',)):
            answer = self.run_bare(*arguments)
            self.assertEqual(0, answer.code, str(arguments))
            for word in ('gpu list', 'check', 'plan', '--config-file'):
                self.assertIn(word, answer.stdout, str(arguments))

    def test_the_commands_of_the_day_are_in_the_short_list(self) -> None:
        answer = self.run_bare('--help')
        listed = re.findall(
            r'^  nova-vgpu (\S+(?: \S+)?)  +\S', answer.stdout, re.MULTILINE
        )
        self.assertEqual(
            [
                *('gpu list', 'type list', 'topology', 'config generate'),
                *(
                    'check',
                    'plan',
                    'doctor',
                    'apply',
                    'restore',
                    'sriov, device',
                ),
                'agent',
                *('provider diff', 'provider sync', 'provider hand-back'),
                'guest facts',
                'guest cloud-init',
                'demo',
            ],
            listed,
        )

    def test_the_list_fits_a_terminal(self) -> None:
        lines = self.run_bare('--help').stdout.splitlines()
        self.assertEqual([], [line for line in lines if len(line) > 80])

    def test_it_says_its_version(self) -> None:
        answer = self.run_bare('--version')
        self.assertEqual(0, answer.code)
        self.assertIn('nova-vgpu ', answer.stdout)


class TestOptions(test_commands.CommandTestCase):
    def test_options_before_and_after_the_command(self) -> None:
        options = (
            '--sysfs-root',
            str(self.sysfs),
            '--config-file',
            str(self.config),
        )
        for command in test_commands.COMMANDS:
            before = self.run_bare(*options, *command)
            after = self.run_bare(*command, *options)
            self.assertEqual(before, after, str(command))
            self.assertEqual(0, after.code, str(command))

    def test_files_are_read_in_order_and_directories_after_them(self) -> None:
        second = self.directory / 'second.conf'
        second.write_text('[vgpu_T4-2Q]\nmax_instances = 3\n')
        snippets = self.directory / 'nova.conf.d'
        snippets.mkdir()
        last = snippets / 'last.conf'

        def total(*options: str) -> int:
            row = self.rows(
                'plan', '--node', 'x', '--gpu', '84:00.0', *options
            )
            return int(row[0]['Total'])

        more = ('--config-file', str(second))
        self.assertEqual(8, total())
        self.assertEqual(3, total(*more))
        last.write_text('[vgpu_T4-2Q]\nmax_instances = 2\n')
        self.assertEqual(2, total(*more, '--config-dir', str(snippets)))

    def find_by_default(self) -> tuple[pathlib.Path, pathlib.Path]:
        """A file and a snippet where nova-compute looks for them."""
        etc = self.directory / 'etc'
        snippets = etc / 'nova.conf.d'
        snippets.mkdir(parents=True)
        main, snippet = etc / 'nova.conf', snippets / 'vgpu.conf'
        main.write_text('[vgpu_T4-2Q]\nmax_instances = 3\n')
        snippet.write_text('[vgpu_T4-2Q]\nmax_instances = 2\n')
        for finder, path in (
            ('find_config_files', main),
            ('find_config_dirs', snippets),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'oslo_config.cfg.{finder}',
                    lambda *_a, path=path, **_k: [str(path)],
                )
            )
        return main, snippet

    def test_files_that_were_not_named_are_said(self) -> None:
        main, snippet = self.find_by_default()
        config, empty = self.config, self.directory / 'empty.d'
        empty.mkdir()
        for named, expected in (
            ((), (main, snippet)),
            # As nova-compute: what is named is read last, and counts.
            (('--config-file', config), (snippet, config)),
            (('--config-dir', empty), (main,)),
            (('--config-file', config, '--config-dir', empty), ()),
        ):
            options = (*map(str, named), 'check')
            answer = self.run_on_host(*options, config=False)
            line = f'Configuration: {", ".join(map(str, expected))}'
            found = [
                said
                for said in answer.stderr.splitlines()
                if said.startswith('Configuration')
            ]
            self.assertEqual([line] * bool(expected), found)

    def test_a_directory_that_is_read_beside_a_file_is_said(self) -> None:
        main, snippet = self.find_by_default()
        self.config.write_text(GOOD + '[vgpu_T4-2Q]\nmax_instances = 4\n')
        for command in (
            ('plan', '--node', 'x'),
            ('doctor',),
            ('provider', 'diff', '--node', 'x'),
        ):
            answer = self.run_on_host(*command)
            self.assertIn(f'Configuration: {snippet}, ', answer.stderr)
            self.assertNotIn(f'{main},', answer.stderr)
        row = self.run_on_host(
            'plan', '--node', 'x', '--gpu', '84:00.0', '-f', 'json'
        )
        self.assertEqual(4, row.json[0]['Total'])

    def test_a_process_that_logs_a_lot_makes_no_difference(self) -> None:
        self.useFixture(fixtures.FakeLogger(level=logging.DEBUG))
        answer = self.run_on_host('gpu', 'list')
        self.assertEqual('', answer.stderr)

    def test_debug_logs_to_standard_error(self) -> None:
        # In a process of its own: it sets up the log of the process.
        package = pathlib.Path(nova_vgpu.__path__[0]).parent
        done = subprocess.run(
            [
                *(sys.executable, '-m', 'nova_vgpu', '--debug'),
                *('--sysfs-root', str(self.sysfs), 'gpu', 'list'),
                *('-f', 'value', '-c', 'GPU'),
            ],
            cwd=package,
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertEqual('0000:41:00.0', done.stdout.splitlines()[0])
        self.assertEqual(5, len(done.stdout.splitlines()))
        self.assertIn('5 GPUs', done.stderr)
