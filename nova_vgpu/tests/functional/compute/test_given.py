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

"""Which types on virtual functions are those of servers that left."""

import testtools

from nova_vgpu import values
from nova_vgpu.compute import given
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans

FIRST, SECOND = 'pci_0000_c8_00_4', 'pci_0000_c8_00_5'
SERVER = '7a1c3a52-0b6a-4c8e-9f0e-54d2c4c1c005'


def make_plan(*created: str) -> values.Plan:
    """Of a host on which nothing is declared."""
    card = hosts.gpu('c8:00.0', boards.L40S, *created, vfs=4, vendor_vfio=True)
    return plans.make_plan(values.Declaration(), hosts.make_host(card))


def make_guest(*functions: str, is_server: bool = True) -> values.Guest:
    return values.Guest(
        SERVER,
        'guest',
        True,
        functions=frozenset(
            values.PciAddress.parse(f'c8:00.{name[-1]}') for name in functions
        ),
        vgpus=tuple(map(values.GuestVGPU, functions)) if is_server else (),
    )


class GivenTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.given = given.Given()
        self.plan = make_plan('nvidia-1155', 'nvidia-1155')

    def list_left(self, *guests: values.Guest) -> frozenset[str]:
        return self.given.list_left(guests, self.plan)

    def test_what_a_server_left_behind_until_its_type_is_cleared(self) -> None:
        self.assertEqual(frozenset(), self.list_left(make_guest(FIRST)))
        for _ in range(2):
            self.assertEqual({FIRST}, self.list_left())
        self.assertEqual({FIRST}, self.given.list_of(SERVER))
        self.plan = make_plan()
        self.assertEqual(frozenset(), self.list_left())
        self.plan = make_plan('nvidia-1155')  # and now by hand
        self.assertEqual(frozenset(), self.list_left())

    def test_a_guest_that_was_looked_at_alone(self) -> None:
        self.given.add(make_guest(SECOND))
        self.assertEqual({SECOND}, self.list_left())

    def test_what_somebody_else_gave_to_a_guest_is_not_ours(self) -> None:
        self.given.add(make_guest(FIRST))
        others = make_guest(FIRST, is_server=False)
        self.assertEqual(frozenset(), self.list_left(others))
        self.assertEqual(frozenset(), self.list_left())
