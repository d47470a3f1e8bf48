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

"""The planner, without Nova: what is declared, and when a plan is made."""

from collections.abc import Sequence
import pathlib
import types
import typing

import fixtures
from oslo_config import cfg
import testtools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.compute import log
from nova_vgpu.compute import planner
from nova_vgpu.host import files
from nova_vgpu.host import state_files
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import kernel
from nova_vgpu.tests import hosts

T4 = 'pci_0000_84_00_0'


class PlannerTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.kernel = kernel.Kernel(hosts.gpu('84:00.0', boards.T4))
        self.tables: typing.Any = types.SimpleNamespace()
        self.asked = 0

    def make(self, lines: str = '') -> planner.Planner:
        file = self.root / 'nova.conf'
        file.write_text(lines)
        conf = cfg.ConfigOpts()
        conf(['--config-file', str(file)], default_config_files=[])

        def connect() -> typing.NoReturn:
            raise AssertionError('libvirt is not asked')

        made = planner.Planner(
            conf, connect, log.FailureLog(), self.tables, self.read_modes
        )
        made.modes.proc = files.Files(str(self.root / 'proc'))
        made.sysfs = self.kernel.files
        made.state_path = str(self.root / 'state')
        made.own_state_path = str(self.root / 'own')
        made.read_declaration()
        return made

    def read_modes(
        self, gpus: Sequence[values.PciAddress]
    ) -> values.ModesRead:
        self.asked += 1
        modes = values.GPUModes(mig=values.GPUMode(True, True))
        return values.ModesRead(tuple((gpu, modes) for gpu in gpus))

    def test_a_mig_mode_that_nvml_does_not_tell(self) -> None:
        """This service switches none, so it does not matter here."""
        self.kernel.gpus[:] = [hosts.gpu('84:00.0', boards.A100D, vfs=16)]
        self.kernel.settle()
        made = self.make(
            '[devices]\nenabled_vgpu_types = A100D-1-10C\n'
            'switch_mig_mode = true\n'
        )
        codes = [problem.code for problem in made.make_plan().problems]
        self.assertNotIn('mig-mode-unknown', codes)

    def test_a_plan_has_what_nvml_told_before(self) -> None:
        """A plan does not ask it; what it tells then leads to another."""
        self.kernel.gpus[:] = [hosts.gpu('84:00.0', boards.A100D, vfs=16)]
        self.kernel.settle()
        made = self.make('[devices]\nenabled_vgpu_types = A100D-1-10C\n')
        made.make_plan()
        plan = made.make_plan()
        self.assertEqual(0, self.asked)
        for expected in (values.GPUMode(True, True),) * 2:
            made.refresh_modes()
            (assigned,) = made.make_plan().assignments
            self.assertEqual(expected, assigned.modes.mig)
        self.assertIsNot(plan, made.make_plan())
        self.assertIs(made.make_plan(), made.make_plan())
        self.assertEqual(1, self.asked)

    def test_the_host_is_not_read_again_for_nvml(self) -> None:
        made = self.make('[devices]\nenabled_vgpu_types = T4-8Q\n')
        made.make_plan()
        made.make_plan()
        made.sysfs = None  # libvirt would be asked, which fails here
        made.refresh_modes()

    def test_nvml_is_asked_for_types_that_are_backed_by_mig(self) -> None:
        self.kernel.gpus[:] = [hosts.gpu('84:00.0', boards.A100D, vfs=16)]
        self.kernel.settle()
        for declared, asked in (
            ('A100D-20C', 0),
            ('nvidia-696', 0),
            ('A100D-1-10C', 1),
            ('nvidia-699', 1),
            ('A100D-20C, A100D-1-10C', 1),
        ):
            self.asked = 0
            self.make(
                f'[devices]\nenabled_vgpu_types = {declared}\n'
            ).refresh_modes()
            self.assertEqual(asked, self.asked, declared)
        self.asked = 0
        self.make().refresh_modes()
        self.assertEqual(0, self.asked)

    def test_nvml_is_asked_where_sizes_may_mix(self) -> None:
        self.kernel.gpus[:] = [hosts.gpu('84:00.0', boards.A10, vfs=16)]
        self.kernel.settle()
        for entry, asked in (('84:00.0', 0), ('84:00.0=2', 1)):
            self.asked = 0
            self.make(
                '[devices]\nenabled_vgpu_types = A10-4Q\n'
                f'[vgpu_A10-4Q]\ndevice_addresses = {entry}\n'
            ).refresh_modes()
            self.assertEqual(asked, self.asked, entry)

    def test_it_is_made_again_only_if_the_host_has_changed(self) -> None:
        made = self.make('[devices]\nenabled_vgpu_types = T4-8Q\n')
        made.make_plan()  # from now on it is known what ids mean
        plan = made.make_plan()
        (assigned,) = plan.assignments
        self.assertEqual(T4, assigned.gpu.name)
        self.assertIs(plan, made.make_plan())
        self.assertEqual(['nvidia-233'], self.tables.supported_vgpu_types)
        self.assertEqual(
            {'0000:84:00.0': 'nvidia-233'}, self.tables.pgpu_type_mapping
        )
        self.assertEqual('GRID T4-8Q', made.type_names['nvidia-233'])
        self.kernel.gpus[:] = []
        self.kernel.settle()
        self.assertEqual((), made.make_plan().assignments)
        self.assertEqual(['T4-8Q'], self.tables.supported_vgpu_types)
        self.assertEqual({}, self.tables.pgpu_type_mapping)

    def test_only_the_first_plan_stops_the_service(self) -> None:
        lines = (
            '[devices]\nenabled_vgpu_types = T4-8Q\n'
            '[vgpu_T4-8Q]\ndevice_addresses = 0000:99:00.0\n'
        )
        made = self.make(lines)
        for _ in range(2):
            self.assertRaises(
                exception.InvalidLibvirtGPUConfig, made.make_plan
            )
        self.assertEqual({}, vars(self.tables))
        made.accept()
        (assigned,) = made.make_plan().assignments
        self.assertEqual(T4, assigned.gpu.name)
        self.assertIn('0000:99:00.0', self.log.output)

    def test_a_gpu_that_was_here_is_not_a_mistake(self) -> None:
        lines = (
            '[devices]\nenabled_vgpu_types = T4-8Q\n'
            '[vgpu_T4-8Q]\ndevice_addresses = 0000:84:00.0\n'
        )
        self.make(lines).make_plan()
        self.kernel.gpus[:] = []
        self.kernel.settle()
        self.assertEqual((), self.make(lines).make_plan().assignments)

    def test_with_nothing_declared_no_file_is_read(self) -> None:
        self.make()
        self.assertEqual(['nova.conf'], [p.name for p in self.root.iterdir()])

    def test_what_could_not_be_stored_is_stored_with_the_next_plan(
        self,
    ) -> None:
        own = self.root / 'own'
        own.write_text('not a directory')
        made = self.make(
            '[devices]\nenabled_vgpu_types = T4-8Q\n'
            '[vgpu_T4-8Q]\ndevice_addresses = 0000:84:00.0\n'
        )
        made.make_plan()
        self.assertIn(planner.STORE_FAILED, self.log.output)
        own.unlink()
        made.make_plan()
        self.assertIn('84:00.0', (own / state_files.GPUS_FILE).read_text())
