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

"""The back-end for NVIDIA's vendor-specific VFIO."""

import errno
import os
import pathlib
import threading

import fixtures
import testtools

from nova_vgpu.host import files
from nova_vgpu.host.type_backends import nvidia
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import tree
from nova_vgpu.tests import hosts

VF = '0000:41:00.4'
L40S_24Q = 'nvidia-1155'


class TestSetType(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        card = hosts.gpu('41:00.0', boards.L40S, vfs=2, vendor_vfio=True)
        tree.write_tree(simulation.SimulatedHost((card,)), self.root)
        self.file = (
            self.root / f'bus/pci/devices/{VF}/nvidia/current_vgpu_type'
        )

    def set_type(self, function: str, type_id: str | None) -> None:
        backend = nvidia.NvidiaTypes(files.Files(str(self.root)))
        backend.set_type(function, type_id)

    def test_it_is_set_and_cleared(self) -> None:
        self.set_type(VF, L40S_24Q)
        self.assertEqual('1155\n', self.file.read_text())
        self.set_type('41:00.4', None)
        self.assertEqual('0\n', self.file.read_text())

    def test_nothing_else_can_be_written(self) -> None:
        for case, function, type_id in (
            ('no address', 'nvidia', L40S_24Q),
            ('a way out', f'{VF}/../0000:41:00.5', L40S_24Q),
            ('another way out', '../../../etc', L40S_24Q),
            ('a negative number', VF, 'nvidia--1'),
            ('too large a number', VF, f'nvidia-{10**9}'),
            ('what would clear it', VF, 'nvidia-0'),
            ('two numbers', VF, 'nvidia-1155\n1156'),
            ('no id', VF, '1155'),
            ('the id of another back-end', VF, 'i915-GVTg_V5_4'),
            ('nothing', VF, ''),
        ):
            error = self.assertRaises(
                ValueError, self.set_type, function, type_id
            )
            self.assertIn('is not', str(error), case)
        self.assertEqual('0\n', self.file.read_text())

    def test_a_function_without_the_file_stays_without_it(self) -> None:
        for function in ('0000:41:00.0', '0000:99:00.4'):
            error = self.assertRaises(
                OSError, self.set_type, function, L40S_24Q
            )
            self.assertEqual(errno.ENOENT, error.errno)

    def test_a_link_is_not_followed(self) -> None:
        elsewhere = self.root / 'elsewhere'
        elsewhere.write_text('precious')
        self.file.unlink()
        self.file.symlink_to(elsewhere)
        error = self.assertRaises(OSError, self.set_type, VF, L40S_24Q)
        self.assertEqual(errno.ELOOP, error.errno)
        self.assertEqual('precious', elsewhere.read_text())

    def test_a_write_that_does_nothing_is_noticed(self) -> None:
        """As with a driver that accepts what it does not carry out."""
        self.file.unlink()
        os.mkfifo(self.file)
        opened = threading.Event()
        stop = threading.Event()

        def swallow() -> None:
            descriptor = os.open(self.file, os.O_RDONLY | os.O_NONBLOCK)
            opened.set()
            stop.wait(60)
            os.close(descriptor)

        reader = threading.Thread(target=swallow)
        reader.start()
        self.addCleanup(reader.join)
        self.addCleanup(stop.set)
        self.assertTrue(opened.wait(60))
        error = self.assertRaises(OSError, self.set_type, VF, L40S_24Q)
        self.assertEqual(errno.EIO, error.errno)
