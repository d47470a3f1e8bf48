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

"""A type that is set with a timeout: what hangs costs one function."""

import errno
import threading

from nova_vgpu.host import files
from nova_vgpu.host.type_backends import nvidia
from nova_vgpu.host.type_backends import timeout
from nova_vgpu.tests.unit.host.type_backends import test_nvidia

VF = test_nvidia.VF
L40S_24Q = test_nvidia.L40S_24Q


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


class TestTimeout(test_nvidia.TestSetType):
    """It does all that the other does."""

    def set_type(self, function: str, type_id: str | None) -> None:
        backend = nvidia.NvidiaTypes(files.Files(str(self.root)))
        timeout.set_type(backend, function, type_id, 60)

    def test_a_write_that_hangs_costs_one_function_only(self) -> None:
        stuck = StuckFiles(str(self.root))
        self.addCleanup(stuck.stuck.set)
        backend = nvidia.NvidiaTypes(stuck)
        for expected in (errno.ETIMEDOUT, errno.EBUSY, errno.EBUSY):
            error = self.assertRaises(
                OSError,
                timeout.set_type,
                backend,
                VF,
                L40S_24Q,
                0.01,
            )
            self.assertEqual(expected, error.errno)
            self.assertIn('kernel log', str(error))
        self.assertEqual(1, stuck.tried)
        timeout.set_type(backend, '0000:41:00.5', L40S_24Q, 60)
        stuck.stuck.set()
        for thread in threading.enumerate():
            if VF in thread.name:
                thread.join()
        self.assertEqual('1155\n', self.file.read_text())
        self.set_type(VF, None)
        self.assertEqual('0\n', self.file.read_text())
