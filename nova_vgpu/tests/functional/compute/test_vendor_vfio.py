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


"""Servers whose vGPUs are virtual functions: vendor-specific VFIO.

The simulated guests do not start with a function that has no type, and not
with one that libvirt would bind to another driver.
"""

import errno
import os
import pathlib
import typing
from xml.etree import ElementTree

import fixtures
from nova import context
import nova.conf
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.api import client
from nova.tests.functional.libvirt import base as novas_base
from nova.virt.libvirt import guest

from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests.functional.compute import test_servers

CONF = nova.conf.CONF
L40S = 'pci_0000_41_00_0'
T4 = 'pci_0000_84_00_0'
A40 = 'pci_0000_c1_00_0'
#: The number of NVIDIA L40S-24Q, of which a GPU takes two.
L40S_24Q = 1155
L40S_48Q = 1156


def l40s(address: str = '41:00.0', vfs: int = 4) -> typing.Any:
    return hosts.gpu(address, boards.L40S, vfs=vfs, vendor_vfio=True)


class VendorVFIOTestBase(test_servers.OurTestBase):
    def setUp(self) -> None:
        super().setUp()
        self.declare('L40S-24Q')

    def types(self, host: str = 'host1') -> list[int]:
        """The types of the functions that have one."""
        gpus = self.simulated[host]
        return [
            number
            for gpu in gpus.gpus
            for address in gpu.vf_addresses
            if (number := gpus.current_type(address.node_device_name))
        ]

    def only_vgpu_of(self, server: typing.Any, host: str = 'host1') -> str:
        (function,) = self.vgpus_of(server, host)
        return function

    def guest_xml(self, server: typing.Any, host: str = 'host1') -> typing.Any:
        domain = self.connection(host).lookupByUUIDString(server['id'])
        return ElementTree.fromstring(domain.XMLDesc(0))  # noqa: S314 (ours)

    def record_writes(self) -> list[tuple[str, int]]:
        """From now on, what is written to functions."""
        written: list[tuple[str, int]] = []
        gpus = self.simulated['host1']
        write = gpus.set_type

        def record(address: str, number: int) -> None:
            written.append((address, number))
            write(address, number)

        self.useFixture(fixtures.MockPatchObject(gpus, 'set_type', record))
        return written


class LifeTest(VendorVFIOTestBase):
    """One server on one host."""

    def setUp(self) -> None:
        super().setUp()
        self.start_host('host1', l40s())

    def test_the_type_comes_with_the_server_and_goes_with_it(self) -> None:
        self.assertEqual(2, self.total(L40S))
        self.assertEqual([], self.types())
        server = self.boot()
        self.assertEqual([L40S_24Q], self.types())
        (hostdev,) = self.guest_xml(server).findall('devices/hostdev')
        self.assertEqual(
            ('pci', 'no'), (hostdev.get('type'), hostdev.get('managed'))
        )
        self._delete_server(server)
        self.assertEqual([], self.types())

    def test_the_last_one_is_served_and_the_next_refused(self) -> None:
        servers = [self.boot(), self.boot()]
        functions = {self.only_vgpu_of(server) for server in servers}
        self.assertEqual(2, len(functions))
        self.boot(expected_state='ERROR')
        self._run_periodics()
        self.assertEqual([L40S_24Q] * 2, self.types())
        self._delete_server(servers[0])
        self.only_vgpu_of(self.boot())

    def test_it_is_its_own_over_reboots_and_stops(self) -> None:
        server = self.boot()
        function = self.only_vgpu_of(server)
        written = self.record_writes()
        self._reboot_server(server, hard=True)
        self.assertEqual(function, self.only_vgpu_of(server))
        self._stop_server(server)
        self._run_periodics()
        other = self.boot()
        self.assertNotEqual(function, self.only_vgpu_of(other))
        self._start_server(server)
        self.assertEqual(function, self.only_vgpu_of(server))
        # Nothing but the other server's.
        self.assertEqual([L40S_24Q], [number for _, number in written])

    def test_it_is_its_own_while_suspended(self) -> None:
        server = self.boot()
        function = self.only_vgpu_of(server)
        seen: list[list[int]] = []
        save = guest.Guest.save_memory_state

        def look_and_save(its_guest: typing.Any) -> None:
            # The guest does not show it now.
            self.assertEqual([], self.vgpus_of(server))
            self._run_periodics()
            seen.append(self.types())
            save(its_guest)

        with fixtures.MockPatchObject(
            guest.Guest, 'save_memory_state', look_and_save
        ):
            self._suspend_server(server)
        self.assertEqual([[L40S_24Q]], seen)
        self._run_periodics()
        self.assertNotEqual(function, self.only_vgpu_of(self.boot()))
        self._resume_server(server)
        self.assertEqual(function, self.only_vgpu_of(server))

    def test_it_is_its_own_while_rescued(self) -> None:
        server = self.boot()
        function = self.only_vgpu_of(server)
        # Nova's fake of the disks makes no directory for the server.
        pathlib.Path(CONF.instances_path, server['id']).mkdir()
        server = self._rescue_server(server)
        self._run_periodics()
        self.assertEqual(function, self.only_vgpu_of(server))
        server = self._unrescue_server(server)
        self.assertEqual(function, self.only_vgpu_of(server))
        self.assertEqual([L40S_24Q], self.types())

    def test_a_resize_on_the_host_itself_and_back(self) -> None:
        self.flags(allow_resize_to_same_host=True)
        server = self.boot()
        bigger = self._create_flavor(
            vcpu=3, extra_spec={'resources:VGPU': '1'}
        )
        server = self._resize_server(server, bigger)
        self.only_vgpu_of(server)
        server = self._revert_resize(server)
        self.only_vgpu_of(server)
        self._run_periodics()
        self.assertEqual([L40S_24Q], self.types())
        server = self._resize_server(server, bigger)
        self._confirm_resize(server)
        self._run_periodics()
        self.only_vgpu_of(server)
        self.assertEqual([L40S_24Q], self.types())

    def test_a_failed_boot_gives_it_back(self) -> None:
        def fail(_domain: typing.Any, _flags: int) -> typing.NoReturn:
            raise fakelibvirt.make_libvirtError(
                fakelibvirt.libvirtError,
                'no such emulator',
                error_code=fakelibvirt.VIR_ERR_INTERNAL_ERROR,
                error_domain=fakelibvirt.VIR_FROM_QEMU,
            )

        with fixtures.MonkeyPatch(
            'nova.tests.fixtures.libvirt.Domain.createWithFlags', fail
        ):
            self.boot(expected_state='ERROR')
        self.assertEqual([], self.types())
        driver = self.computes['host1'].driver
        self.assertEqual(frozenset(), driver.vgpus.usage.pending.list())

    def test_a_boot_that_gets_one_of_two_gives_it_back(self) -> None:
        gpus = self.simulated['host1']
        write = gpus.set_type
        flavor = self._create_flavor(extra_spec={'resources:VGPU': '2'})

        def refuse_second(address: str, number: int) -> None:
            if number and self.types():
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
            write(address, number)

        with fixtures.MockPatchObject(gpus, 'set_type', refuse_second):
            self.boot(flavor_id=flavor, expected_state='ERROR')
            self.assertEqual([], self.types())
        self.assertEqual(2, len(self.vgpus_of(self.boot(flavor_id=flavor))))

    def test_what_the_kernel_refuses_is_told(self) -> None:
        def refuse(address: str, _number: int) -> typing.NoReturn:
            raise OSError(errno.EIO, os.strerror(errno.EIO), address)

        with fixtures.MockPatchObject(
            self.simulated['host1'], 'set_type', refuse
        ):
            self.boot(expected_state='ERROR')
        self.assertIn(
            'no virtual function of GPU 0000:41:00.0 becomes a vGPU of '
            'nvidia-1155 (NVIDIA L40S-24Q): Input/output error',
            self.stdlog.logger.output,
        )

    def test_what_nobody_has_is_cleared_when_it_starts(self) -> None:
        self.simulated['host1'].set_type('0000:41:00.5', L40S_48Q)
        self.restart_host('host1')
        self.assertEqual([], self.types())
        self.assertEqual(2, self.total(L40S))

    def test_what_another_guest_has_is_left_alone(self) -> None:
        """A function that somebody gave to a guest of their own."""
        self.simulated['host1'].set_type('0000:41:00.4', L40S_24Q)
        self.connection().defineXML(
            """<domain type='kvm'>
              <name>mine</name>
              <uuid>7a1c3a52-0b6a-4c8e-9f0e-54d2c4c1c001</uuid>
              <memory>1024</memory><vcpu>1</vcpu>
              <os><type>hvm</type></os>
              <devices>
                <hostdev mode='subsystem' type='pci' managed='no'>
                  <source><address domain='0x0000' bus='0x41' slot='0x00'
                                   function='0x4'/></source>
                </hostdev>
              </devices>
            </domain>"""
        )
        self.restart_host('host1')
        self.assertEqual([L40S_24Q], self.types())
        self.assertEqual('pci_0000_41_00_5', self.only_vgpu_of(self.boot()))

    def test_a_gpu_taken_out_keeps_what_servers_have(self) -> None:
        server = self.boot()
        self.declare('L40S-24Q', unlisted_gpus='ignore')
        self.restart_host('host1')
        self.assertEqual([L40S_24Q], self.types())
        self._reboot_server(server, hard=True)
        self.only_vgpu_of(server)
        self._delete_server(server)
        self.assertEqual([], self.types())


class RebootTest(VendorVFIOTestBase):
    """The host is rebooted: all types are gone."""

    def setUp(self) -> None:
        super().setUp()
        self.flags(resume_guests_state_on_host_boot=True)
        self.start_host('host1', l40s())

    def test_every_server_finds_its_own_again(self) -> None:
        servers = [self.boot(), self.boot()]
        self._stop_server(servers[1])
        functions = [self.only_vgpu_of(server) for server in servers]
        self.reboot_machine('host1')
        self.assertEqual([L40S_24Q] * 2, self.types())
        self._start_server(servers[1])
        self.assertEqual(
            functions, [self.only_vgpu_of(server) for server in servers]
        )
        self._wait_for_state_change(servers[0], 'ACTIVE')
        running = self.connection().lookupByUUIDString(servers[0]['id'])
        self.assertTrue(running.isActive())

    def test_of_the_type_that_it_had_whatever_is_declared_now(self) -> None:
        server = self.boot()
        self.declare('L40S-48Q')
        self.reboot_machine('host1')
        self.assertEqual([L40S_24Q], self.types())
        self.only_vgpu_of(server)
        self._delete_server(server)
        self._run_periodics()
        self.assertEqual(1, self.total(L40S))
        self.only_vgpu_of(self.boot())
        self.assertEqual([L40S_48Q], self.types())

    def test_a_server_waits_for_functions_that_come_late(self) -> None:
        server = self.boot()
        function = self.only_vgpu_of(server)
        self.connection().reboot(True)
        self.restart_host('host1', l40s(vfs=0))
        self.assertIn(
            f'The vGPU of {server["id"]} on {function} does not exist',
            self.stdlog.logger.output,
        )
        self.simulated['host1'].gpus[:] = [l40s()]
        self._run_periodics()
        self.assertEqual([L40S_24Q], self.types())
        self._reboot_server(server, hard=True)
        self.assertEqual(function, self.only_vgpu_of(server))


class FrameworksTest(VendorVFIOTestBase):
    def test_one_flavor_for_all_three(self) -> None:
        self.declare('L40S-24Q', 'A40-24Q', 'T4-8Q')
        self.list_addresses('A40-24Q', 'c1:00.0')
        self.list_addresses('T4-8Q', '84:00.0')
        self.start_host(
            'host1',
            l40s(),
            hosts.gpu('84:00.0', boards.T4),
            hosts.gpu('c1:00.0', boards.A40, vfs=4),
        )
        self.assertEqual([2] * 3, [self.total(g) for g in (L40S, A40, T4)])
        functions = [
            function
            for _ in range(6)
            for function in self.vgpus_of(self.boot())
        ]
        buses = sorted(name.split('_')[2] for name in functions)
        self.assertEqual(['41', '41', '84', '84', 'c1', 'c1'], buses)
        self.boot(expected_state='ERROR')


class MovingTest(VendorVFIOTestBase):
    """Servers that go from host to host."""

    def setUp(self) -> None:
        super().setUp()
        self.start_host('host1', l40s())
        self.start_host('host2', l40s('61:00.0'))

    def test_a_cold_migration_and_its_confirmation(self) -> None:
        server = self.boot(host='host1')
        before = self.only_vgpu_of(server)
        server = self._migrate_server(server)
        self.assertEqual(before, self.only_vgpu_of(server))
        self.only_vgpu_of(server, 'host2')
        self.assertEqual([[L40S_24Q]] * 2, [self.types(), self.types('host2')])
        self._confirm_resize(server)
        self.assertEqual([[], [L40S_24Q]], [self.types(), self.types('host2')])

    def test_a_resize_and_its_reversal(self) -> None:
        server = self.boot(host='host1')
        before = self.only_vgpu_of(server)
        bigger = self._create_flavor(
            vcpu=3, extra_spec={'resources:VGPU': '1'}
        )
        server = self._resize_server(server, bigger)
        self._run_periodics()
        self.only_vgpu_of(server, 'host2')
        server = self._revert_resize(server)
        self.assertEqual(before, self.only_vgpu_of(server))
        self.assertEqual([[L40S_24Q], []], [self.types(), self.types('host2')])


class LiveMigrationTestBase(
    novas_base.LibvirtMigrationMixin, VendorVFIOTestBase
):
    def setUp(self) -> None:
        super().setUp()
        self.src = self.start_host('host1', l40s())
        self.server = self.boot(host='host1')

    def assert_refused(self, why: str) -> None:
        error = self.assertRaises(
            client.OpenStackApiException,
            self._live_migrate,
            self.server,
            'completed',
        )
        self.assertIn('NoValidHost', str(error))
        self.assertIn(why, self.stdlog.logger.output)
        server = self.api.get_server(self.server['id'])
        self.assertEqual('ACTIVE', server['status'])
        self._run_periodics()
        self.assertEqual([[L40S_24Q], []], [self.types(), self.types('host2')])


class LiveMigrationTest(LiveMigrationTestBase):
    """The versions are those that Nova asks of PCI devices that migrate."""

    FAKE_LIBVIRT_VERSION = 10_000_000
    FAKE_QEMU_VERSION = 8_002_002

    def test_it_takes_a_function_of_the_other_host(self) -> None:
        self.dest = self.start_host('host2', l40s('61:00.0'))
        self._live_migrate(self.server, 'completed')
        function = self.only_vgpu_of(self.server, 'host2')
        self.assertTrue(function.startswith('pci_0000_61_00_'), function)
        (alias,) = self.guest_xml(self.server, 'host2').findall(
            'devices/hostdev/alias'
        )
        self.assertEqual('ua-vgpu-0-NVIDIA_L40S-24Q', alias.get('name'))
        self._run_periodics()
        self.assertEqual([[], [L40S_24Q]], [self.types(), self.types('host2')])

    def test_an_mdev_does_not_take_its_place(self) -> None:
        self.dest = self.start_host(
            'host2', hosts.gpu('61:00.0', boards.L40S, vfs=4)
        )
        self.assert_refused(
            'host1 has its vGPU as vendor VFIO, and host2 serves L40S-24Q as '
            'mdev on VFs'
        )


class DrainingTest(LiveMigrationTestBase):
    """A GPU that was taken out of the configuration while servers have it."""

    FAKE_LIBVIRT_VERSION = 10_000_000
    FAKE_QEMU_VERSION = 8_002_002

    def _migrate_stub(self, *args: typing.Any, **kwargs: typing.Any) -> None:
        """As libvirt does, with the flags of Nova: none is left behind."""
        super()._migrate_stub(*args, **kwargs)
        self.guest_of(self.server).undefine()

    def test_types_go_with_the_servers_and_no_others(self) -> None:
        self.dest = self.start_host('host2', l40s('61:00.0'))
        other = self.boot(host='host1')
        self.declare('L40S-24Q', unlisted_gpus='ignore')
        self.restart_host('host1')
        self._live_migrate(self.server, 'completed')
        self._run_periodics()
        self.assertEqual(
            [[L40S_24Q], [L40S_24Q]], [self.types(), self.types('host2')]
        )
        self.simulated['host1'].set_type('0000:41:00.7', L40S_24Q)  # by hand
        self.declare()
        self.restart_host('host1')
        self.server = other
        self._live_migrate(other, 'completed')
        self._run_periodics()
        self.assertEqual(
            [0, 0, 0, L40S_24Q],
            [
                self.simulated['host1'].current_type(f'pci_0000_41_00_{n}')
                for n in (4, 5, 6, 7)
            ],
        )
        self.assertEqual([L40S_24Q] * 2, self.types('host2'))

    def test_a_type_that_could_not_be_cleared_goes_later(self) -> None:
        self.declare('L40S-24Q', unlisted_gpus='ignore')
        self.restart_host('host1')
        gpus = self.simulated['host1']

        def refuse(address: str, _number: int) -> typing.NoReturn:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), address)

        with fixtures.MockPatchObject(gpus, 'set_type', refuse):
            self._delete_server(self.server)
        self.assertEqual([L40S_24Q], self.types())
        self._run_periodics()
        self.assertEqual([], self.types())


class FailedLiveMigrationTest(LiveMigrationTestBase):
    FAKE_LIBVIRT_VERSION = 10_000_000
    FAKE_QEMU_VERSION = 8_002_002

    def _migrate_stub(
        self,
        domain: typing.Any,
        destination: str,
        params: typing.Any,
        flags: int,
    ) -> None:
        """Fails, when the other host has its function ready."""
        # Not by _run_periodics(): Nova's fixture would hold its lock on the
        # cells meanwhile, which the API, asked about the migration, and then
        # the periodic task itself wait for.
        for compute in self.computes.values():
            compute.manager.update_available_resource(
                context.get_admin_context()
            )
        self.assertEqual([L40S_24Q], self.types('host2'))
        connection = self.connection('host1')
        connection.lookupByUUIDString(self.server['id']).fail_job()
        self.migrate_stub_ran = True

    def test_the_function_of_the_other_host_is_given_back(self) -> None:
        self.dest = self.start_host('host2', l40s('61:00.0'))
        self._live_migrate(self.server, 'failed')
        self.assertTrue(self.migrate_stub_ran)
        self.only_vgpu_of(self.server)
        self.assertEqual([[L40S_24Q], []], [self.types(), self.types('host2')])


class OldLiveMigrationTest(LiveMigrationTestBase):
    """With versions that are enough for mdevs and not for functions."""

    FAKE_LIBVIRT_VERSION = 8_006_000
    FAKE_QEMU_VERSION = 8_001_000

    def test_what_is_missing_is_told(self) -> None:
        self.dest = self.start_host('host2', l40s('61:00.0'))
        self.assert_refused(
            'its vGPU is a virtual function, and host1 lacks libvirt 10.0.0 '
            'or QEMU 8.2.2'
        )
