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


"""What NVML tells of the drivers and licences of guests."""

import types
import typing
from unittest import mock

import testtools

from nova_vgpu import values
from nova_vgpu.host import guest_drivers
from nova_vgpu.tests.unit.host import test_gpu_modes

T4 = test_gpu_modes.T4
SERVER = '2f6e4b0e-0000-4000-8000-000000000001'
OTHER = '2f6e4b0e-0000-4000-8000-000000000002'
MDEV = '5b5b7326-6bb8-48cb-a321-8fa58ccbb38c'
LICENSED = types.SimpleNamespace(isLicensed=1, currentState=5)
Licence = values.GuestLicence


class FakeNVML(test_gpu_modes.FakeNVML):
    """The binding where vGPUs 7 and 8 are active; answers are by vGPU."""

    def __init__(self, **answers: typing.Any) -> None:
        error: typing.Any = test_gpu_modes.FakeNVMLError()
        super().__init__(nvmlDeviceGetActiveVgpus=[7, 8])
        self.of_vgpus: dict[str, typing.Any] = {
            # The binding decodes a text, but not one in a tuple.
            'nvmlVgpuInstanceGetVmID': {
                7: (SERVER.encode(), 1),
                8: (OTHER.upper(), 1),
            },
            'nvmlVgpuInstanceGetVmDriverVersion': {
                7: '550.144.03',
                8: 'Not Available',
            },
            'nvmlVgpuInstanceGetMdevUUID': {7: MDEV.upper(), 8: error},
            'nvmlVgpuInstanceGetUUID': {7: 'x', 8: b'GPU-A'},
            'nvmlVgpuInstanceGetLicenseInfo': {7: LICENSED, 8: error},
            'nvmlVgpuInstanceGetLicenseStatus': {7: 0, 8: 0},
        } | answers
        for name in self.of_vgpus:
            setattr(self, name, self._answering_of(name))

    def _answering_of(self, name: str) -> typing.Callable[[int], typing.Any]:
        def answer(vgpu: int) -> typing.Any:
            told = self.of_vgpus[name][vgpu]
            if isinstance(told, Exception):
                raise told
            return told

        return answer


class GuestDriversTestCase(testtools.TestCase):
    def read(
        self, library: types.ModuleType | None, driver: str = 'nvidia'
    ) -> tuple[values.GuestDriver, ...]:
        modules = typing.cast(typing.Any, {'pynvml': library})
        with mock.patch.dict('sys.modules', modules):
            return guest_drivers.read_guest_drivers(
                values.Host((test_gpu_modes.make_gpu(T4, driver),))
            )

    def read_one(self, **answers: typing.Any) -> values.GuestDriver:
        """Only the first vGPU, with other answers."""
        library = FakeNVML(
            **{name: {7: told, 8: told} for name, told in answers.items()}
        )
        return self.read(library)[0]


class TestGuestDrivers(GuestDriversTestCase):
    def test_a_guest_with_a_driver_and_one_without(self) -> None:
        self.assertEqual(
            (
                values.GuestDriver(
                    *(T4, SERVER, MDEV, True, '550.144.03', Licence.LICENSED)
                ),
                values.GuestDriver(
                    *(T4, OTHER, 'gpu-a', False, None, Licence.UNLICENSED)
                ),
            ),
            self.read(FakeNVML()),
        )

    def test_states_of_a_licence(self) -> None:
        for number, expected in (
            (0, Licence.UNKNOWN),
            (1, Licence.UNINITIALIZED),
            (2, Licence.UNRESTRICTED),
            (3, Licence.RESTRICTED),
            (4, Licence.UNLICENSED),
            (99, Licence.UNKNOWN),
        ):
            told = types.SimpleNamespace(isLicensed=0, currentState=number)
            found = self.read_one(nvmlVgpuInstanceGetLicenseInfo=told)
            self.assertEqual(expected, found.licence, str(number))

    def test_a_licence_in_a_state_that_is_not_known(self) -> None:
        told = types.SimpleNamespace(isLicensed=1, currentState=0)
        found = self.read_one(nvmlVgpuInstanceGetLicenseInfo=told)
        self.assertEqual(Licence.LICENSED, found.licence)

    def test_a_driver_that_tells_only_whether_it_is_licensed(self) -> None:
        error = test_gpu_modes.FakeNVMLError()
        for told, expected in (
            (1, Licence.LICENSED),
            (0, Licence.UNLICENSED),
            (error, Licence.UNKNOWN),
        ):
            found = self.read_one(
                nvmlVgpuInstanceGetLicenseInfo=error,
                nvmlVgpuInstanceGetLicenseStatus=told,
            )
            self.assertEqual(expected, found.licence, str(told))

    def test_a_version_that_is_not_told(self) -> None:
        error = test_gpu_modes.FakeNVMLError()
        found = self.read_one(nvmlVgpuInstanceGetVmDriverVersion=error)
        self.assertEqual((None, None), (found.is_loaded, found.version))

    def test_guests_send_other_texts_than_versions(self) -> None:
        for text in ('\x1b[2J', '1" onload="', '550', '5' * 80, ''):
            found = self.read_one(nvmlVgpuInstanceGetVmDriverVersion=text)
            self.assertEqual((True, None), (found.is_loaded, found.version))

    def test_guests_send_what_the_binding_cannot_decode(self) -> None:
        """One of them must not hide the others."""
        error = UnicodeDecodeError('utf-8', b'\xff', 0, 1, 'invalid byte')
        library = FakeNVML()
        library.of_vgpus['nvmlVgpuInstanceGetVmDriverVersion'][7] = error
        found, other = self.read(library)
        self.assertEqual((None, None), (found.is_loaded, found.version))
        self.assertEqual(Licence.LICENSED, found.licence)
        self.assertEqual(OTHER, other.server)

    def test_a_vgpu_without_a_name(self) -> None:
        error = test_gpu_modes.FakeNVMLError()
        found = self.read_one(
            nvmlVgpuInstanceGetMdevUUID=error, nvmlVgpuInstanceGetUUID=error
        )
        self.assertEqual('7', found.vgpu)

    def test_guests_that_are_not_servers_of_nova(self) -> None:
        for told in (
            (SERVER, 0),
            ('domain-7', 1),
            test_gpu_modes.FakeNVMLError(),
        ):
            library = FakeNVML(nvmlVgpuInstanceGetVmID={7: told, 8: told})
            self.assertEqual((), self.read(library))


class TestSilence(GuestDriversTestCase):
    def test_nothing_is_known_then(self) -> None:
        error = test_gpu_modes.FakeNVMLError()
        refusing = FakeNVML()
        refusing.answers['nvmlDeviceGetActiveVgpus'] = error
        not_open = FakeNVML()
        not_open.answers['nvmlInit'] = error
        for library in (None, refusing, not_open):
            self.assertEqual((), self.read(library))

    def test_gpus_of_other_drivers_are_not_asked_about(self) -> None:
        library = FakeNVML()
        self.assertEqual((), self.read(library, 'vfio-pci'))
        self.assertEqual([], library.asked)

    def test_nvml_is_closed(self) -> None:
        library = FakeNVML()
        self.read(library)
        self.assertEqual('nvmlShutdown', library.asked[-1])


class TestBinding(testtools.TestCase):
    """The fake is like the binding that there is."""

    def setUp(self) -> None:
        super().setUp()
        import pynvml

        self.binding = pynvml

    def test_it_has_every_name(self) -> None:
        for name in ('nvmlDeviceGetActiveVgpus', *FakeNVML().of_vgpus):
            self.assertTrue(callable(getattr(self.binding, name)), name)

    def test_its_licences_have_these_fields(self) -> None:
        fields = {
            name for name, _ in self.binding.c_nvmlVgpuLicenseInfo_t._fields_
        }
        self.assertLessEqual({'isLicensed', 'currentState'}, fields)

    def test_its_numbers_are_ours(self) -> None:
        for number, licence in guest_drivers._STATES.items():
            name = licence.value.replace('-', '_').upper()
            self.assertEqual(
                number,
                getattr(self.binding, f'NVML_GRID_LICENSE_STATE_{name}'),
            )
        self.assertEqual(
            guest_drivers._IS_UUID, self.binding.NVML_VGPU_VM_ID_UUID
        )
