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

"""From this project's driver to Nova's own, and back again."""

import dataclasses
import typing

from keystoneauth1 import adapter
from keystoneauth1 import session
from keystoneauth1 import token_endpoint
import nova.conf

from nova_vgpu import values
from nova_vgpu.conf import devices
from nova_vgpu.host import guests
from nova_vgpu.host import libvirt_nodes
from nova_vgpu.placement import client
from nova_vgpu.placement import connection
from nova_vgpu.placement import synchronisation
from nova_vgpu.publish import providers
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans
from nova_vgpu.tests.functional.compute import base
from nova_vgpu.tests.functional.compute import simulated

CONF = nova.conf.CONF
HOST = 'host1'
A40 = 'pci_0000_41_00_0'
TYPE = 'nvidia-562'
TRAIT = 'CUSTOM_VGPU_TYPE_A40_8Q'
NOVAS = 'libvirt.LibvirtDriver'
OURS = 'vgpu.LibvirtVGPUDriver'
HASTY = connection.RetryPolicy(
    deadline=10, first_wait=0.001, longest_wait=0.01
)


class GoingBackTestBase(simulated.SimulatedTestBase):
    """A host with two servers of this project's driver."""

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(base.NovaWithOurDriver())
        self.flags(compute_driver=OURS)
        self.declare()
        self.start_host(HOST, self.make_gpu())
        self.servers = [self.boot(), self.boot()]
        self.functions = [self.mdevs_of(server) for server in self.servers]
        self.vgpus = [self.mdev_uuids_of(server) for server in self.servers]

    def declare(self) -> None:
        self.flags(enabled_mdev_types=[TYPE], group='devices')

    def make_gpu(self) -> typing.Any:
        return hosts.gpu('41:00.0', boards.A40, vfs=32)

    def switch(self, driver: str) -> None:
        self.flags(compute_driver=driver)
        self.restart_host(HOST)

    def connect(self) -> client.PlacementClient:
        """A client on the Placement of Nova's tests, within this process."""
        auth = token_endpoint.Token(self.placement.fixture.endpoint, 'admin')
        through = adapter.Adapter(
            session.Session(auth=auth), service_type='placement'
        )
        return client.PlacementClient(connection.Requester(through, HASTY))

    def hand_back(self) -> tuple[list[values.Change], values.Difference]:
        """What the command does while nova-compute is stopped."""
        compute = self.computes[HOST]
        connection = compute.driver._host.get_connection()
        compute.stop()
        declaration, problems = devices.read_declaration(CONF)
        host = libvirt_nodes.read_host(connection)
        target = providers.Target(
            plans.make_plan(declaration, host, problems),
            HOST,
            providers.Mode.HAND_BACK,
            guests=guests.read_guests(connection),
        )
        made: list[values.Change] = []
        found = synchronisation.sync(self.connect(), target, made.append)
        return made, found

    def mdev_uuids_of(self, server: typing.Any) -> set[str]:
        assigned = self.computes[
            HOST
        ].driver._get_all_assigned_mediated_devices()
        return {
            uuid for uuid, owner in assigned.items() if owner == server['id']
        }

    def allocations(self, server: typing.Any) -> typing.Any:
        path = f'/allocations/{server["id"]}'
        return self.placement.get(path, version='1.39').body

    def providers_of(self, server: typing.Any) -> list[str]:
        """The devices whose providers give the server its vGPUs."""
        found = self.allocations(server)['allocations']
        return sorted(
            self.placement.get(f'/resource_providers/{uuid}')
            .body['name']
            .removeprefix(f'{HOST}_')
            for uuid, given in found.items()
            if not {'VCPU', 'MEMORY_MB', 'DISK_GB'} & set(given['resources'])
        )

    def check_kept(self, expected: typing.Callable[[int], list[str]]) -> None:
        """The vGPUs are the same, and allocated from these devices."""
        for number, server in enumerate(self.servers):
            self.assertEqual(self.vgpus[number], self.mdev_uuids_of(server))
            self.assertEqual(expected(number), self.providers_of(server))


class GoingBackTest(GoingBackTestBase):
    def test_without_it_the_provider_of_the_gpu_stays_for_ever(self) -> None:
        self.switch(NOVAS)
        self._run_periodics()
        self.assertEqual([A40], self.providers_of(self.servers[0]))
        self.assertEqual(6, (self.inventory(A40) or {})['total'])
        # One that is in use, a second time: anybody may be sent there.
        (function,) = self.functions[0]
        self.assertEqual(1, (self.inventory(function) or {})['total'])
        used = self._get_provider_usages(self.provider(function))
        self.assertEqual({'VGPU': 0}, used)

    def test_novas_driver_goes_on_with_what_there_is(self) -> None:
        before = [self.allocations(server) for server in self.servers]
        self.hand_back()
        self.assertIsNone(self.provider(A40))
        self.check_kept(self.functions.__getitem__)
        self.switch(NOVAS)
        self._run_periodics()
        self.assertIsNone(self.provider(A40))
        self.check_kept(self.functions.__getitem__)
        self.check_nothing_else_changed(before)
        for (function,) in self.functions:
            self.assertEqual(1, (self.inventory(function) or {})['total'])
            traits = self._get_provider_traits(self.provider(function))
            self.assertIn('OWNER_NOVA', traits)
            self.assertIn(TRAIT, traits)

        third = self.boot()
        self.assertEqual(self.mdevs_of(third), self.providers_of(third))
        self.assertNotIn(self.mdevs_of(third), self.functions)

        self._reboot_server(self.servers[0], hard=True)
        self.check_kept(self.functions.__getitem__)
        for server in (*self.servers, third):
            self._delete_server(server)
        for (function,) in self.functions:
            used = self._get_provider_usages(self.provider(function))
            self.assertEqual({'VGPU': 0}, used)

    def check_nothing_else_changed(self, before: list[typing.Any]) -> None:
        for server, held in zip(self.servers, before, strict=True):
            now = self.allocations(server)
            for what in ('project_id', 'user_id', 'consumer_type'):
                self.assertEqual(held[what], now[what])
            self.assertEqual(
                *(
                    [
                        given['resources']
                        for given in of['allocations'].values()
                        if 'VGPU' not in given['resources']
                    ]
                    for of in (held, now)
                )
            )

    def test_there_and_back(self) -> None:
        self.hand_back()
        self.switch(NOVAS)
        self.servers.append(self.boot())
        self.functions.append(self.mdevs_of(self.servers[-1]))
        self.vgpus.append(self.mdev_uuids_of(self.servers[-1]))
        self.switch(OURS)
        self.check_kept(lambda _number: [A40])
        gpu = self.provider(A40)
        self.assertEqual({'VGPU': 3}, self._get_provider_usages(gpu))
        for (function,) in self.functions:
            self.assertIsNone(self.provider(function))
        self.assertIn(TRAIT, self._get_provider_traits(gpu))

        self.hand_back()
        self.check_kept(self.functions.__getitem__)
        self.assertIsNone(self.provider(A40))

    def test_a_server_that_is_shut_off_is_a_guest_too(self) -> None:
        self._stop_server(self.servers[0])
        self.hand_back()
        self.switch(NOVAS)
        self.check_kept(self.functions.__getitem__)
        self._start_server(self.servers[0])
        self.check_kept(self.functions.__getitem__)

    def test_a_second_time_there_is_nothing_to_do(self) -> None:
        self.assertNotEqual([], self.hand_back()[0])
        made, found = self.hand_back()
        self.assertEqual(([], ()), (made, found.problems))

    def test_a_migration_to_be_confirmed_is_a_reason_to_wait(self) -> None:
        self.start_host('host2', hosts.gpu('41:00.0', boards.A40, vfs=32))
        self._migrate_server(self.servers[0])
        made, found = self.hand_back()
        self.assertEqual([], made)
        self.assertTrue(found.refused)
        (problem,) = found.problems
        self.assertEqual('holder-not-here', problem.code)
        self.assertIn('confirm or revert', problem.cure)
        self.assertIsNotNone(self.provider(A40))


class DividedTest(GoingBackTestBase):
    """The configuration of a production cloud, for a GPU in MIG mode.

    It serves two types, each on functions and by a class of its own.
    """

    GPU = 'pci_0000_21_00_0'
    #: Providers, with their types and functions.
    SHARES: typing.ClassVar[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
        (f'{GPU}_A100D-2-20C', 'nvidia-700', ('00.4', '00.5', '00.6')),
        (f'{GPU}_A100D-1-10C', 'nvidia-699', ('00.7',)),
    )
    TOTALS: typing.ClassVar[list[int]] = [3, 1]

    def declare(self) -> None:
        types = [of_type for _, of_type, _ in self.SHARES]
        self.flags(enabled_mdev_types=types, group='devices')
        nova.conf.devices.register_dynamic_opts(CONF)
        for _, of_type, functions in self.SHARES:
            self.flags(
                device_addresses=[f'0000:21:{f}' for f in functions],
                mdev_class=self.class_of(of_type),
                group=f'mdev_{of_type}',
            )
        self.flavor, self.small = (
            self._create_flavor(
                extra_spec={f'resources:{self.class_of(of_type)}': '1'}
            )
            for of_type in types
        )

    def make_gpu(self) -> typing.Any:
        card = hosts.gpu('21:00.0', boards.A100D, vfs=16)
        return dataclasses.replace(card, mixed=True, instances=True)

    def class_of(self, of_type: str) -> str:
        return f'CUSTOM_{of_type.upper().replace("-", "_")}'

    def totals(self) -> list[int]:
        return [
            (self.inventory(name, self.class_of(of_type)) or {})['total']
            for name, of_type, _ in self.SHARES
        ]

    def check_full(self) -> None:
        for flavor in (self.flavor, self.small):
            self.boot(flavor_id=flavor, expected_state='ERROR')

    def test_there_and_back(self) -> None:
        self.assertEqual(self.TOTALS, self.totals())
        self.hand_back()
        names = [name for name, _, _ in self.SHARES]
        self.assertEqual([None, None], list(map(self.provider, names)))
        self.switch(NOVAS)
        self._run_periodics()
        self.check_kept(self.functions.__getitem__)
        self.servers.append(self.boot())
        for _ in range(self.TOTALS[1]):
            self.servers.append(self.boot(flavor_id=self.small))
        self.functions += [self.mdevs_of(s) for s in self.servers[2:]]
        self.vgpus += [self.mdev_uuids_of(s) for s in self.servers[2:]]
        self.check_kept(self.functions.__getitem__)
        self.check_full()
        self.switch(OURS)
        self._run_periodics()
        self.assertEqual(self.TOTALS, self.totals())
        for functions in self.functions:
            self.assertIsNone(self.provider(functions[0]))
        expected = [
            name
            for name, total in zip(names, self.TOTALS, strict=True)
            for _ in range(total)
        ]
        self.check_kept(lambda number: [expected[number]])
        self.check_full()


class MixedSizesTest(DividedTest):
    """vGPUs of two sizes on a GPU that is not in MIG mode."""

    GPU = DividedTest.GPU
    SHARES = (
        (f'{GPU}_A10-4Q', 'nvidia-593', ('00.4', '00.5', '00.6')),
        (f'{GPU}_A10-6Q', 'nvidia-594', ('00.7', '01.0')),
    )
    TOTALS: typing.ClassVar[list[int]] = [3, 2]

    def make_gpu(self) -> typing.Any:
        card = hosts.gpu('21:00.0', boards.A10, vfs=16)
        return dataclasses.replace(card, mixed=True)
