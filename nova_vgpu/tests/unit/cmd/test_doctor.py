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

"""``nova-vgpu doctor`` as an operator runs it, on a machine made of files."""

import json
import pathlib
import shutil
import sys
import types
import typing

import fixtures

from nova_vgpu import exception
from nova_vgpu.host import state
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import tree
from nova_vgpu.tests import hosts
from nova_vgpu.tests.unit.cmd import test_commands
from nova_vgpu.tests.unit.host import test_environment
from nova_vgpu.tests.unit.host import test_gpu_modes

BY_NAME = '[devices]\nenabled_vgpu_types = T4-2Q\n'
BY_ID = '[devices]\nenabled_vgpu_types = nvidia-231\n'
POST_COPY = '[libvirt]\nlive_migration_permit_post_copy = true\n'


class DoctorTestCase(test_commands.CommandTestCase):
    """This very machine, as far as the command can tell."""

    def setUp(self) -> None:
        super().setUp()
        self.root = self.directory / 'machine'
        self.state = self.directory / 'state'
        self.memory = self.state / 'types.json'
        for path, text in test_environment.SOUND.items():
            file = self.root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.write_gpus(hosts.gpu('84:00.0', boards.T4))
        for name, value in (
            ('nova_vgpu.host.environment.DEFAULT_ROOT', str(self.root)),
            ('nova_vgpu.host.sysfs.DEFAULT_ROOT', str(self.root / 'sys')),
            (
                'nova_vgpu.host.vgpu_config_xml.DEFAULT_PATH',
                str(self.root / 'usr/share/vgpuConfig.xml'),
            ),
        ):
            self.useFixture(fixtures.MonkeyPatch(name, value))
        self.library = test_gpu_modes.FakeNVML(nvmlDeviceGetEccMode=[0, 0])
        self.library.answers['nvmlDeviceGetVgpuHeterogeneousMode'] = 0
        self.set_library(self.library)
        self.config.write_text(BY_NAME)

    def write_gpus(self, *cards: simulation.GPU) -> None:
        """Put GPUs in the place of those that were there."""
        for path in ('bus', 'devices', 'class/mdev_bus', 'kernel'):
            shutil.rmtree(self.root / 'sys' / path, ignore_errors=True)
        tree.write_tree(simulation.SimulatedHost(cards), self.root / 'sys')

    def set_library(self, library: types.ModuleType | None) -> None:
        """The binding of NVML that is installed; None is no binding."""
        modules = typing.cast(dict[str, typing.Any], sys.modules)
        if 'pynvml' in modules:
            self.addCleanup(modules.update, pynvml=modules['pynvml'])
        else:
            self.addCleanup(modules.pop, 'pynvml')
        modules['pynvml'] = library

    def examine(self, *arguments: str) -> test_commands.Answer:
        return self.run_bare(
            *('--config-file', str(self.config)),
            *('--state-dir', str(self.state)),
            'doctor',
            *arguments,
        )

    def findings(self, *arguments: str) -> dict[str, dict[str, typing.Any]]:
        """What is found, by the code."""
        answer = self.examine('-f', 'json', *arguments)
        self.assertEqual('', answer.stderr)
        return {row['Code']: row for row in answer.json}

    def remember(self, **names: str) -> None:
        self.state.mkdir(exist_ok=True)
        types = {key.replace('_', '-'): name for key, name in names.items()}
        self.memory.write_text(json.dumps({'format': 1, 'types': types}))


class TestFindings(DoctorTestCase):
    def test_a_sound_machine_gets_a_few_notes(self) -> None:
        answer = self.examine('-f', 'json')
        self.assertEqual((0, ''), (answer.code, answer.stderr))
        self.assertEqual(
            ['scheduler', 'framework', 'licence'],
            [row['Code'] for row in answer.json],
        )

    def test_machines_get_everything(self) -> None:
        (self.root / 'usr/sbin/mdevctl').rename(self.root / 'usr/bin-mdevctl')
        row = self.findings()['mdevctl-missing']
        self.assertEqual(
            ['Severity', 'Code', 'Subject', 'Finding', 'Evidence', 'Cure'],
            list(row),
        )
        self.assertEqual(
            {'source': '/usr/sbin/mdevctl', 'value': 'not found'},
            row['Evidence'][0],
        )

    def test_people_read_what_was_seen_and_what_to_do(self) -> None:
        self.config.write_text(BY_NAME + POST_COPY)
        answer = self.examine('--max-width', '0')
        for line in (
            f'Seen: {self.config}: [libvirt]live_migration_permit_post_copy',
            'Cure: Turn it off on hosts with vGPUs.',
        ):
            self.assertIn(line, answer.stdout)

    def test_a_table_fits_the_terminal(self) -> None:
        self.write_gpus(hosts.gpu('c1:00.0', boards.A40))
        for columns in (80, 120):
            self.useFixture(
                fixtures.EnvironmentVariable('COLUMNS', str(columns))
            )
            lines = self.examine().stdout.splitlines()
            self.assertNotEqual([], lines)
            self.assertLessEqual(max(map(len, lines)), columns)

    def test_every_format(self) -> None:
        for format_ in ('table', 'json', 'yaml', 'csv', 'value'):
            answer = self.examine('-f', format_)
            self.assertEqual((0, ''), (answer.code, answer.stderr), format_)
            self.assertIn('equal share', answer.stdout.lower(), format_)

    def test_the_modes_come_from_nvml(self) -> None:
        self.library.answers['nvmlDeviceGetEccMode'] = [1, 0]
        self.assertIn('ecc-pending', self.findings())
        self.set_library(None)
        self.assertIn('nvml-silent', self.findings())

    def test_the_surroundings_count(self) -> None:
        (self.root / 'proc/77/comm').write_text('gone')
        answer = self.examine('-f', 'json')
        self.assertEqual(2, answer.code)
        self.assertEqual('vgpu-manager-not-running', answer.json[0]['Code'])

    def test_one_gpu(self) -> None:
        self.write_gpus(
            hosts.gpu('84:00.0', boards.T4), hosts.gpu('c1:00.0', boards.A40)
        )
        self.assertIn('vfs-off', self.findings())
        self.assertIn('vfs-off', self.findings('--gpu', 'c1:00.0'))
        self.assertNotIn('vfs-off', self.findings('--gpu', '84:00.0'))
        answer = self.examine('--gpu', '99:00.0')
        self.assertEqual((2, ''), (answer.code, answer.stdout))
        self.assertIn('99:00.0', answer.stderr)

    def test_a_machine_without_gpus(self) -> None:
        self.write_gpus(hosts.gpu('e1:00.0', boards.NETWORK_CARD))
        self.config.write_text('')
        answer = self.examine()
        self.assertEqual(0, answer.code)
        self.assertIn('No GPU', answer.stderr)


class TestExitCodes(DoctorTestCase):
    def test_errors_fail_and_warnings_if_they_are_to(self) -> None:
        card = hosts.gpu('84:00.0', boards.T4)
        off = hosts.gpu('c1:00.0', boards.A40)
        for case, text, cards, strict, expected in (
            ('notes', BY_NAME, (card,), False, 0),
            ('notes', BY_NAME, (card,), True, 0),
            ('a warning', BY_NAME + POST_COPY, (card,), False, 0),
            ('a warning', BY_NAME + POST_COPY, (card,), True, 1),
            ('an error', BY_NAME, (card, off), False, 2),
            ('an error', BY_NAME, (card, off), True, 2),
        ):
            self.config.write_text(text)
            self.write_gpus(*cards)
            answer = self.examine(*(['--strict'] * strict))
            self.assertEqual(expected, answer.code, f'{case} {strict}')


class TestConfiguration(DoctorTestCase):
    def test_none_is_needed(self) -> None:
        answer = self.run_bare('doctor', '--state-dir', str(self.state))
        self.assertEqual((0, ''), (answer.code, answer.stderr))
        self.assertIn('No type is enabled', answer.stdout)

    def test_one_that_cannot_be_read_is_left_out(self) -> None:
        self.config.write_text('[devices\n')
        answer = self.examine('-f', 'json')
        self.assertEqual(2, answer.code)
        codes = [row['Code'] for row in answer.json]
        self.assertEqual('configuration-unreadable', codes[0])
        self.assertIn('framework', codes)
        self.assertIn(str(self.config), answer.json[0]['Evidence'][0]['value'])


class TestTypeMemory(DoctorTestCase):
    def read_memory(self) -> dict[str, str]:
        types: dict[str, str] = json.loads(self.memory.read_text())['types']
        return types

    def test_the_first_run_remembers(self) -> None:
        self.assertNotIn('type-id-changed', self.findings())
        self.assertEqual('GRID T4-2Q', self.read_memory()['nvidia-231'])

    def test_a_change_is_told_until_the_type_is_named(self) -> None:
        self.remember(nvidia_231='GRID P4-1B')
        self.config.write_text(BY_ID)
        for _ in range(3):
            found = self.findings()['type-id-changed']
            self.assertEqual('error', found['Severity'])
        self.config.write_text(BY_NAME)
        found = self.findings()['type-id-changed']
        self.assertEqual('note', found['Severity'])
        self.assertNotIn('type-id-changed', self.findings())
        self.assertEqual('GRID T4-2Q', self.read_memory()['nvidia-231'])

    def test_a_look_at_one_gpu_forgets_no_other(self) -> None:
        self.write_gpus(
            hosts.gpu('84:00.0', boards.T4),
            hosts.gpu('41:00.0', boards.A40, vfs=1),
        )
        self.findings('--gpu', '84:00.0')
        self.assertIn('nvidia-562', self.read_memory())

    def test_a_damaged_file_is_put_away_and_told(self) -> None:
        self.remember()
        self.memory.write_text('{"format": 1, "ty')
        answer = self.examine('-f', 'json')
        self.assertEqual(0, answer.code)
        found = {row['Code']: row for row in answer.json}
        self.assertEqual('warning', found['type-memory-lost']['Severity'])
        aside = self.state / 'types.json.unreadable'
        self.assertEqual('{"format": 1, "ty', aside.read_text())
        self.assertIn(
            str(aside), found['type-memory-lost']['Evidence'][0]['value']
        )
        self.assertIn('nvidia-231', self.read_memory())
        self.assertNotIn('type-memory-lost', self.findings())

    def test_a_file_that_cannot_be_read_stays(self) -> None:
        self.memory.mkdir(parents=True)
        found = self.findings()
        self.assertEqual('warning', found['type-memory-lost']['Severity'])
        self.assertTrue(self.memory.is_dir())

    def test_a_user_who_may_not_write(self) -> None:
        # A file where the directory should be: also root may not write there.
        self.state.write_text('')
        found = self.findings()
        self.assertIn('framework', found)
        self.assertEqual('warning', found['type-memory-lost']['Severity'])

    def test_a_directory_that_cannot_be_written(self) -> None:
        def refuse(*_: object) -> None:
            raise exception.StateUnusable('permission denied')

        self.useFixture(
            fixtures.MonkeyPatch(
                f'{state.__name__}.StateDirectory.replace', refuse
            )
        )
        found = self.findings()
        self.assertEqual('note', found['type-memory-not-written']['Severity'])
        self.assertFalse(self.memory.exists())

    def test_a_run_without_news_writes_nothing(self) -> None:
        self.findings()
        before = self.memory.stat()
        self.findings()
        after = self.memory.stat()
        # The time of the last reading may change.
        self.assertEqual(
            (before.st_ino, before.st_mtime_ns),
            (after.st_ino, after.st_mtime_ns),
        )

    def test_what_it_lost_comes_behind_what_is_worse(self) -> None:
        self.remember()
        self.memory.write_text('{')
        (self.root / 'proc/77/comm').write_text('gone')
        rows = self.examine('-f', 'json').json
        self.assertEqual(
            ['vgpu-manager-not-running', 'type-memory-lost'],
            [row['Code'] for row in rows[:2]],
        )

    def test_a_damaged_file_that_cannot_be_put_away(self) -> None:
        def refuse(*_: object) -> None:
            raise exception.StateUnusable('permission denied')

        self.remember()
        self.memory.write_text('{')
        self.useFixture(
            fixtures.MonkeyPatch(
                f'{state.__name__}.StateDirectory.set_aside', refuse
            )
        )
        self.assertIn('type-memory-lost', self.findings())
        self.assertEqual('{', self.memory.read_text())


class TestHostsElsewhere(DoctorTestCase):
    def test_files_of_this_machine_are_not_about_them(self) -> None:
        (self.root / 'proc/77/comm').write_text('gone')
        answer = self.run_bare(
            *('--sysfs-root', str(self.sysfs)),
            *('--config-file', str(self.config)),
            *('--state-dir', str(self.state)),
            *('doctor', '-f', 'json'),
        )
        self.assertIn('Only the GPUs and nova.conf', answer.stderr)
        codes = {row['Code'] for row in answer.json}
        self.assertEqual(
            set(),
            codes & {'vgpu-manager-not-running', 'scheduler', 'nvml-silent'},
        )
        self.assertIn('framework', codes)
        self.assertFalse(self.memory.exists())
        self.assertEqual([], self.library.asked)


class TestScheduler(DoctorTestCase):
    def render(self, policy: str) -> test_commands.Answer:
        return self.examine('--scheduler', policy)

    def test_the_file_goes_to_standard_output_alone(self) -> None:
        (self.root / 'etc/modprobe.d/nvidia.conf').write_text('')
        before = _list_files(self.root)
        for policy, value in (
            ('best-effort', '0x00'),
            ('equal-share', '0x01'),
            ('fixed-share', '0x11'),
        ):
            answer = self.render(policy)
            self.assertEqual((0, ''), (answer.code, answer.stderr), policy)
            self.assertIn(
                f'\noptions nvidia NVreg_RegistryDwords="RmPVMRL={value}"\n',
                answer.stdout,
            )
        self.assertEqual(before, _list_files(self.root))
        self.assertFalse(self.state.exists())

    def test_other_files_that_set_the_parameter_are_named(self) -> None:
        other = self.root / 'etc/modprobe.d/nvidia.conf'
        other.write_text('options nvidia NVreg_RegistryDwords="RmFoo=0x1"\n')
        answer = self.render('equal-share')
        self.assertIn('"RmFoo=0x1;RmPVMRL=0x01"', answer.stdout)
        self.assertIn(str(other), answer.stderr)

    def test_a_host_elsewhere_has_no_such_files(self) -> None:
        answer = self.examine(
            '--sysfs-root', str(self.sysfs), '--scheduler', 'fixed-share'
        )
        self.assertEqual('', answer.stderr)

    def test_a_policy_that_is_none(self) -> None:
        answer = self.render('fair')
        self.assertEqual((2, ''), (answer.code, answer.stdout))
        self.assertIn('equal-share', answer.stderr)


def _list_files(root: pathlib.Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in root.rglob('*')
        if path.is_file()
    }
