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

"""User data: what YAML makes of it, and what it can contain."""

import ast
import base64
import importlib
import inspect
import typing

import testtools

from nova_vgpu.guest import cloud_config
from nova_vgpu.guest import setup
from nova_vgpu.guest import setup_program
from nova_vgpu.tests.unit.guest import test_setup

# Not by a statement: its type hints are a package of their own.
YAML = importlib.import_module('yaml')


def load(text: str) -> dict[str, typing.Any]:
    loaded: dict[str, typing.Any] = YAML.safe_load(text)
    return loaded


def read_content(entry: dict[str, str]) -> bytes:
    if entry.get('encoding') == 'b64':
        return base64.b64decode(entry['content'])
    return entry['content'].encode()


class TestRendering(testtools.TestCase):
    def test_every_file_is_what_was_decided(self) -> None:
        for request in (
            test_setup.VGPU,
            test_setup.WHOLE,
            test_setup.NONE,
            test_setup.change(
                test_setup.WHOLE,
                repository='https://x ./',
                repository_key=test_setup.KEY,
                gpu_cluster=True,
                device_plugin='x.example/y:1',
            ),
        ):
            wanted = setup.decide(request)
            text = cloud_config.render(wanted)
            self.assertTrue(text.startswith('#cloud-config\n'))
            self.assertTrue(text.isascii())
            loaded = load(text)
            self.assertEqual({'write_files', 'runcmd'}, set(loaded))
            program = inspect.getsource(setup_program).encode()
            self.assertEqual(
                [
                    *((f.path, f.mode, f.content) for f in wanted.files),
                    (cloud_config.PROGRAM, 0o755, program),
                ],
                [
                    (
                        entry['path'],
                        int(entry['permissions'], 8),
                        read_content(entry),
                    )
                    for entry in loaded['write_files']
                ],
            )
            owners = {entry['owner'] for entry in loaded['write_files']}
            self.assertEqual({'root:root'}, owners)
            self.assertEqual([[cloud_config.PROGRAM]], loaded['runcmd'])

    def test_any_content_stays_content(self) -> None:
        for content in (
            *(b'', b' \n', b'a', b'a\n', b'a\n\n', b' a\n', b'a \n', b'\ta\n'),
            *(
                b'- a: b\nruncmd: []\n',
                b'#cloud-config\n',
                b'a\r\n',
                b'\0\xff',
            ),
            *(b'a\n\n  b\n', b'--- x\n...\n', b'a\x85b\n', b'%YAML 1.1\n'),
        ):
            for is_secret in (False, True):
                file = setup.File('/x: y', 0o600, content, is_secret)
                wanted = setup.Setup('none', (), None, '', False, (file,), ())
                text = cloud_config.render(wanted)
                entry, _ = load(text)['write_files']
                self.assertEqual('/x: y', entry['path'])
                self.assertEqual(content, read_content(entry), repr(content))

    def test_the_same_setup_gives_the_same_text(self) -> None:
        wanted = setup.decide(test_setup.VGPU)
        self.assertEqual(
            cloud_config.render(wanted), cloud_config.render(wanted)
        )

    def test_it_is_short_enough_for_nova(self) -> None:
        text = cloud_config.render(setup.decide(test_setup.VGPU))
        length = cloud_config.count_characters(text)
        self.assertEqual(len(base64.b64encode(text.encode())), length)
        self.assertLess(length, cloud_config.MOST_CHARACTERS / 2)


class TestProgram(testtools.TestCase):
    """What the lab runs for real: the parts that decide."""

    def test_packages_of_kernels(self) -> None:
        plan = {'packages': [{'name': 'dkms', 'version': ''}]}
        for release, flavour in (
            ('6.1.0-28-cloud-amd64', 'cloud-amd64'),
            ('6.1.0-28-amd64', 'amd64'),
            ('6.12.48+deb13-amd64', 'amd64'),
            ('6.12.48+deb13-cloud-arm64', 'cloud-arm64'),
            ('6.10.11+bpo-cloud-amd64', 'cloud-amd64'),
            ('6.8.0-49-generic', 'generic'),
            ('5.15.0-1066-kvm', 'kvm'),
        ):
            self.assertEqual(
                [
                    ('dkms', ''),
                    (f'linux-headers-{release}', ''),
                    (f'linux-headers-{flavour}', ''),
                ],
                setup_program.list_packages(plan, release),
            )
            self.assertEqual(
                [
                    ('dkms', ''),
                    (f'linux-headers-{release}', ''),
                    ('linux-headers-x', ''),
                ],
                setup_program.list_packages(
                    plan, release, ['linux-headers-x']
                ),
            )
        for release, expected in (('6.1.0', 2), ('', 1)):
            found = setup_program.list_packages(plan, release)
            self.assertEqual(expected, len(found))

    def test_it_needs_nothing_else(self) -> None:
        """It runs with the Python of a guest, of 3.6 or newer."""
        source = inspect.getsource(setup_program)
        ast.parse(source, feature_version=(3, 6))
        self.assertNotIn('nova_vgpu.', source)
        self.assertNotIn('shell=', source)
        self.assertTrue(source.startswith('#!/usr/bin/python3\n'))

    def test_the_plan_is_where_the_program_looks(self) -> None:
        self.assertEqual(setup.PLAN, setup_program.PLAN)
