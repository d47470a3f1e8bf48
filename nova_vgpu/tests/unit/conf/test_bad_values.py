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

"""Values that make no sense are problems, and all of them are told."""

from nova_vgpu import values
from nova_vgpu.tests.unit.conf import test_devices


class TestBadValues(test_devices.ConfTestCase):
    def test_a_bad_value_is_a_problem_and_counts_as_not_set(self) -> None:
        for case, line, option in (
            ('a word', 'max_instances = many', 'max_instances'),
            ('zero', 'max_instances = 0', 'max_instances'),
            ('less than that', 'max_instances = -1', 'max_instances'),
            ('small letters', 'resource_class = vgpu', 'resource_class'),
            ('no prefix', 'resource_class = SMALL', 'resource_class'),
            ('a bad letter', 'mdev_class = CUSTOM-X', 'resource_class'),
            ('empty', 'resource_class =', 'resource_class'),
            (
                'too long',
                f'resource_class = CUSTOM_{"A" * 249}',
                'resource_class',
            ),
            (
                'refers to nothing',
                'device_addresses = $nothing',
                'device_addresses',
            ),
            ('refers to a group', 'traits = $devices', 'traits'),
            ('refers to no group', 'traits = $a.b', 'traits'),
        ):
            declaration, problems = self.read(
                f'[devices]\nenabled_vgpu_types = a\n[vgpu_a]\n{line}\n'
            )
            self.assertEqual(
                (values.DeclaredType('a', 'vgpu_a'),),
                declaration.types,
                case,
            )
            (problem,) = problems
            self.assertEqual('bad-value', problem.code, case)
            self.assertEqual(values.Severity.FATAL, problem.severity, case)
            self.assertIn(f'[vgpu_a]{option}', problem.message, case)

    def test_the_message_says_what_is_right(self) -> None:
        _declaration, (problem,) = self.read(
            '[devices]\nunlisted_gpus = perhaps\n'
        )
        self.assertEqual(
            '[devices]unlisted_gpus is invalid: Valid values are [first-type, '
            "ignore], but found 'perhaps'.",
            problem.message,
        )
        self.assertNotIn('LocationInfo', str(problem))

    def test_mig_mode_is_not_switched_by_a_word(self) -> None:
        declaration, (problem,) = self.read(
            '[devices]\nswitch_mig_mode = perhaps\n'
        )
        self.assertFalse(declaration.switches_mig_mode)
        self.assertEqual('[devices]switch_mig_mode', problem.subject)
        self.assertEqual('Set it to true or false.', problem.cure)

    def test_the_message_names_the_section_that_was_written(self) -> None:
        _declaration, (problem,) = self.read(
            '[devices]\nenabled_mdev_types = a\n[mdev_a]\nmax_instances = 0\n'
        )
        self.assertEqual('[mdev_a]max_instances', problem.subject)

    def test_all_at_once(self) -> None:
        _declaration, problems = self.read("""
[devices]
enabled_vgpu_types = a, b
unlisted_gpus = perhaps
[vgpu_a]
max_instances = 0
resource_class = x
[mdev_b]
max_instances = 0
""")
        self.assertEqual(
            {
                '[devices]unlisted_gpus',
                '[vgpu_a]max_instances',
                '[vgpu_a]resource_class',
                '[mdev_b]max_instances',
            },
            {problem.subject for problem in problems},
        )

    def test_a_list_of_types_that_is_refused_enables_none(self) -> None:
        declaration, (problem,) = self.read(
            '[devices]\nenabled_vgpu_types = a, $nothing\n'
        )
        self.assertEqual((), declaration.types)
        self.assertEqual('[devices]enabled_vgpu_types', problem.subject)
