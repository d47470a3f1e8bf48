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

"""Which GPUs were here, as it is kept."""

import pathlib

import fixtures
import testtools

from nova_vgpu import exception
from nova_vgpu.host import gpu_store
from nova_vgpu.host import state


class TestGPUMemory(testtools.TestCase):
    def test_it_is_read_as_it_was_written(self) -> None:
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        directory = state.StateDirectory(str(path / 'new'))
        self.assertEqual(frozenset(), gpu_store.read(directory))
        addresses = frozenset({'0000:84:00.0', '0001:c8:00.0'})
        gpu_store.write(directory, addresses)
        self.assertEqual(addresses, gpu_store.read(directory))

    def test_what_makes_no_sense_is_said(self) -> None:
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        directory = state.StateDirectory(str(path))
        for text in (
            *('{', '[]', '{}', '7', '{"format": 2, "addresses": []}'),
            *('{"format": 1}', '{"format": 1, "addresses": ["x"]}'),
            *('{"format": 1, "addresses": [7]}', '[' * 100000, '\0'),
        ):
            (path / gpu_store.FILE).write_text(text)
            error = self.assertRaises(
                exception.StateDamaged, gpu_store.read, directory
            )
            self.assertIn(gpu_store.FILE, str(error))
