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

"""The program in the guest, with programs that stand in for the system's."""

import hashlib
import json
import os
import pathlib
import typing

import fixtures
import testtools

from nova_vgpu.guest import setup_program

# As the real one: it adds an extension that the name of a file lacks
# (nvidia-container-toolkit, pkg/nvcdi/spec).
TOOLKIT = """\
case "$1 $2" in
    'runtime configure') echo "$*" >"$FAKE_ROOT/runtime" ;;
    'cdi generate')
        for option; do
            case "$option" in --output=*) file=${option#*=} ;; esac
        done
        case "$file" in *.yaml|*.json) ;; *) file=$file.yaml ;; esac
        cat "$FAKE_ROOT/devices" >"$file"
        ;;
esac
"""


class ProgramTestCase(testtools.TestCase):
    """A guest below a directory."""

    def setUp(self) -> None:
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.programs = self.root / 'bin'
        self.programs.mkdir()
        self.state = self.root / 'state'
        self.state.mkdir()
        path = f'{self.programs}:{os.environ["PATH"]}'
        for name, value in (('PATH', path), ('FAKE_ROOT', str(self.root))):
            self.useFixture(fixtures.EnvironmentVariable(name, value))
        self.use(
            STATE=str(self.state),
            _CDI=str(self.root / 'cdi' / 'nvidia.yaml'),
            _CDI_UNITS=(str(self.root / 'cdi-refresh.service'),),
            _RUNTIME_FILES={'docker': (str(self.root / 'runtime'),)},
        )
        for name in ('systemctl', 'nvidia-ctk'):
            self.write_program(name)

    def use(self, **constants: typing.Any) -> None:
        for name, value in constants.items():
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'nova_vgpu.guest.setup_program.{name}', value
                )
            )

    def write_program(self, name: str, script: str = '') -> None:
        """A program that notes its arguments, and then runs a script."""
        path = self.programs / name
        path.write_text(
            f'#!/bin/sh\necho "{name} $*" >>"$FAKE_ROOT/calls"\n{script}'
        )
        path.chmod(0o755)

    def list_calls(self, of: str) -> list[str]:
        """The calls of a program since the last time."""
        log = self.root / 'calls'
        calls = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return [call for call in calls if call.startswith(of)]


class TestContainerRuntime(ProgramTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.write_program('nvidia-ctk', TOOLKIT)
        self.devices = self.root / 'devices'
        self.devices.write_text('one GPU\n')
        self.cdi = self.root / 'cdi' / 'nvidia.yaml'

    def configure(self, cdi: bool) -> list[str]:
        return list(setup_program.configure_runtime('docker', cdi))

    def test_the_specification_of_cdi(self) -> None:
        changes = self.configure(cdi=True)
        self.assertIn(f'wrote {self.cdi}', changes)
        self.assertEqual('one GPU\n', self.cdi.read_text())
        self.assertEqual([self.cdi], list(self.cdi.parent.iterdir()))
        self.assertEqual([], self.configure(cdi=True))

    def test_the_runtime_enables_cdi(self) -> None:
        self.configure(cdi=True)
        configure, _generate = self.list_calls('nvidia-ctk')
        self.assertTrue(configure.endswith(' --cdi.enabled'), configure)

    def test_the_specification_of_other_gpus_is_replaced(self) -> None:
        self.configure(cdi=True)
        self.devices.write_text('two GPUs\n')
        self.assertEqual(
            [f'wrote {self.cdi}'],
            self.configure(cdi=True),
        )
        self.assertEqual('two GPUs\n', self.cdi.read_text())

    def test_a_specification_that_was_not_written(self) -> None:
        self.configure(cdi=True)
        self.write_program('nvidia-ctk', '')
        self.assertRaises(
            setup_program.Failed,
            self.configure,
            cdi=True,
        )
        self.assertEqual('one GPU\n', self.cdi.read_text())

    def test_a_newer_toolkit_writes_the_specification_itself(self) -> None:
        (self.root / 'cdi-refresh.service').touch()
        self.configure(cdi=True)
        self.assertFalse(self.cdi.exists())

    def test_without_cdi_there_is_no_specification(self) -> None:
        self.configure(cdi=False)
        self.assertFalse(self.cdi.exists())
        (call,) = self.list_calls('nvidia-ctk')
        self.assertEqual(
            'nvidia-ctk runtime configure --runtime=docker --set-as-default',
            call,
        )

    def test_the_service_is_restarted_if_it_is_new_to_it(self) -> None:
        (change,) = self.configure(cdi=False)
        self.assertEqual('made nvidia the default runtime of docker', change)
        restart = 'systemctl try-restart docker.service'
        self.assertEqual([restart], self.list_calls('systemctl'))
        self.configure(cdi=False)
        self.assertEqual([], self.list_calls('systemctl'))

    def test_a_restart_that_failed_is_repeated(self) -> None:
        self.write_program('systemctl', 'exit 1\n')
        self.assertRaises(
            setup_program.Failed,
            self.configure,
            cdi=False,
        )
        self.write_program('systemctl')
        self.list_calls('')
        self.assertEqual(
            ['made nvidia the default runtime of docker'],
            self.configure(cdi=False),
        )
        self.assertEqual(
            ['systemctl try-restart docker.service'],
            self.list_calls('systemctl'),
        )
        self.assertEqual([], self.configure(cdi=False))

    def test_a_runtime_that_another_tool_installs_later(self) -> None:
        # "Unit docker.service not found."
        self.write_program('systemctl', 'exit 5\n')
        self.assertEqual(
            ['made nvidia the default runtime of docker'],
            self.configure(cdi=False),
        )


PLAN: dict[str, typing.Any] = {
    'installs_driver': True,
    'packages': [],
    'driver_file': None,
    'licence_files': [],
    'runtime': '',
    'cdi': False,
}


class TestDriver(ProgramTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.modules = self.root / 'modules'
        self.modules.mkdir()
        gpu = self.root / 'pci' / '0000:06:00.0'
        gpu.mkdir(parents=True)
        self.vendor = gpu / 'vendor'
        self.vendor.write_text('0x10de\n')
        self.use(
            _MODULES=str(self.modules),
            _VENDORS=f'{self.root}/pci/*/vendor',
            _INITRAMFS=str(self.programs / 'update-initramfs'),
        )
        self.write_program('dpkg-query', 'printf "installed 1"\n')
        self.write_program(
            'modprobe',
            'test "$1" = -r || mkdir "$FAKE_ROOT/modules/nvidia"\n',
        )

    def set_up(self, **more: typing.Any) -> list[str]:
        return list(setup_program.set_up({**PLAN, **more}))

    def test_it_is_loaded_before_it_is_needed(self) -> None:
        self.set_up(runtime='docker')
        called = [call.partition(' ')[0] for call in self.list_calls('')]
        self.assertLess(called.index('modprobe'), called.index('nvidia-ctk'))
        self.set_up(runtime='docker')
        self.assertEqual([], self.list_calls('modprobe'))

    def test_one_that_cannot_be_loaded(self) -> None:
        self.write_program(
            'modprobe',
            'echo "modprobe: ERROR: Key was rejected by service"; exit 1\n',
        )
        error = self.assertRaises(setup_program.Failed, self.set_up)
        self.assertIn('Key was rejected by service', str(error))
        self.assertIn('dkms status', str(error))

    def test_an_image_is_made_without_a_gpu(self) -> None:
        self.vendor.write_text('0x8086\n')
        self.set_up()
        self.assertEqual([], self.list_calls('modprobe'))

    def test_a_guest_without_a_driver_loads_none(self) -> None:
        self.set_up(installs_driver=False)
        self.assertEqual([], self.list_calls(''))

    def test_nouveau_is_unloaded(self) -> None:
        (self.modules / 'nouveau').mkdir()
        self.set_up()
        self.assertEqual(
            ['modprobe -r nouveau', 'modprobe nvidia'],
            self.list_calls('modprobe'),
        )

    def test_nouveau_that_is_in_use(self) -> None:
        """It is in the initial RAM disk, too: it would come back."""
        (self.modules / 'nouveau').mkdir()
        self.write_program('modprobe', 'exit 1\n')
        self.write_program('update-initramfs')
        error = self.assertRaises(setup_program.Failed, self.set_up)
        self.assertIn('reboot', str(error))
        self.assertEqual(
            ['update-initramfs -u'],
            [call for call in self.list_calls('') if 'initramfs' in call],
        )


class TestPackages(ProgramTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.write_program(
            'dpkg-query', 'test -e "$FAKE_ROOT/got" && printf "installed 1"\n'
        )
        self.write_program(
            'apt-get',
            'case "$*" in *" install "*) touch "$FAKE_ROOT/got";; esac\n',
        )

    def test_what_is_missing_is_installed_once(self) -> None:
        self.assertEqual(
            ['installed dkms 1'],
            setup_program.install_packages([('dkms', '')]),
        )
        self.list_calls('')
        self.assertEqual([], setup_program.install_packages([('dkms', '')]))
        self.assertEqual([], self.list_calls('apt-get'))

    def test_nothing_is_asked_and_no_file_is_replaced(self) -> None:
        self.write_program(
            'apt-get',
            'touch "$FAKE_ROOT/got"\n'
            'echo "apt-get $DEBIAN_FRONTEND $LC_ALL" >>"$FAKE_ROOT/calls"\n',
        )
        self.useFixture(fixtures.EnvironmentVariable('DEBIAN_FRONTEND'))
        setup_program.install_packages([('dkms', '')])
        calls = self.list_calls('apt-get')
        self.assertEqual(2, calls.count('apt-get noninteractive C'))
        (install,) = [call for call in calls if ' install ' in call]
        self.assertIn(' -y ', install)
        self.assertIn(' Dpkg::Options::=--force-confold ', install)

    def test_headers_are_those_of_the_kernels_that_are_updated(self) -> None:
        for installed, expected in (
            # Ubuntu 22.04 with the kernel of 24.04: "generic" is another one.
            (
                'installed linux-image-6.8.0-49-generic\n'
                'installed linux-image-virtual-hwe-22.04\n'
                'not-installed linux-image-unsigned-6.8.0-49-generic\n',
                ['linux-headers-virtual-hwe-22.04'],
            ),
            (
                'installed linux-image-6.1.0-28-cloud-amd64\n'
                'installed linux-image-cloud-amd64\n'
                'config-files linux-image-amd64\n',
                ['linux-headers-cloud-amd64'],
            ),
            (
                'installed linux-image-extra-virtual\n'
                'installed linux-image-amd64-dbg\n',
                [],
            ),
            ('', []),
        ):
            (self.root / 'installed').write_text(installed)
            self.write_program(
                'dpkg-query', 'cat "$FAKE_ROOT/installed"; exit 1\n'
            )
            self.assertEqual(expected, setup_program.find_header_packages())

    def test_a_pinned_version_may_be_an_older_one(self) -> None:
        setup_program.install_packages([('driver', '1*')])
        _, install = self.list_calls('apt-get')
        self.assertIn('--allow-downgrades', install)
        self.assertTrue(install.endswith(' install driver=1*'), install)

    def test_apt_that_is_in_use_is_waited_for(self) -> None:
        setup_program.install_packages([('dkms', '')])
        for call in self.list_calls('apt-get'):
            self.assertIn('-o DPkg::Lock::Timeout=', call)

    def test_another_version_than_the_one_that_is_wanted(self) -> None:
        error = self.assertRaises(
            setup_program.Failed,
            setup_program.install_packages,
            [('driver', '550.*')],
        )
        self.assertIn('version 1, not 550.*', str(error))

    def test_output_that_is_not_text(self) -> None:
        self.write_program('apt-get', "printf '\\377\\303'; exit 100\n")
        error = self.assertRaises(
            setup_program.Failed,
            setup_program.install_packages,
            [('dkms', '')],
        )
        self.assertIn('apt-get -q failed (100)', str(error))


class TestMessages(ProgramTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.plan = self.root / 'setup.json'
        self.use(PLAN=str(self.plan))
        self.useFixture(fixtures.MonkeyPatch('os.geteuid', lambda: 0))
        self.out = self.useFixture(fixtures.StringStream('out')).stream
        self.err = self.useFixture(fixtures.StringStream('err')).stream
        for name in ('out', 'err'):
            stream = getattr(self, name)
            self.useFixture(fixtures.MonkeyPatch(f'sys.std{name}', stream))

    def run_with(self, **more: typing.Any) -> tuple[int, str, str]:
        plan = {**PLAN, 'installs_driver': False, **more}
        self.plan.write_text(json.dumps(plan))
        code = setup_program.main()
        found = []
        for stream in (self.out, self.err):
            stream.seek(0)
            found.append(stream.read())
        return code, found[0], found[1]

    def test_nothing_to_do(self) -> None:
        self.assertEqual(
            (0, 'nova-vgpu-guest-setup: nothing to change\n', ''),
            self.run_with(),
        )

    def test_what_was_done_before_a_failure(self) -> None:
        self.write_program(
            'systemctl',
            'test "$1" = restart && exit 1\ntest "$1" != is-enabled\n',
        )
        self.write_program('nvidia-ctk', TOOLKIT)
        code, out, err = self.run_with(
            licence_files=[], runtime='docker', cdi=True
        )
        self.assertEqual(1, code)
        self.assertEqual(
            'nova-vgpu-guest-setup: made nvidia the default runtime of '
            'docker\n',
            out,
        )
        self.assertIn('nvidia-ctk cdi failed', err)

    def test_no_content_of_a_licence_is_shown(self) -> None:
        token = self.root / 'token'
        token.write_text('c2VjcmV0')
        self.write_program('systemctl', 'test "$1" != is-enabled\n')
        code, out, err = self.run_with(licence_files=[str(token)])
        self.assertEqual((0, ''), (code, err))
        self.assertIn('enabled nvidia-gridd.service', out)
        self.assertIn('restarted nvidia-gridd.service', out)
        self.assertNotIn('c2VjcmV0', out)
        for path in self.state.iterdir():
            self.assertNotIn('c2VjcmV0', path.read_text())

    def test_another_user_than_root(self) -> None:
        self.useFixture(fixtures.MonkeyPatch('os.geteuid', lambda: 1000))
        code, out, err = self.run_with(runtime='docker')
        self.assertEqual((1, ''), (code, out))
        self.assertIn('Run it as root', err)
        self.assertEqual([], self.list_calls(''))

    def test_a_service_that_is_enabled(self) -> None:
        (change,) = setup_program.apply_licence([])
        self.assertIn('restarted', change)
        self.assertNotIn(
            'systemctl enable nvidia-gridd.service', self.list_calls('')
        )

    def test_a_licence_that_changes(self) -> None:
        token = self.root / 'token'
        for content, expected in (('a', 1), ('a', 0), ('b', 1)):
            token.write_text(content)
            self.list_calls('')
            list(setup_program.apply_licence([str(token)]))
            restarts = [
                call
                for call in self.list_calls('')
                if call == 'systemctl restart nvidia-gridd.service'
            ]
            self.assertEqual(expected, len(restarts), content)


class TestFiles(ProgramTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.source = self.root / 'driver.run'
        self.source.write_text(
            'echo "installer $*" >>"$FAKE_ROOT/calls"\n'
            'touch "$FAKE_ROOT/in-dkms"\n'
        )
        self.write_program(
            'dkms',
            'test -e "$FAKE_ROOT/in-dkms" || exit 1\n'
            'echo "nvidia/550.144.03: added"\n',
        )
        self.write_program('dpkg-deb', 'echo nvidia-local\n')
        self.write_program('apt-get', 'touch "$FAKE_ROOT/got"\n')
        self.write_program(
            'dpkg-query', 'test -e "$FAKE_ROOT/got" && printf "installed 1"\n'
        )

    def describe(self, **more: str) -> dict[str, str]:
        return {
            'url': self.source.as_uri(),
            'sha256': hashlib.sha256(self.source.read_bytes()).hexdigest(),
            'version': '550.144.03',
            'form': 'run',
            **more,
        }

    def install(self, **more: str) -> list[str]:
        return list(setup_program.install_file(self.describe(**more)))

    def fail_to_install(self, **more: str) -> str:
        error = self.assertRaises(setup_program.Failed, self.install, **more)
        left = [path.name for path in self.state.iterdir()]
        self.assertEqual([], [it for it in left if it.startswith('download')])
        return str(error)

    def test_an_installer_runs_once(self) -> None:
        self.assertEqual(['installed the driver 550.144.03'], self.install())
        self.assertEqual([], self.install())
        self.assertEqual(
            ['installer --silent --dkms'], self.list_calls('installer')
        )
        (stamp,) = self.state.iterdir()
        self.assertEqual(f'driver-{self.describe()["sha256"]}', stamp.name)

    def test_a_driver_that_was_removed_is_installed_again(self) -> None:
        self.install()
        (self.root / 'in-dkms').unlink()
        self.assertEqual(['installed the driver 550.144.03'], self.install())

    def test_dkms_has_another_version(self) -> None:
        self.assertIn(
            'DKMS or dpkg does not have it',
            self.fail_to_install(version='550.163.01'),
        )

    def test_a_package(self) -> None:
        self.assertEqual(
            ['installed the driver 550.144.03'], self.install(form='deb')
        )
        (call,) = self.list_calls('apt-get')
        self.assertTrue(call.endswith(f'install {self.state}/download.deb'))
        self.assertEqual([], self.install(form='deb'))
        (self.root / 'got').unlink()
        self.assertEqual(
            ['installed the driver 550.144.03'], self.install(form='deb')
        )

    def test_a_package_that_is_removed_is_not_installed(self) -> None:
        """Its configuration files are still there."""
        self.write_program('dpkg-query', 'printf "config-files 1"\n')
        self.assertEqual('', setup_program.find_installed('nvidia-local'))

    def test_a_file_of_another_checksum_is_not_run(self) -> None:
        error = self.fail_to_install(sha256='a' * 64)
        self.assertIn('was not installed', error)
        self.assertEqual([], self.list_calls('installer'))

    def test_a_signed_url_is_not_shown(self) -> None:
        error = self.fail_to_install(
            url='http://127.0.0.1:1/files/550.run?signature=abc'
        )
        self.assertIn('550.run cannot be downloaded', error)
        self.assertNotIn('signature', error)

    def test_an_installer_that_fails(self) -> None:
        self.source.write_text('echo no compiler; exit 1\n')
        self.assertIn('no compiler', self.fail_to_install())
        self.assertEqual([], list(self.state.iterdir()))
