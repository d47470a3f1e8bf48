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

from collections.abc import Mapping
import dataclasses

import testtools

from nova_vgpu.cloud import reader
from nova_vgpu.cloud.nodes import node_gpus
from nova_vgpu.cloud.nodes import node_reading
from nova_vgpu.cloud.nodes import node_request
from nova_vgpu.cloud.nodes import reservations
from nova_vgpu.cloud.nodes import room
from nova_vgpu.cloud.orders import fitting
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


class _Cloud(reader.Cloud):
    """It has zone "gpu", and nothing is free."""

    def __init__(self) -> None:
        self.asked: list[str | None] = []
        self.resources: list[str] = []

    def list_zone_aggregates(self, zone: str) -> tuple[str, ...]:
        return ('a', 'b') if zone == 'gpu' else ()

    def read_candidates(self, query: Mapping[str, str]) -> fitting.Candidates:
        self.asked.append(query.get('member_of'))
        self.resources.append(query['resources'])
        return fitting.Candidates({}, {})


class TestZone(testtools.TestCase):
    def test_only_hosts_of_the_zone_count(self) -> None:
        cloud = _Cloud()
        zone = room.find_zone(cloud, 'gpu')
        found = room.check(
            cloud,
            [
                room.Wanted(FLAVOR, 3, 3, zone=zone),
                room.Wanted(FLAVOR, 3, 3),
                room.Wanted(FLAVOR, 1, 1),
            ],
        )
        self.assertEqual(['in:a,b', None], cloud.asked)
        self.assertIn('gpu-a40 in zone gpu: 3 are asked', found.problems[0])
        self.assertIn('flavor gpu-a40: 4 are asked', found.problems[1])

    def test_a_zone_of_no_aggregate_is_told(self) -> None:
        self.assertIsNone(room.find_zone(_Cloud(), 'nova'))
        self.assertIsNone(room.find_zone(_Cloud(), None))
        (found,) = room.find_zone_warnings(room.Check(unheeded_zone='nova'))
        self.assertIn(
            'in all zones: no aggregate of Nova has zone nova', found
        )
        self.assertEqual([], list(room.find_zone_warnings(room.MADE)))


class TestDisk(testtools.TestCase):
    def test_a_volume_takes_the_place_of_the_disk_of_a_host(self) -> None:
        flavor = flavors.parse('gpu', {}, flavors.Size(4, 16384, 40))
        for is_volume in (False, True):
            cloud = _Cloud()
            room.check(
                cloud,
                [room.Wanted(flavor, 1, 1, boots_from_volume=is_volume)],
            )
            (resources,) = cloud.resources
            self.assertEqual(not is_volume, 'DISK_GB:40' in resources)


class TestReservation(testtools.TestCase):
    def test_what_is_held_back(self) -> None:
        for vcpus, ram, expected in (
            (1, 2048, (90, 102, 330, 1616)),
            (4, 16384, (120, 819, 330, 15235)),
            (64, 1048576, (720, 52428, 330, 995818)),
        ):
            found = reservations.reserve(flavors.Size(vcpus, ram))
            self.assertEqual(reservations.Reservation(*expected), found)


class TestKind(testtools.TestCase):
    def test_a_flavor_that_makes_no_node_is_refused_by_every_command(
        self,
    ) -> None:
        """Only Cluster API's is told of a driver."""
        gpus = node_gpus.NodeGPUs(1, 'A40-8Q')
        choice = node_gpus.FlavorChoice('x')
        for size, changes, words in (
            (flavors.Size(4, 16384, 40), {}, ''),
            (flavors.Size(1, 1024, 40), {}, '1024 MiB of memory, of which'),
            (flavors.Size(4, 16384, 0), {}, 'has no root disk'),
            (flavors.Size(4, 16384, 0), {'root_volume_gib': 9}, ''),
            (
                flavors.Size(4, 16384, 40),
                {'driver': node_request.DriverRequest()},
                '--driver-image is missing',
            ),
        ):
            sought = dataclasses.replace(
                node_reading.Sought(choice, None, 1, 1),
                **changes,
            )
            kind = node_reading.NodeKind(flavors.parse('x', {}, size), gpus)
            found = '\n'.join(node_reading.find_kind_problems(kind, sought))
            self.assertIn(words, found)
            self.assertEqual(not words, not found)


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
            found = '\n'.join(node_reading.find_firmware_warnings(image))
            self.assertIn(words, found)
            self.assertEqual(not words, not found)
