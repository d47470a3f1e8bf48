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

"""The commands below a driver that gave an id to another type."""

import typing

from nova_vgpu.tests import live
from nova_vgpu.tests.unit.cmd import test_changes
from nova_vgpu.tests.unit.cmd import test_commands
from nova_vgpu.tests.unit.cmd import test_doctor

READERS: tuple[tuple[str, ...], ...] = (
    ('check', '--max-width', '0'),
    ('plan', '--node', 'compute1'),
)


class TestReading(test_doctor.DoctorTestCase):
    """Commands that change nothing, on this machine and for others."""

    def setUp(self) -> None:
        super().setUp()
        self.config.write_text(test_doctor.BY_ID)
        self.remember(nvidia_231='GRID T4-8Q')

    def ask(
        self, *arguments: str, options: tuple[str, ...] = ()
    ) -> test_commands.Answer:
        return self.run_bare(
            *('--config-file', str(self.config)),
            *('--state-dir', str(self.state)),
            *options,
            *arguments,
        )

    def problems(self) -> dict[str, dict[str, typing.Any]]:
        found = self.ask('check', '-f', 'json').json
        return {row['Code']: row for row in found}

    def test_check_and_plan_say_what_changed(self) -> None:
        text = self.memory.read_text()
        for command in READERS:
            answer = self.ask(*command)
            self.assertEqual(2, answer.code, command[0])
            told = answer.stdout + answer.stderr
            for word in (
                '[devices]enabled_vgpu_types',
                'nvidia-231 was GRID T4-8Q',
                'is GRID T4-2Q now',
                'T4-8Q for what was served so far',
            ):
                self.assertIn(word, told, command[0])
        self.assertEqual(text, self.memory.read_text())

    def test_the_plan_shows_no_inventory(self) -> None:
        (row,) = self.ask('plan', '--node', 'compute1', '-f', 'json').json
        self.assertEqual((0, '-'), (row['Total'], row['Provider']))

    def test_a_name_is_in_order(self) -> None:
        self.config.write_text(test_doctor.BY_NAME)
        for command in READERS:
            self.assertEqual(0, self.ask(*command).code, command[0])

    def test_hosts_elsewhere_have_ids_of_their_own(self) -> None:
        there = ('--sysfs-root', str(self.root / 'sys'))
        for command in READERS:
            answer = self.ask(*command, options=there)
            self.assertEqual(0, answer.code, answer.stdout + answer.stderr)

    def test_nothing_is_remembered_yet(self) -> None:
        self.memory.unlink()
        for command in READERS:
            self.assertEqual(0, self.ask(*command).code, command[0])
        self.assertFalse(self.memory.exists())

    def test_a_damaged_file_is_a_warning_and_stays(self) -> None:
        self.memory.write_text('{')
        self.assertEqual(['type-memory-lost'], list(self.problems()))
        for command in (*READERS, ('doctor',)):
            answer = self.ask(*command)
            self.assertEqual(0, answer.code, command[0])
            told = ''.join((answer.stdout + answer.stderr).split())
            self.assertIn('types.jsonisnotJSON', told.replace('|', ''))
        self.assertEqual({}, self.problems())

    def test_the_doctor_tells_it_once(self) -> None:
        rows = self.examine('-f', 'json').json
        told = [row for row in rows if row['Severity'] == 'error']
        self.assertEqual(['type-id-changed'], [row['Code'] for row in told])
        self.assertIn('T4-8Q for what was served so far', told[0]['Cure'])


class TestApply(test_changes.ChangeTestCase):
    """From one driver to the next, as an operator goes through it."""

    def test_nothing_is_done_until_types_are_named(self) -> None:
        by_id = live.ALL_THREE
        for board, name in (
            (live.SMALL_T4, 'T4-4Q'),
            (live.SMALL_A10, 'A10-12Q'),
            (live.SMALL_L40S, 'L40S-24Q'),
        ):
            (type_id,) = (
                t.id for t in board.types if str(t.name).endswith(f' {name}')
            )
            by_id = by_id.replace(name, type_id)
        self.config.write_text(by_id)
        self.assertEqual(0, self.run_it('apply').code)
        self.assertEqual(0, self.run_it('check').code)
        self.machine.kernel.reboot(upgrade=True)
        before = self.host.describe()
        for command in (
            ('apply',),
            ('apply', '--dry-run'),
            ('check',),
            ('device', 'enable', live.T4, '--type', 'T4-4Q'),
        ):
            answer = self.run_it(*command)
            self.assertEqual(2, answer.code, command[0])
            told = ' '.join((answer.stdout + answer.stderr).split())
            self.assertIn('A10-12Q', told, command[0])
        self.assertEqual(before, self.host.describe())
        self.config.write_text(live.ALL_THREE)
        for command in (('apply', '--dry-run'), ('apply',), ('check',)):
            answer = self.run_it(*command)
            self.assertEqual(0, answer.code, answer.stderr)
