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

"""What keeps nova-compute from starting, and what must not."""

import typing

import fixtures
from oslo_config import cfg
from oslo_privsep import comm
from oslo_privsep import daemon

from nova_vgpu.compute import privileged
from nova_vgpu.compute import vgpu_devices
from nova_vgpu.tests.functional.compute import base
from nova_vgpu.tests.functional.compute import simulated
from nova_vgpu.tests.functional.compute import test_servers
from nova_vgpu.tests.functional.compute import test_vendor_vfio

A40 = test_servers.A40
SET_TYPE = vgpu_devices.VGPUDevices.set_type


class PrivilegedHelperTest(test_vendor_vfio.VendorVFIOTestBase):
    """Nova's privileged helper, which sets types, does not do so."""

    def setUp(self) -> None:
        super().setUp()
        self.declare('T4-8Q', 'L40S-24Q')
        self.list_addresses('L40S-24Q', '41:00.0')
        self.flags(mdev_class='CUSTOM_FUNCTION', group='mdev_L40S-24Q')
        self.start_host('host1', test_servers.t4(), test_vendor_vfio.l40s())
        self.functions = self._create_flavor(
            extra_spec={'resources:CUSTOM_FUNCTION': '1'}
        )

    def test_nova_compute_starts_and_other_gpus_serve(self) -> None:
        server = self.boot(flavor_id=self.functions)
        self._stop_server(server)
        self.connection().reboot()
        # The driver's own way to the helper, which other tests go round.
        own_way = fixtures.MockPatchObject(
            vgpu_devices.VGPUDevices, 'set_type', SET_TYPE
        )
        for error in (
            daemon.FailedToDropPrivileges('the helper exited with 1'),
            comm.PrivsepTimeout('the helper does not answer'),
            ImportError("No module named 'nova_vgpu'"),
        ):
            broken = fixtures.MockPatchObject(
                privileged, 'set_type', side_effect=error
            )
            with own_way, broken:
                self.restart_host('host1')
                self._run_periodics()
                self.assert_told(str(error))
        self._start_server(server)
        self.only_vgpu_of(server)

    def assert_told(self, reason: str) -> None:
        said = f"Nova's privileged helper fails: {reason}"
        self.assertEqual(1, self.stdlog.logger.output.count(said))
        self._delete_server(self.boot())
        self.boot(flavor_id=self.functions, expected_state='ERROR')
        self.assertIn(
            f'becomes a vGPU of nvidia-1155 (NVIDIA L40S-24Q): {said}',
            self.stdlog.logger.output,
        )


class LockPathTest(test_servers.OurTestBase):
    def test_it_is_asked_for_when_the_service_starts(self) -> None:
        self.start_host('host1', test_servers.t4())
        self.fixture.config(lock_path=None, group='oslo_concurrency')
        self.restart_host('host1')  # nothing is declared, nothing is needed
        self.declare('T4-8Q')
        error = self.assertRaises(
            cfg.RequiredOptError, self.restart_host, 'host1'
        )
        # Not its text: oslo.config of Nova 31 fails to make one.
        group = getattr(error.group, 'name', error.group)
        self.assertEqual(
            ('oslo_concurrency', 'lock_path'), (group, error.opt_name)
        )


class LateFunctionsTest(simulated.SimulatedTestBase):
    """From Nova's driver to this, on a GPU whose functions come late."""

    def test_what_servers_hold_moves_when_they_are_there(self) -> None:
        self.useFixture(base.NovaWithOurDriver())
        self.flags(enabled_mdev_types=['nvidia-562'], group='devices')
        self.start_host('host1', test_servers.a40())
        server = self.boot()
        (function,) = self.mdevs_of(server)
        gpus: typing.Any = list(self.simulated['host1'].gpus)

        self.flags(compute_driver='vgpu.LibvirtVGPUDriver')
        self.restart_host('host1', test_servers.a40(vfs=0))
        self._run_periodics(raise_on_error=True)
        self.assertIsNotNone(self.provider(function))

        self.simulated['host1'].gpus[:] = gpus
        self._run_periodics(raise_on_error=True)
        self.assertIsNone(self.provider(function))
        self.assertEqual(
            {'VGPU': 1}, self._get_provider_usages(self.provider(A40))
        )
        self.assertEqual([function], self.mdevs_of(server))
