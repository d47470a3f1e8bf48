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

"""The way to Nova's driver, whatever happens to a request on it.

As for a sync: with each fault at each request, and with somebody else who is
faster. No server loses anything, and the next run gets there.
"""

import testtools

from nova_vgpu import values
from nova_vgpu.placement import synchronisation
from nova_vgpu.publish import providers
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests import placements
from nova_vgpu.tests import proxy
from nova_vgpu.tests.functional import test_placement_faults as faults

TRAITS = {'OWNER_NOVA', 'CUSTOM_VGPU_TYPE_A40_8Q', faults.FOREIGN}


class HandBackScene(faults.Scene):
    """Two GPUs with two servers, one without, and one that is left over.

    ``servers`` has the functions that the vGPUs of each consumer are on.
    """

    host = hosts.make_host(
        hosts.gpu('41:00.0', boards.A40, *['nvidia-562'] * 2, vfs=3),
        hosts.gpu('42:00.0', boards.A40, 'nvidia-562', vfs=1),
        hosts.gpu('c8:00.0', boards.L40S, vfs=2, vendor_vfio=True),
    )
    buses: tuple[str, ...] = ('41', '42', 'c8')

    def set_up(self) -> None:
        self.operator.create(self.node)
        self.operator.set_inventory(self.node, VCPU=8)
        for bus in (*self.buses, '99'):
            name = self.name(bus)
            self.operator.create(name, self.node)
            self.operator.set_inventory(name, VGPU=6)
            self.operator.add_traits(name, *TRAITS)
        first, *others = (
            (bus, vf.name, vf.vgpus[0].name)
            for bus, gpu in zip(self.buses, self.host.gpus, strict=True)
            for vf in gpu.vfs
            if vf.vgpus
        )
        self.guests: list[values.Guest] = []
        self.servers: dict[str, list[str]] = {}
        self.boot(*others)
        self.boot(first)
        self.allocate(self.name('99'))
        self.target = self.make_target()

    def make_target(self) -> providers.Target:
        addresses = [f'{bus}:00.0' for bus in self.buses]
        declared = [placements.declare('A40-8Q', *addresses[:2])]
        if addresses[2:]:
            declared.append(placements.declare('L40S-24Q', *addresses[2:]))
        plan = placements.make_target(self.node, self.host, declared).plan
        return providers.Target(
            plan,
            self.node,
            providers.Mode.HAND_BACK,
            guests=tuple(self.guests),
        )

    def boot(self, *vgpus: tuple[str, str, str]) -> None:
        """A server with a vGPU of each: the bus, the function, the mdev."""
        given = {self.name(bus): {'VGPU': 1} for bus, _, _ in vgpus}
        consumer = self.operator.give({**given, self.node: {'VCPU': 1}})
        self.servers[consumer] = [f'{self.node}_{vf}' for _, vf, _ in vgpus]
        mdevs = frozenset(mdev for _, _, mdev in vgpus)
        self.guests.append(values.Guest(consumer, consumer, True, mdevs))

    def be_faster(self, seen: proxy.Seen) -> None:
        """Do what makes the request fail, if anything does."""
        functions = [name for made in self.servers.values() for name in made]
        if seen.path == '/resource_providers':
            # As Nova's driver would.
            new = next(n for n in functions if not self.operator.find(n))
            self.operator.create(new, self.node)
        elif seen.path == '/reshaper':
            self.operator.add_traits(self.name('41'), 'CUSTOM_OTHERS')
        elif seen.path.endswith('/traits'):
            of = next(
                n for n in functions if str(self.operator.find(n)) in seen.path
            )
            self.operator.add_traits(of, 'CUSTOM_OTHERS')

    def held_by(self, consumer: str) -> dict[str, dict[str, int]]:
        """By the names of providers."""
        root = self.operator.find(self.node)
        found = self.operator.call(
            'GET', f'/resource_providers?in_tree={root}'
        )
        names = {p['uuid']: p['name'] for p in found['resource_providers']}
        held = self.operator.allocations(consumer)
        return {names[uuid]: resources for uuid, resources in held.items()}

    def check_nothing_lost(self, test: testtools.TestCase) -> None:
        super().check_nothing_lost(test)
        for consumer, functions in self.servers.items():
            held = self.held_by(consumer)
            test.assertEqual({'VCPU': 1}, held.pop(self.node))
            test.assertEqual([{'VGPU': 1}] * len(functions), [*held.values()])

    def check(self, test: testtools.TestCase) -> None:
        super().check(test)
        for consumer, functions in self.servers.items():
            held = self.held_by(consumer)
            expected = {name: {'VGPU': 1} for name in functions}
            test.assertEqual({self.node: {'VCPU': 1}, **expected}, held)
            found = self.operator.call('GET', f'/allocations/{consumer}')
            test.assertEqual(
                ('project', 'user', 'INSTANCE'),
                tuple(
                    found[what]
                    for what in ('project_id', 'user_id', 'consumer_type')
                ),
            )
            for name in functions:
                test.assertEqual(
                    {'VGPU': (1, 0)}, self.operator.inventories(name)
                )
                test.assertLessEqual(TRAITS, self.operator.traits(name))
        for bus in self.buses:
            test.assertIsNone(self.operator.find(self.name(bus)))
        test.assertEqual(
            {'VGPU': (6, 0)}, self.operator.inventories(self.name('99'))
        )


class SmallScene(HandBackScene):
    """One GPU with two servers: each request fails in turn, in many ways."""

    host = hosts.make_host(
        hosts.gpu('41:00.0', boards.A40, *['nvidia-562'] * 2, vfs=2)
    )
    buses = ('41',)


class HandBackFaultsTest(faults.FullFaultsTest):
    """The same faults, at every request of a hand-back."""

    make_scene = SmallScene

    def test_there_is_something_to_go_wrong(self) -> None:
        # Two providers with their traits, the move, and one that goes.
        self.assertEqual(2 * 2 + 1 + 1, self.writes)
        self.assertGreater(self.count, self.writes + 10)


class OthersTest(faults.FaultTestCase):
    """Somebody else writes, too."""

    make_scene = HandBackScene

    def test_each_write_may_come_second(self) -> None:
        for write in range(self.writes):
            scene = self.scene()
            assert isinstance(scene, HandBackScene)
            self.interfere(scene.be_faster, only=write)
            scene.sync(placements.PATIENT)
            scene.check(self)

    def hand_back(
        self, scene: faults.Scene
    ) -> tuple[list[values.Change], values.Difference]:
        made: list[values.Change] = []
        through = placements.connect(self.proxy.url)
        found = synchronisation.sync(through, scene.target, made.append)
        return made, found

    def test_somebody_who_comes_before_the_move_is_not_lost(self) -> None:
        scene = self.scene()
        came: list[str] = []

        def act(seen: proxy.Seen) -> None:
            if seen.path == '/reshaper' and not came:
                came.append(scene.operator.allocate(scene.name('41')))

        self.interfere(act)
        _made, found = self.hand_back(scene)
        self.assertTrue(found.refused)
        self.assertIn(came[0], str(found.problems[0]))
        scene.check_nothing_lost(self)
        self.assertEqual({'VGPU': 3}, scene.operator.used(scene.name('41')))
        scene.operator.free(came[0])
        scene.sync()
        scene.check(self)

    def test_somebody_who_goes_before_the_move_does_not_come_back(
        self,
    ) -> None:
        scene = self.scene()
        assert isinstance(scene, HandBackScene)
        gone = next(iter(scene.servers))

        def act(seen: proxy.Seen) -> None:
            if seen.path == '/reshaper' and gone in scene.servers:
                scene.operator.free(gone)
                del scene.servers[gone]

        self.interfere(act)
        scene.sync(placements.PATIENT)
        scene.check(self)
        self.assertEqual({}, scene.operator.allocations(gone))

    def test_nothing_is_written_if_one_server_is_unclear(self) -> None:
        scene = self.scene()
        assert isinstance(scene, HandBackScene)
        scene.guests.pop()
        scene.target = scene.make_target()
        self.proxy.reset()
        made, found = self.hand_back(scene)
        self.assertTrue(found.refused)
        self.assertEqual(([], []), (made, self.proxy.writes))
        scene.check_nothing_lost(self)
