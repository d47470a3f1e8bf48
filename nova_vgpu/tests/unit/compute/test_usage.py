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

"""Which vGPUs are in use, and by which server; without Nova."""

from collections.abc import Iterator
import contextlib
import typing

import testtools

from nova_vgpu import values
from nova_vgpu.compute import nova_types
from nova_vgpu.compute import usage
from nova_vgpu.host import guests
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import domains
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans

GUEST = '7a1c3a52-0b6a-4c8e-9f0e-54d2c4c1c001'
COMING = '7a1c3a52-0b6a-4c8e-9f0e-54d2c4c1c002'
MDEV = 'c1b6ac4a-0b3c-4bd5-8d6d-3a0f8c0a0001'
OTHER = 'c1b6ac4a-0b3c-4bd5-8d6d-3a0f8c0a0002'
FIRST, SECOND = 'pci_0000_c8_00_4', 'pci_0000_c8_00_5'
LEAVING = '7a1c3a52-0b6a-4c8e-9f0e-54d2c4c1c005'


class Domain:
    def __init__(self, uuid: str, *mdevs: str) -> None:
        self._uuid, self._mdevs = uuid, mdevs

    def name(self) -> str:
        return 'instance-1'

    def UUIDString(self) -> str:
        return self._uuid

    def isActive(self) -> int:
        return 1

    def XMLDesc(self, _flags: int = 0) -> str:
        return domains.write_domain(self._uuid, self.name(), mdevs=self._mdevs)


class Defined:
    """An mdev that is only defined."""

    def name(self) -> str:
        return f'mdev_{MDEV.replace("-", "_")}_0000_84_00_0'

    def parent(self) -> str:
        return 'pci_0000_84_00_0'


class Host:
    """Guests, what Nova noted, and definitions of mdevs."""

    def __init__(self) -> None:
        self.guests: dict[str, Domain] = {}
        self.notes: nova_types.Notes = {}
        self.defined: list[typing.Any] = []
        self.usage = usage.Usage(
            self,
            lambda: self.notes,
            lambda: self.defined,
            contextlib.nullcontext,
        )

    def listAllDomains(self, _flags: int = 0) -> list[guests.Domain]:
        return list(self.guests.values())

    def lookupByUUIDString(self, uuid: str) -> guests.Domain:
        return self.guests[uuid]


class UsageTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.host = Host()
        self.usage = self.host.usage

    def test_what_is_in_use(self) -> None:
        """What guests have, what is pending, and what Nova noted."""
        self.assertEqual(frozenset(), self.usage.read().names)
        self.host.guests[GUEST] = Domain(GUEST, MDEV)
        self.host.notes[COMING] = ['noted']
        with self.usage.pending.during_operation():
            self.usage.pending.add(['pending'])
            self.assertEqual(
                {MDEV, 'noted', 'pending'}, self.usage.read().names
            )
        self.assertEqual({MDEV, 'noted'}, self.usage.read().names)
        self.assertEqual({MDEV}, self.usage.attached.names)

    def test_a_function_is_kept_for_an_mdev_that_is_to_start(self) -> None:
        self.host.defined.append(Defined())
        self.assertEqual(frozenset(), self.usage.read().names)
        self.host.guests[GUEST] = Domain(GUEST, MDEV)
        self.assertEqual({MDEV, 'pci_0000_84_00_0'}, self.usage.read().names)

    def test_whose_they_are(self) -> None:
        """A guest that is here has what it has, whatever Nova noted."""
        self.host.guests[GUEST] = Domain(GUEST, MDEV)
        self.host.notes.update({GUEST: [OTHER], COMING: [MDEV, 'noted']})
        self.assertEqual(
            {MDEV: GUEST, OTHER: GUEST, 'noted': COMING},
            self.usage.list_servers(),
        )
        self.assertEqual([MDEV], self.usage.list_of(GUEST))
        self.host.guests[GUEST] = Domain(GUEST)
        self.assertEqual([OTHER], self.usage.list_of(GUEST))

    def test_a_note_that_was_replaced_is_not_dropped(self) -> None:
        noted = ['vgpu']
        self.host.notes[COMING] = ['vgpu']
        self.assertFalse(self.usage.drop_note(COMING, noted))
        self.host.notes[COMING] = noted
        self.assertTrue(self.usage.drop_note(COMING, noted))
        self.assertEqual({}, self.host.notes)


class PendingAllocationsTest(testtools.TestCase):
    """The lock that commands wait for."""

    def setUp(self) -> None:
        super().setUp()
        self.held: list[str] = []
        self.pending = usage.PendingAllocations(self.hold)

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        self.held.append('held')
        yield
        self.held.append('free')

    def test_an_operation_without_a_vgpu_does_not_take_it(self) -> None:
        with self.pending.during_operation():
            self.pending.add([])
        self.assertEqual([], self.held)

    def test_it_is_held_from_the_first_choice_to_the_end(self) -> None:
        with (
            self.pending.during_operation(),
            self.pending.during_operation(),  # as a hard reboot in a resume
        ):
            self.pending.hold()
            self.pending.add(['vgpu'])
            self.assertEqual(['held'], self.held)
        self.assertEqual(['held', 'free'], self.held)
        self.assertRaises(RuntimeError, self.pending.hold)


def make_plan(*created: str) -> values.Plan:
    """Of a host on which nothing is declared."""
    card = hosts.gpu('c8:00.0', boards.L40S, *created, vfs=4, vendor_vfio=True)
    return plans.make_plan(values.Declaration(), hosts.make_host(card))


def make_guest(*functions: str, is_server: bool = True) -> values.Guest:
    return values.Guest(
        LEAVING,
        'guest',
        True,
        functions=frozenset(
            values.PciAddress.parse(f'c8:00.{name[-1]}') for name in functions
        ),
        vgpus=tuple(map(values.GuestVGPU, functions)) if is_server else (),
    )


class ServerFunctionsTest(testtools.TestCase):
    """Which types on functions are those of servers that left."""

    def setUp(self) -> None:
        super().setUp()
        self.functions = usage.ServerFunctions()
        self.plan = make_plan('nvidia-1155', 'nvidia-1155')

    def list_left(self, *guests: values.Guest) -> frozenset[str]:
        return self.functions.list_left(guests, self.plan)

    def test_what_a_server_left_behind_until_its_type_is_cleared(self) -> None:
        self.assertEqual(frozenset(), self.list_left(make_guest(FIRST)))
        for _ in range(2):
            self.assertEqual({FIRST}, self.list_left())
        self.assertEqual({FIRST}, self.functions.list_of(LEAVING))
        self.plan = make_plan()
        self.assertEqual(frozenset(), self.list_left())
        self.plan = make_plan('nvidia-1155')  # and now by hand
        self.assertEqual(frozenset(), self.list_left())

    def test_a_guest_that_was_looked_at_alone(self) -> None:
        self.functions.add(make_guest(SECOND))
        self.assertEqual({SECOND}, self.list_left())

    def test_what_somebody_else_gave_to_a_guest_is_not_ours(self) -> None:
        self.functions.add(make_guest(FIRST))
        others = make_guest(FIRST, is_server=False)
        self.assertEqual(frozenset(), self.list_left(others))
        self.assertEqual(frozenset(), self.list_left())
