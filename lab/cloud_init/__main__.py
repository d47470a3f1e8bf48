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

"""Run user data and the Ansible role gpu_guest for real.

cloud-init of Debian 12 and 13 validates user data and runs it, and Ansible
runs the role, in Debian systems with packages in place of the vendor's. Needs
root, on a Debian machine. The first run builds the systems, which takes
minutes; the next ones use them.
"""

import argparse
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

from lab.cloud_init import ansible_role
from lab.cloud_init import cases
from lab.cloud_init import systems
from lab.cloud_init import vendor
from nova_vgpu.guest import cloud_config
from nova_vgpu.guest import device_plugin


class SetUps(cases.CloudInitTestCase):
    """What is run in every system."""

    def test_a_vgpu_with_the_installer(self) -> None:
        user_data = self.render('vGPU, installer')
        guest = self.guest
        said = self.boot(guest, user_data)
        asked = guest.list_requests()
        self.assertIn('installed the driver 550.144.03', said)
        self.assert_file(guest, cases.TOKEN_PATH, 0o744, cases.TOKEN)
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
            device_plugin.make_manifest(cases.IMAGE).decode(),
        )
        self.assert_nothing_changes(guest, user_data)

    def test_a_whole_gpu_with_a_version_of_a_package(self) -> None:
        user_data = self.render('whole GPU, package')
        guest = self.guest
        self.boot(guest, user_data)
        for package in ('nvidia-driver', 'libnvidia-compute'):
            self.assert_version(guest, package, '550.144.03-1')
        # An upgrade of all packages keeps both.
        guest.run('apt-get', 'update')
        guest.run('apt-get', '-y', 'dist-upgrade')
        self.assert_version(guest, 'libnvidia-compute', '550.144.03-1')
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


class Schemas(cases.CloudInitTestCase):
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


class TestBookwormRole(ansible_role.Roles):
    suite = 'bookworm'


class TestTrixieRole(ansible_role.Roles):
    suite = 'trixie'


def load_tests(
    loader: unittest.TestLoader, _tests: object, _pattern: object
) -> unittest.TestSuite:
    several = (
        *(TestBookwormSchema, TestTrixieSchema, TestBookworm, TestTrixie),
        *(TestBookwormRole, TestTrixieRole),
    )
    return unittest.TestSuite(map(loader.loadTestsFromTestCase, several))


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
    cases.CloudInitTestCase.cache = options.cache
    for suite in systems.SUITES:
        systems.build(options.cache, suite)
    with tempfile.TemporaryDirectory() as directory:
        site = pathlib.Path(directory)
        # APT reads as a user of its own.
        site.chmod(0o755)
        with vendor.serving(site) as cases.CloudInitTestCase.site:
            ran = unittest.main(argv=[parser.prog, *rest], exit=False)
    return 0 if ran.result.wasSuccessful() else 1


if __name__ == '__main__':
    sys.exit(main())
