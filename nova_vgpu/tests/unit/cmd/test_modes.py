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

"""What NVML tells of modes and GPU instances: each command says the same."""

import types
import typing

from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests.unit.cmd import test_commands
from nova_vgpu.tests.unit.cmd import test_doctor
from nova_vgpu.tests.unit.host import test_gpu_modes

DECLARED = """
[devices]
enabled_vgpu_types = A100D-1-10C
[vgpu_A100D-1-10C]
device_addresses = 84:00.0
"""


class InstancesNVML(test_gpu_modes.FakeNVML):
    """The binding on a host with an A100 in MIG mode.

    As much as these commands ask; other tests ask the real binding.
    """

    #: By the ids of their profiles.
    instances: typing.ClassVar[dict[int, int]] = {19: 3}
    profiles: typing.ClassVar[dict[int, int]] = {699: 19, 700: 14}

    def __init__(self) -> None:
        super().__init__(
            nvmlDeviceGetMigMode=[1, 1],
            nvmlDeviceGetSupportedVgpus=[692, 699, 700],
            nvmlVgpuTypeGetMaxInstancesPerGpuInstance=1,
        )
        self.counts = dict(self.instances)

    def nvmlVgpuTypeGetGpuInstanceProfileId(self, number: int) -> int:
        return self.profiles.get(number, 0xFFFFFFFF)

    def nvmlVgpuTypeGetName(self, number: int) -> str:
        (found,) = (t for t in boards.A100D.types if t.number == number)
        assert found.name is not None
        return found.name

    def nvmlDeviceGetGpuInstanceProfileInfo(
        self, _gpu: object, number: int
    ) -> types.SimpleNamespace:
        known = {0: (19, 'MIG 1g.10gb', 7), 1: (14, 'MIG 2g.20gb', 3)}
        if number not in known:
            raise test_gpu_modes.FakeNVMLError
        profile, name, most = known[number]
        return types.SimpleNamespace(
            id=profile,
            name=name,
            instanceCount=most,
            sliceCount=number + 1,
            memorySizeMB=9728 * (number + 1),
        )

    def nvmlDeviceGetGpuInstances(
        self, _gpu: object, profile: int, _room: object, count: typing.Any
    ) -> None:
        count._obj.value = self.counts.get(profile, 0)


class TestGPUInstances(test_doctor.DoctorTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.config.write_text(DECLARED)
        self.write_gpus(hosts.gpu('84:00.0', boards.A100D, vfs=16))
        self.nvml = InstancesNVML()
        self.set_library(self.nvml)

    def ask(self, *arguments: str) -> test_commands.Answer:
        return self.run_bare(
            *('--config-file', str(self.config)),
            *('--state-dir', str(self.state)),
            *arguments,
        )

    def test_plan(self) -> None:
        answer = self.ask('plan', '--node', 'compute1', '-f', 'json')
        (row,) = answer.json
        self.assertEqual((3, 'GPU instances'), (row['Total'], row['Bound by']))
        self.assertNotIn('MIG', answer.stderr)

    def test_types(self) -> None:
        rows = self.ask('type', 'list', '-f', 'json').json
        self.assertEqual(
            [3, 0],
            [
                row['Free']
                for row in rows
                if row['ID'] in ('nvidia-699', 'nvidia-700')
            ],
        )

    def test_generation(self) -> None:
        self.write_gpus(
            hosts.gpu('84:00.0', boards.A100D, vfs=16, vendor_vfio=True)
        )
        for library, functions, is_unknown in (
            (self.nvml, 3, False),
            (None, 7, True),
        ):
            self.set_library(library)
            answer = self.ask(
                *('config', 'generate', '--type', 'A100D-1-10C'),
                *('--for', 'pci'),
            )
            self.assertEqual(functions, answer.stdout.count('device_spec ='))
            self.assertEqual(is_unknown, 'is unknown' in answer.stderr)

    def test_without_an_instance(self) -> None:
        self.nvml.counts = {14: 3}
        (row,) = self.ask('check', '-f', 'json').json
        self.assertEqual(
            ('error', 'no-gpu-instance'), (row['Severity'], row['Code'])
        )
        found = self.findings()['no-gpu-instance']
        self.assertIn('1g.10gb', found['Finding'])
        self.assertEqual(
            {'source': 'NVML, MIG mode', 'value': 'on'}, found['Evidence'][0]
        )

    def test_without_nvml(self) -> None:
        self.set_library(None)
        (row,) = self.ask('check', '-f', 'json').json
        self.assertEqual('maximum-unknown', row['Code'])


class TestMig(test_doctor.DoctorTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.library.answers['nvmlDeviceGetMigMode'] = [1, 1]

    def ask(self, *arguments: str) -> test_commands.Answer:
        return self.run_bare(
            *('--config-file', str(self.config)),
            *('--state-dir', str(self.state)),
            *arguments,
        )

    def test_check(self) -> None:
        answer = self.ask('check', '-f', 'json')
        self.assertEqual(2, answer.code)
        (row,) = answer.json
        self.assertEqual(('error', 'mig-on'), (row['Severity'], row['Code']))

    def test_plan_and_generation(self) -> None:
        for command in (
            ('plan', '--node', 'compute1'),
            ('config', 'generate', '--type', 'T4-2Q'),
        ):
            answer = self.ask(*command)
            self.assertEqual(0, answer.code, command[0])
            self.assertIn('cannot be created in MIG mode', answer.stderr)

    def test_the_doctor_shows_the_evidence_once(self) -> None:
        rows = self.examine('-f', 'json').json
        told = [row for row in rows if row['Severity'] == 'error']
        self.assertEqual(['mig-on'], [row['Code'] for row in told])
        self.assertEqual(
            {'source': 'NVML, MIG mode', 'value': 'on'}, told[0]['Evidence'][0]
        )

    def test_a_host_elsewhere_has_modes_of_its_own(self) -> None:
        answer = self.ask(
            'check', '--sysfs-root', str(self.root / 'sys'), '-f', 'json'
        )
        self.assertEqual((0, []), (answer.code, answer.json))

    def test_nothing_is_claimed_without_nvml(self) -> None:
        self.set_library(None)
        self.assertEqual([], self.ask('check', '-f', 'json').json)
