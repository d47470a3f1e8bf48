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

"""The stand-in for NVML follows the rules of NVML, by the real binding."""

import dataclasses
import shutil
import subprocess
import sys
import typing

import testtools

from nova_vgpu import values
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import mig as mig_rules
from nova_vgpu.sandbox import modes
from nova_vgpu.sandbox import nvml_state
from nova_vgpu.tests import hosts
from nova_vgpu.tests import live
from nova_vgpu.tests import migs
from nova_vgpu.tests.functional import fake_nvml

UNINITIALIZED = {'error': 1}
INVALID_ARGUMENT = {'error': 2}
NOT_SUPPORTED = {'error': 3}
NOT_FOUND = {'error': 6}
DRIVER_NOT_LOADED = {'error': 9}
GPU_IS_LOST = {'error': 15}
IN_USE = {'error': 19}
INSUFFICIENT_RESOURCES = {'error': 23}
NO_PROFILE = 0xFFFFFFFF

A40, A100 = '0000:41:00.0', '0000:c1:00.0'
ONE_SLICE, TWO_SLICES, THREE_SLICES, SEVEN_SLICES = 19, 14, 9, 0
WITH_MEDIA = 20
A40_8Q, A40_24Q, A40_8A = 562, 565, 572
A100_20C, A100_1_10C, A100_2_20C, A100_3_40C = 696, 699, 700, 701
VM = 'd1ad0f5c-63b5-4c5d-9a1b-0f6b3d1a7c01'
OTHER_VM = 'd1ad0f5c-63b5-4c5d-9a1b-0f6b3d1a7c02'
MDEV = '1aaaaaaa-0000-4000-8000-000000000000'


def a40(*created: simulation.Created, mixed: bool = False) -> nvml_state.GPU:
    card = dataclasses.replace(
        hosts.gpu(A40, boards.A40, vfs=32), created=created, mixed=mixed
    )
    return nvml_state.GPU(card, guests={MDEV: VM})


def a100(*instances: str, mig: bool = True) -> nvml_state.GPU:
    return nvml_state.GPU(
        dataclasses.replace(
            hosts.gpu(A100, boards.A100D, vfs=16),
            mig_mode=mig,
            profiles=mig_rules.A100D_PROFILES,
            gpu_instances=mig_rules.lay_out(
                mig_rules.A100D_PROFILES, instances
            ),
        )
    )


PROFILES = values.GPUInstances(
    tuple(
        values.GPUInstanceProfile(
            p.id,
            p.name.removeprefix('MIG '),
            *(p.slices, p.memory_mib, p.maximum),
        )
        for p in sorted(mig_rules.A100D_PROFILES, key=lambda p: p.number)
    )
)


class NVMLTestCase(testtools.TestCase):
    def open(self, *gpus: nvml_state.GPU) -> None:
        self.library = self.useFixture(fake_nvml.FakeNVML(*gpus))
        self.ask = self.useFixture(fake_nvml.Caller(self.library)).ask
        self.assertIsNone(self.ask('nvmlInit'))

    def find(self, address: str) -> typing.Any:
        return self.ask('nvmlDeviceGetHandleByPciBusId', address)

    def add_vgpu(self, gpu: str, line: str) -> None:
        """A guest gets a vGPU: its number, type, VM, mdev, place, instance."""
        with self.library.path(gpu, 'vgpus').open('a') as vgpus:
            vgpus.write(f'{line}\n')


class TestDevices(NVMLTestCase):
    def test_a_host_without_the_driver(self) -> None:
        self.open(a40())
        caller = self.useFixture(fake_nvml.Caller(self.library))
        (self.library.state / 'driver_version').unlink()
        self.assertEqual(DRIVER_NOT_LOADED, caller.ask('nvmlInit'))
        self.assertEqual(
            UNINITIALIZED, caller.ask('nvmlSystemGetDriverVersion')
        )

    def test_after_the_end_nothing_is_answered(self) -> None:
        self.open(a40())
        self.assertEqual('595.58.03', self.ask('nvmlSystemGetDriverVersion'))
        self.assertIsNone(self.ask('nvmlShutdown'))
        self.assertEqual(UNINITIALIZED, self.ask('nvmlDeviceGetCount'))

    def test_gpus_by_number_and_by_address(self) -> None:
        self.open(a40(), a100())
        self.assertEqual(2, self.ask('nvmlDeviceGetCount'))
        second = self.ask('nvmlDeviceGetHandleByIndex', 1)
        self.assertEqual(
            INVALID_ARGUMENT, self.ask('nvmlDeviceGetHandleByIndex', 2)
        )
        for device in (second, self.find('00000000:C1:00.0')):
            found = self.ask('nvmlDeviceGetPciInfo', device)
            self.assertEqual('00000000:C1:00.0', found['busId'])
            self.assertEqual((0, 0xC1), (found['domain'], found['bus']))
        self.assertEqual(
            f'NVIDIA {A100}', self.ask('nvmlDeviceGetName', second)
        )
        self.assertEqual(NOT_FOUND, self.find('0000:c1:00.4'))
        self.assertEqual(INVALID_ARGUMENT, self.find('a GPU'))

    def test_a_gpu_that_goes_away(self) -> None:
        self.open(a40())
        device = self.find(A40)
        shutil.rmtree(self.library.path(A40, ''))
        self.assertEqual(GPU_IS_LOST, self.ask('nvmlDeviceGetEccMode', device))

    def test_calls_that_fail_or_hang_because_they_are_told_to(self) -> None:
        self.open(a40())
        self.library.fail('nvmlDeviceGetCount_v2 999')
        self.assertEqual({'error': 999}, self.ask('nvmlDeviceGetCount'))
        self.library.fail('nvmlDeviceGetCount_v2 hang')
        caller = self.useFixture(fake_nvml.Caller(self.library))
        caller.send('nvmlInit')
        self.assertIsNone(caller.receive())
        caller.send('nvmlDeviceGetCount')
        # Another process goes on meanwhile.
        self.assertEqual('595.58.03', self.ask('nvmlSystemGetDriverVersion'))
        self.library.fail('nvmlDeviceGetCount_v2 3')
        self.assertEqual(NOT_SUPPORTED, caller.receive())
        self.library.fail()
        self.assertEqual(1, self.ask('nvmlDeviceGetCount'))

    def test_modes_that_a_gpu_does_not_have(self) -> None:
        self.open(a40())
        device = self.find(A40)
        self.assertEqual([0, 0], self.ask('nvmlDeviceGetEccMode', device))
        self.assertEqual(
            NOT_SUPPORTED, self.ask('nvmlDeviceGetMigMode', device)
        )
        self.assertEqual(
            NOT_SUPPORTED, self.ask('nvmlDeviceSetMigMode', device, 1)
        )
        self.library.path(A40, 'ecc').unlink()
        self.assertEqual(
            NOT_SUPPORTED, self.ask('nvmlDeviceGetEccMode', device)
        )


class TestGPUInstances(NVMLTestCase):
    def open_a100(self, *instances: str, mig: bool = True) -> typing.Any:
        self.open(a100(*instances, mig=mig))
        return self.find(A100)

    def list(self, device: typing.Any, profile: int) -> list[tuple[int, int]]:
        """The numbers and places of the instances of a profile."""
        found = [
            self.ask('nvmlGpuInstanceGetInfo', instance)
            for instance in self.ask('list_instances', device, profile)
        ]
        self.assertEqual(
            [profile] * len(found), [f['profileId'] for f in found]
        )
        return [(info['id'], info['placement']['start']) for info in found]

    def left(self, device: typing.Any, profile: int) -> int:
        found: int = self.ask(
            'nvmlDeviceGetGpuInstanceRemainingCapacity', device, profile
        )
        return found

    def test_profiles(self) -> None:
        device = self.open_a100()
        found = self.ask('nvmlDeviceGetGpuInstanceProfileInfo', device, 1)
        by_id = self.ask(
            'nvmlDeviceGetGpuInstanceProfileInfoById', device, TWO_SLICES
        )
        self.assertEqual(found, by_id)
        self.assertEqual(
            ('MIG 2g.20gb', TWO_SLICES, 2, 3, 19968),
            tuple(
                found[name]
                for name in (
                    *('name', 'id', 'sliceCount', 'instanceCount'),
                    'memorySizeMB',
                )
            ),
        )
        first = self.ask('nvmlDeviceGetGpuInstanceProfileInfo', device, 1, 1)
        self.assertEqual(
            (TWO_SLICES, 3), (first['id'], first['instanceCount'])
        )
        # The A100 has no instance of eight slices.
        self.assertEqual(
            NOT_SUPPORTED,
            self.ask('nvmlDeviceGetGpuInstanceProfileInfo', device, 5),
        )
        self.assertEqual(
            [[0, 2], [2, 2], [4, 2]],
            self.ask('list_placements', device, TWO_SLICES),
        )

    def test_profiles_share_the_slices_of_the_gpu(self) -> None:
        device = self.open_a100()
        self.assertEqual(7, self.left(device, ONE_SLICE))
        for _ in range(3):
            self.ask('nvmlDeviceCreateGpuInstance', device, TWO_SLICES)
        self.assertEqual(
            [(1, 0), (2, 2), (3, 4)], self.list(device, TWO_SLICES)
        )
        for profile, left in (
            (TWO_SLICES, 0),
            (THREE_SLICES, 0),
            (ONE_SLICE, 1),
        ):
            self.assertEqual(left, self.left(device, profile), str(profile))
        self.ask('nvmlDeviceCreateGpuInstance', device, ONE_SLICE)
        self.assertEqual([(4, 6)], self.list(device, ONE_SLICE))
        self.assertEqual(
            INSUFFICIENT_RESOURCES,
            self.ask('nvmlDeviceCreateGpuInstance', device, ONE_SLICE),
        )

    def test_the_maximum_of_a_profile(self) -> None:
        device = self.open_a100()
        for left in (1, 0):
            self.assertEqual(left, self.left(device, WITH_MEDIA))
            self.ask('nvmlDeviceCreateGpuInstance', device, WITH_MEDIA)
        self.assertEqual(1, len(self.list(device, WITH_MEDIA)))
        self.assertEqual(6, self.left(device, ONE_SLICE))

    def test_at_a_placement(self) -> None:
        device = self.open_a100()
        self.assertIn('kept', self.ask('create_at', device, TWO_SLICES, 4))
        self.assertEqual([(1, 4)], self.list(device, TWO_SLICES))
        self.assertEqual(
            INSUFFICIENT_RESOURCES,
            self.ask('create_at', device, THREE_SLICES, 4),
        )
        self.assertEqual(1, self.left(device, THREE_SLICES))

    def test_one_that_is_in_use_stays(self) -> None:
        device = self.open_a100()
        instance = self.ask('nvmlDeviceCreateGpuInstance', device, ONE_SLICE)
        self.assertEqual([], self.ask('list_compute_instances', instance))
        compute = self.ask('nvmlGpuInstanceCreateComputeInstance', instance, 0)
        self.assertEqual(1, len(self.ask('list_compute_instances', instance)))
        self.add_vgpu(A100, f'7 {A100_1_10C} {VM} - - 1 5 - vgpu 0')
        self.assertEqual([7], self.ask('list_active_in', instance))
        for function, which in (
            ('nvmlGpuInstanceDestroy', instance),
            ('nvmlComputeInstanceDestroy', compute),
            ('nvmlDeviceSetMigMode', device),
        ):
            arguments = [0] if which is device else []
            self.assertEqual(IN_USE, self.ask(function, which, *arguments))
        self.library.path(A100, 'vgpus').write_text('')
        self.assertEqual(IN_USE, self.ask('nvmlGpuInstanceDestroy', instance))
        self.assertEqual(0, self.ask('nvmlComputeInstanceDestroy', compute))
        self.assertEqual(0, self.ask('nvmlGpuInstanceDestroy', instance))
        self.assertEqual([], self.list(device, ONE_SLICE))
        self.assertEqual(
            INVALID_ARGUMENT, self.ask('nvmlGpuInstanceGetInfo', instance)
        )

    def test_the_others_stay(self) -> None:
        device = self.open_a100(*['MIG 1g.10gb'] * 3)
        middle = self.ask('nvmlDeviceGetGpuInstanceById', device, 2)
        (compute,) = self.ask('list_compute_instances', middle)
        self.ask('nvmlComputeInstanceDestroy', compute)
        self.ask('nvmlGpuInstanceDestroy', middle)
        self.assertEqual([(1, 0), (3, 2)], self.list(device, ONE_SLICE))
        self.assertEqual(
            NOT_FOUND, self.ask('nvmlDeviceGetGpuInstanceById', device, 2)
        )

    def test_the_mode(self) -> None:
        device = self.open_a100('MIG 7g.80gb')
        self.assertEqual([1, 1], self.ask('nvmlDeviceGetMigMode', device))
        # Not while the GPU has virtual functions.
        self.assertEqual(IN_USE, self.ask('nvmlDeviceSetMigMode', device, 0))
        self.library.path(A100, 'vfs').write_text('0\n')
        self.assertEqual(0, self.ask('nvmlDeviceSetMigMode', device, 0))
        for function in (
            'list_instances',
            'list_placements',
            'nvmlDeviceCreateGpuInstance',
            'nvmlDeviceGetGpuInstanceRemainingCapacity',
        ):
            self.assertEqual(
                NOT_SUPPORTED, self.ask(function, device, SEVEN_SLICES)
            )
        self.ask('nvmlDeviceSetMigMode', device, 1)
        self.assertEqual([], self.list(device, SEVEN_SLICES))


class TestTypes(NVMLTestCase):
    def creatable(self, device: typing.Any, *types: int) -> list[int]:
        """Those of the types of which one more fits."""
        found = self.ask('nvmlDeviceGetCreatableVgpus', device)
        return [number for number in types if number in found]

    def test_facts(self) -> None:
        self.open(a40(), a100())
        for number, function, expected in (
            (A40_8Q, 'nvmlVgpuTypeGetName', 'NVIDIA A40-8Q'),
            (A40_8Q, 'nvmlVgpuTypeGetClass', 'Quadro'),
            (A40_8Q, 'nvmlVgpuTypeGetFramebufferSize', 8 << 30),
            (A40_8Q, 'nvmlVgpuTypeGetGpuInstanceProfileId', NO_PROFILE),
            (
                A40_8Q,
                'nvmlVgpuTypeGetMaxInstancesPerGpuInstance',
                NOT_SUPPORTED,
            ),
            (A40_8Q, 'nvmlVgpuTypeGetMaxInstancesPerVm', 16),
            (A100_1_10C, 'nvmlVgpuTypeGetGpuInstanceProfileId', ONE_SLICE),
            (A100_3_40C, 'nvmlVgpuTypeGetGpuInstanceProfileId', THREE_SLICES),
            (A100_1_10C, 'nvmlVgpuTypeGetMaxInstancesPerGpuInstance', 1),
            (1, 'nvmlVgpuTypeGetName', INVALID_ARGUMENT),
        ):
            self.assertEqual(expected, self.ask(function, number), function)

    def test_those_of_a_gpu(self) -> None:
        self.open(a40(), a100())
        device = self.find(A40)
        supported = self.ask('nvmlDeviceGetSupportedVgpus', device)
        self.assertEqual([t.number for t in boards.A40.types], supported)
        self.assertEqual(
            6, self.ask('nvmlVgpuTypeGetMaxInstances', device, A40_8Q)
        )
        self.assertEqual(
            INVALID_ARGUMENT,
            self.ask('nvmlVgpuTypeGetMaxInstances', device, A100_20C),
        )
        self.library.path(A40, 'types').unlink()
        self.assertEqual(
            NOT_SUPPORTED, self.ask('nvmlDeviceGetSupportedVgpus', device)
        )

    def test_a_gpu_has_vgpus_of_one_size(self) -> None:
        self.open(a40())
        device = self.find(A40)
        both = (A40_8Q, A40_24Q, A40_8A)
        self.assertEqual([*both], self.creatable(device, *both))
        self.add_vgpu(A40, f'1 {A40_8Q} {VM} {MDEV} 0 - 5 - vgpu 0')
        self.assertEqual([A40_8Q, A40_8A], self.creatable(device, *both))
        for number in range(2, 7):
            self.add_vgpu(A40, f'{number} {A40_8Q} {VM} - 0 - 5 - vgpu 0')
        self.assertEqual([], self.creatable(device, *both))

    def test_a_gpu_instance_has_vgpus_of_one_size(self) -> None:
        self.open(a100('MIG 2g.20gb', 'MIG 1g.10gb', 'MIG 1g.10gb'))
        device = self.find(A100)
        every = (A100_20C, A100_1_10C, A100_2_20C, A100_3_40C)
        self.assertEqual(
            [A100_1_10C, A100_2_20C], self.creatable(device, *every)
        )
        self.add_vgpu(A100, f'1 {A100_2_20C} {VM} - - 1 5 - vgpu 0')
        self.assertEqual([A100_1_10C], self.creatable(device, *every))
        second = self.ask('nvmlDeviceGetGpuInstanceById', device, 2)
        self.assertEqual([A100_1_10C], self.ask('list_creatable_in', second))
        self.add_vgpu(A100, f'2 {A100_1_10C} {VM} - - 2 5 - vgpu 0')
        self.assertEqual([], self.ask('list_creatable_in', second))
        self.assertEqual([A100_1_10C], self.creatable(device, *every))

    def test_an_instance_that_vgpus_share(self) -> None:
        self.open(a100('MIG 1g.10gb'))
        device = self.find(A100)
        # Two of 5 GB, or three of 3 GB.
        (self.library.state / 'types').write_text(
            '1 19 5120 2 1 Compute GPU-1-5C\n'
            '2 19 5120 2 1 Quadro GPU-1-5Q\n'
            '3 19 3072 3 1 Compute GPU-1-3C\n'
        )
        self.library.path(A100, 'types').write_text('1 14\n2 14\n3 21\n')
        self.add_vgpu(A100, f'1 1 {VM} - - 1 5 - vgpu 0')
        self.assertEqual([1, 2], self.creatable(device, 1, 2, 3))
        self.add_vgpu(A100, f'2 2 {VM} - - 1 5 - vgpu 0')
        self.assertEqual([], self.creatable(device, 1, 2, 3))

    def test_without_mig_mode_types_share_time(self) -> None:
        self.open(a100(mig=False))
        self.assertEqual(
            [A100_20C], self.creatable(self.find(A100), A100_20C, A100_1_10C)
        )


class TestPlacements(NVMLTestCase):
    def places(
        self, what: str, device: typing.Any, number: int, *more: int
    ) -> typing.Any:
        found = self.ask(
            f'nvmlDeviceGetVgpuType{what}Placements', device, number, *more
        )
        if 'error' in found:
            return found
        return found['placementSize'], found['placementIds']

    def test_supported_in_both_modes(self) -> None:
        self.open(a40())
        device = self.find(A40)
        # Mixed with others, there are fewer of this type.
        self.library.path(A40, 'types').write_text(
            f'{A40_24Q} 2 48 0,48 48 0,48\n{A40_8Q} 6 16 0,32,64 16 0,16,32\n'
        )
        for mode, expected in (
            (0, (16, [0, 32, 64])),
            (1, (16, [0, 16, 32])),
        ):
            self.assertEqual(
                expected, self.places('Supported', device, A40_8Q, mode, 2)
            )
        self.assertEqual(
            (16, [0, 32, 64]), self.places('Supported', device, A40_8Q)
        )
        self.assertEqual(
            INVALID_ARGUMENT, self.places('Supported', device, A40_8A)
        )

    def test_creatable_beside_others(self) -> None:
        self.open(a40(mixed=True))
        device = self.find(A40)
        self.add_vgpu(A40, f'1 {A40_24Q} {VM} - 0 - 5 - vgpu 0')
        for version in (1, 2):
            self.assertEqual(
                (16, [48, 64, 80]),
                self.places('Creatable', device, A40_8Q, version),
            )
        self.add_vgpu(A40, f'2 {A40_8Q} {VM} - 64 - 5 - vgpu 0')
        self.assertEqual(
            (16, [48, 80]), self.places('Creatable', device, A40_8Q)
        )
        self.assertEqual((48, []), self.places('Creatable', device, A40_24Q))

    def test_vgpus_of_one_size(self) -> None:
        self.open(a40())
        device = self.find(A40)
        # The first version is for GPUs that mix sizes.
        self.assertEqual(
            NOT_SUPPORTED, self.places('Creatable', device, A40_8Q)
        )
        self.add_vgpu(A40, f'1 {A40_8Q} {VM} - 0 - 5 - vgpu 0')
        self.assertEqual(
            (16, [16, 32, 48, 64, 80]),
            self.places('Creatable', device, A40_8Q, 2),
        )
        self.assertEqual(
            (48, []), self.places('Creatable', device, A40_24Q, 2)
        )

    def test_the_mode_is_switched_while_the_gpu_has_no_vgpus(self) -> None:
        self.open(a40())
        device = self.find(A40)
        get, switch = (
            f'nvmlDevice{what}VgpuHeterogeneousMode' for what in ('Get', 'Set')
        )
        self.assertEqual(0, self.ask(switch, device, 1))
        self.assertEqual(1, self.ask(get, device))
        self.add_vgpu(A40, f'1 {A40_24Q} {VM} - 0 - 5 - vgpu 0')
        self.assertEqual(IN_USE, self.ask(switch, device, 0))
        self.assertEqual(1, self.ask(get, device))
        self.library.path(A40, 'heterogeneous').unlink()
        for function, arguments in ((get, []), (switch, [1])):
            self.assertEqual(
                NOT_SUPPORTED, self.ask(function, device, *arguments)
            )

    def test_not_in_mig_mode(self) -> None:
        self.open(a100())
        device = self.find(A100)
        for function, *arguments in (
            ('nvmlDeviceGetVgpuHeterogeneousMode',),
            ('nvmlDeviceSetVgpuHeterogeneousMode', 1),
            ('nvmlDeviceGetVgpuTypeCreatablePlacements', A100_20C, 2),
            ('nvmlDeviceGetVgpuSchedulerState',),
        ):
            self.assertEqual(
                NOT_SUPPORTED, self.ask(function, device, *arguments), function
            )


class TestVGPUs(NVMLTestCase):
    def test_of_guests_that_run(self) -> None:
        card = a40(
            simulation.Created('nvidia-562', 0, MDEV),
            simulation.Created('nvidia-562', 1),
        )
        self.open(card)
        device = self.find(A40)
        (vgpu,) = self.ask('nvmlDeviceGetActiveVgpus', device)
        for function, expected in (
            ('VmID', [VM, 1]),
            ('MdevUUID', MDEV),
            ('UUID', 'vgpu-0-0'),
            ('Type', A40_8Q),
            ('PlacementId', 0),
            ('GpuInstanceId', NO_PROFILE),
            ('GpuPciId', '00000000:41:00.0'),
            ('EccMode', 0),
            ('VmDriverVersion', '595.58.03'),
            ('LicenseStatus', 1),
        ):
            self.assertEqual(
                expected, self.ask(f'nvmlVgpuInstanceGet{function}', vgpu)
            )
        licence = self.ask('nvmlVgpuInstanceGetLicenseInfo', vgpu)
        self.assertEqual(
            (1, 5), (licence['isLicensed'], licence['currentState'])
        )

    def test_what_is_not_known(self) -> None:
        self.open(a100('MIG 1g.10gb'))
        self.add_vgpu(A100, f'7 {A100_1_10C} {VM} - - 1 - - vgpu -')
        for function, expected in (
            ('MdevUUID', NOT_SUPPORTED),
            ('PlacementId', NOT_SUPPORTED),
            ('GpuInstanceId', 1),
            ('EccMode', NOT_SUPPORTED),
            ('VmDriverVersion', 'Not Available'),
            ('LicenseStatus', NOT_SUPPORTED),
            ('LicenseInfo', NOT_SUPPORTED),
        ):
            self.assertEqual(
                expected, self.ask(f'nvmlVgpuInstanceGet{function}', 7)
            )
        self.assertEqual(NOT_FOUND, self.ask('nvmlVgpuInstanceGetType', 8))

    def test_one_that_no_guest_has(self) -> None:
        self.open(a100('MIG 1g.10gb'))
        device = self.find(A100)
        self.add_vgpu(A100, f'7 {A100_1_10C} - {MDEV} - 1')
        self.assertEqual([], self.ask('nvmlDeviceGetActiveVgpus', device))
        for function in ('VmID', 'UUID'):
            self.assertEqual(
                NOT_SUPPORTED, self.ask(f'nvmlVgpuInstanceGet{function}', 7)
            )
        # It takes the room all the same.
        self.assertEqual([], self.ask('nvmlDeviceGetCreatableVgpus', device))

    def test_of_a_guest_by_its_process(self) -> None:
        self.open(a100('MIG 1g.10gb'))
        device = self.find(A100)
        guest = subprocess.Popen(
            [
                sys.executable,
                '-c',
                'import sys; sys.stdin.read()',
                '-uuid',
                VM,
                '-m',
                '32',
            ],
            stdin=subprocess.PIPE,
        )
        try:
            self.add_vgpu(A100, f'7 {A100_1_10C} pid:{guest.pid} {MDEV} - 1')
            self.assertEqual([7], self.ask('nvmlDeviceGetActiveVgpus', device))
            self.assertEqual([VM, 1], self.ask('nvmlVgpuInstanceGetVmID', 7))
        finally:
            guest.communicate()
        self.assertEqual(NOT_SUPPORTED, self.ask('nvmlVgpuInstanceGetVmID', 7))


class TestKernel(NVMLTestCase):
    """A GPU whose files are those of a kernel module; none refuses here."""

    def open_one(self, *creatable: int) -> typing.Any:
        self.open(a100('MIG 2g.20gb'))
        self.library.path(A100, 'creatable').write_text(
            ''.join(f'{number}\n' for number in creatable)
        )
        return self.find(A100)

    def assert_told(self, name: str, text: str) -> None:
        """It was written over the beginning of the file, which stays."""
        path = self.library.path(A100, name)
        self.assertEqual(text, path.read_text()[: len(text)])
        self.assertEqual([], list(path.parent.glob('*.new')))

    def test_what_fits(self) -> None:
        # Its own rules would have another one.
        device = self.open_one(A100_1_10C)
        self.assertEqual(
            [A100_1_10C], self.ask('nvmlDeviceGetCreatableVgpus', device)
        )

    def test_changes(self) -> None:
        device = self.open_one()
        instance = self.ask('nvmlDeviceGetGpuInstanceById', device, 1)
        (compute,) = self.ask('list_compute_instances', instance)
        path = self.library.path(A100, 'instances')
        before = path.read_text()
        for function, command in (
            ('nvmlComputeInstanceDestroy', 'dci 1'),
            ('nvmlGpuInstanceDestroy', 'dgi 1'),
        ):
            which = compute if 'Compute' in function else instance
            self.assertEqual(0, self.ask(function, which))
            self.assert_told('instances', command)
            path.write_text(before)
        path.write_text(before.replace(' 1\n', ' 0\n'))
        self.ask('nvmlGpuInstanceCreateComputeInstance', instance, 0)
        self.assert_told('instances', 'cci 1')
        path.write_text(before)
        self.ask('create_at', device, TWO_SLICES, 2)
        self.assert_told('instances', f'cgi {TWO_SLICES} 2')
        path.write_text(before)
        # The kernel decides whether virtual functions are in the way.
        self.assertEqual(0, self.ask('nvmlDeviceSetMigMode', device, 0))
        self.assert_told('mig', '0')

    def test_a_mode_of_sizes(self) -> None:
        self.open(a40())
        self.library.path(A40, 'creatable').write_text('')
        self.assertEqual(
            0,
            self.ask('nvmlDeviceSetVgpuHeterogeneousMode', self.find(A40), 1),
        )
        self.assertEqual(
            '1\n', self.library.path(A40, 'heterogeneous').read_text()
        )


class TestReaders(testtools.TestCase):
    """What the project reads, by the real binding."""

    def read(self, function: str, *gpus: nvml_state.GPU, **files: str) -> str:
        """The result of a reader; the files are those of the first GPU."""
        self.library = self.useFixture(fake_nvml.FakeNVML(*gpus))
        address = str(gpus[0].card.address)
        for name, text in files.items():
            self.library.path(address, name).write_text(text)
        module, _, name = function.rpartition('.')
        addresses = [str(gpu.card.address) for gpu in gpus]
        return self.library.run(
            'from nova_vgpu import values\n'
            f'from nova_vgpu.host import {module}\n'
            f'gpus = map(values.PciAddress.parse, {addresses})\n'
            'found = tuple(values.PhysicalGPU(a.node_device_name, a, '
            "driver='nvidia') for a in gpus)\n"
            f'print({module}.{name}(values.Host(found)))'
        )

    def test_modes(self) -> None:
        # Another test is about types that are backed by MIG.
        card = a100().card
        board = dataclasses.replace(card.board, types=())
        plain = dataclasses.replace(
            a100(), card=dataclasses.replace(card, board=board)
        )
        found = self.read(
            'gpu_modes.read_modes',
            a40(mixed=True),
            plain,
            ecc='1 0\n',
            types='',
        )
        address = values.PciAddress.parse
        expected = values.ModesRead(
            (
                (
                    address(A40),
                    values.GPUModes(
                        values.GPUMode(True, False),
                        None,
                        True,
                        values.SchedulerPolicy.BEST_EFFORT,
                    ),
                ),
                (
                    address(A100),
                    values.GPUModes(
                        values.GPUMode(False, False),
                        values.GPUMode(True, True),
                        mig_types=(),
                        gpu_instances=PROFILES,
                        processes=(),
                    ),
                ),
            ),
            '595.58.03',
        )
        self.assertEqual(repr(expected), found)

    def test_gpu_instances(self) -> None:
        found = self.read(
            'gpu_modes.read_modes',
            a100('MIG 2g.20gb', 'MIG 1g.10gb', 'MIG 1g.10gb'),
            types=f'{A100_20C} 4\n{A100_1_10C} 7\n{A100_2_20C} 3\n'
            f'{A100_3_40C} 2\n',
        )
        expected = tuple(
            values.MigType(
                *(f'nvidia-{number}', f'GRID A100D-{name}', profile_id),
                *(profile, instances, 1),
            )
            for number, name, profile_id, profile, instances in (
                (A100_1_10C, '1-10C', ONE_SLICE, '1g.10gb', 2),
                (A100_2_20C, '2-20C', TWO_SLICES, '2g.20gb', 1),
                (A100_3_40C, '3-40C', THREE_SLICES, '3g.40gb', 0),
            )
        )
        self.assertIn(f'mig_types={expected!r}', found)

    def test_slots_of_types_that_mix(self) -> None:
        """In heterogeneous mode, whether it is on or not."""
        for mixed in (False, True):
            found = self.read(
                'gpu_modes.read_modes',
                a40(mixed=mixed),
                types=f'{A40_24Q} 2 48 0,48 48 0,48\n'
                f'{A40_8Q} 6 16 0,32,64 16 0,16,32\n',
            )
            expected = (
                values.TypeSlots(
                    f'nvidia-{A40_24Q}', 'NVIDIA A40-24Q', 48, (0, 48)
                ),
                values.TypeSlots(
                    f'nvidia-{A40_8Q}', 'NVIDIA A40-8Q', 16, (0, 32, 64)
                ),
            )
            self.assertIn(f'slots={expected!r}', found)

    def test_they_are_those_of_the_simulated_machine(self) -> None:
        """Whose modes many tests take in place of NVML's."""
        guest = f'GRID {migs.TWO}'
        machine = live.LiveHost(
            migs.gpu('2g.20gb', '2g.20gb', '1g.10gb', '1g.10gb', vfs=8)
        )
        self.useFixture(machine)
        machine.boot('ai', migs.FIRST, guest)
        machine.set_type(migs.SECOND, guest)  # NVML does not show it
        kernel = machine.machine.kernel
        (card,) = kernel.get_gpus()
        *others, half_made, busy = card.gpu_instances
        kernel.update(
            card.address,
            gpu_instances=(
                *others,
                dataclasses.replace(half_made, is_complete=False),
                dataclasses.replace(busy, has_process=True),
            ),
        )
        kernel.settle()
        (card,) = kernel.get_gpus()
        first = values.PciAddress.parse(migs.FIRST)
        seen = nvml_state.GPU(card, {first.node_device_name: VM})
        expected = modes.read_modes(kernel).of(card.address)
        assert expected.gpu_instances is not None
        self.assertEqual(
            [
                (1, True, 1, True),
                (2, False, 0, True),
                (half_made.id, False, 0, False),
                (busy.id, True, 0, True),
            ],
            sorted(
                (i.id, i.is_used, i.vgpus, i.is_complete)
                for i in expected.gpu_instances.instances
            ),
        )
        found = self.read('gpu_modes.read_modes', seen)
        self.assertIn(f'gpu_instances={expected.gpu_instances!r}', found)
        self.assertIn(f'mig_types={expected.mig_types!r}', found)
        self.assertEqual((1000 + busy.id,), expected.processes)
        self.assertIn(f'processes={expected.processes!r}', found)

    def test_processes_of_a_gpu_that_may_be_in_mig_mode(self) -> None:
        for has_process, expected in ((True, '(1000,)'), (False, '()')):
            card = dataclasses.replace(
                migs.switchable(), has_process=has_process
            )
            found = self.read('gpu_modes.read_modes', nvml_state.GPU(card))
            self.assertIn(f'processes={expected}', found)
        found = self.read('gpu_modes.read_modes', a40(mixed=False))
        self.assertIn('processes=None', found)

    def test_processes_that_nvml_does_not_tell(self) -> None:
        for function, expected in (
            ('nvmlDeviceGetComputeRunningProcesses_v3', 'None'),
            ('nvmlDeviceGetGraphicsRunningProcesses_v3', '()'),
        ):
            self.library = self.useFixture(
                fake_nvml.FakeNVML(nvml_state.GPU(migs.switchable()))
            )
            self.library.fail(f'{function} 3')
            found = self.library.run(
                'from nova_vgpu import values\n'
                'from nova_vgpu.host import gpu_modes\n'
                f'address = values.PciAddress.parse({migs.ADDRESS!r})\n'
                'print(gpu_modes.read_gpus([address]))'
            )
            self.assertIn(f'processes={expected}', found, function)

    def test_gpu_instances_whose_use_nvml_does_not_tell(self) -> None:
        for function, error, expected in (
            ('nvmlDeviceGetActiveVgpus', 3, 'is_used=None'),
            ('nvmlVgpuInstanceGetGpuInstanceId', 999, 'is_used=None'),
            ('nvmlDeviceGetComputeRunningProcesses_v3', 4, 'is_used=None'),
            ('nvmlDeviceGetGraphicsRunningProcesses_v3', 3, 'is_used=False'),
            ('nvmlGpuInstanceGetComputeInstances', 3, 'is_complete=True'),
            ('nvmlGpuInstanceGetInfo', 4, 'gpu_instances=None'),
            ('nvmlDeviceGetGpuInstances', 4, 'gpu_instances=None'),
        ):
            self.library = self.useFixture(
                fake_nvml.FakeNVML(a100('MIG 1g.10gb', 'MIG 1g.10gb'))
            )
            self.library.path(A100, 'vgpus').write_text(
                f'7 {A100_1_10C} {VM} {MDEV} 0 1 5 595.58.03 vgpu-1 0\n'
            )
            self.library.fail(f'{function} {error}')
            found = self.library.run(
                'from nova_vgpu import values\n'
                'from nova_vgpu.host import gpu_modes\n'
                f'address = values.PciAddress.parse({A100!r})\n'
                'print(gpu_modes.read_gpus([address]))'
            )
            self.assertIn(expected, found, function)

    def test_a_process_that_is_on_no_instance(self) -> None:
        """It may be on any."""
        found = self.read(
            'gpu_modes.read_modes',
            a100('MIG 1g.10gb'),
            processes='17 compute -\n',
        )
        self.assertIn('is_used=None', found)

    def test_gpu_instances_that_nvml_does_not_tell_everything_of(self) -> None:
        for function, error, expected in (
            # Only root may count instances.
            ('nvmlDeviceGetGpuInstances', 4, 'mig_types=()'),
            # Drivers before 575.
            (
                'nvmlVgpuTypeGetMaxInstancesPerGpuInstance',
                13,
                "profile='1g.10gb', instances=1, vgpus=None",
            ),
            ('nvmlDeviceGetSupportedVgpus', 3, 'mig_types=None'),
        ):
            self.library = self.useFixture(
                fake_nvml.FakeNVML(a100('MIG 1g.10gb'))
            )
            self.library.fail(f'{function} {error}')
            found = self.library.run(
                'from nova_vgpu import values\n'
                'from nova_vgpu.host import gpu_modes\n'
                f'address = values.PciAddress.parse({A100!r})\n'
                'print(gpu_modes.read_gpus([address]))'
            )
            self.assertIn(expected, found, function)

    def test_guest_drivers(self) -> None:
        found = self.read(
            'guest_drivers.read_guest_drivers',
            a40(),
            vgpus=(
                f'1 {A40_8Q} {VM} {MDEV} 0 - 5 595.58.03 vgpu-1 0\n'
                f'2 {A40_8Q} {OTHER_VM} - 0 - 3 - vgpu-2 0\n'
            ),
        )
        gpu = values.PciAddress.parse(A40)
        expected = (
            values.GuestDriver(
                gpu,
                VM,
                MDEV,
                True,
                '595.58.03',
                values.GuestLicence.LICENSED,
            ),
            values.GuestDriver(
                gpu,
                OTHER_VM,
                'vgpu-2',
                False,
                licence=values.GuestLicence.RESTRICTED,
            ),
        )
        self.assertEqual(repr(expected), found)

    def test_processes(self) -> None:
        found = self.read(
            'gpu_processes.read_processes',
            a40(),
            processes='17 compute\n18 graphics\n17 graphics\n',
        )
        gpu = values.PciAddress.parse(A40)
        self.assertEqual(repr({gpu: (17, 18)}), found)

    def test_nvlinks(self) -> None:
        """Two to another GPU, one to a switch, one that is down."""
        found = self.read(
            'nvlinks.read_nvlinks',
            a40(),
            a100(),
            nvlinks=(
                f'0 1 {A100} 0\n1 1 {A100} 0\n2 1 0000:05:00.0 2\n3 0 - -\n'
            ),
        )
        address = values.PciAddress.parse
        expected = values.NVLinksRead(
            (
                values.NVLinks(address(A40), ((address(A100), 2),), 1),
                values.NVLinks(address(A100), (), 0),
            )
        )
        self.assertEqual(repr(expected), found)

    def test_a_host_without_the_driver(self) -> None:
        library = self.useFixture(fake_nvml.FakeNVML(a40()))
        (library.state / 'driver_version').unlink()
        found = library.run(
            'from nova_vgpu.host import nvml\n'
            'try:\n'
            '    nvml.use(lambda library: None)\n'
            'except nvml.UnavailableError as error:\n'
            '    print(error)\n'
        )
        self.assertEqual('NVML failed: Driver Not Loaded', found)

    def test_a_call_that_hangs(self) -> None:
        """It is given up, and NVML asked again once the call returns."""
        library = self.useFixture(fake_nvml.FakeNVML(a40()))
        library.fail('nvmlDeviceGetHandleByPciBusId_v2 hang')
        found = library.run(
            'import pathlib, threading\n'
            'from nova_vgpu import values\n'
            'from nova_vgpu.host import nvml\n'
            f'address = values.PciAddress.parse({A40!r})\n'
            'def ask(seconds):\n'
            '    try:\n'
            '        find = lambda library: library.find_gpu(address)\n'
            '        print(nvml.use(find, seconds) is not None)\n'
            '    except nvml.UnavailableError as error:\n'
            '        print(error)\n'
            'ask(0.1)\n'
            'ask(60)\n'
            f'pathlib.Path({str(library.state / "fail")!r}).unlink()\n'
            'for thread in threading.enumerate():\n'
            '    if thread is not threading.current_thread():\n'
            '        thread.join()\n'
            'ask(60)\n'
        )
        self.assertEqual(
            [
                'NVML did not answer within 0.1 s',
                'an earlier call to NVML has not returned',
                'True',
            ],
            found.splitlines(),
        )
