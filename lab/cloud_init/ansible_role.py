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

"""The Ansible role gpu_guest, run in a system of the lab."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import typing

from lab.cloud_init import cases
from lab.cloud_init import vendor
from nova_vgpu.guest import device_plugin
from nova_vgpu.sandbox import guests

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / 'doc/source/examples'
_PLAYBOOK = """\
- hosts: gpu_guests
  gather_facts: false
  roles:
    - gpu_guest
"""
_FACT = 'etc/ansible/facts.d/gpu.fact'
_RECAP = re.compile(r'^gpu-1 +: (.+)$', re.MULTILINE)
_LONGEST = 300

Variables = dict[str, typing.Any]


class RoleTestCase(cases.CloudInitTestCase):
    """A playbook with the role, as an operator runs it."""

    def setUp(self) -> None:
        super().setUp()
        self.playbook = self.directory / 'playbook.yml'
        self.playbook.write_text(_PLAYBOOK)
        self.inventory = self.directory / 'inventory.json'
        self.environment = {
            'PATH': os.environ['PATH'],
            'HOME': str(self.directory),
            'LC_ALL': 'C.UTF-8',
            'PYTHONPATH': str(ROOT),
            'ANSIBLE_CONNECTION_PLUGINS': str(
                ROOT / 'lab/cloud_init/connection_plugins'
            ),
            'ANSIBLE_ROLES_PATH': str(ROOT / 'ansible/roles'),
            'ANSIBLE_LOCAL_TEMP': str(self.directory / 'tmp'),
            'ANSIBLE_PIPELINING': 'true',
            'ANSIBLE_NOCOLOR': 'true',
        }

    def plug(self, machine: str) -> None:
        """Let the guest have the PCI devices of a machine."""
        there = self.directory / f'machine-{machine}'
        guests.write_machine(guests.MACHINES[machine], there)
        # Not its other directories: in Debian, /lib is a link.
        shutil.rmtree(self.guest.changed / 'sys', ignore_errors=True)
        shutil.copytree(
            there / 'sys', self.guest.changed / 'sys', symlinks=True
        )

    def play(
        self, variables: Variables, *options: str, is_ok: bool = True
    ) -> str:
        """Run the playbook; gives everything that it prints."""
        host = {
            'ansible_connection': 'lab_guest',
            'ansible_user': 'root',
            'ansible_python_interpreter': '/usr/bin/python3',
            'lab_guest_base': str(self.guest.base),
            'lab_guest_directory': str(self.guest.directory),
            **variables,
        }
        self.inventory.write_text(
            json.dumps({'gpu_guests': {'hosts': {'gpu-1': host}}})
        )
        program = pathlib.Path(sys.executable).with_name('ansible-playbook')
        done = subprocess.run(
            [
                *(str(program), '-i', str(self.inventory), *options),
                str(self.playbook),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self.environment,
            text=True,
            timeout=_LONGEST,
        )
        said = done.stdout
        self.assertNotIn(cases.TOKEN, said)
        self.assertEqual(is_ok, done.returncode == 0, said)
        return said

    def count_changes(self, said: str) -> int:
        (recap,) = _RECAP.findall(said)
        counts = dict(each.split('=') for each in recap.split())
        self.assertEqual('0', counts['unreachable'], said)
        return int(counts['changed'])

    def assert_nothing_is_left(self, variables: Variables) -> None:
        """A second run changes nothing, nor does it ask for anything."""
        self.guest.list_requests()
        before = self.guest.take_picture()
        said = self.play(variables)
        self.assertEqual(0, self.count_changes(said), said)
        self.assertEqual(before, self.guest.take_picture())
        asked = self.guest.list_requests()
        changing = [it for it in asked if not it.startswith('is-enabled')]
        self.assertEqual([], changing)

    def is_there(self, name: str) -> bool:
        return os.path.lexists(self.guest.path(name))

    @property
    def site_line(self) -> str:
        return f'{self.site.url} ./'

    def from_repository(self, package: str) -> Variables:
        return {
            'gpu_guest_driver_source': package,
            'gpu_guest_repository': self.site_line,
            'gpu_guest_repository_key': str(self.site.key),
        }


class Roles(RoleTestCase):
    """What is run in every system."""

    def test_a_vgpu(self) -> None:
        """With the type and the host's driver that the facts have."""
        self.plug('t4-vgpu-without-driver')
        variables = {
            **self.from_repository('site-vgpu-driver'),
            'gpu_guest_licence_token_file': str(self.token),
            'gpu_guest_container_runtime': 'docker',
        }
        said = self.play(variables, '-vvv')
        self.assertIn('EXEC', said)
        self.assertNotEqual(0, self.count_changes(said))
        # Of the host's branch, though there is a newer one.
        self.assert_version(self.guest, 'site-vgpu-driver', '550.144.03')
        self.assert_file(self.guest, cases.TOKEN_PATH, 0o744, cases.TOKEN)
        self.assert_file(
            self.guest, 'etc/nvidia/gridd.conf', 0o644, 'FeatureType=1\n'
        )
        asked = self.guest.list_requests()
        self.assertIn('restart nvidia-gridd.service', asked)
        self.assertIn('try-restart docker.service', asked)
        self.assertTrue(self.is_there('etc/docker/daemon.json'))
        self.assert_nothing_is_left(variables)

    def test_check_mode(self) -> None:
        self.plug('t4-vgpu-without-driver')
        variables = {
            **self.from_repository('site-vgpu-driver'),
            'gpu_guest_licence_token_file': str(self.token),
        }
        before = self.guest.take_picture()
        said = self.play(variables, '--check', '--diff')
        self.assertNotEqual(0, self.count_changes(said))
        for text in (_FACT, 'FeatureType=1', 'Pin: version 550.*'):
            self.assertIn(text, said)
        self.assertEqual(before, self.guest.take_picture())
        self.assertEqual([], self.guest.list_requests())
        self.play(variables)
        self.assertEqual(
            0, self.count_changes(self.play(variables, '--check', '--diff'))
        )

    def test_overrides_win(self) -> None:
        self.plug('a100-passthrough')
        variables = {
            **self.from_repository('site-vgpu-driver'),
            'is_virtual_gpu': True,
            'is_gpu_cluster': 'yes',
            'gpu_guest_host_driver': '550.144.02',
            'gpu_guest_licence_token_file': str(self.token),
            'gpu_guest_device_plugin': cases.IMAGE,
        }
        self.play(variables)
        self.assert_version(self.guest, 'site-vgpu-driver', '550.144.03')
        self.assert_file(
            *(self.guest, device_plugin.MANIFEST.lstrip('/'), 0o600),
            device_plugin.make_manifest(cases.IMAGE).decode(),
        )
        self.assertTrue(self.is_there('etc/containerd/conf.d/99-nvidia.toml'))
        self.assert_nothing_is_left(variables)

    def test_a_whole_gpu_by_a_url_that_is_secret(self) -> None:
        self.plug('a100-passthrough')
        url = f'{self.site.url}/{vendor.DEB}?signature=5ec2e7'
        variables = {
            **self.from_repository(url),
            'gpu_guest_driver_sha256': self.site.sha256(vendor.DEB),
        }
        said = self.play(variables, '-vvv', '--diff')
        self.assertNotIn('5ec2e7', said)
        self.assert_version(self.guest, 'nvidia-driver-local', '570.86.10')
        self.assertFalse(self.is_there('etc/nvidia/gridd.conf'))
        self.assert_nothing_is_left(variables)

    def test_guests_that_need_nothing(self) -> None:
        for machine, variables in (
            ('no-gpu', {}),
            ('intel-vf', {'is_gpu_cluster': True}),
            ('amd-vf', {}),
            ('a100-passthrough', {'has_gpu': False}),
        ):
            self.plug(machine)
            self.play(variables)
            self.assertTrue(self.is_there(_FACT))
            for name in ('etc/nova-vgpu-guest', 'etc/nvidia', 'etc/cdi'):
                self.assertFalse(self.is_there(name), machine)
            self.assertEqual(0, self.count_changes(self.play(variables)))
        self.assertEqual([], self.guest.list_requests())

    def test_everything_that_is_missing_is_named_at_once(self) -> None:
        self.plug('t4-vgpu-without-driver')
        said = self.play({'is_gpu_cluster': True}, is_ok=False)
        for name in ('driver_source', 'licence_token_file', 'device_plugin'):
            self.assertIn(f'Give gpu_guest_{name}', said)
        self.assertFalse(self.is_there('etc/nova-vgpu-guest'))

    def test_a_value_that_is_not_one(self) -> None:
        """What is given beside it is not shown."""
        variables = {
            'gpu_guest_cdi': 'perhaps',
            'gpu_guest_driver_source': 'https://x.example/a.run?key=5ec2e7',
        }
        said = self.play(variables, '-vvv', is_ok=False)
        self.assertIn('gpu_guest_cdi', said)
        self.assertNotIn('5ec2e7', said)
        self.assertFalse(self.is_there(_FACT))

    def test_the_example_of_the_documentation(self) -> None:
        self.plug('t4-vgpu-without-driver')
        text = (EXAMPLES / 'gpu-guests.yml').read_text()
        for documented, here in (
            ('nvidia-linux-grid', 'site-vgpu-driver'),
            ('https://apt.example.org/debian bookworm main', self.site_line),
            ('/srv/gpu/repository.asc', str(self.site.key)),
            ('/srv/gpu/client_configuration_token.tok', str(self.token)),
        ):
            self.assertIn(documented, text)
            text = text.replace(documented, here)
        self.playbook.write_text(text)
        said = self.play({}).replace(f'{ROOT}/', '').strip()
        lines = [line.rstrip() for line in said.splitlines()]
        documented_run = EXAMPLES / 'gpu-guests.txt'
        if not documented_run.read_text():  # how it is updated
            documented_run.write_text('\n'.join([*lines, '']))
        self.assertEqual(documented_run.read_text().splitlines(), lines)
        self.assert_nothing_is_left({})
