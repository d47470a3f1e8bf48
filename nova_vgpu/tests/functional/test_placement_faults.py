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

"""Whatever happens to a request, at whichever: nothing is lost.

A sync is run once to see its requests. Then, for each of them, it is run
again with faults at that one, each time on what Placement held before. A run
gets over a fault that passes. If the fault stays, it fails in words, and the
next run gets there. It makes a difference only to writes whether a request
got lost or its answer. Reads of one kind, such as the traits of each provider,
are one request in a loop: faults are tried at the first of each kind, before
and after each write, and at every write.
"""

from collections.abc import Callable
from collections.abc import Iterator
import copy
import dataclasses
import itertools
import re
import typing

import testtools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.placement import connection
from nova_vgpu.placement import synchronisation
from nova_vgpu.publish import providers
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests import placements
from nova_vgpu.tests import proxy

FULL = providers.Mode.FULL
# Long enough for an answer on a busy machine.
TIMEOUT = 0.5
PATIENT = connection.RetryPolicy(
    deadline=60, timeout=TIMEOUT, first_wait=0.001, longest_wait=0.01
)
# For answers that do not come, each of which takes all of it. One that comes
# too late is but one more to get over.
BRISK = dataclasses.replace(PATIENT, timeout=0.25)
HASTY = connection.RetryPolicy(
    deadline=0.02, timeout=TIMEOUT, first_wait=0.001, longest_wait=0.01
)
SLOW = {proxy.Fault.SLOW, proxy.Fault.SLOW_AFTER}
FOREIGN = 'CUSTOM_RACK_7'
GPUS = ('84', '85', '86', '87')
# A UUID, or the value of a parameter.
_WHICH = re.compile(r'[0-9a-f]{8}-[0-9a-f-]{27}|(?<==)[^&]*')


class Scene:
    """A node with something of everything, and what it is to become."""

    target: providers.Target

    def __init__(
        self, running: placements.RunningPlacement, node: str, number: int
    ) -> None:
        self.operator = running.operator
        self.proxy = running.proxy
        self.node = node
        self.number = number
        self.direct = placements.connect(running.url)
        self.consumers: dict[str, str] = {}
        self.set_up()

    def set_up(self) -> None:
        raise NotImplementedError

    def again(self) -> typing.Self:
        """The same as it was set up, for a Placement that holds it again."""
        scene = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict | list):
                setattr(scene, name, copy.copy(value))
        return scene

    def name(self, bus: str) -> str:
        return f'{self.node}_pci_0000_{bus}_00_0'

    def sync(
        self, patient: connection.RetryPolicy = PATIENT
    ) -> list[values.Change]:
        """Through the proxy."""
        made: list[values.Change] = []
        through = placements.connect(self.proxy.url, patient)
        synchronisation.sync(through, self.target, made.append)
        return made

    def allocate(self, name: str) -> None:
        consumer = self.operator.allocate(name)
        self.consumers[consumer] = self.operator.find(name) or ''

    def check_nothing_lost(self, test: testtools.TestCase) -> None:
        """What has to hold at any time, converged or not."""
        self.check_allocations(test)
        for held in self.direct.read_tree(self.node).providers:
            for resource_class, used in held.used:
                inventory = held.inventory_of(resource_class)
                assert inventory is not None
                test.assertGreaterEqual(inventory.total, used, held.name)

    def check_allocations(self, test: testtools.TestCase) -> None:
        for consumer, provider in self.consumers.items():
            test.assertEqual(
                {provider: {'VGPU': 1}}, self.operator.allocations(consumer)
            )

    def check(self, test: testtools.TestCase) -> None:
        """What has to hold in the end."""
        self.check_allocations(test)
        self.proxy.reset()
        test.assertEqual([], self.sync())
        test.assertEqual([], self.proxy.writes)


class FullScene(Scene):
    """One GPU in use changes its type and class, one is new, two leave."""

    host = hosts.make_host(
        *(hosts.gpu(f'{bus}:00.0', boards.T4) for bus in GPUS)
    )

    def set_up(self) -> None:
        before = placements.declare(
            'T4-4Q', *(f'{bus}:00.0' for bus in GPUS if bus != '85')
        )
        synchronisation.sync(
            self.direct, self.make_target(before), lambda _change: None
        )
        self.operator.add_traits(self.name('84'), FOREIGN)
        self.allocate(self.name('84'))
        self.allocate(self.name('87'))
        self.operator.create(f'{self.node}_foreign', self.node)
        self.operator.set_inventory(f'{self.node}_foreign', SRIOV_NET_VF=2)
        self.target = self.make_target(
            placements.declare(
                'T4-2Q',
                '84:00.0',
                '85:00.0',
                resource_class=f'CUSTOM_VGPU_{self.number}',
                traits=(f'CUSTOM_MINE_{self.number}',),
            )
        )

    def make_target(self, declared: values.DeclaredType) -> providers.Target:
        return placements.make_target(
            self.node, self.host, [declared], mode=FULL, create_root=True
        )

    def check(self, test: testtools.TestCase) -> None:
        super().check(test)
        test.assertIn(FOREIGN, self.operator.traits(self.name('84')))
        new = f'CUSTOM_VGPU_{self.number}'
        test.assertEqual(
            {'VGPU': (4, 3), new: (8, 1)},
            self.operator.inventories(self.name('84')),
        )
        test.assertEqual(
            {new: (8, 0)}, self.operator.inventories(self.name('85'))
        )
        test.assertIsNone(self.operator.find(self.name('86')))
        test.assertEqual(
            {'VGPU': (4, 3)}, self.operator.inventories(self.name('87'))
        )
        test.assertEqual(
            {'SRIOV_NET_VF': (2, 0)},
            self.operator.inventories(f'{self.node}_foreign'),
        )


class TraitsScene(Scene):
    """Nova's providers of two virtual functions and of a GPU that left."""

    card = hosts.gpu('41:00.0', boards.A40, vfs=2)
    host = hosts.make_host(card, hosts.gpu('84:00.0', boards.T4))

    def set_up(self) -> None:
        self.operator.create(self.node)
        self.operator.set_inventory(self.node, VCPU=8)
        self.functions = [
            f'{self.node}_{address.node_device_name}'
            for address in self.card.vf_addresses
        ]
        for name in (*self.functions, self.name('84')):
            self.operator.create(name, self.node)
            self.operator.set_inventory(name, VGPU=1)
            self.operator.add_traits(name, 'OWNER_NOVA', FOREIGN)
        self.operator.add_traits(self.name('84'), 'CUSTOM_VGPU_TYPE_T4_2Q')
        self.allocate(self.functions[0])
        self.target = placements.make_target(
            self.node,
            self.host,
            [
                placements.declare(
                    'A40-8Q', '41:00.0', traits=(f'CUSTOM_MY_{self.number}',)
                )
            ],
        )

    def check(self, test: testtools.TestCase) -> None:
        super().check(test)
        for name in self.functions:
            test.assertThat(
                self.operator.traits(name),
                testtools.matchers.ContainsAll(
                    (
                        'OWNER_NOVA',
                        FOREIGN,
                        'CUSTOM_VGPU_TYPE_A40_8Q',
                        f'CUSTOM_MY_{self.number}',
                    )
                ),
            )
            test.assertEqual({'VGPU': (1, 0)}, self.operator.inventories(name))
        test.assertEqual(
            {'OWNER_NOVA', FOREIGN}, self.operator.traits(self.name('84'))
        )


class Prepared(typing.NamedTuple):
    """A scene that nothing happened to, and what it takes if nothing does."""

    scene: Scene
    requests: list[proxy.Seen]


def _kind(seen: proxy.Seen) -> str:
    """What is read, of whichever provider."""
    return _WHICH.sub('', seen.path)


class FaultTestCase(placements.PlacementTestCase):
    make_scene: type[Scene] = FullScene
    prepared: typing.ClassVar[Prepared | None]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.prepared = None

    def setUp(self) -> None:
        super().setUp()
        made = self.prepared or self.prepare()
        type(self).prepared = made
        self.requests = made.requests
        self.count = len(made.requests)
        self.writes = sum(seen.writes for seen in made.requests)

    def prepare(self) -> Prepared:
        """Once for all tests of a class."""
        # The traits that all of them need are there from now on.
        scene = self.make_scene(self.running, 'node0', 0)
        self.proxy.reset()
        scene.sync()
        scene.check(self)
        scene = self.make_scene(self.running, 'node1', 1)
        self.running.save('prepared')
        self.proxy.reset()
        scene.again().sync(placements.PATIENT)
        return Prepared(scene, self.proxy.seen)

    def scene(self) -> Scene:
        assert self.prepared is not None
        self.running.restore('prepared')
        return self.prepared.scene.again()

    def each(
        self, *faults: proxy.Fault
    ) -> Iterator[tuple[int, list[proxy.Fault]]]:
        """The number of a request, and the faults that it can meet."""
        read: set[str] = set()
        for number, seen in enumerate(self.requests):
            if seen.writes:
                read.clear()
            elif _kind(seen) in read:
                continue
            else:
                read.add(_kind(seen))
            can_meet = [
                fault
                for fault in faults
                if seen.writes or fault not in proxy.OF_WRITES
            ]
            if can_meet:
                yield number, can_meet

    def try_each(self, *faults: proxy.Fault) -> None:
        """Each request meets these, one attempt after the other."""
        for request, can_meet in self.each(*faults):
            scene = self.scene()
            meets = dict(enumerate(can_meet, request))
            self.proxy.reset(meets.get)
            scene.sync(BRISK if SLOW & {*can_meet} else PATIENT)
            scene.check(self)

    def try_outages(self, fault: proxy.Fault) -> None:
        """From each request on nothing works, until the next run."""
        for request, _ in self.each(fault):
            scene = self.scene()
            meets = dict.fromkeys(range(request, 1000), fault)
            self.proxy.reset(meets.get)
            error = self.assertRaises(
                exception.PlacementError, scene.sync, HASTY
            )
            self.assertIn('does not answer', str(error))
            self.proxy.reset()
            scene.check_nothing_lost(self)
            scene.sync()
            scene.check(self)

    def interfere(
        self,
        act: Callable[[proxy.Seen], None],
        only: int | None = None,
    ) -> None:
        """Act before each write, or only before one, counted from 0."""
        counter = itertools.count()

        def before(seen: proxy.Seen) -> None:
            if next(counter) == only or only is None:
                act(seen)

        self.proxy.reset(before=before)


class FullFaultsTest(FaultTestCase):
    def test_there_is_something_to_go_wrong(self) -> None:
        self.assertGreater(self.writes, 8)
        self.assertGreater(self.count, self.writes + 10)

    def test_conflict(self) -> None:
        self.try_each(proxy.Fault.CONFLICT)

    def test_the_request_gets_lost(self) -> None:
        self.try_each(
            proxy.Fault.UNAVAILABLE, proxy.Fault.CUT_BEFORE, proxy.Fault.SLOW
        )

    def test_the_answer_gets_lost(self) -> None:
        self.try_each(proxy.Fault.CUT_AFTER)

    def test_the_answer_gets_lost_again(self) -> None:
        self.try_each(
            proxy.Fault.CUT_WITHIN,
            proxy.Fault.UNAVAILABLE_AFTER,
            proxy.Fault.SLOW_AFTER,
        )

    def test_outage(self) -> None:
        self.try_outages(proxy.Fault.UNAVAILABLE)

    def test_outage_that_swallows_answers(self) -> None:
        self.try_outages(proxy.Fault.CUT_AFTER)


class TraitsFaultsTest(FaultTestCase):
    make_scene = TraitsScene

    def test_every_fault(self) -> None:
        self.assertGreater(self.writes, 3)
        for fault in proxy.Fault:
            self.try_each(fault)

    def test_outages(self) -> None:
        self.try_outages(proxy.Fault.UNAVAILABLE)
        self.try_outages(proxy.Fault.CUT_AFTER)


class OthersTest(FaultTestCase):
    """Somebody else writes, too."""

    def test_each_write_may_come_second(self) -> None:
        for write in range(self.writes):
            scene = self.scene()
            others = [scene.name('84'), scene.name('87'), scene.node]

            def act(
                _seen: proxy.Seen,
                scene: Scene = scene,
                others: list[str] = others,
            ) -> None:
                for name in others:
                    scene.operator.add_traits(name, 'CUSTOM_OTHERS')

            self.interfere(act, only=write)
            scene.sync()
            scene.check(self)
            for name in others:
                self.assertIn('CUSTOM_OTHERS', scene.operator.traits(name))

    def test_whoever_is_always_second_gives_up_in_words(self) -> None:
        scene = self.scene()
        names = (f'CUSTOM_N{n}' for n in itertools.count())

        def act(_seen: proxy.Seen) -> None:
            scene.operator.add_traits(scene.name('84'), next(names))

        self.interfere(act)
        error = self.assertRaises(exception.PlacementError, scene.sync)
        self.assertIn('persists', str(error))
        self.assertIn('409', str(error))
        self.proxy.reset()
        scene.sync()
        scene.check(self)

    def test_a_server_that_comes_before_the_end_of_its_provider(self) -> None:
        scene = self.scene()

        def act(seen: proxy.Seen) -> None:
            if seen.method == 'DELETE':
                scene.allocate(scene.name('86'))

        self.interfere(act)
        scene.sync()
        scene.check_nothing_lost(self)
        self.assertEqual(
            {'VGPU': (4, 3)}, scene.operator.inventories(scene.name('86'))
        )

    def test_a_server_that_comes_before_an_inventory_shrinks(self) -> None:
        scene = self.scene()
        arrived: list[str] = []

        def act(seen: proxy.Seen) -> None:
            if seen.path.endswith('/inventories') and not arrived:
                arrived.append(seen.path)
                scene.allocate(scene.name('84'))

        self.interfere(act)
        scene.sync()
        scene.check_nothing_lost(self)
        self.assertEqual(
            {'VGPU': 2},
            {
                name: used
                for name, used in scene.operator.used(scene.name('84')).items()
                if used
            },
        )
        self.assertEqual(
            (8, 2),
            scene.operator.inventories(scene.name('84'))[
                f'CUSTOM_VGPU_{scene.number}'
            ],
        )
