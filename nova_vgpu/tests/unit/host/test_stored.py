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

"""What is stored about a host and belongs to its configuration."""

import pathlib

import fixtures
import testtools

from nova_vgpu import values
from nova_vgpu.host import gpu_store
from nova_vgpu.host import state
from nova_vgpu.host import stored
from nova_vgpu.host import type_id_store

NAMES = (('nvidia-231', 'GRID T4-2Q'),)
FIRST, SECOND = '0000:84:00.0', '0000:85:00.0'


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
        return stored.recall(before, self.own, [self.novas])

    def write(self, directory: str, file: str, text: str) -> None:
        pathlib.Path(directory, file).write_text(text)


class TestStored(StoredTestCase):
    def test_nothing_is_stored_yet(self) -> None:
        self.assertEqual(values.Configuration(), self.recall())

    def test_all_that_is_stored(self) -> None:
        own = state.StateDirectory(self.own)
        type_id_store.write(own, NAMES)
        gpu_store.write(own, frozenset({FIRST}))
        gpu_store.write(state.StateDirectory(self.novas), frozenset({SECOND}))
        third = '0000:86:00.0'
        found = self.recall(seen=frozenset({third}))
        self.assertEqual(NAMES, found.type_names)
        self.assertEqual({FIRST, SECOND, third}, found.seen)
        self.assertEqual((), found.problems)

    def test_files_that_are_damaged_are_warnings_and_stay(self) -> None:
        gpu_store.write(state.StateDirectory(self.own), frozenset({FIRST}))
        self.write(self.own, type_id_store.FILE, '{')
        self.write(self.novas, gpu_store.FILE, '{')
        found = self.recall()
        self.assertEqual(
            [
                (values.Severity.WARNING, 'type-memory-lost'),
                (values.Severity.WARNING, 'gpu-memory-lost'),
            ],
            [(p.severity, p.code) for p in found.problems],
        )
        types, gpus = (problem.message for problem in found.problems)
        self.assertIn(f'{self.own}/{type_id_store.FILE}', types)
        self.assertIn(f'{self.novas}/{gpu_store.FILE}', gpus)
        self.assertEqual((), found.type_names)
        self.assertEqual({FIRST}, found.seen)
        for directory, file in (
            (self.own, type_id_store.FILE),
            (self.novas, gpu_store.FILE),
        ):
            self.assertEqual('{', pathlib.Path(directory, file).read_text())


class TestUpdates(StoredTestCase):
    """Two runs at a time do not forget what the other one saw."""

    def test_other_ids_are_kept(self) -> None:
        own = state.StateDirectory(self.own)
        type_id_store.write(own, NAMES)
        before = type_id_store.update(own, (('nvidia-562', 'NVIDIA A40-8Q'),))
        self.assertEqual(NAMES, before.names)
        self.assertEqual(
            (*NAMES, ('nvidia-562', 'NVIDIA A40-8Q')), type_id_store.read(own)
        )

    def test_nothing_new_writes_nothing(self) -> None:
        own = state.StateDirectory(self.own)
        type_id_store.write(own, NAMES)
        path = pathlib.Path(self.own, type_id_store.FILE)
        written = path.stat()
        type_id_store.update(own, NAMES)
        self.assertEqual(written, path.stat())
