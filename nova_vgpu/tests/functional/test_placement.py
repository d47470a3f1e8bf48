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

"""The client and its decisions against a real Placement, over HTTP."""

import socket

import testtools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.placement import client
from nova_vgpu.placement import connection
from nova_vgpu.placement import synchronisation
from nova_vgpu.publish import providers
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests import placements

FULL = providers.Mode.FULL
NODE = 'compute1'
T4S = hosts.make_host(
    hosts.gpu('84:00.0', boards.T4), hosts.gpu('85:00.0', boards.T4)
)
FIRST = f'{NODE}_pci_0000_84_00_0'
SECOND = f'{NODE}_pci_0000_85_00_0'
T4_2Q = 'CUSTOM_VGPU_TYPE_T4_2Q'
T4_4Q = 'CUSTOM_VGPU_TYPE_T4_4Q'
BOTH = ('84:00.0', '85:00.0')


class PlacementTestCase(placements.PlacementTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.client = placements.connect(self.proxy.url)

    def sync(self, target: providers.Target) -> list[values.Change]:
        """Bring Placement there; returns what that took."""
        made: list[values.Change] = []
        self.proxy.reset()
        self.last = synchronisation.sync(self.client, target, made.append)
        self.assertEqual(len(made), len(self.proxy.writes))
        return made

    def publish(
        self,
        *types: values.DeclaredType,
        host: values.Host = T4S,
        force: bool = False,
    ) -> list[values.Change]:
        return self.sync(
            placements.make_target(
                NODE,
                host,
                types,
                mode=FULL,
                create_root=True,
                force=force,
            )
        )

    def codes(self) -> list[str]:
        return [problem.code for problem in self.last.problems]


class FullTest(PlacementTestCase):
    """Providers and inventories, on a tree of our own."""

    def test_publishing_twice_writes_nothing_the_second_time(self) -> None:
        wanted = placements.declare('T4-2Q', *BOTH)
        self.assertNotEqual([], self.publish(wanted))
        self.assertEqual([], self.publish(wanted))
        self.assertEqual({'VGPU': (8, 0)}, self.operator.inventories(FIRST))

    def test_a_provider_is_found_by_its_traits(self) -> None:
        self.publish(
            placements.declare('T4-2Q', BOTH[0]),
            placements.declare('T4-8Q', BOTH[1]),
        )
        found = self.client.list_candidates('VGPU', 1, [T4_2Q])
        self.assertEqual(
            [client.Candidate(FIRST, (('VGPU', 1),))], list(found)
        )
        self.assertEqual(
            (), self.client.list_candidates('VGPU', 1, ['HW_NUMA_ROOT'])
        )

    def test_more_than_the_total_is_not_to_be_had(self) -> None:
        self.publish(placements.declare('T4-8Q', BOTH[0]))
        self.assertEqual(1, len(self.client.list_candidates('VGPU', 2)))
        self.assertEqual((), self.client.list_candidates('VGPU', 3))

    def test_a_custom_resource_class_is_created(self) -> None:
        wanted = placements.declare(
            'T4-2Q', BOTH[0], resource_class='CUSTOM_VGPU_BIG'
        )
        self.publish(wanted)
        found = self.client.list_candidates('CUSTOM_VGPU_BIG', 1)
        self.assertEqual(1, len(found))
        self.assertEqual([], self.publish(wanted))

    def test_foreign_traits_stay_and_our_stale_ones_go(self) -> None:
        self.publish(placements.declare('T4-2Q', BOTH[0]))
        self.operator.add_traits(FIRST, 'CUSTOM_RACK_7', 'HW_NUMA_ROOT')
        self.publish(placements.declare('T4-4Q', BOTH[0]))
        found = self.operator.traits(FIRST)
        self.assertEqual(
            {'CUSTOM_RACK_7', 'HW_NUMA_ROOT', 'OWNER_NOVA', T4_4Q},
            found & {'CUSTOM_RACK_7', 'HW_NUMA_ROOT', 'OWNER_NOVA', T4_4Q},
        )
        self.assertNotIn(T4_2Q, found)

    def test_an_inventory_is_never_less_than_its_usage(self) -> None:
        self.publish(placements.declare('T4-2Q', BOTH[0]))
        consumers = [self.operator.allocate(FIRST) for _ in range(3)]
        smaller = placements.declare('T4-2Q', BOTH[0], max_instances=2)
        self.publish(smaller)
        self.assertEqual({'VGPU': (3, 0)}, self.operator.inventories(FIRST))
        self.assertEqual(['more-used-than-planned'], self.codes())
        self.assertEqual((), self.client.list_candidates('VGPU', 1))
        self.assertEqual([], self.publish(smaller))
        for consumer in consumers[:2]:
            self.operator.free(consumer)
        self.publish(smaller)
        self.assertEqual({'VGPU': (2, 0)}, self.operator.inventories(FIRST))
        self.assertEqual([], self.codes())

    def test_a_class_in_use_is_reserved_when_the_class_changes(self) -> None:
        self.publish(placements.declare('T4-2Q', BOTH[0]))
        consumer = self.operator.allocate(FIRST)
        renamed = placements.declare(
            'T4-2Q', BOTH[0], resource_class='CUSTOM_NEW'
        )
        self.publish(renamed)
        self.assertEqual(
            {'VGPU': (8, 7), 'CUSTOM_NEW': (8, 1)},
            self.operator.inventories(FIRST),
        )
        self.operator.free(consumer)
        self.publish(renamed)
        self.assertEqual(
            {'CUSTOM_NEW': (8, 0)}, self.operator.inventories(FIRST)
        )

    def test_a_gpu_that_leaves_loses_its_provider(self) -> None:
        self.publish(placements.declare('T4-2Q', *BOTH))
        self.publish(placements.declare('T4-2Q', BOTH[0]))
        self.assertIsNotNone(self.operator.find(FIRST))
        self.assertIsNone(self.operator.find(SECOND))

    def test_one_that_leaves_while_in_use_is_reserved(self) -> None:
        self.publish(placements.declare('T4-2Q', *BOTH))
        consumer = self.operator.allocate(SECOND)
        only = placements.declare('T4-2Q', BOTH[0])
        self.publish(only)
        self.assertEqual({'VGPU': (8, 7)}, self.operator.inventories(SECOND))
        self.assertEqual(['retired-but-in-use'], self.codes())
        self.assertEqual([], self.publish(only))
        self.operator.free(consumer)
        self.publish(only)
        self.assertIsNone(self.operator.find(SECOND))

    def test_a_gpu_that_waits_for_its_driver_keeps_its_provider(self) -> None:
        wanted = placements.declare('T4-2Q', *BOTH)
        self.publish(wanted)
        before = self.operator.find(SECOND)
        late = hosts.make_host(
            hosts.gpu('84:00.0', boards.T4),
            hosts.gpu('85:00.0', boards.T4, types_ready=False),
        )
        self.publish(wanted, host=late)
        self.assertEqual({'VGPU': (8, 8)}, self.operator.inventories(SECOND))
        self.assertEqual([], self.publish(wanted, host=late))
        self.publish(wanted)
        self.assertEqual({'VGPU': (8, 0)}, self.operator.inventories(SECOND))
        self.assertEqual(before, self.operator.find(SECOND))

    def test_what_placement_refuses_is_said_in_its_words(self) -> None:
        error = self.assertRaises(
            exception.PlacementError,
            self.client.list_candidates,
            'VGPU',
            1,
            ['CUSTOM_NOBODY_HAS_THIS'],
        )
        self.assertIn('400', str(error))
        self.assertIn('CUSTOM_NOBODY_HAS_THIS', str(error))


class NovasTreeTest(PlacementTestCase):
    """Trees that a nova-compute looks after."""

    def setUp(self) -> None:
        super().setUp()
        self.operator.create(NODE)
        self.operator.set_inventory(NODE, VCPU=8, MEMORY_MB=4096)

    def add_provider(self, device: str, total: int) -> str:
        """A provider as nova-compute makes it."""
        name = f'{NODE}_{device}'
        self.operator.create(name, NODE)
        self.operator.set_inventory(name, VGPU=total)
        self.operator.add_traits(name, 'OWNER_NOVA')
        return name

    def label(
        self, *types: values.DeclaredType, host: values.Host = T4S
    ) -> list[values.Change]:
        return self.sync(placements.make_target(NODE, host, types))

    def test_novas_providers_get_their_traits(self) -> None:
        name = self.add_provider('pci_0000_84_00_0', 5)
        wanted = placements.declare('T4-2Q', BOTH[0], traits=('CUSTOM_MINE',))
        self.label(wanted)
        self.assertThat(
            self.operator.traits(name),
            testtools.matchers.ContainsAll(
                ['OWNER_NOVA', T4_2Q, 'CUSTOM_MINE', 'HW_GPU_API_VULKAN']
            ),
        )
        self.assertEqual({'VGPU': (5, 0)}, self.operator.inventories(name))
        self.assertEqual([], self.label(wanted))

    def test_so_do_those_of_virtual_functions(self) -> None:
        card = hosts.gpu('41:00.0', boards.A40, vfs=3)
        names = [
            self.add_provider(address.node_device_name, 1)
            for address in card.vf_addresses
        ]
        wanted = placements.declare('A40-8Q', '41:00.0')
        self.label(wanted, host=hosts.make_host(card))
        for name in names:
            self.assertIn(
                'CUSTOM_VGPU_TYPE_A40_8Q', self.operator.traits(name)
            )
        self.assertEqual([], self.label(wanted, host=hosts.make_host(card)))

    def test_a_new_type_takes_the_old_traits_along(self) -> None:
        name = self.add_provider('pci_0000_84_00_0', 5)
        self.label(placements.declare('T4-2Q', BOTH[0]))
        plain = self.operator.traits(name)
        by_hand = 'HW_GPU_API_OPENCL_V2_0'
        self.operator.add_traits(name, 'CUSTOM_RACK_7', by_hand)
        self.label(placements.declare('T4-16C', BOTH[0]))
        found = self.operator.traits(name)
        self.assertIn('HW_GPU_API_VULKAN', plain)
        self.assertNotIn('HW_GPU_API_VULKAN', found)  # none with C
        self.assertIn('CUSTOM_RACK_7', found)
        self.assertIn(by_hand, found)
        self.assertNotIn(T4_2Q, found)

    def test_a_gpu_that_is_left_alone_keeps_what_is_foreign(self) -> None:
        name = self.add_provider('pci_0000_84_00_0', 5)
        self.operator.add_traits(name, 'CUSTOM_RACK_7')
        before = self.operator.traits(name)
        self.label(placements.declare('T4-2Q', *BOTH))
        self.label(placements.declare('T4-2Q', BOTH[1]))
        self.assertEqual(before, self.operator.traits(name))

    def test_one_that_is_not_ready_keeps_everything(self) -> None:
        name = self.add_provider('pci_0000_84_00_0', 5)
        wanted = placements.declare('T4-2Q', BOTH[0])
        self.label(wanted)
        before = self.operator.traits(name)
        late = hosts.make_host(
            hosts.gpu('84:00.0', boards.T4, types_ready=False)
        )
        self.assertEqual([], self.label(wanted, host=late))
        self.assertEqual(before, self.operator.traits(name))

    def test_a_missing_provider_is_told(self) -> None:
        self.assertEqual([], self.label(placements.declare('T4-2Q', BOTH[0])))
        self.assertEqual(['gpu-without-provider'], self.codes())

    def test_full_mode_is_refused(self) -> None:
        self.add_provider('pci_0000_84_00_0', 5)
        self.assertEqual([], self.publish(placements.declare('T4-2Q', *BOTH)))
        self.assertEqual(['nova-owns-tree'], self.codes())

    def test_unless_insisted_on_and_then_nothing_of_novas_goes(self) -> None:
        first = self.add_provider('pci_0000_84_00_0', 5)
        other = self.add_provider('pci_0000_99_00_0', 1)
        self.publish(placements.declare('T4-2Q', *BOTH), force=True)
        self.assertEqual({'VGPU': (8, 0)}, self.operator.inventories(first))
        self.assertEqual({'VGPU': (8, 0)}, self.operator.inventories(SECOND))
        self.publish(placements.declare('T4-2Q', BOTH[1]), force=True)
        self.assertEqual({'VGPU': (8, 0)}, self.operator.inventories(first))
        self.assertEqual({'VGPU': (1, 0)}, self.operator.inventories(other))
        self.assertEqual(
            {'VCPU': (8, 0), 'MEMORY_MB': (4096, 0)},
            self.operator.inventories(NODE),
        )

    def test_what_nova_counts_by_function_is_not_counted_twice(self) -> None:
        card = hosts.gpu('41:00.0', boards.A40, vfs=3)
        self.add_provider(card.vf_addresses[0].node_device_name, 1)
        made = self.publish(
            placements.declare('A40-8Q', '41:00.0'),
            host=hosts.make_host(card),
            force=True,
        )
        self.assertEqual([], made)
        self.assertEqual(['counted-elsewhere'], self.codes())


class NoPlacementTest(testtools.TestCase):
    def test_a_placement_that_is_not_there_is_an_error_in_words(self) -> None:
        with socket.create_server(('127.0.0.1', 0)) as free:
            port = free.getsockname()[1]
        hasty = connection.RetryPolicy(deadline=0.05, first_wait=0.01)
        absent = placements.connect(f'http://127.0.0.1:{port}', hasty)
        error = self.assertRaises(
            exception.PlacementError, absent.read_tree, NODE
        )
        self.assertIn('does not answer', str(error))
        self.assertIn(f'127.0.0.1:{port}', str(error))
