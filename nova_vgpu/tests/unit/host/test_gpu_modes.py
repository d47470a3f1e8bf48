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

"""What NVML tells, and what becomes of it when it does not."""

import ctypes
import json
import types
import typing
from unittest import mock

import testtools

from nova_vgpu import values
from nova_vgpu.host import gpu_modes
from nova_vgpu.host import nvml

T4 = values.PciAddress.parse('84:00.0')
A40 = values.PciAddress.parse('41:00.0')


def make_gpu(
    address: values.PciAddress, driver: str = nvml.DRIVER
) -> values.PhysicalGPU:
    return values.PhysicalGPU(address.node_device_name, address, driver=driver)


class FakeNVMLError(Exception):
    """As of the binding: an error with a number."""

    def __init__(self, value: int = 3) -> None:
        super().__init__('Not Supported')
        self.value = value


class FakeNVML(types.ModuleType):
    """The binding of a driver that knows these GPUs and answers."""

    NVMLError = FakeNVMLError

    def __init__(self, **answers: typing.Any) -> None:
        super().__init__('pynvml')
        self.answers = {
            'nvmlInit': None,
            'nvmlShutdown': None,
            'nvmlSystemGetDriverVersion': '550.54.16',
            'nvmlDeviceGetEccMode': [1, 0],
            'nvmlDeviceGetMigMode': [0, 0],
            'nvmlDeviceGetVgpuHeterogeneousMode': 1,
            'nvmlDeviceGetVgpuSchedulerState': types.SimpleNamespace(
                schedulerPolicy=2
            ),
        } | answers
        self.asked: list[str] = []
        for name in self.answers:
            setattr(self, name, self._answering(name))

    def _answering(self, name: str) -> typing.Callable[..., typing.Any]:
        def answer(*_: object) -> typing.Any:
            self.asked.append(name)
            if isinstance(self.answers[name], Exception):
                raise self.answers[name]
            return self.answers[name]

        return answer

    def nvmlDeviceGetHandleByPciBusId(self, address: str) -> object:
        if address != str(T4):
            raise FakeNVMLError
        return object()


class NVMLTestCase(testtools.TestCase):
    def read(
        self,
        library: types.ModuleType | None,
        *addresses: values.PciAddress,
    ) -> values.ModesRead:
        modules = typing.cast(typing.Any, {'pynvml': library})
        with mock.patch.dict('sys.modules', modules):
            return gpu_modes.read_modes(
                values.Host(tuple(map(make_gpu, addresses or (T4,))))
            )


class TestAnswers(NVMLTestCase):
    def test_a_driver_that_tells_everything(self) -> None:
        library = FakeNVML()
        found = self.read(library)
        self.assertEqual(
            values.ModesRead(
                (
                    (
                        T4,
                        values.GPUModes(
                            values.GPUMode(True, False),
                            values.GPUMode(False, False),
                            True,
                            values.SchedulerPolicy.EQUAL_SHARE,
                        ),
                    ),
                ),
                '550.54.16',
            ),
            found,
        )
        self.assertEqual('nvmlShutdown', library.asked[-1])

    def test_gpus_of_other_drivers_are_not_asked_about(self) -> None:
        library = FakeNVML()
        with mock.patch.dict(
            'sys.modules', typing.cast(typing.Any, {'pynvml': library})
        ):
            found = gpu_modes.read_modes(
                values.Host((make_gpu(T4, 'nouveau'),))
            )
        self.assertEqual(values.ModesRead(), found)
        self.assertEqual([], library.asked)

    def test_one_question_that_is_not_answered(self) -> None:
        for function, field in (
            ('nvmlDeviceGetEccMode', 'ecc'),
            ('nvmlDeviceGetMigMode', 'mig'),
            ('nvmlDeviceGetVgpuHeterogeneousMode', 'heterogeneous'),
            ('nvmlDeviceGetVgpuSchedulerState', 'scheduler'),
        ):
            refusing = FakeNVML(**{function: FakeNVMLError()})
            old = FakeNVML()
            delattr(old, function)
            for library in (refusing, old):
                modes = self.read(library).of(T4)
                unknown = {
                    name
                    for name in ('ecc', 'mig', 'heterogeneous', 'scheduler')
                    if getattr(modes, name) is None
                }
                self.assertEqual({field}, unknown)

    def test_a_gpu_that_it_does_not_know(self) -> None:
        found = self.read(FakeNVML(), A40, T4)
        self.assertEqual(values.GPUModes(), found.of(A40))
        self.assertNotEqual(values.GPUModes(), found.of(T4))
        self.assertEqual(values.GPUModes(), found.of(None))

    def test_a_policy_that_is_not_known(self) -> None:
        state = types.SimpleNamespace(schedulerPolicy=0)
        library = FakeNVML(nvmlDeviceGetVgpuSchedulerState=state)
        self.assertIsNone(self.read(library).of(T4).scheduler)

    def test_a_version_in_bytes(self) -> None:
        library = FakeNVML(nvmlSystemGetDriverVersion=b'418.66')
        self.assertEqual('418.66', self.read(library).driver_version)

    def test_a_library_that_cannot_be_closed(self) -> None:
        library = FakeNVML(nvmlShutdown=FakeNVMLError())
        self.assertIsNone(self.read(library).unknown_because)


class TestSilence(NVMLTestCase):
    def test_without_the_package(self) -> None:
        found = self.read(None)
        self.assertIn('nvidia-ml-py', found.unknown_because or '')
        self.assertEqual(values.GPUModes(), found.of(T4))

    def test_without_the_driver(self) -> None:
        found = self.read(FakeNVML(nvmlInit=FakeNVMLError()))
        self.assertIn('Not Supported', found.unknown_because or '')


class TestPacking(testtools.TestCase):
    """Another process of the host reads modes for nova-compute."""

    def test_what_is_packed_is_unpacked(self) -> None:
        on, off = values.GPUMode(True, True), values.GPUMode(False, True)
        of_type = values.MigType('nvidia-699', None, 19, '1g.10gb', 3)
        for read in (
            values.ModesRead(),
            values.ModesRead(unknown_because='NVML failed'),
            values.ModesRead(
                (
                    (T4, values.GPUModes()),
                    (T4, values.GPUModes(mig=off, mig_types=())),
                    (
                        A40,
                        values.GPUModes(
                            on,
                            off,
                            False,
                            values.SchedulerPolicy.FIXED_SHARE,
                            (of_type, of_type),
                            (values.TypeSlots('nvidia-562', 'x', 8, (0, 8)),),
                        ),
                    ),
                ),
                '595.58.03',
            ),
        ):
            # Nova's privileged helper sends lists, too.
            sent = json.loads(json.dumps(gpu_modes.pack(read)))
            self.assertEqual(read, gpu_modes.unpack(sent))


class TestBinding(NVMLTestCase):
    """The fake is like the binding that there is."""

    def setUp(self) -> None:
        super().setUp()
        import pynvml

        self.binding = pynvml

    def test_it_has_every_name(self) -> None:
        names = {*FakeNVML().answers, 'nvmlDeviceGetHandleByPciBusId'}
        for name in names:
            self.assertTrue(callable(getattr(self.binding, name)), name)

    def test_its_errors_are_what_is_caught(self) -> None:
        error = self.binding.NVMLError(self.binding.NVML_ERROR_NOT_SUPPORTED)
        self.assertIsInstance(error, self.binding.NVMLError)
        self.assertEqual('Not Supported', str(error))

    def test_its_numbers_are_ours(self) -> None:
        for name in values.SchedulerPolicy:
            number = getattr(
                self.binding, f'NVML_VGPU_SCHEDULER_POLICY_{name.name}'
            )
            state = self.binding.c_nvmlVgpuSchedulerGetState_t()
            state.schedulerPolicy = ctypes.c_uint(number).value
            library = FakeNVML(nvmlDeviceGetVgpuSchedulerState=state)
            self.assertEqual(name, self.read(library).of(T4).scheduler)

    def test_a_machine_without_the_library(self) -> None:
        missing = self.binding.NVMLError(
            self.binding.NVML_ERROR_LIBRARY_NOT_FOUND
        )
        with mock.patch.object(self.binding, 'nvmlInit', side_effect=missing):
            found = self.read(self.binding)
        self.assertIn('Not Found', found.unknown_because or '')
