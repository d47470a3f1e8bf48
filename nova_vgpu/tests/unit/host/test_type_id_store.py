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

"""What ids of types meant is kept in a file."""

import json
import pathlib

import fixtures
import testtools

from nova_vgpu import exception
from nova_vgpu.host import state
from nova_vgpu.host import type_id_store

NAMES = (('nvidia-231', 'GRID T4-2Q'), ('nvidia-562', 'NVIDIA A40-8Q'))


class TestTypeMemory(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.path = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.state = state.StateDirectory(str(self.path / 'state'))
        self.file = self.path / 'state' / 'types.json'

    def test_what_is_written_is_read_again(self) -> None:
        type_id_store.write(self.state, reversed(NAMES))
        self.assertEqual(NAMES, type_id_store.read(self.state))

    def test_the_format_is_the_documented_one(self) -> None:
        type_id_store.write(self.state, NAMES)
        self.assertEqual(
            {'format': 1, 'types': dict(NAMES)},
            json.loads(self.file.read_text()),
        )

    def test_before_the_first_run_there_is_nothing(self) -> None:
        self.assertEqual((), type_id_store.read(self.state))

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
            error = self.assertRaises(
                exception.StateDamaged, type_id_store.read, self.state
            )
            self.assertIn(str(self.file), str(error), case)

    def test_a_file_that_cannot_be_read(self) -> None:
        self.file.mkdir(parents=True)
        error = self.assertRaises(
            exception.StateUnusable, type_id_store.read, self.state
        )
        self.assertNotIsInstance(error, exception.StateDamaged)

    def test_what_cannot_be_read_stops_nobody(self) -> None:
        self.file.parent.mkdir()
        self.file.write_text('{')
        for _ in range(2):
            recalled = type_id_store.recall(self.state)
            self.assertEqual(((), False), (recalled.names, recalled.may_write))
            self.assertIn(str(self.file), str(recalled.lost))
        self.file.unlink()
        self.file.mkdir()
        recalled = type_id_store.recall(self.state, may_put_aside=True)
        self.assertEqual(((), False), (recalled.names, recalled.may_write))
        self.assertIn(str(self.file), str(recalled.lost))

    def test_a_new_file_takes_the_place_of_a_damaged_one(self) -> None:
        self.file.parent.mkdir()
        self.file.write_text('{')
        recalled = type_id_store.recall(self.state, may_put_aside=True)
        self.assertEqual(((), True), (recalled.names, recalled.may_write))
        self.assertIn(f'{self.file}.unreadable', str(recalled.lost))
        self.assertEqual(
            type_id_store.Recalled(), type_id_store.recall(self.state)
        )

    def test_a_damaged_file_is_put_away(self) -> None:
        self.file.parent.mkdir()
        self.file.write_text('{')
        aside = pathlib.Path(type_id_store.set_aside(self.state))
        self.assertEqual('{', aside.read_text())
        self.assertEqual((), type_id_store.read(self.state))
