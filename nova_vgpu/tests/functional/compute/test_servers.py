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

"""Servers with vGPUs on simulated GPUs, from the first one to the last."""

import concurrent.futures
import threading
import typing

import fixtures
from keystoneauth1 import exceptions as ks_exception
import nova.conf
from nova.scheduler.client import report

from nova_vgpu.conf import opts
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests.functional.compute import base
from nova_vgpu.tests.functional.compute import simulated

CONF = nova.conf.CONF
T4 = 'pci_0000_84_00_0'
OTHER_T4 = 'pci_0000_85_00_0'
A40 = 'pci_0000_41_00_0'
FIRST_VF = 'pci_0000_41_00_4'


def t4(address: str = '84:00.0') -> typing.Any:
    return hosts.gpu(address, boards.T4)


def a40(vfs: int = 32) -> typing.Any:
    return hosts.gpu('41:00.0', boards.A40, vfs=vfs)


class OurTestBase(base.OurDriver, simulated.SimulatedTestBase):
    def declare(self, *types: str, **options: typing.Any) -> None:
        """Types by name; options of the section [devices]."""
        opts.register_opts(CONF)
        self.flags(enabled_mdev_types=list(types), group='devices')
        self.flags(group='devices', **options)

    def list_addresses(self, name: str, *addresses: str) -> None:
        nova.conf.devices.register_dynamic_opts(CONF)
        self.flags(device_addresses=list(addresses), group=f'mdev_{name}')

    def total(self, device: str) -> int | None:
        inventory = self.inventory(device)
        return int(inventory['total']) if inventory else None


class ServersTest(OurTestBase):
    def test_an_sriov_gpu_is_one_provider_and_serves_its_maximum(self) -> None:
        self.declare('A40-24Q')
        self.start_host('host1', a40())
        self.assertEqual(2, self.total(A40))
        self.assertIsNone(self.provider(FIRST_VF))
        first, second = self.boot(), self.boot()
        functions = self.mdevs_of(first) + self.mdevs_of(second)
        self.assertEqual(2, len(set(functions)))
        self.boot(expected_state='ERROR')
        self._delete_server(first)
        self.assertEqual(1, len(self.mdevs_of(self.boot())))

    def test_a_type_is_chosen_by_its_trait(self) -> None:
        self.declare('T4-2Q', 'A40-8Q')
        self.list_addresses('A40-8Q', '41:00.0')
        self.start_host('host1', t4(), a40())
        for trait, gpu in (
            ('CUSTOM_VGPU_TYPE_A40_8Q', 'pci_0000_41_'),
            ('CUSTOM_GPU_ARCH_TURING', T4),
        ):
            flavor = self._create_flavor(
                extra_spec={
                    'resources:VGPU': '1',
                    f'trait:{trait}': 'required',
                }
            )
            (function,) = self.mdevs_of(self.boot(flavor_id=flavor))
            self.assertTrue(function.startswith(gpu), function)

    def test_two_vgpus_from_two_gpus(self) -> None:
        self.declare('T4-2Q')
        self.start_host('host1', t4(), t4('85:00.0'))
        flavor = self._create_flavor(
            extra_spec={
                'resources1:VGPU': '1',
                'resources2:VGPU': '1',
                'group_policy': 'isolate',
            }
        )
        server = self.boot(flavor_id=flavor)
        self.assertEqual([T4, OTHER_T4], self.mdevs_of(server))

    def test_many_boots_at_once_share_no_vgpu(self) -> None:
        self.declare('T4-1Q')
        self.start_host('host1', t4(), t4('85:00.0'))
        driver = self.computes['host1'].driver
        asked = [
            {self.provider(gpu): {'resources': {'VGPU': 1}}}
            for gpu in (T4, OTHER_T4)
            for _ in range(16)
        ]
        chosen: list[str] = []

        def boot(wanted: typing.Any) -> None:
            with driver.vgpus.usage.pending.during_operation():
                chosen.extend(driver._allocate_mdevs(wanted))
                started.wait(60)  # all have chosen, none is defined yet

        started = threading.Barrier(len(asked))
        with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
            list(pool.map(boot, asked))
        self.assertEqual(32, len(chosen))
        self.assertEqual(32, len(set(chosen)))
        self.assertEqual(frozenset(), driver.vgpus.usage.pending.list())


class ChangesTest(OurTestBase):
    """What happens to providers as configuration and hardware change."""

    def test_a_gpu_joins_once_it_is_ready(self) -> None:
        self.declare('A40-8Q')
        self.start_host('host1', a40(vfs=0))
        self.assertIsNone(self.provider(A40))
        cure = 'nova-vgpu sriov enable 0000:41:00.0'
        self.assertEqual(1, self.stdlog.logger.output.count(cure))
        self._run_periodics()
        self.assertEqual(1, self.stdlog.logger.output.count(cure))
        self.simulated['host1'].gpus[:] = [a40()]
        self._run_periodics()
        self.assertEqual(6, self.total(A40))
        # After a reboot the functions come late once more.
        uuid = self.provider(A40)
        self._create_trait('CUSTOM_RACK_7')
        self._set_provider_traits(
            uuid, [*self._get_provider_traits(uuid), 'CUSTOM_RACK_7']
        )
        self.simulated['host1'].gpus[:] = [a40(vfs=0)]
        self.restart_host('host1')
        self.assertEqual({'VGPU': (6, 6)}, self.offers(A40))
        self.simulated['host1'].gpus[:] = [a40()]
        self._run_periodics()
        self.assertEqual({'VGPU': (6, 0)}, self.offers(A40))
        self.assertEqual(uuid, self.provider(A40))
        self.assertIn('CUSTOM_RACK_7', self._get_provider_traits(uuid))

    def test_a_gpu_that_fell_off_the_bus_takes_nobody_along(self) -> None:
        self.declare('T4-2Q')
        self.list_addresses('T4-2Q', '84:00.0', '85:00.0')
        self.start_host('host1', t4(), t4('85:00.0'))
        self.simulated['host1'].gpus.pop()
        self._run_periodics(raise_on_error=True)
        self.assertEqual({'VGPU': (8, 8)}, self.offers(OTHER_T4))
        self.assertEqual(8, self.total(T4))
        self.assertIn(
            '85:00.0 was a GPU of this host, and is missing now',
            self.stdlog.logger.output,
        )

    def test_what_servers_hold_is_fenced_and_not_removed(self) -> None:
        self.declare('T4-2Q', unlisted_gpus='ignore')
        self.list_addresses('T4-2Q', '84:00.0')
        self.start_host('host1', t4())
        server = self.boot()
        self.list_addresses('T4-2Q')
        self.restart_host('host1')
        self.assertEqual({'VGPU': (8, 7)}, self.offers(T4))
        self.boot(expected_state='ERROR')
        self._delete_server(server)
        self._run_periodics()
        self.assertIsNone(self.provider(T4))

    def offers(self, device: str) -> dict[str, tuple[int, int]]:
        """Totals and what is reserved of them, by resource class."""
        found = self._get_provider_inventory(self.provider(device))
        return {
            name: (inventory['total'], inventory['reserved'])
            for name, inventory in found.items()
        }

    def declare_class(self, name: str) -> None:
        nova.conf.devices.register_dynamic_opts(CONF)
        self.flags(mdev_class=name, group='mdev_T4-2Q')
        self.restart_host('host1')
        self._run_periodics(raise_on_error=True)

    def test_a_class_that_a_server_holds_stays_until_it_is_free(self) -> None:
        self.declare('T4-2Q')
        self.start_host('host1', t4())
        first = self.boot()
        self.declare_class('CUSTOM_OLD')
        self.assertEqual(
            {'VGPU': (8, 7), 'CUSTOM_OLD': (8, 1)}, self.offers(T4)
        )
        flavor = self._create_flavor(extra_spec={'resources:CUSTOM_OLD': '1'})
        second = self.boot(flavor_id=flavor)
        self.declare_class('VGPU')
        self.assertEqual(
            {'VGPU': (8, 1), 'CUSTOM_OLD': (8, 7)}, self.offers(T4)
        )
        self.assertIn(
            'CUSTOM_OLD is not declared any more', self.stdlog.logger.output
        )
        # The server is still known to have a vGPU.
        self.guest_of(second).undefine()
        self._reboot_server(second, hard=True)
        self.assertEqual([T4], self.mdevs_of(second))
        self.assertEqual([T4], self.mdevs_of(first))
        self._delete_server(second)
        self._run_periodics(raise_on_error=True)
        self.assertEqual({'VGPU': (8, 0)}, self.offers(T4))

    def test_traits_follow_the_type_and_foreign_ones_stay(self) -> None:
        self.declare('T4-2Q')
        self.start_host('host1', t4())
        uuid = self.provider(T4)
        self._create_trait('CUSTOM_RACK_7')
        present = set(self._get_provider_traits(uuid))
        self.assertIn('HW_GPU_API_VULKAN', present)
        self._set_provider_traits(
            uuid, [*present, 'CUSTOM_RACK_7', 'HW_GPU_CUDA_SDK_V10_0']
        )
        self.declare('T4-4C')
        self.restart_host('host1')
        now = set(self._get_provider_traits(uuid))
        self.assertLessEqual(
            {
                'OWNER_NOVA',
                'CUSTOM_RACK_7',
                'HW_GPU_CUDA_SDK_V10_0',
                'CUSTOM_VGPU_TYPE_T4_4C',
            },
            now,
        )
        self.assertNotIn('CUSTOM_VGPU_TYPE_T4_2Q', now)
        self.assertNotIn('HW_GPU_API_VULKAN', now)

    def test_an_unchanged_host_writes_nothing(self) -> None:
        self.declare('T4-2Q')
        self.start_host('host1', t4(), a40())
        uuid = self.provider(T4)
        path = f'/resource_providers/{uuid}'
        before = self.placement.get(path).body['generation']
        self._run_periodics()
        self.assertEqual(before, self.placement.get(path).body['generation'])


class ComingFromNovaTest(simulated.SimulatedTestBase):
    """A host with servers, first with Nova's driver and then with this."""

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(base.NovaWithOurDriver())
        self.flags(enabled_mdev_types=['nvidia-562'], group='devices')
        self.start_host('host1', a40())
        self.servers = [self.boot(), self.boot()]
        self.functions = [self.mdevs_of(server) for server in self.servers]
        self.assertIsNone(self.provider(A40))
        self.assertIsNotNone(self.provider(self.functions[0][0]))
        self.flags(compute_driver='vgpu.LibvirtVGPUDriver')

    def check_moved(self) -> str:
        """What servers hold moved; the UUID of the provider of the GPU."""
        gpu = str(self.provider(A40))
        self.assertEqual({'VGPU': 2}, self._get_provider_usages(gpu))
        for server, function in zip(self.servers, self.functions, strict=True):
            self.assertIsNone(self.provider(function[0]))
            held = self.placement.get(f'/allocations/{server["id"]}').body
            self.assertEqual(
                {'VGPU': 1}, held['allocations'][gpu]['resources']
            )
            self.assertEqual(function, self.mdevs_of(server))
        return gpu

    def test_what_servers_hold_of_functions_moves_to_the_gpu(self) -> None:
        self.restart_host('host1')
        gpu = self.check_moved()
        third = self.boot()
        self.assertNotIn(self.mdevs_of(third), self.functions)
        self.assertEqual({'VGPU': 3}, self._get_provider_usages(gpu))

    def test_with_fewer_instances_and_somebody_who_is_faster(self) -> None:
        nova.conf.devices.register_dynamic_opts(CONF)
        self.flags(max_instances=1, group='mdev_nvidia-562')
        conflicts = self.conflict_once()
        self.restart_host('host1')
        self.assertEqual([1], conflicts)
        self.check_moved()
        self.assertEqual(2, (self.inventory(A40) or {})['total'])

    def conflict_once(self) -> list[int]:
        """Somebody changes a provider just before the first reshape."""
        post = report.SchedulerReportClient.post
        seen: list[int] = []

        def change_and_post(
            client: typing.Any, url: str, *args: typing.Any, **more: typing.Any
        ) -> typing.Any:
            if url == '/reshaper' and not seen:
                seen.append(1)
                self._create_trait('CUSTOM_RACK_7')
                root = self._get_provider_uuid_by_host('host1')
                traits = self._get_provider_traits(root)
                self._set_provider_traits(root, [*traits, 'CUSTOM_RACK_7'])
            return post(client, url, *args, **more)

        self.useFixture(
            fixtures.MockPatchObject(
                report.SchedulerReportClient, 'post', change_and_post
            )
        )
        return seen

    def test_placement_is_down_at_the_first_start(self) -> None:
        with fixtures.MockPatchObject(
            report.SchedulerReportClient,
            '_ensure_resource_provider',
            side_effect=ks_exception.ConnectFailure,
        ):
            self.restart_host('host1')
        self._run_periodics()
        self.check_moved()
        self.assertNotIn('ReshapeNeeded', self.stdlog.logger.output)
        self.boot(flavor_id=self._create_flavor())

    def test_providers_of_nova_33_that_are_not_declared_go(self) -> None:
        """They carry no trait that would say whose they are."""
        self._delete_server(self.servers[1])
        (used,), (unused,) = self.functions
        for function in (used, unused):
            path = f'/resource_providers/{self.provider(function)}/traits'
            before = self.placement.get(path, version='1.6').body
            self.placement.put(path, {**before, 'traits': []}, version='1.6')
        opts.register_opts(CONF)
        self.flags(unlisted_gpus='ignore', group='devices')
        self.restart_host('host1')
        self.assertIsNone(self.provider(unused))
        self.require_fence(used)


class OnRootTest(OurTestBase):
    """VGPU on the node's own provider, as Nova had it before Stein."""

    def setUp(self) -> None:
        super().setUp()
        self.start_host('host1', t4())
        self.root = self._get_provider_uuid_by_host('host1')
        path = f'/resource_providers/{self.root}/inventories'
        there = self.placement.get(path).body
        there['inventories']['VGPU'] = {'total': 8, 'max_unit': 8}
        self.placement.put(path, there)

    def hold(self, consumer: str) -> None:
        """Let something that is not a guest of this host have a vGPU."""
        body = {
            'allocations': {self.root: {'resources': {'VGPU': 1}}},
            'project_id': 'project',
            'user_id': 'user',
            'consumer_generation': None,
        }
        self.placement.put(f'/allocations/{consumer}', body, version='1.28')

    def test_what_cannot_move_leaves_the_node_alone(self) -> None:
        consumer = '9d1c3a52-0b6a-4c8e-9f0e-54d2c4c1c001'
        self.hold(consumer)
        self.declare('T4-2Q')
        self.restart_host('host1')
        self.flags(reserved_host_memory_mb=777)
        self._run_periodics(raise_on_error=True)
        found = self._get_provider_inventory(self.root)
        self.assertEqual(777, found['MEMORY_MB']['reserved'])
        self.assertEqual(
            (8, 7), (found['VGPU']['total'], found['VGPU']['reserved'])
        )
        self.assertIsNone(self.provider(T4))
        said = self.stdlog.logger.output
        self.assertEqual(1, said.count('[vgpus-not-found]'))
        self.boot(flavor_id=self._create_flavor())

        self.placement.delete(f'/allocations/{consumer}')
        self._run_periodics(raise_on_error=True)
        self.assertNotIn('VGPU', self._get_provider_inventory(self.root))
        self.assertEqual(8, self.total(T4))
