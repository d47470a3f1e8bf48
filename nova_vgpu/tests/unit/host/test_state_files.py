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

"""What is stored about a host, file by file, and with its configuration."""

import json
import pathlib

import fixtures
import testtools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import state
from nova_vgpu.host import state_files

NAMES = (('nvidia-231', 'GRID T4-2Q'), ('nvidia-562', 'NVIDIA A40-8Q'))
UUID = 'c5f2b7f0-0f0c-4b6e-9a0e-0d8d0c7f0b11'
STORED = (('nvidia-231', 'GRID T4-2Q'),)
FIRST, SECOND = '0000:84:00.0', '0000:85:00.0'


class TestGPUMemory(testtools.TestCase):
    def test_it_is_read_as_it_was_written(self) -> None:
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        directory = state.StateDirectory(str(path / 'new'))
        self.assertEqual(frozenset(), state_files.read_gpus(directory))
        addresses = frozenset({'0000:84:00.0', '0001:c8:00.0'})
        state_files.write_gpus(directory, addresses)
        self.assertEqual(addresses, state_files.read_gpus(directory))

    def test_what_makes_no_sense_is_said(self) -> None:
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        directory = state.StateDirectory(str(path))
        for text in (
            *('{', '[]', '{}', '7', '{"format": 2, "addresses": []}'),
            *('{"format": 1}', '{"format": 1, "addresses": ["x"]}'),
            *('{"format": 1, "addresses": [7]}', '[' * 100000, '\0'),
        ):
            (path / state_files.GPUS_FILE).write_text(text)
            error = self.assertRaises(
                exception.StateDamaged, state_files.read_gpus, directory
            )
            self.assertIn(state_files.GPUS_FILE, str(error))


class TestTypeMemory(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.path = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.state = state.StateDirectory(str(self.path / 'state'))
        self.file = self.path / 'state' / 'types.json'

    def test_what_is_written_is_read_again(self) -> None:
        state_files.update_types(self.state, NAMES[::-1])
        self.assertEqual(NAMES, state_files.recall_types(self.state).names)

    def test_the_format_is_the_documented_one(self) -> None:
        state_files.update_types(self.state, NAMES)
        self.assertEqual(
            {'format': 1, 'types': dict(NAMES)},
            json.loads(self.file.read_text()),
        )

    def test_before_the_first_run_there_is_nothing(self) -> None:
        self.assertEqual((), state_files.recall_types(self.state).names)

    def test_a_file_that_is_damaged(self) -> None:
        self.file.parent.mkdir()
        for case, text in (
            ('empty', ''),
            ('cut off', '{"format": 1, "types": {"nvidia-2'),
            ('no object', '[]'),
            ('of another format', '{"format": 2, "types": {}}'),
            ('without types', '{"format": 1}'),
            ('types that are a list', '{"format": 1, "types": ["a"]}'),
            ('a name that is none', '{"format": 1, "types": {"a": 1}}'),
            ('very deep', '[' * 100000),
        ):
            self.file.write_text(text)
            recalled = state_files.recall_types(self.state)
            self.assertIn(str(self.file), str(recalled.lost), case)
            self.assertFalse(recalled.may_write, case)
            # It is damaged, and not only unreadable.
            recalled = state_files.recall_types(self.state, True)
            self.assertTrue(recalled.may_write, case)

    def test_what_cannot_be_read_stops_nobody(self) -> None:
        self.file.parent.mkdir()
        self.file.write_text('{')
        for _ in range(2):
            recalled = state_files.recall_types(self.state)
            self.assertEqual(((), False), (recalled.names, recalled.may_write))
            self.assertIn(str(self.file), str(recalled.lost))
        self.file.unlink()
        self.file.mkdir()
        recalled = state_files.recall_types(self.state, may_put_aside=True)
        self.assertEqual(((), False), (recalled.names, recalled.may_write))
        self.assertIn(str(self.file), str(recalled.lost))

    def test_a_new_file_takes_the_place_of_a_damaged_one(self) -> None:
        self.file.parent.mkdir()
        self.file.write_text('{')
        recalled = state_files.recall_types(self.state, may_put_aside=True)
        self.assertEqual(((), True), (recalled.names, recalled.may_write))
        self.assertIn(f'{self.file}.unreadable', str(recalled.lost))
        self.assertEqual(
            state_files.RecalledTypes(), state_files.recall_types(self.state)
        )

    def test_a_damaged_file_is_put_away(self) -> None:
        self.file.parent.mkdir()
        self.file.write_text('{')
        state_files.recall_types(self.state, may_put_aside=True)
        aside = self.file.with_name('types.json.unreadable')
        self.assertEqual('{', aside.read_text())
        self.assertEqual((), state_files.recall_types(self.state).names)


class TestKept(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.path = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.state = state.StateDirectory(str(self.path))

    def write(self, **mdev: object) -> None:
        text = json.dumps({'mdevs': {UUID: mdev}, 'functions': {}})
        (self.path / state_files.VGPUS_FILE).write_text(text)

    def test_it_is_read_as_it_was_written(self) -> None:
        known = values.VGPURecords(
            {UUID: values.MdevRecord('pci_0000_84_00_0', 'T4-4Q', 'nvidia-1')},
            {'0000:c1:00.4': 'L40S-24Q'},
            frozenset({UUID}),
        )
        state_files.write_vgpus(self.state, known)
        self.assertEqual(known, state_files.read_vgpus(self.state))

    def test_a_file_of_a_release_that_kept_no_ids(self) -> None:
        self.write(parent='pci_0000_84_00_0', type='T4-4Q')
        self.assertEqual(
            values.MdevRecord('pci_0000_84_00_0', 'T4-4Q'),
            state_files.read_vgpus(self.state).mdevs[UUID],
        )

    def test_an_id_that_is_no_word(self) -> None:
        self.write(parent='pci_0000_84_00_0', type='T4-4Q', type_id=3)
        self.assertRaises(
            exception.StateDamaged, state_files.read_vgpus, self.state
        )


class StoredTestCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.own, self.novas = (
            self.useFixture(fixtures.TempDir()).path for _ in range(2)
        )

    def recall(
        self, seen: frozenset[str] = frozenset()
    ) -> values.Configuration:
        before = values.Configuration(seen=seen)
        return state_files.recall(before, self.own, [self.novas])

    def write(self, directory: str, file: str, text: str) -> None:
        pathlib.Path(directory, file).write_text(text)


class TestStored(StoredTestCase):
    def test_nothing_is_stored_yet(self) -> None:
        self.assertEqual(values.Configuration(), self.recall())

    def test_all_that_is_stored(self) -> None:
        own = state.StateDirectory(self.own)
        state_files.update_types(own, STORED)
        state_files.write_gpus(own, frozenset({FIRST}))
        state_files.write_gpus(
            state.StateDirectory(self.novas), frozenset({SECOND})
        )
        third = '0000:86:00.0'
        found = self.recall(seen=frozenset({third}))
        self.assertEqual(STORED, found.type_names)
        self.assertEqual({FIRST, SECOND, third}, found.seen)
        self.assertEqual((), found.problems)

    def test_files_that_are_damaged_are_warnings_and_stay(self) -> None:
        state_files.write_gpus(
            state.StateDirectory(self.own), frozenset({FIRST})
        )
        self.write(self.own, state_files.TYPES_FILE, '{')
        self.write(self.novas, state_files.GPUS_FILE, '{')
        found = self.recall()
        self.assertEqual(
            [
                (values.Severity.WARNING, 'type-memory-lost'),
                (values.Severity.WARNING, 'gpu-memory-lost'),
            ],
            [(p.severity, p.code) for p in found.problems],
        )
        types, gpus = (problem.message for problem in found.problems)
        self.assertIn(f'{self.own}/{state_files.TYPES_FILE}', types)
        self.assertIn(f'{self.novas}/{state_files.GPUS_FILE}', gpus)
        self.assertEqual((), found.type_names)
        self.assertEqual({FIRST}, found.seen)
        for directory, file in (
            (self.own, state_files.TYPES_FILE),
            (self.novas, state_files.GPUS_FILE),
        ):
            self.assertEqual('{', pathlib.Path(directory, file).read_text())


class TestUpdates(StoredTestCase):
    """Two runs at a time do not forget what the other one saw."""

    def test_other_ids_are_kept(self) -> None:
        own = state.StateDirectory(self.own)
        state_files.update_types(own, STORED)
        before = state_files.update_types(
            own, (('nvidia-562', 'NVIDIA A40-8Q'),)
        )
        self.assertEqual(STORED, before.names)
        self.assertEqual(
            (*STORED, ('nvidia-562', 'NVIDIA A40-8Q')),
            state_files.recall_types(own).names,
        )

    def test_nothing_new_writes_nothing(self) -> None:
        own = state.StateDirectory(self.own)
        state_files.update_types(own, STORED)
        path = pathlib.Path(self.own, state_files.TYPES_FILE)
        written = path.stat()
        state_files.update_types(own, STORED)
        after = path.stat()
        # The time of the last reading may change.
        self.assertEqual(
            (written.st_ino, written.st_mtime_ns),
            (after.st_ino, after.st_mtime_ns),
        )
