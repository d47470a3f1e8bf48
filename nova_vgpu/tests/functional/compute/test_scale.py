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

"""Hosts that are full, and hosts on which much happens at once."""

import concurrent.futures
import os
import typing

import fixtures
import futurist  # type: ignore[import-not-found,import-untyped,unused-ignore]
import nova.conf
from nova.tests.functional.api import client

from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests import hosts
from nova_vgpu.tests.functional.compute import lean
from nova_vgpu.tests.functional.compute import simulated_guests
from nova_vgpu.tests.functional.compute import watching

CONF = nova.conf.CONF
CLIENTS = 5
#: As many requests as Terraform has under way, unless it is told otherwise.
ORDERS = 10
#: Few by default: each takes two seconds.
BOOTS = int(os.environ.get('NOVA_VGPU_BOOTS', '30'))
#: So that they want more, together, than there is.
HELD_BY_EACH = 1

TWO_T4 = (
    hosts.gpu('84:00.0', boards.T4),
    hosts.gpu('85:00.0', boards.T4),
)


class ScaleTestBase(lean.LeanTestBase):
    """One host with two GPUs."""

    gpus: tuple[simulation.GPU, ...]
    capacity: int

    def setUp(self) -> None:
        super().setUp()
        self.endings = self.useFixture(watching.Endings(self.notifier))
        self.start_host('host1', *self.gpus)

    def wait_for_end(self, server: typing.Any) -> typing.Any:
        """The server once it is built, well or not."""
        found: dict[str, typing.Any] = {}
        for _ in self.endings.wait_for_more(server['id']):
            found = self.api.get_server(server['id'])
            if found['status'] == 'ACTIVE' or 'fault' in found:
                break
        return found

    def delete(self, server: typing.Any) -> None:
        seen = self.endings.count(server['id'])
        self.api.delete_server(server['id'])
        for _ in self.endings.wait_for_more(server['id'], seen):
            try:
                self.api.get_server(server['id'])
            except client.OpenStackApiNotFoundException:
                break

    def fill(self) -> list[typing.Any]:
        """Boot as many as there is room for, by one request for each GPU.

        Nova's scheduler takes the same GPU of a host for all servers of a
        request (https://bugs.launchpad.net/nova/+bug/1874664).
        """
        servers: list[typing.Any] = []
        for _ in self.gpus:
            self.request(min_count=self.capacity // len(self.gpus))
            servers = list(map(self.wait_for_end, self.api.get_servers()))
        self.assertEqual(
            ['ACTIVE'] * self.capacity, [s['status'] for s in servers]
        )
        held = [key for server in servers for key in self.keys_of(server)]
        self.assertEqual(self.capacity, len(held))
        self.assertEqual(self.capacity, len(set(held)), held)
        return servers

    def keys_of(self, server: typing.Any) -> list[str]:
        """The server's vGPUs: UUIDs of mdevs, or names of functions."""
        guest = self.connection().lookupByUUIDString(server['id'])
        return [simulated_guests.key_of(h) for h in guest.configured]

    def held(self) -> int:
        """How many vGPUs Placement has given away."""
        return sum(
            self._get_provider_usages(
                self.provider(gpu.address.node_device_name)
            ).get('VGPU', 0)
            for gpu in self.gpus
        )


class FullHostTest(ScaleTestBase):
    type_name = 'T4-2Q'
    gpus = TWO_T4
    capacity = 16

    def test_a_request_for_many_takes_a_gpu_to_its_last_vgpu(self) -> None:
        servers = self.fill()
        self.assertEqual(self.capacity, self.held())
        refused = self.wait_for_end(self.request())
        self.assertEqual('ERROR', refused['status'])
        self.assertIn('No valid host', refused['fault']['message'])
        self.delete(servers[0])
        last = self.wait_for_end(self.request())
        self.assertEqual('ACTIVE', last['status'])


class ConcurrentTestBase(ScaleTestBase):
    """Nova's services work in threads, as they do outside of tests."""

    # As it is: whoever casts does not wait.
    CAST_AS_CALL = False

    def setUp(self) -> None:
        super().setUp()
        # Nova's tests have idle threads look for work 100 times a second,
        # which is quick for few and leaves nothing to the many here.
        self.useFixture(
            fixtures.MockPatchObject(
                futurist._thread.ThreadWorker, 'MAX_IDLE_FOR', 1
            )
        )


class OrderedAtOnceTest(ConcurrentTestBase):
    """20 servers of one template, as Terraform orders them.

    Within nova-compute, Nova's lock and two of this project's let boots choose
    vGPUs one after the other; other processes wait for one of these only.
    """

    type_name = 'A40-1Q'
    # One: of a host with several, Nova's scheduler tries one only, and the
    # request that comes just after its last vGPU is taken finds no host.
    gpus = (hosts.gpu('41:00.0', boards.A40, vfs=32),)
    capacity = 32
    servers = 20

    def test_their_vgpus_are_created_one_at_a_time(self) -> None:
        creations = self.useFixture(
            watching.Creations(
                self.computes['host1'].driver, CONF.oslo_concurrency.lock_path
            )
        )
        with concurrent.futures.ThreadPoolExecutor(ORDERS) as pool:
            orders = [pool.submit(self.request) for _ in range(self.servers)]
            ordered = [order.result() for order in orders]
        built = list(map(self.wait_for_end, ordered))
        self.assertEqual(
            ['ACTIVE'] * self.servers, [each['status'] for each in built]
        )
        self.assertEqual(1, creations.most)
        self.assertEqual(self.servers, creations.count)
        self.assertGreater(creations.awaited, 0)
        held = {key for server in built for key in self.keys_of(server)}
        self.assertEqual(self.servers, len(held))
        # Commands are other processes.
        self.assertEqual(['held'] * self.servers, creations.answers)


class ManyAtOnceTest(ConcurrentTestBase):
    """Boots and deletions by clients that know nothing of each other.

    What is concurrent is: the clients and Nova's API, in a thread for each;
    conductor, scheduler and compute, in the threads that Nova itself makes for
    what it is cast; hence also the driver, in which spawning overlaps with
    spawning and with destroying. Nova lets boots into the driver one after the
    other, because it looks at Placement with a lock; from there on they are on
    their own. All of it is in one process, on databases in files, each of
    which takes one writer at a time. With a Nova that runs on eventlet, all
    threads are green ones, and take turns where they wait.
    """

    # With each server that a host has, Nova takes longer for each.
    type_name = 'T4-4Q'
    gpus = TWO_T4
    capacity = 8

    def test_boots_and_deletes_at_once_leave_nothing_behind(self) -> None:
        overlap = watching.Overlap(self.computes['host1'].driver)
        observer = self.useFixture(watching.Observer(self.connection()))
        world = watching.World(BOOTS)
        with (
            overlap.measured(),
            concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool,
        ):
            list(pool.map(self.be_a_client, [world] * CLIENTS))
        self.assertEqual(BOOTS, world.booted)
        self.assertEqual(BOOTS, world.deleted)
        self.assertGreaterEqual(overlap.most['spawn'], 2)
        self.assertGreater(overlap.together, 0)
        self.assertEqual([], observer.shared)
        self.assert_nothing_is_left(observer.seen)
        self.fill()

    def be_a_client(self, world: watching.World) -> None:
        mine: list[typing.Any] = []
        with world.shared():
            while world.take_order():
                while not self.boot_one(world, mine):
                    self.assertFalse(world.is_over)
                if len(mine) > HELD_BY_EACH:
                    self.delete_oldest(world, mine)
            while mine:
                self.delete_oldest(world, mine)

    def boot_one(self, world: watching.World, mine: list[typing.Any]) -> bool:
        """Whether there was room; if not, there is some to be had again."""
        seen = world.deleted
        server = self.wait_for_end(self.request())
        if server['status'] == 'ACTIVE':
            mine.append(server)
            world.note_boot()
            return True
        self.assertIn('No valid host', server['fault']['message'])
        self.delete(server)
        if mine:
            self.delete_oldest(world, mine)
        else:
            world.wait_for_deletion(seen)
        return False

    def delete_oldest(
        self, world: watching.World, mine: list[typing.Any]
    ) -> None:
        self.delete(mine.pop(0))
        world.note_deletion()

    def assert_nothing_is_left(self, ever_seen: set[str]) -> None:
        driver, connection = self.computes['host1'].driver, self.connection()
        self.assertEqual(0, self.held())
        self.assertEqual(frozenset(), driver.vgpus.usage.pending.list())
        self.assertEqual({}, connection._vms)
        self.assertEqual({}, driver._get_all_assigned_mediated_devices())
        existing = {m.uuid for m in connection.mdev_info.devices.values()}
        self.assertLessEqual(existing, ever_seen)
        self.assertLessEqual(len(existing), self.capacity)
