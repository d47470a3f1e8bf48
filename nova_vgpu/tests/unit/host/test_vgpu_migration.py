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

"""What NVML tells about the migration of vGPUs."""

import types
import typing
from unittest import mock

import testtools

from nova_vgpu import values
from nova_vgpu.host import vgpu_migration
from nova_vgpu.tests.unit.host import test_gpu_modes
from nova_vgpu.tests.unit.host import test_guest_drivers

T4 = test_gpu_modes.T4
SERVER = test_guest_drivers.SERVER
OTHER = test_guest_drivers.OTHER


def of_gpu(bits: int, least: int, most: int) -> types.SimpleNamespace:
    versions = types.SimpleNamespace(minVersion=least, maxVersion=most)
    return types.SimpleNamespace(
        pgpuVirtualizationCaps=bits, hostSupportedVgpuRange=versions
    )


def of_vgpu(bits: int, version: int) -> types.SimpleNamespace:
    return types.SimpleNamespace(
        vgpuVirtualizationCaps=bits, guestVgpuVersion=version
    )


class VGPUMigrationTest(testtools.TestCase):
    def read(
        self, gpu: typing.Any, **of_vgpus: typing.Any
    ) -> values.GPUMigration:
        library = test_guest_drivers.FakeNVML(**of_vgpus)
        if gpu is not None:
            vars(library)['nvmlDeviceGetVgpuMetadata'] = lambda _handle: gpu
        modules = typing.cast(typing.Any, {'pynvml': library})
        with mock.patch.dict('sys.modules', modules):
            (found,) = vgpu_migration.read_migration(
                values.Host((test_gpu_modes.make_gpu(T4, 'nvidia'),))
            )
        return found

    def test_a_gpu_and_its_vgpus(self) -> None:
        state = types.SimpleNamespace(size=2**32)
        error: typing.Any = test_gpu_modes.FakeNVMLError()
        found = self.read(
            of_gpu(3, 10, 14),
            nvmlVgpuInstanceGetMetadata={7: of_vgpu(1, 12), 8: of_vgpu(0, 0)},
            nvmlVgpuInstanceGetRuntimeStateSize={7: state, 8: error},
        )
        self.assertEqual((True, (10, 14)), (found.can_migrate, found.versions))
        self.assertEqual(
            (
                values.VGPUMigration(
                    test_guest_drivers.MDEV, SERVER, True, 12, 2**32
                ),
                values.VGPUMigration('gpu-a', OTHER, False),
            ),
            found.vgpus,
        )

    def test_what_nvml_does_not_tell_is_unknown(self) -> None:
        found = self.read(None)
        self.assertEqual((None, None), (found.can_migrate, found.versions))
        self.assertEqual(
            {(None, None, None)},
            {(v.can_migrate, v.version, v.state_bytes) for v in found.vgpus},
        )
        empty = self.read(of_gpu(0, 0, 0))
        self.assertEqual((False, None), (empty.can_migrate, empty.versions))

    def test_a_host_without_nvml_or_its_gpus(self) -> None:
        for driver in ('nvidia', 'i915'):
            gpu = test_gpu_modes.make_gpu(T4, driver)
            with mock.patch.dict('sys.modules', {'pynvml': None}):
                self.assertEqual(
                    (), vgpu_migration.read_migration(values.Host((gpu,)))
                )
