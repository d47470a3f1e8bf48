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

"""``config generate`` as an operator runs it."""

from nova_vgpu.tests.unit.cmd import test_commands

GENERATE = ('config', 'generate')


class TestGenerate(test_commands.CommandTestCase):
    def generate(self, *arguments: str) -> test_commands.Answer:
        """Generate, with no configuration anywhere."""
        return self.run_on_host(*GENERATE, *arguments, config=False)

    def plan(self) -> dict[str, str]:
        rows = self.run_on_host('plan', '--node', 'x', '-f', 'json').json
        return {row['GPU']: row['Type'] for row in rows if row['Type'] != '-'}

    def test_the_output_is_the_configuration(self) -> None:
        for reader in ('nova-vgpu', 'nova'):
            answer = self.generate(
                *('--type', 'T4-2Q', '--type', '41:00.0=A40-8Q'),
                *('--for', reader),
            )
            self.assertEqual((0, ''), (answer.code, answer.stderr), reader)
            self.config.write_text(answer.stdout)
            self.assertEqual(
                {
                    '0000:41:00.0': 'A40-8Q',
                    '0000:84:00.0': 'T4-2Q',
                    '0000:85:00.0': 'T4-2Q',
                },
                self.plan(),
                reader,
            )
            answer = self.run_on_host('check', '--strict')
            self.assertEqual(0, answer.code, answer.stdout)

    def test_a_gpu_in_any_spelling(self) -> None:
        expected = self.generate('--type', '0000:85:00.0=T4-2Q').stdout
        self.assertIn('device_addresses = 0000:85:00.0\n', expected)
        for spelling in ('85:00.0', '00000000:85:00.0', 'pci_0000_85_00_0'):
            answer = self.generate('--type', f'{spelling}=T4-2Q')
            self.assertEqual(expected, answer.stdout, spelling)

    def test_a_gpu_that_is_not_ready_is_told_of(self) -> None:
        answer = self.generate('--type', 'A40-8Q')
        self.assertEqual(0, answer.code)
        self.assertIn('# 0000:c1:00.0: A40, not ready yet\n', answer.stdout)
        self.assertIn('error: GPU 0000:c1:00.0', answer.stderr)
        self.assertIn('nova-vgpu sriov enable 0000:c1:00.0', answer.stderr)

    def test_functions_as_pci_devices(self) -> None:
        answer = self.generate('--type', 'L40S-24Q', '--for', 'pci')
        self.assertEqual(0, answer.code)
        self.assertIn('"address": "0001:c8:00.4"', answer.stdout)
        self.assertIn('warning: GPU 0001:c8:00.0: 1 of 2', answer.stderr)

    def test_mistakes_leave_standard_output_empty(self) -> None:
        for arguments, word in (
            ((), '--type'),
            (('--type', 'T4-Q2'), 'T4-2Q'),
            (('--type', '84:00.0=A40-8Q'), 'GPU 0000:84:00.0'),
            (('--type', 'T4-2Q', '--type', 'T4-4Q'), 'GPU 0000:84:00.0'),
            (('--type', '99:00.0=T4-2Q'), '0000:84:00.0'),
            (('--type', 'e1:00.0=T4-2Q'), 'is not a GPU'),
            (('--type', '41:00.4=A40-8Q'), 'GPU 0000:41:00.0'),
            (('--type', '84:00.0='), 'GPU=TYPE'),
            (('--type', ' '), 'GPU=TYPE'),
            (('--type', 'T4-2Q', '--for', 'pci'), '--for nova'),
            (('--type', 'L40S-24Q', '--for', 'nova'), '--for pci'),
            (('--type', 'A40-8Q', '--for', 'nova'), 'GPU 0000:c1:00.0'),
            (('--type', 'T4-2Q', '--for', 'cinder'), 'cinder'),
        ):
            answer = self.generate(*arguments)
            found = answer.code, answer.stdout
            self.assertEqual((2, ''), found, str(arguments))
            self.assertIn(word, answer.stderr)
