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

"""Run user data of ``nova-vgpu guest cloud-init`` for real.

cloud-init of Debian 12 and 13 validates it and runs it, in Debian systems
with packages in place of the vendor's. Needs root, on a Debian machine. The
first run builds the systems, which takes minutes; the next ones use them.
"""

import argparse
import io
import json
import os
import pathlib
import shutil
import sys
import tempfile
import typing
import unittest

from lab.cloud_init import systems
from lab.cloud_init import vendor
from nova_vgpu.cmd import main as program
from nova_vgpu.guest import cloud_config
from nova_vgpu.guest import device_plugin
from nova_vgpu.guest import facts
from nova_vgpu.sandbox import guests

_TOKEN = 'aGVhZGVy.c2VjcmV0LXRva2Vu.c2lnbmF0dXJl'  # noqa: S105 - it is not one
_TOKEN_PATH = 'etc/nvidia/ClientConfigToken/client_configuration_token.tok'  # noqa: S105 - a path
_IMAGE = 'registry.example.org:5000/nvidia/k8s-device-plugin:v0.17.1'
_TOOL = 'nova-vgpu-guest-setup'


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
        self.token.write_text(f'{_TOKEN}\n')
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
                *('--device-plugin', _IMAGE),
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
        self.assertNotIn(_TOKEN, said)
        return said

    def assert_nothing_changes(
        self, guest: systems.Guest, user_data: str
    ) -> None:
        guest.list_requests()
        before = guest.take_picture()
        again = guest.boot(user_data)
        self.assertIn(f'{_TOOL}: nothing to change', again)
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


class SetUps(CloudInitTestCase):
    """What is run in every system."""

    def test_a_vgpu_with_the_installer(self) -> None:
        user_data = self.render('vGPU, installer')
        guest = self.guest
        said = self.boot(guest, user_data)
        asked = guest.list_requests()
        self.assertIn('installed the driver 550.144.03', said)
        self.assert_file(guest, _TOKEN_PATH, 0o744, _TOKEN)
        self.assert_file(
            guest, 'etc/nvidia/gridd.conf', 0o644, 'FeatureType=1\n'
        )
        status = guest.run('dkms', 'status').stdout
        self.assertRegex(status, r'nvidia[/, ]+550\.144\.03: added')
        self.assertIn('enable nvidia-gridd.service', asked)
        self.assertIn('restart nvidia-gridd.service', asked)
        wants = 'etc/systemd/system/multi-user.target.wants'
        self.assertTrue(
            guest.path(f'{wants}/nvidia-gridd.service').is_symlink()
        )
        runs = guest.path('var/lib/installer-runs').read_text()
        self.assertEqual('550.144.03\n', runs)
        self.assertFalse(
            guest.path('var/lib/nova-vgpu-guest/download.run').exists()
        )
        self.assert_nothing_changes(guest, user_data)

    def test_a_vgpu_with_a_package_of_the_hosts_branch(self) -> None:
        user_data = self.render('vGPU, package')
        guest = self.guest
        self.boot(guest, user_data)
        asked = guest.list_requests()
        self.assert_version(guest, 'site-vgpu-driver', '550.144.03')
        release = os.uname().release
        self.assert_version(guest, f'linux-headers-{release}', '1')
        self.assertTrue(guest.path('etc/docker/daemon.json').exists())
        self.assertIn('try-restart docker.service', asked)
        # An upgrade of all packages stays in the branch.
        guest.run('apt-get', 'update')
        guest.run('apt-get', '-y', 'dist-upgrade')
        self.assert_version(guest, 'site-vgpu-driver', '550.144.03')
        self.assert_nothing_changes(guest, user_data)

    def test_a_whole_gpu_in_a_cluster(self) -> None:
        user_data = self.render('whole GPU, file')
        guest = self.guest
        self.boot(guest, user_data)
        asked = guest.list_requests()
        self.assert_version(guest, 'nvidia-driver-local', '570.86.10')
        self.assert_version(guest, 'nvidia-container-toolkit', '1.17.8-1')
        content = guest.path('etc/containerd/conf.d/99-nvidia.toml')
        self.assertIn('--cdi.enabled', content.read_text())
        self.assert_file(guest, 'etc/cdi/nvidia.yaml', 0o644, 'cdi\n')
        self.assertIn('try-restart containerd.service', asked)
        self.assertFalse(guest.path('etc/nvidia/gridd.conf').exists())
        self.assert_file(
            *(guest, device_plugin.MANIFEST.lstrip('/'), 0o600),
            device_plugin.make_manifest(_IMAGE).decode(),
        )
        self.assert_nothing_changes(guest, user_data)

    def test_a_whole_gpu_with_a_version_of_a_package(self) -> None:
        user_data = self.render('whole GPU, package')
        guest = self.guest
        self.boot(guest, user_data)
        self.assert_version(guest, 'nvidia-driver', '550.144.03-1')
        self.assert_nothing_changes(guest, user_data)

    def test_a_legacy_licence_server(self) -> None:
        user_data = self.render('vGPU, licence server')
        guest = self.guest
        self.boot(guest, user_data)
        self.assert_file(
            *(guest, 'etc/nvidia/gridd.conf', 0o644),
            'ServerAddress=one.example.org\nServerPort=7070\n'
            'BackupServerAddress=two.example.org\n'
            'BackupServerPort=7071\nFeatureType=1\n',
        )
        self.assert_nothing_changes(guest, user_data)

    def test_an_image_with_its_driver(self) -> None:
        user_data = self.render('image')
        guest = self.guest
        self.boot(guest, user_data)
        asked = guest.list_requests()
        self.assertEqual([], asked)
        done = guest.run('dpkg-query', '-W', 'nvidia-driver')
        self.assertNotEqual(0, done.returncode)
        self.assert_nothing_changes(guest, user_data)

    def test_another_file_than_that_of_the_checksum(self) -> None:
        options = self.make_kinds()['whole GPU, file']
        user_data = self.render_with(*options, '--driver-sha256', 'a' * 64)
        self.assertIn('was not installed', self.boot(self.guest, user_data))
        done = self.guest.run('dpkg-query', '-W', 'nvidia-driver-local')
        self.assertNotEqual(0, done.returncode)


class Schemas(CloudInitTestCase):
    """What takes seconds in every system."""

    def test_every_kind_is_valid(self) -> None:
        for options in self.make_kinds().values():
            self.validate(self.guest, self.render_with(*options))

    def test_the_validator_refuses_what_is_wrong(self) -> None:
        user_data = f'{cloud_config.HEADER}write_files: 1\n'
        self.assertRaises(AssertionError, self.validate, self.guest, user_data)


class TestBookwormSchema(Schemas):
    suite = 'bookworm'


class TestTrixieSchema(Schemas):
    suite = 'trixie'


class TestBookworm(SetUps):
    suite = 'bookworm'


class TestTrixie(SetUps):
    suite = 'trixie'


def load_tests(
    loader: unittest.TestLoader, _tests: object, _pattern: object
) -> unittest.TestSuite:
    cases = (TestBookwormSchema, TestTrixieSchema, TestBookworm, TestTrixie)
    return unittest.TestSuite(map(loader.loadTestsFromTestCase, cases))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog='python -m lab.cloud_init', description=__doc__
    )
    home = os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache'
    parser.add_argument(
        '--cache',
        type=pathlib.Path,
        default=pathlib.Path(home, 'nova-vgpu-lab', 'cloud-init'),
        help='where to build, about 1 GB (default: %(default)s)',
    )
    options, rest = parser.parse_known_args()
    if os.geteuid() != 0:
        raise SystemExit('Run it as root: it makes Debian systems.')
    for tool in ('mmdebstrap', 'gpg'):
        if shutil.which(tool) is None:
            raise SystemExit(
                f'{tool} is missing: see bindep.txt, profile lab.'
            )
    CloudInitTestCase.cache = options.cache
    for suite in systems.SUITES:
        systems.build(options.cache, suite)
    with tempfile.TemporaryDirectory() as directory:
        site = pathlib.Path(directory)
        # APT reads as a user of its own.
        site.chmod(0o755)
        with vendor.serving(site) as CloudInitTestCase.site:
            ran = unittest.main(argv=[parser.prog, *rest], exit=False)
    return 0 if ran.result.wasSuccessful() else 1


if __name__ == '__main__':
    sys.exit(main())
