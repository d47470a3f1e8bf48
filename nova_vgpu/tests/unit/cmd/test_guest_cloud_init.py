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

"""``nova-vgpu guest cloud-init`` as an operator runs it."""

import io
import json
import pathlib
import typing
from unittest import mock

import fixtures

from nova_vgpu.cmd import main
from nova_vgpu.guest import device_plugin
from nova_vgpu.guest import facts
from nova_vgpu.sandbox import guests
from nova_vgpu.tests.unit import test_guards
from nova_vgpu.tests.unit.cmd import test_commands
from nova_vgpu.tests.unit.guest import test_cloud_config
from nova_vgpu.tests.unit.guest import test_setup

_SECRET = test_setup.TOKEN.decode().strip()
_ENCODED = 'YUdWaFpHVnkuYzJWamNtVjAuYzJsbmJtRjBkWEps'


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class CloudInitTestCase(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.config.write_text('')
        self.token = self.directory / 'token.tok'
        self.token.write_bytes(test_setup.TOKEN)
        self.output = self.directory / 'user-data'
        self.vgpu = (
            *('--driver', 'vgpu-guest', '--driver-source', test_setup.GRID),
            *('--driver-sha256', 'a' * 64, '--host-driver', '550.144.02'),
            *('--vgpu-type', 'T4-2Q', '--licence-token', str(self.token)),
        )

    def render(self, *arguments: str) -> test_commands.Answer:
        return self.run_bare(
            *('--config-file', str(self.config)),
            *('guest', 'cloud-init', *arguments),
        )

    def load(self, answer: test_commands.Answer) -> dict[str, typing.Any]:
        """The files of user data by their paths."""
        self.assertEqual((0, ''), (answer.code, answer.stderr))
        loaded = test_cloud_config.load(answer.stdout)
        return {
            entry['path']: test_cloud_config.read_content(entry).decode()
            for entry in loaded['write_files']
        }

    def read_plan(self, answer: test_commands.Answer) -> typing.Any:
        return json.loads(self.load(answer)['/etc/nova-vgpu-guest/setup.json'])

    def assert_refused(
        self, answer: test_commands.Answer, *words: str
    ) -> None:
        self.assertEqual((2, ''), (answer.code, answer.stdout))
        for word in words:
            self.assertIn(word, answer.stderr)
        self.assertNotIn(_SECRET, answer.stderr)


class TestRendering(CloudInitTestCase):
    def test_a_vgpu(self) -> None:
        answer = self.render(*self.vgpu)
        self.assertEqual(
            'FeatureType=1\n', self.load(answer)['/etc/nvidia/gridd.conf']
        )
        file = self.read_plan(answer)['driver_file']
        self.assertEqual(test_setup.GRID, file['url'])

    def test_from_the_facts_of_a_guest(self) -> None:
        for machine, driver in (
            ('t4-vgpu', 'vgpu-guest'),
            ('a100-passthrough', 'datacenter'),
        ):
            root = self.directory / machine
            guests.write_machine(guests.MACHINES[machine], root)
            found = self.directory / f'{machine}.json'
            found.write_text(
                json.dumps(
                    facts.make_plain(facts.collect(facts.Tree(str(root))))
                )
            )
            answer = self.render(
                *('--facts', str(found), '--driver-source', 'site-driver'),
                *('--licence-token', str(self.token)),
            )
            package = self.read_plan(answer)['packages'][-1]
            expected = '550.*' if driver == 'vgpu-guest' else ''
            self.assertEqual(expected, package['version'], machine)

    def test_options_of_the_site_and_their_overrides(self) -> None:
        self.config.write_text(
            '[guest]\n'
            f'driver_source = {test_setup.GRID}\n'
            f'driver_sha256 = {"a" * 64}\n'
            'host_driver = 550.144.02\n'
            f'licence_token_file = {self.token}\n'
            'device_plugin = registry.example.org/plugin:v1\n'
            '[guest_flavor_gpu.vgpu large]\n'
            'driver = vgpu-guest\n'
            'vgpu_type = A40-8Q\n'
            '[guest_flavor_gpu.whole]\n'
            'driver = datacenter\n'
            'driver_source = nvidia-driver\n'
            'gpu_cluster = true\n'
            '[guest_project_0f1e]\n'
            'driver_source = site-driver\n'
            'host_driver = 535.230.02\n'
        )
        files = self.load(self.render('--flavor', 'gpu.vgpu large'))
        self.assertIn('FeatureType=1', files['/etc/nvidia/gridd.conf'])
        self.assertNotIn(device_plugin.MANIFEST, files)
        answer = self.render('--flavor', 'gpu.whole')
        self.assertIn('plugin:v1', self.load(answer)[device_plugin.MANIFEST])
        plan = self.read_plan(self.render('--flavor', 'gpu.whole'))
        # Not the checksum of the site, which is that of another driver.
        self.assertIsNone(plan['driver_file'])
        self.assertEqual('nvidia-driver', plan['packages'][-1]['name'])
        self.assertEqual('containerd', plan['runtime'])
        plan = self.read_plan(
            self.render('--flavor', 'gpu.vgpu large', '--project', '0f1e')
        )
        self.assertEqual(
            {'name': 'site-driver', 'version': '535.*'}, plan['packages'][-1]
        )
        plan = self.read_plan(
            self.render(
                *('--flavor', 'gpu.whole', '--driver-source', 'mine'),
                *('--container-runtime', 'docker'),
            )
        )
        self.assertEqual('mine', plan['packages'][-1]['name'])
        self.assertEqual('docker', plan['runtime'])

    def test_the_device_plugin_of_a_site_counts_with_facts(self) -> None:
        """Facts say that a guest is a node, and cannot say more."""
        found = self.directory / 'facts.json'
        found.write_text(
            json.dumps({'drivers_needed': ['amd'], 'is_gpu_cluster': True})
        )
        facts_of = ('--facts', str(found))
        self.assert_refused(self.render(*facts_of), 'Give --device-plugin')
        self.config.write_text('[guest]\ndevice_plugin = none\n')
        self.load(self.render(*facts_of))
        files = self.load(
            self.render(*facts_of, '--device-plugin', 'x.example/y:1')
        )
        self.assertIn('"x.example/y:1"', files[device_plugin.MANIFEST])

    def test_what_belongs_together_is_from_one_place(self) -> None:
        self.config.write_text(
            f'[guest]\ndriver_sha256 = {"a" * 64}\n'
            'driver_source = https://x/NVIDIA-Linux-x86_64-550.1.2.run\n'
            '[guest_flavor_new]\n'
            'driver_source = https://x/NVIDIA-Linux-x86_64-570.1.2.run\n'
        )
        self.load(self.render('--driver', 'datacenter'))
        self.assert_refused(
            self.render('--driver', 'datacenter', '--flavor', 'new'),
            'Give [guest_flavor_new]driver_sha256',
        )

    def test_a_project_counts_before_a_flavor(self) -> None:
        self.config.write_text(
            '[guest_flavor_f]\ndriver_source = of-flavor\n'
            '[guest_project_p]\ndriver_source = of-project\n'
        )
        for options, expected in (
            (('--flavor', 'f'), 'of-flavor'),
            (('--project', 'p'), 'of-project'),
            (('--flavor', 'f', '--project', 'p'), 'of-project'),
        ):
            plan = self.read_plan(
                self.render('--driver', 'datacenter', *options)
            )
            self.assertEqual(expected, plan['packages'][-1]['name'])

    def test_a_token_that_is_not_needed_is_not_read(self) -> None:
        self.config.write_text('[guest]\nlicence_token_file = /gone/token\n')
        self.load(self.render('--driver', 'none'))

    def test_the_example_of_the_documentation(self) -> None:
        path = test_guards.ROOT / 'doc/source/examples/guest.ini'
        self.config.write_text(
            path.read_text().replace(
                '/etc/nova-vgpu/client_configuration_token.tok',
                str(self.token),
            )
        )
        plan = self.read_plan(self.render('--flavor', 'gpu.t4'))
        self.assertEqual('550.144.03', plan['driver_file']['version'])
        plan = self.read_plan(self.render('--flavor', 'gpu.k8s'))
        self.assertEqual(('containerd', True), (plan['runtime'], plan['cdi']))
        files = self.load(self.render('--flavor', 'gpu.k8s'))
        self.assertIn(device_plugin.MANIFEST, files)

    def test_what_is_refused_is_named_as_it_is_written(self) -> None:
        self.config.write_text(
            '[guest]\n'
            'driver = banana\n'
            'driver_source = https://x/a.run\n'
            f'licence_token_file = {self.directory}/gone\n'
            'licence = vcs\n'
            '[guest_flavor_f]\n'
            'driver = datacenter\n'
            'vgpu_type = T4-2Q\n'
            '[guest_project_p]\n'
            'container_runtime = podman\n'
            'host_driver = new\n'
        )
        self.assert_refused(
            self.render('--container-runtime', 'docker'),
            "[guest]driver 'banana' cannot be set up",
            "[guest]licence 'vcs' is not one of",
        )
        self.assert_refused(
            self.render('--flavor', 'f', '--project', 'p'),
            "[guest_project_p]container_runtime 'podman' is not",
            "and [guest_flavor_f]vgpu_type is 'T4-2Q'. Give "
            '[guest_flavor_f]driver vgpu-guest',
            # Given to the command, it would be that of no source.
            'is not known. Give [guest]driver_sha256,',
            "[guest_project_p]host_driver 'new' is not a version",
        )
        self.assert_refused(
            self.render('--driver', 'vgpu-guest', '--host-driver', 'old'),
            f'[guest]licence_token_file: {self.directory}/gone: no such file',
            "--host-driver 'old' is not a version",
        )
        self.assert_refused(
            self.render('--driver', 'vgpu-guest', '--driver-source', 'a b'),
            "--driver-source 'a b' is neither",
        )

    def test_invalid_values_of_all_sections_are_named(self) -> None:
        self.config.write_text(
            '[guest]\n'
            'gpu_cluster = perhaps\n'
            'driver = $nothing\n'
            '[guest_flavor_gpu.k8s]\n'
            'cdi = 7\n'
            'licence = vcs\n'
            '[guest_project_0f1e]\n'
            'host_driver = $host_driver\n'
            'cdi = sometimes\n'
            '[guest_flavor_other]\n'
            'cdi = often\n'
        )
        answer = self.render('--flavor', 'gpu.k8s', '--project', '0f1e')
        self.assert_refused(answer)
        for words, line in zip(
            (
                '[guest_project_0f1e]host_driver is invalid: it refers to',
                '[guest_project_0f1e]cdi is invalid: Unexpected boolean value '
                "'sometimes'. Set it to true or false.",
                '[guest_flavor_gpu.k8s]cdi is invalid: Unexpected boolean',
                '[guest]driver is invalid: no such option nothing in',
                '[guest]gpu_cluster is invalid: Unexpected boolean value',
                "[guest_flavor_gpu.k8s]licence 'vcs' is not one of",
                'Where the licence is from is not known.',
            ),
            answer.stderr.splitlines(),
            strict=True,
        ):
            self.assertIn(words, line)
        self.assertNotIn('LocationInfo', answer.stderr)


class TestSecrets(CloudInitTestCase):
    def run_in_terminal(self, *arguments: str) -> tuple[int, str, str]:
        stdout, stderr = Terminal(), io.StringIO()
        code = main.NovaVGPU(stdout=stdout, stderr=stderr).run(
            [
                *('--config-file', str(self.config)),
                *('guest', 'cloud-init', *arguments),
            ]
        )
        return code, stdout.getvalue(), stderr.getvalue()

    def test_a_token_does_not_go_to_a_terminal(self) -> None:
        code, stdout, stderr = self.run_in_terminal(*self.vgpu)
        self.assertEqual((2, ''), (code, stdout))
        self.assertIn('--output FILE', stderr)
        code, stdout, _ = self.run_in_terminal(*self.vgpu, '--show-secrets')
        self.assertEqual(0, code)
        self.assertIn(_ENCODED, stdout)

    def test_a_file_that_others_can_read_is_named(self) -> None:
        for mode, token, expected in (
            (0o644, True, True),
            (0o640, True, True),
            (0o600, True, False),
            (0o644, False, False),
        ):
            path = self.directory / 'redirected'
            path.touch()
            path.chmod(mode)
            arguments = self.vgpu if token else ('--driver', 'none')
            stderr = io.StringIO()
            with path.open('w') as stdout:
                code = main.NovaVGPU(stdout=stdout, stderr=stderr).run(
                    [
                        *('--config-file', str(self.config)),
                        *('guest', 'cloud-init', *arguments),
                    ]
                )
            self.assertEqual(0, code)
            self.assertEqual(
                expected, '--output FILE' in stderr.getvalue(), oct(mode)
            )

    def test_what_is_not_secret_does(self) -> None:
        code, stdout, stderr = self.run_in_terminal('--driver', 'none')
        self.assertEqual((0, ''), (code, stderr))
        self.assertIn('#cloud-config', stdout)

    def test_the_file_is_private(self) -> None:
        for present in (None, '#cloud-config\nold: true\n'):
            if present is not None:
                self.output.write_text(present)
                self.output.chmod(0o644)
            answer = self.render(*self.vgpu, '--output', str(self.output))
            self.assertEqual(
                (0, '', ''), (answer.code, answer.stdout, answer.stderr)
            )
            self.assertEqual(0o600, self.output.stat().st_mode & 0o7777)
            self.assertIn(_ENCODED, self.output.read_text())
            self.assertEqual(
                [], [*self.directory.glob(f'{self.output.name}.*')]
            )

    def test_a_file_that_another_user_has_open_is_not_used(self) -> None:
        new = self.output.with_name('user-data.new')
        new.touch()
        with new.open() as spy:
            answer = self.render(*self.vgpu, '--output', str(self.output))
            self.assertEqual(0, answer.code)
            self.assertEqual('', spy.read())

    def test_nothing_is_logged(self) -> None:
        log = self.useFixture(fixtures.FakeLogger(level=0))
        with mock.patch('nova_vgpu.cmd.main._set_up_log'):
            answer = self.run_bare(
                *('--debug', '--config-file', str(self.config)),
                *('guest', 'cloud-init', *self.vgpu),
                *('--output', str(self.output)),
            )
        self.assertEqual(0, answer.code)
        for text in (log.output, answer.stdout, answer.stderr):
            self.assertNotIn(_SECRET, text)
            self.assertNotIn(_ENCODED, text)


class TestMistakes(CloudInitTestCase):
    def test_an_output_without_a_name(self) -> None:
        for path in ('', f'{self.directory}/'):
            self.assert_refused(
                self.render('--driver', 'none', '--output', path),
                'the name of a file is missing',
            )

    def test_all_that_is_missing_is_named(self) -> None:
        self.assert_refused(self.render(), 'Give --driver, or --facts')
        self.assert_refused(
            self.render('--driver', 'vgpu-guest'),
            *('Give --driver-source', 'Give --host-driver'),
            'Give --licence-token',
        )

    def test_files_that_cannot_be_used(self) -> None:
        empty = self.directory / 'empty'
        empty.touch()
        gone = self.directory / 'gone'
        for path, word in (
            (gone, f': {gone}: no such file'),
            (empty, f': {empty} is empty'),
            ('/none.such', ': /none.such: no such file'),
        ):
            for options in (
                ('--licence-token',),
                ('--repository', 'https://x ./', '--repository-key'),
                ('--facts',),
            ):
                option = options[-1]
                answer = self.render(*self.vgpu, *options, str(path))
                self.assert_refused(answer, f'{option}{word}')
                # Once: it is not missing as well.
                self.assertEqual(1, len(answer.stderr.splitlines()))

    def test_files_without_a_name(self) -> None:
        for path in ('', f'{self.directory}/'):
            for option in ('--licence-token', '--facts'):
                answer = self.render(*self.vgpu, option, path)
                self.assert_refused(
                    answer, f'{option} {path}: the name of a file is missing'
                )
                self.assertEqual(1, len(answer.stderr.splitlines()))

    def test_sections_and_options_that_have_no_effect(self) -> None:
        self.config.write_text(
            '[guest]\ndriver = none\ndrivr = datacenter\n'
            '[GUEST_flavor_Gpu.k8s]\ncdi = false\n'
            '[guest_project_0f1e]\nsomething = else\n'
            '[guest_flavor_other]\nalso = not read\n'
            '[DEFAULT]\nfoo = bar\n'
        )
        for options, expected in (
            ((), ()),
            (('--flavor', 'gpu.K8S'), ()),
            (
                ('--flavor', 'gpu.k8'),
                (
                    'warning: --flavor gpu.k8 changes nothing: the '
                    'configuration has no options in [guest_flavor_gpu.k8]. '
                    'Did you mean Gpu.k8s?',
                ),
            ),
            (
                ('--flavor', 'x', '--project', 'research'),
                (
                    'warning: --flavor x changes nothing: the configuration '
                    'has no options in [guest_flavor_x].',
                    'warning: --project research changes nothing: the '
                    'configuration has no options in '
                    '[guest_project_research].',
                ),
            ),
        ):
            answer = self.render(*options)
            self.assertEqual(0, answer.code, answer.stderr)
            self.assertEqual(
                [
                    *expected,
                    f'warning: [guest]drivr in {self.config} is not an '
                    'option. Did you mean driver?',
                ],
                answer.stderr.splitlines(),
            )
        answer = self.render('--project', '0f1e')
        self.assertIn('[guest_project_0f1e]something in ', answer.stderr)

    def test_facts_that_do_not_say_the_driver(self) -> None:
        """It is said once, and no driver is asked for as well."""
        found = self.directory / 'facts.json'
        for text, word in (
            ('', 'is empty'),
            ('[]', 'does not have facts'),
            ('{"drivers_needed": []}', 'does not have a GPU'),
            ('{"drivers_needed": ["vgpu-host"]}', 'a host of vGPUs'),
        ):
            found.write_text(text)
            answer = self.render('--facts', str(found))
            self.assert_refused(answer, '--facts: ', word)
            self.assertEqual(1, len(answer.stderr.splitlines()), text)

    def test_a_token_that_is_none(self) -> None:
        self.token.write_text(f'{_SECRET} and more')
        self.assert_refused(
            self.render(*self.vgpu), 'not a client configuration token'
        )

    def test_an_output_that_is_something_else(self) -> None:
        self.output.write_text('precious')
        answer = self.render(*self.vgpu, '--output', str(self.output))
        self.assert_refused(answer, 'is not user data')
        self.assertEqual('precious', self.output.read_text())
        nowhere = pathlib.Path(self.directory, 'none', 'user-data')
        answer = self.render(*self.vgpu, '--output', str(nowhere))
        self.assert_refused(answer, 'directory does not exist')

    def test_user_data_that_is_too_long_for_nova(self) -> None:
        key = self.directory / 'key.asc'
        line = 'A' * 64 + '\n'
        key.write_text(test_setup.KEY.replace('\n\n', f'\n\n{line * 700}'))
        answer = self.render(
            *('--driver', 'none', '--repository', 'https://x ./'),
            *('--repository-key', str(key)),
        )
        self.assert_refused(answer, 'Nova takes 65535')
