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


import errno
import os
import pathlib
import threading

import fixtures
import testtools

from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import virtual_functions
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import tree
from nova_vgpu.tests import hosts

VF = '0000:41:00.4'


class TestWriteType(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        card = hosts.gpu('41:00.0', boards.L40S, vfs=2, vendor_vfio=True)
        tree.write_tree(simulation.SimulatedHost((card,)), self.root)
        self.file = (
            self.root / f'bus/pci/devices/{VF}/nvidia/current_vgpu_type'
        )

    def write(self, address: str, number: int) -> None:
        virtual_functions.write_type(
            files.Files(str(self.root)), address, number
        )

    def test_it_is_set_and_taken_back(self) -> None:
        number = virtual_functions.number_of(values.VGPUType('nvidia-1155'))
        self.write(VF, number)
        self.assertEqual('1155\n', self.file.read_text())
        self.write('41:00.4', 0)
        self.assertEqual('0\n', self.file.read_text())

    def test_nothing_else_can_be_written(self) -> None:
        for case, address, number in (
            ('no address', 'nvidia', 1),
            ('a way out', f'{VF}/../0000:41:00.5', 1),
            ('another way out', '../../../etc', 1),
            ('a negative number', VF, -1),
            ('too large a number', VF, 10**9),
            ('no number', VF, True),
            ('text', VF, '1155'),
        ):
            error = self.assertRaises(
                ValueError,
                self.write,
                address,
                number,
            )
            self.assertIn('is not', str(error), case)
        self.assertEqual('0\n', self.file.read_text())

    def test_a_function_without_the_file_stays_without_it(self) -> None:
        for address in ('0000:41:00.0', '0000:99:00.4'):
            error = self.assertRaises(OSError, self.write, address, 1155)
            self.assertEqual(errno.ENOENT, error.errno)

    def test_a_link_is_not_followed(self) -> None:
        elsewhere = self.root / 'elsewhere'
        elsewhere.write_text('precious')
        self.file.unlink()
        self.file.symlink_to(elsewhere)
        error = self.assertRaises(OSError, self.write, VF, 1155)
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
        error = self.assertRaises(OSError, self.write, VF, 1155)
        self.assertEqual(errno.EIO, error.errno)


class StuckFiles(files.Files):
    """A kernel in which a write to one function hangs."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.stuck = threading.Event()
        self.tried = 0

    def write(self, text: str, *parts: str) -> None:
        if VF in parts:
            self.tried += 1
            self.stuck.wait(60)
        super().write(text, *parts)


class TestWriteTypeInTime(TestWriteType):
    """It does all that the other does."""

    def write(self, address: str, number: int) -> None:
        root = files.Files(str(self.root))
        virtual_functions.write_type_in_time(root, address, number, 60)

    def test_a_write_that_hangs_costs_one_function_only(self) -> None:
        stuck = StuckFiles(str(self.root))
        self.addCleanup(stuck.stuck.set)
        for expected in (errno.ETIMEDOUT, errno.EBUSY, errno.EBUSY):
            error = self.assertRaises(
                OSError,
                virtual_functions.write_type_in_time,
                stuck,
                VF,
                1155,
                0.01,
            )
            self.assertEqual(expected, error.errno)
            self.assertIn('kernel log', str(error))
        self.assertEqual(1, stuck.tried)
        virtual_functions.write_type_in_time(stuck, '0000:41:00.5', 1155, 60)
        stuck.stuck.set()
        for thread in threading.enumerate():
            if VF in thread.name:
                thread.join()
        self.assertEqual('1155\n', self.file.read_text())
        self.write(VF, 0)
        self.assertEqual('0\n', self.file.read_text())
