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

"""How nova-compute comes to this driver."""

import errno
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import typing
import zipfile

import fixtures
import nova.privsep
import nova.virt
import testtools
from testtools import matchers

from nova_vgpu import values
from nova_vgpu.compute import privileged
from nova_vgpu.compute import vgpu_devices
from nova_vgpu.host import gpu_modes
from nova_vgpu.host.type_backends import nvidia
from nova_vgpu.host.type_backends import timeout

ROOT = pathlib.Path(__file__).resolve().parents[4]


class LoadingTest(testtools.TestCase):
    def test_what_needs_privileges_goes_to_novas_helper(self) -> None:
        """It refuses what was not made for it; see also its unit tests."""
        context = nova.privsep.sys_admin_pctxt
        self.assertTrue(context.is_entrypoint(privileged.set_type))
        self.assertTrue(context.is_entrypoint(privileged.read_modes))
        self.assertTrue(context.is_entrypoint(privileged.read_partitions))
        self.assertFalse(context.is_entrypoint(timeout.set_type))

    def test_modes_that_novas_helper_reads(self) -> None:
        """NVML shows GPU instances to root only."""
        context = nova.privsep.sys_admin_pctxt
        self.addCleanup(context.set_client_mode, context.client_mode)
        context.set_client_mode(False)  # here, as in the helper
        gpu = values.PciAddress.parse('0000:c1:00.0')
        of_type = values.MigType('nvidia-699', None, 19, '1g.10gb', 3)
        read = values.ModesRead(
            ((gpu, values.GPUModes(mig_types=(of_type,))),)
        )

        def read_gpus(
            gpus: list[values.PciAddress], seconds: float
        ) -> values.ModesRead:
            self.assertEqual(([gpu], 10.0), (gpus, seconds))
            return read

        self.useFixture(
            fixtures.MockPatchObject(gpu_modes, 'read_gpus', read_gpus)
        )
        devices = vgpu_devices.VGPUDevices(typing.cast(typing.Any, None))
        self.assertEqual(read, devices.read_modes([gpu]))

    def test_a_write_that_hangs_does_not_keep_novas_helper(self) -> None:
        """It has few threads, and all that is privileged goes to them."""
        context = nova.privsep.sys_admin_pctxt
        self.addCleanup(context.set_client_mode, context.client_mode)
        context.set_client_mode(False)  # here, as in the helper
        stuck = threading.Event()
        self.addCleanup(stuck.set)
        with (
            fixtures.MockPatchObject(privileged, '_SECONDS', 0.01),
            fixtures.MockPatchObject(
                nvidia.NvidiaTypes,
                'set_type',
                lambda *_args: stuck.wait(60),
            ),
        ):
            error = self.assertRaises(
                OSError, privileged.set_type, '0000:41:00.4', 'nvidia-1155'
            )
        self.assertEqual(errno.ETIMEDOUT, error.errno)


#: Nova's own way to load the driver of its configuration.
LOAD = """
import nova.conf
from nova.virt import driver
nova.conf.CONF([], project='nova', default_config_files=[])
nova.conf.CONF.set_override('compute_driver', 'vgpu.LibvirtVGPUDriver')
loaded = driver.load_compute_driver(None)
import nova.virt, nova_vgpu, sys
shim = sys.modules['nova.virt.vgpu']
print(type(loaded).__name__, nova.virt.__file__, nova_vgpu.__file__,
      shim.__file__, sep='\\n')
"""


class WheelTest(testtools.TestCase):
    """The built wheel, installed as it would be on a host."""

    wheel: typing.ClassVar[pathlib.Path]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        # It is built in a directory of the source, by one process at a time.
        with (ROOT / 'setup.py').open() as locked:
            fcntl.flock(locked, fcntl.LOCK_EX)
            subprocess.run(
                [
                    *(sys.executable, '-m', 'pip', 'wheel', '--quiet'),
                    *('--no-deps', '--no-build-isolation'),
                    *('-w', directory.name, str(ROOT)),
                ],
                check=True,
                timeout=300,
            )
        (cls.wheel,) = pathlib.Path(directory.name).glob('*.whl')

    def setUp(self) -> None:
        super().setUp()
        self.directory = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path
        ).resolve()
        self.site = self.directory / 'site'

    def install(self) -> None:
        self.run_python(
            *('-m', 'pip', 'install', '--no-deps'),
            *('--target', self.site, self.wheel),
        )

    def run_python(self, *arguments: object) -> str:
        """Run it with what is in the site before everything else."""
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            cwd=self.directory,
            env={**os.environ, 'PYTHONPATH': str(self.directory / 'site')},
        )
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done.stdout

    def test_the_units_of_systemd_are_in_it(self) -> None:
        found = zipfile.ZipFile(self.wheel).namelist()
        for name in ('nova-vgpu-agent.service', 'nova-vgpu-apply.service'):
            path = f'.data/data/lib/systemd/system/{name}'
            self.assertTrue(any(n.endswith(path) for n in found), name)

    def test_beside_nova_it_is_where_nova_looks(self) -> None:
        self.install()
        # In this order: into a target, pip merges no directories.
        shutil.copytree(
            pathlib.Path(nova.virt.__file__).parents[1],
            self.site / 'nova',
            ignore=shutil.ignore_patterns('tests', '__pycache__'),
            dirs_exist_ok=True,
        )
        name, virt, library, shim = self.run_python('-c', LOAD).splitlines()
        self.assertEqual('LibvirtVGPUDriver', name)
        for path in (virt, library, shim):
            self.assertThat(path, matchers.StartsWith(str(self.site)))
        self.assertEqual(
            self.site / 'nova/virt/vgpu/__init__.py', pathlib.Path(shim)
        )

    def test_nova_elsewhere_it_takes_the_start_command(self) -> None:
        self.install()
        start = 'from nova_vgpu.compute import start; start.make_importable()'
        found = self.run_python('-c', start + LOAD)
        name, virt, library, shim = found.splitlines()
        self.assertEqual('LibvirtVGPUDriver', name)
        self.assertThat(
            virt, matchers.Not(matchers.StartsWith(str(self.site)))
        )
        for path in (library, shim):
            self.assertThat(
                path, matchers.StartsWith(str(self.site / 'nova_vgpu'))
            )
        # And the program itself, as far as it goes without a cloud. By its
        # name oslo.config finds nova-compute.conf.
        program = self.site / 'bin/nova-vgpu-compute'
        shown = self.run_python(program, '--help')
        self.assertThat(shown, matchers.StartsWith('usage: nova-compute '))

    def test_without_nova_the_start_command_says_so(self) -> None:
        """What is left of the name is the directory of the shim."""
        self.install()
        hide = (
            'import sys; sys.path[:] = [sys.argv[1], *(p for p in sys.path '
            "if not p.endswith('-packages'))]; "
            'sys.meta_path[:] = sys.meta_path[-1:]; '
        )
        done = subprocess.run(
            [
                *(sys.executable, '-S', '-c'),
                hide + 'import nova_vgpu.compute.start',
                str(self.site),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            cwd=self.directory,
        )
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertIn('Nova is not installed for', done.stderr)
