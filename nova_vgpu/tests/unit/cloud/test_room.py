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

import testtools

from nova_vgpu.cloud.nodes import node_order
from nova_vgpu.cloud.nodes import reservations
from nova_vgpu.cloud.nodes import room
from nova_vgpu.cloud.orders import flavor_listing
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.cloud.orders import image_store

FLAVOR = flavors.parse('gpu-a40', {})


class TestRoom(testtools.TestCase):
    def test_nodes_that_do_not_fit_are_refused(self) -> None:
        for servers, refusal, words in (
            (3, None, ''),
            (4, None, ''),
            (2, None, 'nodes with flavor gpu-a40: 3 are asked for'),
            (2, None, 'asked for, 2 fit,'),
            (0, 'No such trait', 'can be built: No such trait'),
        ):
            found = '\n'.join(
                room.find_problems(
                    room.Wanted(FLAVOR, 3, 3),
                    flavor_listing.Room(servers, refusal),
                )
            )
            self.assertIn(words, found)
            self.assertEqual(not words, not found)

    def test_a_cluster_that_cannot_grow_is_told(self) -> None:
        for servers, words in ((5, ''), (4, 'gpu-a40: 5 are the most, 4 fit')):
            found = '\n'.join(
                room.find_warnings(
                    room.Wanted(FLAVOR, 3, 5), flavor_listing.Room(servers)
                )
            )
            self.assertIn(words, found)
            self.assertEqual(not words, not found)


class TestReservation(testtools.TestCase):
    def test_what_is_held_back(self) -> None:
        for vcpus, ram, expected in (
            (1, 2048, (90, 102, 330, 1616)),
            (4, 16384, (120, 819, 330, 15235)),
            (64, 1048576, (720, 52428, 330, 995818)),
        ):
            found = reservations.reserve(flavors.Size(vcpus, ram))
            self.assertEqual(reservations.Reservation(*expected), found)


class TestFirmware(testtools.TestCase):
    def test_an_image_without_uefi_is_told(self) -> None:
        for firmware, machine, words in (
            ('uefi', 'q35', ''),
            ('bios', 'q35', 'does not have hw_firmware_type=uefi:'),
            (
                None,
                None,
                'hw_firmware_type=uefi and hw_machine_type=q35: GPUs',
            ),
            ('uefi', None, 'openstack vgpu image set some-id'),
        ):
            image = image_store.Image('some-id', 'name', firmware, machine)
            found = '\n'.join(node_order.find_firmware_warnings(image))
            self.assertIn(words, found)
            self.assertEqual(not words, not found)
