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

import importlib
import inspect
import pathlib
import subprocess
import sys
import typing
import zipfile

import fixtures
from nova.virt.libvirt import driver as libvirt_driver
import testtools

from nova_vgpu.compute import driver

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
    '_allocate_mdevs': 'allocations',
    '_get_existing_mdevs_not_assigned': 'parent, requested_types',
    '_create_new_mediated_device': 'parent, uuid',
    '_hard_reboot': (
        'context, instance, network_info, share_info, block_device_info, '
        'accel_info'
    ),
    '_create_mdev': 'dev_name, mdev_type, uuid',
    '_get_all_assigned_mediated_devices': 'instance',
    '_get_mediated_devices': 'types',
    '_get_mediated_device_information': 'devname',
    '_get_vgpu_type_per_pgpu': 'device_address',
    '_is_reshape_needed_vgpu_on_root': 'provider_tree, nodename',
    '_reshape_gpu_resources': 'allocations, root_node, pgpu_rps',
    '_vgpu_allocations': 'allocations',
}
#: Overridden with whatever arguments Nova has for them.
WITH_ANY = {'finish_migration', 'check_source_migrate_data_at_dest'}


class LoadingTest(testtools.TestCase):
    def test_novas_methods_are_as_expected(self) -> None:
        for name, expected in SIGNATURES.items():
            method = inspect.unwrap(
                getattr(libvirt_driver.LibvirtDriver, name)
            )
            found = [
                parameter
                for parameter in inspect.signature(method).parameters
                if parameter != 'self'
            ]
            self.assertEqual(expected, ', '.join(found), name)

    def test_every_override_is_among_them(self) -> None:
        novas = vars(libvirt_driver.LibvirtDriver)
        ours = {
            name
            for name in vars(driver.LibvirtVGPUDriver)
            if name in novas and not name.startswith('__')
        }
        self.assertEqual(set(), ours - set(SIGNATURES) - WITH_ANY)
        for name in WITH_ANY:
            self.assertIn(name, novas)

    def test_the_start_command_makes_it_importable(self) -> None:
        code = (
            'from nova_vgpu.compute import start\n'
            'start.make_importable()\n'
            'from nova.virt import driver\n'
            'from oslo_utils import importutils\n'
            "print(importutils.import_class('nova.virt.vgpu.LibvirtVGPUDriver'))"
        )
        found = subprocess.run(
            [sys.executable, '-c', code],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        self.assertIn('nova_vgpu.compute.driver', found.stdout, found.stderr)

    def test_the_wheel_puts_the_shim_where_nova_looks(self) -> None:
        directory = self.useFixture(fixtures.TempDir()).path
        command = [sys.executable, '-m', 'pip', 'wheel', '--no-deps']
        command += ['--no-build-isolation', '-w', directory, str(ROOT)]
        built = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=300
        )
        self.assertEqual(0, built.returncode, built.stdout + built.stderr)
        (wheel,) = pathlib.Path(directory).glob('*.whl')
        with zipfile.ZipFile(wheel) as archive:
            names = set(archive.namelist())
        self.assertIn('nova/virt/vgpu/__init__.py', names)
        self.assertNotIn('nova/__init__.py', names)
        self.assertNotIn('nova/virt/__init__.py', names)

    def test_the_commands_exist(self) -> None:
        start: typing.Any = importlib.import_module('nova_vgpu.compute.start')
        self.assertTrue(callable(start.main))
