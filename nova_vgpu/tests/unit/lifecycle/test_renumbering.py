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

"""A driver that numbers types anew, below a nova.conf that has the ids."""

import typing

import testtools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import state_files
from nova_vgpu.lifecycle import apply
from nova_vgpu.lifecycle import drift
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import live

NAMES = ('T4-4Q', 'A10-12Q', 'L40S-24Q')
BY_NAME = live.ALL_THREE.replace(
    '[devices]', '[devices]\nvgpu_creation = ahead'
)


def _id_of(name: str) -> str:
    """The id of a type before the upgrade."""
    for board in (live.SMALL_T4, live.SMALL_A10, live.SMALL_L40S):
        for board_type in board.types:
            if str(board_type.name).endswith(f' {name}'):
                return board_type.id
    raise KeyError(name)


def _names_of(board: boards.Board) -> dict[str, str | None]:
    return {board_type.id: board_type.name for board_type in board.types}


BY_ID = BY_NAME
for _name in NAMES:
    BY_ID = BY_ID.replace(_name, _id_of(_name))


class RenumberingTestCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.host = self.useFixture(live.LiveHost(*live.bare_gpus()))
        self.file = self.host.path / 'state' / state_files.TYPES_FILE

    def upgrade(self) -> None:
        """Reboot into the new driver, which knows no vGPU by itself."""
        self.host.machine.libvirt.autostarts = False
        self.host.machine.kernel.reboot(upgrade=True)

    def remembered(self) -> dict[str, str | None]:
        return dict(state_files.recall_types(self.host.access.state).names)

    def names_now(self) -> dict[str, str | None]:
        names: dict[str, str | None] = {}
        for card in self.host.machine.kernel.gpus:
            names.update(_names_of(card.board))
        return names

    def assert_stopped(self) -> None:
        """Apply, the real one and the dry run, and look."""
        access = self.host.access
        configuration = self.host.load(BY_ID)
        for run in (apply.apply, apply.plan):
            error = self.assertRaises(
                exception.InvalidLibvirtGPUConfig,
                run,
                access,
                configuration,
                live.Recorder(),
            )
            self.assertEqual(
                ['type-id-changed'] * 3, [p.code for p in error.problems]
            )
            now = self.names_now()
            for name in NAMES:
                for word in (_id_of(name), name, str(now[_id_of(name)])):
                    self.assertIn(word, str(error))
        seen = drift.report(access, configuration, self.fail)
        fatal = seen.plan.problems_of(values.Severity.FATAL)
        self.assertEqual(['type-id-changed'] * 3, [p.code for p in fatal])
        self.assertEqual([], list(seen.steps))


class TestUpgrade(RenumberingTestCase):
    def test_ids_are_stopped_until_types_are_named(self) -> None:
        self.host.apply(BY_ID)
        before = self.names_now()
        served = [list(self.vgpu_types(gpu)) for gpu in self.gpus()]
        self.assertEqual(before, self.remembered())
        self.upgrade()
        described = self.host.describe()
        text = self.file.read_text()
        self.assert_stopped()
        self.assert_stopped()
        self.assertEqual(described, self.host.describe())
        self.assertEqual(text, self.file.read_text())
        outcome = self.host.apply(BY_NAME)
        self.assertEqual([], outcome.failures)
        self.assertEqual(
            served, [list(self.vgpu_types(gpu)) for gpu in self.gpus()]
        )
        self.assertNotEqual(before, self.remembered())
        self.assertEqual(self.names_now(), self.remembered())

    def gpus(self) -> tuple[str, ...]:
        return (live.T4, live.A10, live.L40S)

    def vgpu_types(self, gpu: str) -> typing.Iterable[str]:
        found = self.host.vgpus(gpu).values()
        self.assertNotEqual(0, len(found))
        return found

    def test_the_new_ids_work_after_the_names_did(self) -> None:
        self.host.apply(BY_ID)
        self.upgrade()
        self.host.apply(BY_NAME)
        ids = {str(name): key for key, name in self.names_now().items()}
        text = BY_NAME
        for name in NAMES:
            (new,) = (i for n, i in ids.items() if n.endswith(f' {name}'))
            text = text.replace(name, new)
        self.assertEqual([], self.host.apply(text).done)

    def test_names_that_show_only_once_functions_are_enabled(self) -> None:
        """Then those are enabled, and no vGPU of another type is made."""
        self.host = self.useFixture(live.LiveHost(*live.bare_gpus()[1:]))
        self.file = self.host.path / 'state' / state_files.TYPES_FILE
        access = self.host.make_host_access(complete=lambda host: host)
        declared = BY_ID.replace(f'{_id_of("T4-4Q")}, ', '')
        apply.apply(access, self.host.load(declared), live.Recorder())
        text = self.file.read_text()
        self.upgrade()
        configuration = self.host.load(declared)
        for _ in range(2):
            error = self.assertRaises(
                exception.InvalidLibvirtGPUConfig,
                apply.apply,
                access,
                configuration,
                live.Recorder(),
            )
            self.assertEqual(
                ['type-id-changed'] * 2, [p.code for p in error.problems]
            )
            described = self.host.describe()
            self.assertEqual(4, described[f'{live.A10} VFs'])
            self.assertEqual({}, self.host.vgpus(live.L40S))
            self.assertEqual(  # which libvirt defines, and that were so
                {'NVIDIA A10-12Q'}, set(self.host.vgpus(live.A10).values())
            )
            self.assertEqual(text, self.file.read_text())

    def test_types_by_name_need_no_memory_of_ids(self) -> None:
        self.host.apply(BY_NAME)
        self.upgrade()
        self.assertEqual([], self.host.apply(BY_NAME).failures)
        self.assertEqual(self.names_now(), self.remembered())


class TestMemory(RenumberingTestCase):
    def test_it_is_written_also_if_there_is_nothing_to_do(self) -> None:
        self.host.apply(BY_ID)
        self.file.unlink()
        self.assertEqual([], self.host.apply(BY_ID).done)
        self.assertEqual(self.names_now(), self.remembered())

    def test_a_dry_run_writes_nothing(self) -> None:
        configuration = self.host.load(BY_ID)
        apply.plan(self.host.access, configuration, live.Recorder())
        self.assertFalse(self.file.exists())

    def test_a_damaged_file_is_put_aside(self) -> None:
        self.host.apply(BY_ID)
        self.file.write_text('{')
        configuration, recorder = self.host.load(BY_ID), live.Recorder()
        self.assertIn(str(self.file), configuration.problems[0].message)
        apply.plan(self.host.access, configuration, recorder)
        self.assertEqual('{', self.file.read_text())
        apply.apply(self.host.access, configuration, recorder)
        aside = self.file.with_name('types.json.unreadable')
        self.assertEqual('{', aside.read_text())
        self.assertEqual(self.names_now(), self.remembered())
        (warning,) = recorder.warnings
        self.assertIn(str(aside), warning)

    def test_a_file_that_cannot_be_read_is_left_alone(self) -> None:
        self.file.mkdir(parents=True)
        configuration, recorder = self.host.load(BY_ID), live.Recorder()
        outcome = apply.apply(self.host.access, configuration, recorder)
        self.assertEqual([], outcome.failures)
        self.assertTrue(self.file.is_dir())
        (problem,) = configuration.problems
        self.assertIn(str(self.file), problem.message)
        self.assertEqual([], recorder.warnings)

    def test_a_look_leaves_a_damaged_file_to_others(self) -> None:
        self.host.apply(BY_ID)
        self.file.write_text('{')
        configuration = self.host.load(BY_ID)
        seen = drift.report(self.host.access, configuration, self.fail)
        (problem,) = seen.plan.problems
        self.assertEqual('type-memory-lost', problem.code)
        self.assertEqual(values.Severity.WARNING, problem.severity)
        self.assertIn(str(self.file), problem.message)
        self.assertEqual('{', self.file.read_text())
