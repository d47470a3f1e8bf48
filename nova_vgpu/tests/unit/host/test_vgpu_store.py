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

"""What is remembered of vGPUs."""

import json
import pathlib

import fixtures
import testtools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import state
from nova_vgpu.host import vgpu_store

UUID = 'c5f2b7f0-0f0c-4b6e-9a0e-0d8d0c7f0b11'


class TestKept(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.path = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.state = state.StateDirectory(str(self.path))

    def write(self, **mdev: object) -> None:
        text = json.dumps({'mdevs': {UUID: mdev}, 'functions': {}})
        (self.path / vgpu_store.FILE).write_text(text)

    def test_it_is_read_as_it_was_written(self) -> None:
        known = values.VGPURecords(
            {UUID: values.MdevRecord('pci_0000_84_00_0', 'T4-4Q', 'nvidia-1')},
            {'0000:c1:00.4': 'L40S-24Q'},
            frozenset({UUID}),
        )
        vgpu_store.write(self.state, known)
        self.assertEqual(known, vgpu_store.read(self.state))

    def test_a_file_of_a_release_that_kept_no_ids(self) -> None:
        self.write(parent='pci_0000_84_00_0', type='T4-4Q')
        self.assertEqual(
            values.MdevRecord('pci_0000_84_00_0', 'T4-4Q'),
            vgpu_store.read(self.state).mdevs[UUID],
        )

    def test_an_id_that_is_no_word(self) -> None:
        self.write(parent='pci_0000_84_00_0', type='T4-4Q', type_id=3)
        self.assertRaises(exception.StateDamaged, vgpu_store.read, self.state)
