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

"""Who uses a GPU, as NVML tells."""

import types
import typing
from unittest import mock

import testtools

from nova_vgpu import values
from nova_vgpu.host import gpu_processes
from nova_vgpu.tests.unit.host import test_gpu_modes

T4, A40 = test_gpu_modes.T4, test_gpu_modes.A40
FakeNVML = test_gpu_modes.FakeNVML
FakeNVMLError = test_gpu_modes.FakeNVMLError


class TestProcesses(testtools.TestCase):
    def read(self, library: types.ModuleType | None) -> object:
        modules = typing.cast(typing.Any, {'pynvml': library})
        with mock.patch.dict('sys.modules', modules):
            return gpu_processes.read_processes(
                values.Host(
                    (test_gpu_modes.make_gpu(T4), test_gpu_modes.make_gpu(A40))
                )
            )

    def test_each_process_is_told_once(self) -> None:
        process = types.SimpleNamespace
        library = FakeNVML(
            nvmlDeviceGetComputeRunningProcesses=[
                process(pid=9),
                process(pid=7),
            ],
            nvmlDeviceGetGraphicsRunningProcesses=[process(pid=9)],
        )
        self.assertEqual({T4: (7, 9), A40: ()}, self.read(library))
        self.assertEqual('nvmlShutdown', library.asked[-1])

    def test_an_answer_that_does_not_come_is_none(self) -> None:
        refusing = FakeNVML(
            nvmlDeviceGetComputeRunningProcesses=FakeNVMLError()
        )
        self.assertEqual({T4: (), A40: ()}, self.read(refusing))
        self.assertEqual({}, self.read(FakeNVML(nvmlInit=FakeNVMLError())))
        self.assertEqual({}, self.read(None))
