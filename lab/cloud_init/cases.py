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

"""One system, and what is rendered for it and seen in it."""

import io
import json
import pathlib
import shutil
import tempfile
import typing
import unittest

from lab.cloud_init import systems
from lab.cloud_init import vendor
from nova_vgpu.cmd import main as program
from nova_vgpu.guest import facts
from nova_vgpu.sandbox import guests

TOKEN = 'aGVhZGVy.c2VjcmV0LXRva2Vu.c2lnbmF0dXJl'  # noqa: S105 - it is not one
TOKEN_PATH = 'etc/nvidia/ClientConfigToken/client_configuration_token.tok'  # noqa: S105 - a path
IMAGE = 'registry.example.org:5000/nvidia/k8s-device-plugin:v0.17.1'
TOOL = 'nova-vgpu-guest-setup'


class CloudInitTestCase(unittest.TestCase):
    """One user data, in one system."""

    cache: typing.ClassVar[pathlib.Path]
    suite = ''
    site: typing.ClassVar[vendor.Vendor]

    def setUp(self) -> None:
        self.directory = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)
        self.guest = self.enterContext(
            systems.made(self.cache / self.suite, self.directory / 'guest')
        )
        self.token = self.directory / 'token'
        self.token.write_text(f'{TOKEN}\n')
        empty = self.directory / 'empty.conf'
        empty.touch()
        self.options = (
            *('--config-file', str(empty)),
            *('--config-dir', str(self.directory)),
        )

    def render(self, kind: str) -> str:
        return self.render_with(*self.make_kinds()[kind])

    def render_with(self, *arguments: str) -> str:
        output, errors = io.StringIO(), io.StringIO()
        code = program.NovaVGPU(stdout=output, stderr=errors).run(
            [*self.options, 'guest', 'cloud-init', *arguments]
        )
        self.assertEqual((0, ''), (code, errors.getvalue()))
        return output.getvalue()

    def make_kinds(self) -> dict[str, tuple[str, ...]]:
        """The options of every kind of set-up."""
        repository = (
            *('--repository', f'{self.site.url} ./'),
            *('--repository-key', str(self.site.key)),
        )
        token = ('--licence-token', str(self.token))
        return {
            'vGPU, installer': (
                *('--facts', str(self.write_facts()), *token, *repository),
                *self.from_file(vendor.RUN),
            ),
            'vGPU, package': (
                *('--driver', 'vgpu-guest', *token, *repository),
                *('--driver-source', 'site-vgpu-driver'),
                *('--host-driver', '550.127.06', '--vgpu-type', 'A40-8Q'),
                *('--container-runtime', 'docker'),
            ),
            'vGPU, licence server': (
                *('--driver', 'vgpu-guest', '--host-driver', '510.108.03'),
                *(*self.from_file(vendor.OLD_RUN), *repository),
                *('--licence-server', 'one.example.org'),
                *('--licence-server', 'two.example.org:7071'),
            ),
            'whole GPU, file': (
                *('--driver', 'datacenter', '--gpu-cluster', '--cdi'),
                *('--device-plugin', IMAGE),
                *(*self.from_file(vendor.DEB), *repository),
            ),
            'whole GPU, package': (
                *('--driver', 'datacenter', *repository),
                *('--driver-source', 'nvidia-driver'),
                *('--driver-version', '550.144.03'),
            ),
            'whole GPU, licensed': (
                *('--driver', 'vgpu-guest', '--licence', 'vws', *token),
                *self.from_file(vendor.RUN),
            ),
            'image': ('--driver', 'none'),
        }

    def write_facts(self) -> pathlib.Path:
        machine = self.directory / 'machine'
        guests.write_machine(guests.MACHINES['t4-vgpu'], machine)
        found = facts.collect(facts.Tree(str(machine)))
        path = self.directory / 'facts.json'
        path.write_text(json.dumps(facts.make_plain(found)))
        return path

    def from_file(self, name: str) -> tuple[str, ...]:
        return (
            *('--driver-source', f'{self.site.url}/{name}'),
            *('--driver-sha256', self.site.sha256(name)),
        )

    def boot(self, guest: systems.Guest, user_data: str) -> str:
        """Validate and run user data; gives what that prints."""
        self.validate(guest, user_data)
        said = guest.boot(user_data)
        self.assertNotIn(TOKEN, said)
        return said

    def assert_nothing_changes(
        self, guest: systems.Guest, user_data: str
    ) -> None:
        guest.list_requests()
        before = guest.take_picture()
        again = guest.boot(user_data)
        self.assertIn(f'{TOOL}: nothing to change', again)
        self.assertEqual(before, guest.take_picture())
        asked = guest.list_requests()
        changing = [it for it in asked if not it.startswith('is-enabled')]
        self.assertEqual([], changing)

    def validate(self, guest: systems.Guest, user_data: str) -> None:
        guest.write('root/user-data', user_data)
        done = guest.run(
            'cloud-init', 'schema', '--config-file', '/root/user-data'
        )
        self.assertEqual(0, done.returncode, done.stdout)
        self.assertIn('Valid', done.stdout)

    def assert_version(
        self, guest: systems.Guest, package: str, version: str
    ) -> None:
        done = guest.run('dpkg-query', '-W', '-f', '${Version}', package)
        self.assertEqual(version, done.stdout)

    def assert_file(
        self, guest: systems.Guest, name: str, mode: int, text: str
    ) -> None:
        path = guest.path(name)
        self.assertEqual(text, path.read_text())
        status = path.stat()
        found = (status.st_mode & 0o7777, status.st_uid, status.st_gid)
        self.assertEqual((mode, 0, 0), found)
