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

"""A configuration with Nova's names, where it means something else to Nova."""

import pathlib

import fixtures
import testtools

from nova_vgpu import configuration
from nova_vgpu import values
from nova_vgpu.plan import mapper
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts

T4S = hosts.make_host(
    hosts.gpu('84:00.0', boards.T4),
    hosts.gpu('85:00.0', boards.T4),
    hosts.gpu('86:00.0', boards.T4),
)
ONE = '[mdev_nvidia-231]\ndevice_addresses = 84:00.0\n'
OTHER = '[mdev_nvidia-232]\ndevice_addresses = 85:00.0\n'
TYPES = '[devices]\nenabled_mdev_types = nvidia-231, nvidia-232\n'


class NovasNamesTestCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.FakeLogger())  # "Deprecated: …"
        self.directory = self.useFixture(fixtures.TempDir()).path

    def load(self, text: str) -> values.Configuration:
        """As the commands do it."""
        path = pathlib.Path(self.directory, 'nova.conf')
        path.write_text(text)
        return configuration.load([str(path)], [self.directory])

    def check(self, text: str) -> tuple[values.Problem, ...]:
        plan = mapper.make_plan(
            self.load(text).plan_input(T4S, values.ModesRead())
        )
        # Of a type without GPUs there is another warning.
        return tuple(p for p in plan.problems if p.code != 'type-unused')


class TestUnlisted(NovasNamesTestCase):
    def test_nova_would_leave_the_gpu_alone(self) -> None:
        (problem,) = self.check(TYPES + ONE + OTHER)
        self.assertEqual(values.Severity.WARNING, problem.severity)
        self.assertEqual('unlisted-unlike-nova', problem.code)
        self.assertEqual(
            '[devices]enabled_mdev_types: GPU 0000:86:00.0 is not listed and '
            "serves the first type, 'nvidia-231'. Nova's own driver would "
            'not use it.',
            problem.message,
        )
        self.assertEqual(
            'Set [devices]unlisted_gpus = ignore to do the same, or '
            'first-type to use it.',
            problem.cure,
        )

    def test_nova_would_give_it_the_type_without_addresses(self) -> None:
        (problem,) = self.check(TYPES + ONE)
        self.assertIn(
            'GPUs 0000:85:00.0, 0000:86:00.0 are not listed and serve the '
            "first type, 'nvidia-231'. Nova's own driver would use "
            "'nvidia-232', the first without addresses.",
            problem.message,
        )
        self.assertEqual(
            'List them in [vgpu_nvidia-232]device_addresses to do the same, '
            'or set [devices]unlisted_gpus = first-type.',
            problem.cure,
        )

    def test_nothing_to_say(self) -> None:
        ours = (TYPES + ONE + OTHER).replace('mdev_', 'vgpu_')
        for case, text in (
            ('said to be so', f'{TYPES}unlisted_gpus = first-type\n{ONE}'),
            ('left alone', f'{TYPES}unlisted_gpus = ignore\n{ONE}{OTHER}'),
            ('our names', ours),
            (
                'the first type is for all, with Nova too',
                '[devices]\nenabled_mdev_types = nvidia-231\n',
            ),
            (
                'so is the first, and others have addresses',
                '[devices]\nenabled_mdev_types = nvidia-231, nvidia-232\n'
                + OTHER,
            ),
        ):
            self.assertEqual((), self.check(text), case)


class TestMaxInstances(NovasNamesTestCase):
    def test_nova_counts_over_the_host(self) -> None:
        (problem,) = self.check(
            '[devices]\nenabled_mdev_types = nvidia-231\n'
            '[mdev_nvidia-231]\nmax_instances = 4\n'
        )
        self.assertEqual(values.Severity.WARNING, problem.severity)
        self.assertEqual('max-instances-unlike-nova', problem.code)
        self.assertEqual(
            '[mdev_nvidia-231]max_instances: 4 vGPUs on each of 3 GPUs. '
            "Nova's own driver counts them over the host: 4 on all of them.",
            problem.message,
        )
        self.assertEqual(
            'Call the section [vgpu_nvidia-231] if each GPU is meant.',
            problem.cure,
        )

    def test_nothing_to_say(self) -> None:
        for case, text in (
            (
                'one GPU',
                '[devices]\nenabled_mdev_types = nvidia-231\n'
                f'unlisted_gpus = ignore\n{ONE}max_instances = 4\n',
            ),
            (
                'our name of the section',
                '[devices]\nenabled_mdev_types = nvidia-231\n'
                '[vgpu_nvidia-231]\nmax_instances = 4\n',
            ),
        ):
            self.assertEqual((), self.check(text), case)


class TestNamesInMessages(NovasNamesTestCase):
    def test_the_option_that_was_written(self) -> None:
        problems = self.load(
            '[devices]\nenabled_mdev_types = a, b, c\n'
            '[mdev_a]\nmdev_class = NVIDIA_36\n'
            '[vgpu_b]\nmdev_class = NVIDIA_36\n'
            '[mdev_c]\nresource_class = NVIDIA_36\n'
        ).problems
        self.assertEqual(
            [
                '[mdev_a]mdev_class',
                '[vgpu_b]mdev_class',
                '[mdev_c]resource_class',
            ],
            [problem.subject for problem in problems],
        )

    def test_the_list_of_types(self) -> None:
        for option in ('enabled_mdev_types', 'enabled_vgpu_types'):
            (problem,) = self.check(f'[devices]\n{option} = T4-3Q\n')
            self.assertEqual(f'[devices]{option}', problem.subject)
