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

"""Servers that leave their host, or that were to come and did not."""

import typing

import fixtures
from nova import exception as nova_exception
from nova.tests.functional.api import client

from nova_vgpu.tests.functional.compute import simulated_guests
from nova_vgpu.tests.functional.compute import simulated_mdevs
from nova_vgpu.tests.functional.compute import test_servers
from nova_vgpu.tests.functional.compute import test_vendor_vfio

L40S_24Q = test_vendor_vfio.L40S_24Q
OTHER_IMAGE = '70a599e0-31e7-49b7-b260-868f441e862b'
PORTS = (
    'nova.conductor.tasks.live_migrate.LiveMigrationTask.'
    '_bind_ports_on_destination'
)

l40s = test_vendor_vfio.l40s


class EvacuationTest(test_vendor_vfio.VendorVFIOTestBase):
    """A host fails for good; it has servers of either kind."""

    def setUp(self) -> None:
        super().setUp()
        self.declare('T4-8Q', 'L40S-24Q')
        self.list_addresses('L40S-24Q', '41:00.0')
        self.flags(mdev_class='CUSTOM_FUNCTION', group='mdev_L40S-24Q')

    def test_servers_go_and_the_host_is_clean_when_it_is_back(self) -> None:
        self.start_host('host1', test_servers.t4(), l40s())
        functions = self._create_flavor(
            extra_spec={'resources:CUSTOM_FUNCTION': '1'}
        )
        servers = [self.boot(), self.boot(flavor_id=functions)]
        self.start_host('host2', test_servers.t4(), l40s())
        self.computes['host1'].stop()
        (service,) = self.api.get_services(host='host1', binary='nova-compute')
        self.api.put_service(service['id'], {'forced_down': True})
        for server in servers:
            self._evacuate_server(server, expected_host='host2')
            self.assertEqual(1, len(self.vgpus_of(server, 'host2')))
            (own,) = self.names_of(server, 'host2')
            self._start_server(server)
            self.assertEqual([own], self.names_of(server, 'host2'))

        self.connection('host1').reboot()
        self.restart_host('host1')
        self._run_periodics()
        self.assertEqual([], self.connection('host1').listAllDomains(0))
        self.assertEqual([[], [L40S_24Q]], [self.types(), self.types('host2')])
        held = [
            self._get_provider_usages(self.provider(gpu, host))
            for host in ('host1', 'host2')
            for gpu in (test_servers.T4, test_vendor_vfio.L40S)
        ]
        self.assertEqual(
            [
                {'VGPU': 0},
                {'CUSTOM_FUNCTION': 0},
                {'VGPU': 1},
                {'CUSTOM_FUNCTION': 1},
            ],
            held,
        )


class LeavingTest(test_vendor_vfio.VendorVFIOTestBase):
    """Servers that give up their host, or go on as something else."""

    def setUp(self) -> None:
        super().setUp()
        self.flags(shelved_offload_time=0)
        self.start_host('host1', l40s())

    def test_rebuilt_shelved_and_unshelved(self) -> None:
        server = self.boot()
        server = self._rebuild_server(server, OTHER_IMAGE)
        self.only_vgpu_of(server)
        self.assertEqual([L40S_24Q], self.types())
        server = self._shelve_server(server)
        self.assertEqual([], self.types())
        server = self._unshelve_server(server)
        self.only_vgpu_of(server)
        self.assertEqual([L40S_24Q], self.types())

    def test_a_cold_migration_that_fails_gives_its_vgpu_back(self) -> None:
        server = self.boot(host='host1')
        function = self.only_vgpu_of(server)
        other = self.start_host('host2', l40s('61:00.0')).driver

        def fail(*_args: object, **_kwargs: object) -> typing.NoReturn:
            self.assertEqual([L40S_24Q], self.types('host2'))
            raise simulated_mdevs.error('no such emulator', 1)

        with fixtures.MockPatchObject(
            other, '_create_guest_with_network', fail
        ):
            self.assertRaises(
                client.OpenStackApiException, self._migrate_server, server
            )
        self.assertEqual([[L40S_24Q], []], [self.types(), self.types('host2')])
        self.assertEqual(frozenset(), other.vgpus.usage.pending.list())
        self.assertEqual(function, self.names_of(server)[0])


class LiveMigrationTestBase(test_vendor_vfio.LiveMigrationTestBase):
    FAKE_LIBVIRT_VERSION = 10_000_000
    FAKE_QEMU_VERSION = 8_002_002

    def notes(self) -> dict[str, list[str]]:
        """What the destination noted for servers that are to come."""
        return dict(self.dest.driver.instance_claimed_mdevs)

    def assert_stayed(self) -> None:
        server = self.api.get_server(self.server['id'])
        self.assertEqual(
            ('ACTIVE', 'host1'),
            (server['status'], server['OS-EXT-SRV-ATTR:host']),
        )
        self.assertTrue(self.guest_of(self.server).isActive())
        self.only_vgpu_of(self.server)


class NotesTest(LiveMigrationTestBase):
    def test_of_a_migration_that_never_comes_they_are_dropped(self) -> None:
        self.dest = self.start_host('host2', l40s('61:00.0'))

        def fail(*_args: object, **_kwargs: object) -> typing.NoReturn:
            # The destination was asked by now, and does not hear of this.
            self.assertEqual([L40S_24Q], self.types('host2'))
            raise nova_exception.MigrationPreCheckError(reason='no ports')

        with fixtures.MockPatch(PORTS, fail):
            self.assertRaises(
                client.OpenStackApiException, self._live_migrate, self.server
            )
        self.assertEqual([self.server['id']], list(self.notes()))
        self._run_periodics()
        self.assertEqual({}, self.notes())
        self.assertEqual([[L40S_24Q], []], [self.types(), self.types('host2')])
        self.assert_stayed()
        # All of the other host can be had again, and the server comes to it
        # by another way with the one vGPU that it holds.
        full = [self.boot(host='host2'), self.boot(host='host2')]
        for server in full:
            self.only_vgpu_of(server, 'host2')
            self._delete_server(server)
        self._confirm_resize(self._migrate_server(self.server))
        function = self.only_vgpu_of(self.server, 'host2')
        self._reboot_server(self.server, hard=True)
        self.assertEqual(function, self.only_vgpu_of(self.server, 'host2'))

    def test_of_one_that_is_under_way_they_are_kept(self) -> None:
        self.dest = self.start_host('host2', l40s('61:00.0'))
        come, kept = self.dest.driver.pre_live_migration, list[typing.Any]()

        def come_later(*args: typing.Any, **kwargs: typing.Any) -> typing.Any:
            before = self.notes()
            self.reconcile()
            kept.append((before, self.notes(), self.types('host2')))
            return come(*args, **kwargs)

        with fixtures.MockPatchObject(
            self.dest.driver, 'pre_live_migration', come_later
        ):
            self._live_migrate(self.server)
        function = self.only_vgpu_of(self.server, 'host2')
        note = {self.server['id']: [function]}
        self.assertEqual([(note, note, [L40S_24Q])], kept)
        self._run_periodics()
        self.assertEqual({}, self.notes())

    def test_that_are_lost_with_a_restart_are_missed(self) -> None:
        self.dest = self.start_host('host2', l40s('61:00.0'))
        come = self.dest.driver.pre_live_migration

        def restart(*args: typing.Any, **kwargs: typing.Any) -> typing.Any:
            self.dest.driver.instance_claimed_mdevs.clear()
            self.reconcile()
            self.assertEqual([], self.types('host2'))
            return come(*args, **kwargs)

        with fixtures.MockPatchObject(
            self.dest.driver, 'pre_live_migration', restart
        ):
            self._live_migrate(self.server, 'failed')
        self.assertIn(
            f'Unable to migrate {self.server["id"]}: nova-compute on host2 '
            'was restarted since it chose vGPUs for it. Try again.',
            self.stdlog.logger.output,
        )
        self.assert_stayed()
        self.assertEqual([[L40S_24Q], []], [self.types(), self.types('host2')])
        other = self.boot(host='host2')
        # The advice is good.
        self._live_migrate(self.server)
        self.assertNotEqual(
            self.only_vgpu_of(other, 'host2'),
            self.only_vgpu_of(self.server, 'host2'),
        )


class TwoFunctionsTest(LiveMigrationTestBase):
    def test_they_go_live_together(self) -> None:
        self.dest = self.start_host('host2', l40s())
        self._delete_server(self.server)
        flavor = self._create_flavor(extra_spec={'resources:VGPU': '2'})
        self.server = self.boot(host='host1', flavor_id=flavor)
        self.assertEqual(2, len(self.vgpus_of(self.server)))
        self._live_migrate(self.server)
        self._run_periodics()
        self.assertEqual(
            [[], [L40S_24Q] * 2], [self.types(), self.types('host2')]
        )
        functions = self.vgpus_of(self.server, 'host2')
        self.assertEqual(2, len(set(functions)))
        self._reboot_server(self.server, hard=True)
        self.assertEqual(functions, self.vgpus_of(self.server, 'host2'))


class TwoTypesTest(LiveMigrationTestBase):
    """The other host has the types on functions of swapped addresses."""

    def test_each_vgpu_finds_its_type(self) -> None:
        gpus = l40s(), l40s('61:00.0')
        self.declare('L40S-24Q', 'L40S-48Q')
        self.list_addresses('L40S-48Q', '61:00.0')
        self.flags(mdev_class='CUSTOM_BIG', group='mdev_L40S-48Q')
        self._delete_server(self.server)
        self.src = self.restart_host('host1', *gpus)
        self.list_addresses('L40S-24Q', '61:00.0')
        self.list_addresses('L40S-48Q', '41:00.0')
        self.dest = self.start_host('host2', *gpus)
        flavor = self._create_flavor(
            extra_spec={'resources:VGPU': '1', 'resources:CUSTOM_BIG': '1'}
        )
        self.server = self.boot(host='host1', flavor_id=flavor)
        types = {
            'ua-vgpu-0-NVIDIA_L40S-24Q': L40S_24Q,
            'ua-vgpu-1-NVIDIA_L40S-48Q': test_vendor_vfio.L40S_48Q,
        }
        self.assertEqual(types, self.types_by_alias('host1'))
        self._live_migrate(self.server)
        self.assertEqual(types, self.types_by_alias('host2'))

    def types_by_alias(self, host: str) -> dict[str, int | None]:
        """What a guest was given, and what it has."""
        return {
            hostdev['alias']: self.simulated[host].current_type(
                simulated_guests.key_of(hostdev)
            )
            for hostdev in self.guest_of(self.server, host).hostdevs
        }
