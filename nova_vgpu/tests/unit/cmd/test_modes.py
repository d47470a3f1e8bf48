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

"""A GPU whose MIG mode does not fit its type: each command says so."""

from nova_vgpu.tests.unit.cmd import test_commands
from nova_vgpu.tests.unit.cmd import test_doctor


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
