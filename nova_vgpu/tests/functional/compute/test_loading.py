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

from collections.abc import Iterator
import errno
import inspect
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import typing
import zipfile

import fixtures
import nova.privsep
import nova.virt
from nova.virt.libvirt import driver as libvirt_driver
import testtools
from testtools import matchers

from nova_vgpu.compute import driver
from nova_vgpu.compute import privileged
from nova_vgpu.host import vendor_vfio

ROOT = pathlib.Path(__file__).resolve().parents[4]

#: Nova's private methods that are overridden or called, and their arguments:
#: a nova that changes one of them must not be met unprepared.
SIGNATURES = {
    'spawn': (
        'context, instance, image_meta, injected_files, admin_password, '
        'allocations, network_info, block_device_info, power_on, accel_info'
    ),
    'init_host': 'host',
    '_get_supported_vgpu_types': '',
    '_update_provider_tree_for_vgpu': 'provider_tree, nodename, allocations',
    '_count_vgpus_per_pgpu': 'mdev_uuids',
    '_get_supported_mdev_resource_classes': '',
    '_allocate_mdevs': 'allocations',
    '_get_existing_mdevs_not_assigned': 'parent, requested_types',
    '_create_new_mediated_device': 'parent, uuid',
    '_hard_reboot': (
        'context, instance, network_info, share_info, block_device_info, '
        'accel_info'
    ),
    'suspend': 'context, instance',
    'unrescue': 'context, instance',
    'pre_live_migration': (
        'context, instance, block_device_info, network_info, disk_info, '
        'migrate_data'
    ),
    '_assert_source_can_live_migrate_mdevs': 'instance, dest_check_data',
    '_create_mdev': 'dev_name, mdev_type, uuid',
    '_detach_mediated_devices': 'guest',
    '_detach_sync': (
        'dev, guest, instance_uuid, device_name, persistent, live'
    ),
    '_needs_suspend_resume_for_snapshot': 'live_snapshot, current_power_state',
    '_resume_guest_after_snapshot': (
        'context, live_snapshot, original_power_state, instance, guest'
    ),
    '_get_mdev_types_from_uuids': 'mdev_uuids',
    '_get_mdevs_from_guest_config': 'xml',
    '_guest_add_mdevs': 'guest, chosen_mdevs',
    '_start_inactive_mediated_devices': '',
    '_undefine_domain': 'instance, keep_vtpm, keep_nvram',
    '_get_all_assigned_mediated_devices': 'instance',
    '_get_mediated_device_information': 'devname',
    '_get_vgpu_type_per_pgpu': 'device_address',
    '_is_reshape_needed_vgpu_on_root': 'provider_tree, nodename',
    '_reshape_gpu_resources': 'allocations, root_node, pgpu_rps',
    '_vgpu_allocations': 'allocations',
}
#: Overridden with whatever arguments Nova has for them, after these.
BEGINNINGS = {
    'finish_migration': '',
    'check_source_migrate_data_at_dest': 'ctxt, instance, migrate_data',
    'finish_revert_migration': 'context, instance',
    'rescue': 'context, instance',
    'resume': 'context, instance',
    'rollback_live_migration_at_destination': 'context, instance',
}


def _arguments(name: str) -> str:
    """Those of Nova's method."""
    method = inspect.unwrap(getattr(libvirt_driver.LibvirtDriver, name))
    parameters = inspect.signature(method).parameters
    return ', '.join(name for name in parameters if name != 'self')


def _overrides() -> Iterator[tuple[str, typing.Any]]:
    novas = vars(libvirt_driver.LibvirtDriver)
    for owner in driver.LibvirtVGPUDriver.__mro__:
        if owner is libvirt_driver.LibvirtDriver:
            return
        for name, method in vars(owner).items():
            if name in novas and not name.startswith('__'):
                yield name, method


class LoadingTest(testtools.TestCase):
    def test_novas_methods_are_as_expected(self) -> None:
        for name, expected in SIGNATURES.items():
            self.assertEqual(expected, _arguments(name), name)
        for name, expected in BEGINNINGS.items():
            self.assertThat(
                _arguments(name), matchers.StartsWith(expected), name
            )

    def test_every_override_is_among_them(self) -> None:
        overrides = dict(_overrides())
        self.assertIn('spawn', overrides)
        self.assertEqual(
            set(), set(overrides) - set(SIGNATURES) - set(BEGINNINGS)
        )

    def test_every_override_says_what_it_is_to_novas(self) -> None:
        for name, method in _overrides():
            self.assertRegex(
                method.__doc__ or '', "(Extends|Replaces) Nova's", name
            )

    def test_what_needs_privileges_goes_to_novas_helper(self) -> None:
        """It refuses what was not made for it; see also its unit tests."""
        context = nova.privsep.sys_admin_pctxt
        self.assertTrue(context.is_entrypoint(privileged.write_type))
        self.assertFalse(context.is_entrypoint(vendor_vfio.write_type))

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
                vendor_vfio, 'write_type', lambda *_args: stuck.wait(60)
            ),
        ):
            error = self.assertRaises(
                OSError, privileged.write_type, '0000:41:00.4', 1155
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

    def setUp(self) -> None:
        super().setUp()
        self.directory = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path
        ).resolve()
        self.pip(
            'wheel', '--no-build-isolation', '-w', self.directory, str(ROOT)
        )
        (self.wheel,) = self.directory.glob('*.whl')
        self.site = self.directory / 'site'

    def pip(self, command: str, *arguments: object) -> None:
        self.run_python('-m', 'pip', command, '--no-deps', *arguments)

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
        self.pip('install', '--target', self.site, self.wheel)
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
        self.pip('install', '--target', self.site, self.wheel)
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
        self.pip('install', '--target', self.site, self.wheel)
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
