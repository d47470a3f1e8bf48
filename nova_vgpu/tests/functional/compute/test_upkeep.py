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

"""vGPUs that no server has: what is done with them, and what is not."""

import pathlib
import typing

import fixtures
import nova.conf

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.compute import reconciler
from nova_vgpu.host import locks
from nova_vgpu.host import state
from nova_vgpu.host import state_files
from nova_vgpu.tests.functional.compute import test_servers
from nova_vgpu.tests.functional.compute import test_vendor_vfio

CONF = nova.conf.CONF
UUID = 'c1b6ac4a-0b3c-4bd5-8d6d-3a0f8c0a0001'
T4_2Q = 'nvidia-231'


class IdleMdevsTest(test_servers.OurTestBase):
    def mdevs(self) -> list[typing.Any]:
        return list(self.connection().mdev_info.devices.values())

    def define(self, function: str, type_id: str) -> typing.Any:
        """One that is only defined."""
        return self.connection().nodeDeviceDefineXML(
            f'<device><parent>{function}</parent>'
            f"<capability type='mdev'><type id='{type_id}'/>"
            f'<uuid>{UUID}</uuid></capability></device>'
        )

    def test_one_that_was_stopped_by_hand_stays_so(self) -> None:
        self.start_host('host1', test_servers.t4())  # nothing is declared
        mdev = self.define(test_servers.T4, T4_2Q)
        self._run_periodics()
        self.assertFalse(mdev.isActive())
        self.declare('T4-2Q')
        self.restart_host('host1')  # as with Nova's driver, this starts it
        mdev.destroy()
        self._run_periodics()
        self.assertFalse(mdev.isActive())
        self.assertEqual([mdev], self.mdevs())

    def test_definitions_that_do_not_start_are_in_nobodys_way(self) -> None:
        """As when a release of the vendor's driver numbers types anew."""
        self.declare('A40-24Q')
        self.start_host('host1', test_servers.a40(vfs=2))
        for server in [self.boot(), self.boot()]:
            self._delete_server(server)
        for mdev in self.mdevs():
            mdev.type_id = 'nvidia-9999'
        self.reboot_machine('host1', autostart=False)
        self.assertEqual(2, self.total(test_servers.A40))
        for server in [self.boot(), self.boot()]:
            self.assertEqual(1, len(self.vgpus_of(server)))

    def test_one_that_cannot_be_removed_stays_defined(self) -> None:
        self.declare('T4-2Q')
        self.start_host('host1', test_servers.t4())
        self._delete_server(self.boot())
        (mdev,) = self.mdevs()
        mdevs = self.connection().mdev_info
        is_used = mdevs.is_used
        mdevs.is_used = lambda _uuid: True  # by what libvirt does not know
        self.declare('T4-8Q')
        self.restart_host('host1')
        self.assertIn(
            f'Could not remove mdev {mdev.uuid}, which is GRID T4-2Q; will '
            'try again',
            self.stdlog.logger.output,
        )
        self.assertEqual((1, 1), (mdev.isActive(), mdev.isPersistent()))
        mdevs.is_used = is_used
        self._run_periodics()
        self.assertEqual([], self.mdevs())
        self.assertEqual(2, self.total(test_servers.T4))


class IdleFunctionsTest(test_vendor_vfio.VendorVFIOTestBase):
    def test_one_that_is_not_listed_keeps_its_type(self) -> None:
        self.declare('L40S-24Q', unlisted_gpus='ignore')
        self.list_addresses('L40S-24Q', '41:00.4')
        self.start_host('host1', test_vendor_vfio.l40s())
        gpus = self.simulated['host1']
        for function in ('41:00.4', '41:00.5'):
            gpus.set_type(f'0000:{function}', test_vendor_vfio.L40S_24Q)
        self._run_periodics()
        self.restart_host('host1')
        self.assertEqual(
            [0, test_vendor_vfio.L40S_24Q],
            [gpus.current_type(f'pci_0000_41_00_{n}') for n in (4, 5)],
        )

    def test_one_that_is_a_pci_device_of_nova_keeps_its_type(self) -> None:
        """Nova's PCI tracker gives it to servers as it is."""
        line = '{"address": "0000:41:00.4", "managed": "no"}'
        self.flags(device_spec=[line], group='pci')
        # Nova looks into the machine's own sysfs.
        self.useFixture(
            fixtures.MockPatch(
                'nova.pci.utils.is_physical_function', return_value=False
            )
        )
        self.start_host('host1', test_vendor_vfio.l40s())
        gpus, l40s_24q = self.simulated['host1'], test_vendor_vfio.L40S_24Q
        for function in ('41:00.4', '41:00.5'):
            gpus.set_type(f'0000:{function}', l40s_24q)
        self._run_periodics()
        self.assertEqual([l40s_24q, 0, 0], self.kept_types())
        server = self.boot()  # what the GPU has left of its two
        self.assertEqual([l40s_24q, l40s_24q, 0], self.kept_types())
        self.boot(expected_state='ERROR')
        self._delete_server(server)
        self.restart_host('host1')
        self.assertEqual([l40s_24q, 0, 0], self.kept_types())
        # Nor is a type set, once something has cleared it.
        gpus.set_type('0000:41:00.4', 0)
        self._run_periodics()
        servers = [self.boot(), self.boot()]
        self.assertEqual([0, l40s_24q, l40s_24q], self.kept_types())
        self.assertEqual(2, len(servers))

    def test_a_server_goes_after_its_gpu(self) -> None:
        self.start_host('host1', test_vendor_vfio.l40s())
        server = self.boot()
        self.simulated['host1'].gpus[:] = []
        self._run_periodics(raise_on_error=True)
        self._delete_server(server)
        self._run_periodics(raise_on_error=True)
        self.assertIsNone(self.provider(test_vendor_vfio.L40S))

    def kept_types(self) -> list[int | None]:
        """What the first three functions are set to."""
        gpus = self.simulated['host1']
        return [gpus.current_type(f'pci_0000_41_00_{n}') for n in (4, 5, 6)]

    def test_one_that_was_enabled_by_hand_keeps_its_type(self) -> None:
        root = self.useFixture(fixtures.TempDir()).path
        directory = state.StateDirectory(root)
        state_files.write_vgpus(
            directory,
            values.VGPURecords({}, {'0000:41:00.4': 'NVIDIA L40S-24Q'}),
        )
        self.start_host('host1', test_vendor_vfio.l40s())
        its_driver = self.computes['host1'].driver
        its_driver.vgpus.planner.state_path = root
        gpus = self.simulated['host1']
        for function in ('41:00.4', '41:00.5'):
            gpus.set_type(f'0000:{function}', test_vendor_vfio.L40S_24Q)
        self._run_periodics()
        self.assertEqual([test_vendor_vfio.L40S_24Q, 0, 0], self.kept_types())
        server = self.boot()
        self._delete_server(server)
        self._run_periodics()
        self.assertEqual([test_vendor_vfio.L40S_24Q, 0, 0], self.kept_types())
        (pathlib.Path(root) / state_files.VGPUS_FILE).write_text('nonsense')
        self._run_periodics()
        self.assertIn(reconciler.RECORDS_FAILED, self.stdlog.logger.output)
        self.assertEqual([test_vendor_vfio.L40S_24Q, 0, 0], self.kept_types())

    def test_those_that_were_made_ahead_keep_their_type(self) -> None:
        self.declare('L40S-24Q', vgpu_creation='ahead')
        self.start_host('host1', test_vendor_vfio.l40s())
        l40s_24q = test_vendor_vfio.L40S_24Q
        self.simulated['host1'].set_type('0000:41:00.4', l40s_24q)
        self._run_periodics()
        self.assertEqual([l40s_24q, 0, 0], self.kept_types())
        for server in [self.boot(), self.boot()]:
            self._delete_server(server)
        self._run_periodics()
        self.assertEqual([l40s_24q, l40s_24q, 0], self.kept_types())

    def test_commands_wait_for_a_server_that_has_chosen(self) -> None:
        """From its choice until its guest shows it."""
        self.start_host('host1', test_vendor_vfio.l40s())
        its_driver = self.computes['host1'].driver
        seen: list[bool] = []

        def is_held() -> bool:
            hold = locks.hold_claims(
                CONF.oslo_concurrency.lock_path, 0, exclusive=True
            )
            try:
                with hold:
                    return False
            except exception.BusyError:
                return True

        create = its_driver._create_guest_with_network

        def watch(*args: typing.Any, **kwargs: typing.Any) -> typing.Any:
            seen.append(is_held())
            return create(*args, **kwargs)

        its_driver._create_guest_with_network = watch
        self.boot()
        self.assertEqual([True], seen)
        self.assertFalse(is_held())
