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


import pathlib

import fixtures
import hypothesis
from hypothesis import strategies as st
import testtools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import state
from nova_vgpu.lifecycle import journal

GPU = '0000:41:00.0'
STEPS: tuple[values.Step, ...] = (
    values.RepairDriver(GPU),
    values.SetVFs(GPU, 0, 32),
    values.AwaitTypes(GPU),
    values.SetMigMode(GPU, True, False),
    values.SetGPUInstances(GPU, 14, '2g.20gb', 0, 3),
    values.SetHeterogeneous(GPU, False, True),
    values.SetType(GPU, '0000:41:00.4', '', 'NVIDIA L40S-24Q'),
    values.SetMdev(
        GPU,
        'pci_0000_41_00_4',
        'c5f2b7f0-0f0c-4b6e-9a0e-0d8d0c7f0b11',
        'NVIDIA A40-8Q',
        values.MdevState.ABSENT,
        values.MdevState.PERSISTENT,
    ),
)


class TestJournal(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        root = self.useFixture(fixtures.TempDir()).path
        self.state = state.StateDirectory(root)
        self.path = pathlib.Path(root) / journal.FILE

    def open(self) -> journal.Journal:
        return journal.Journal(self.state)

    def write(self, *steps: values.Step, end: bool = True) -> None:
        written = self.open()
        for step in steps:
            written.begin(step)
            written.finish(step, 'done')
        if end:
            written.end()

    def test_every_step_is_read_as_it_was_written(self) -> None:
        self.write(*STEPS)
        log = self.open().read()
        self.assertEqual(STEPS, log.steps)
        self.assertFalse(log.is_open)
        self.assertFalse(log.is_restored)

    def test_a_step_is_there_before_it_is_done(self) -> None:
        self.open().begin(STEPS[0])
        log = self.open().read()
        self.assertEqual(STEPS[:1], log.steps)
        self.assertTrue(log.is_open)

    def test_one_that_was_cut_off_is_gone_on_with(self) -> None:
        self.write(*STEPS[:2], end=False)
        self.write(*STEPS[2:])
        self.assertEqual(STEPS, self.open().read().steps)

    def test_one_that_ended_is_followed_by_a_new_one(self) -> None:
        self.write(*STEPS[:2])
        self.write(*STEPS[2:])
        self.assertEqual(STEPS[2:], self.open().read().steps)

    def test_an_apply_that_does_nothing_leaves_it(self) -> None:
        self.write(*STEPS)
        before = self.path.read_text()
        self.open().end()
        self.assertEqual(before, self.path.read_text())

    def test_restored(self) -> None:
        self.write(*STEPS)
        self.open().mark_restored()
        self.assertTrue(self.open().read().is_restored)
        self.write(STEPS[0])
        self.assertFalse(self.open().read().is_restored)

    def test_a_last_line_that_is_not_whole_counts_not(self) -> None:
        self.write(*STEPS, end=False)
        whole = self.path.read_text()
        last = whole.splitlines()[-1]
        for length in range(1, len(last)):
            self.path.write_text(whole[: -len(last) - 1] + last[:length])
            self.assertEqual(STEPS, self.open().read().steps)
            self.open().end()
            log = self.open().read()
            self.assertEqual(STEPS, log.steps)
            self.assertFalse(log.is_open)

    def test_another_line_that_is_not_whole_is_told(self) -> None:
        self.write(*STEPS)
        lines = self.path.read_text().splitlines()
        for number in range(1, len(lines)):
            broken = [*lines]
            broken[number - 1] = broken[number - 1][:-3]
            self.path.write_text('\n'.join(broken))
            error = self.assertRaises(exception.StateDamaged, self.open().read)
            self.assertIn(f'line {number}', str(error))
            self.assertIn(str(self.path), str(error))

    def test_set_aside(self) -> None:
        self.path.write_text('nonsense\nnonsense\n')
        aside = self.open().set_aside()
        self.assertEqual((), self.open().read().steps)
        self.assertIn('nonsense', pathlib.Path(aside).read_text())

    @hypothesis.given(st.text())
    def test_no_text_makes_it_fail_otherwise(self, text: str) -> None:
        try:
            journal.parse(text, 'journal')
        except exception.StateDamaged:
            hypothesis.event('corrupt')

    def test_a_step_with_other_fields_is_none(self) -> None:
        sound = journal.dump_step(STEPS[1])
        for change in (
            {'kind': 'Reboot'},
            {'kind': None},
            {'total': 3},
            {'before': '0'},
            {'before': True},
            {'gpu': 41},
        ):
            self.assertRaises(ValueError, journal.load_step, sound | change)
        del sound['after']
        self.assertRaises(ValueError, journal.load_step, sound)
        self.assertRaises(ValueError, journal.load_step, [])


class TestLastApply(testtools.TestCase):
    def find(self, *lines: str) -> float | None:
        log = journal.parse(''.join(f'{line}\n' for line in lines), 'x')
        return journal.find_last_apply(log)

    def test_it_is_the_last_that_is_written(self) -> None:
        first, last = (
            f'{{"event": "apply", "time": "1970-01-01T00:0{n}:00+00:00"}}'
            for n in (1, 2)
        )
        end = '{"event": "end"}'
        self.assertEqual(60.0, self.find(first))
        self.assertEqual(120.0, self.find(first, last, end))

    def test_there_need_be_none(self) -> None:
        for line in ('', '{"event": "end"}', '{"event": "apply"}'):
            self.assertIsNone(self.find(line))
        for time in ('3', '"noon"', 'null'):
            self.assertIsNone(
                self.find(f'{{"event": "apply", "time": {time}}}')
            )
