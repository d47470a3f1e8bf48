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

import dataclasses
import unittest

from nova_vgpu_dashboard import picture
from nova_vgpu_dashboard.tests import clouds


class TestGroups(unittest.TestCase):
    def test_gpus_of_a_model_and_type_are_together(self) -> None:
        found = picture.make_fleet(
            [
                clouds.gpu('compute1', '41', used=2),
                clouds.gpu('compute1', '42', traits=()),
                clouds.gpu('compute2', '41', traits=clouds.T4),
                clouds.gpu('compute2', '42', 1, 1, 5),
                clouds.whole('compute3', used=1),
            ]
        )
        self.assertEqual(
            [
                *(('A40', '', 1, True), ('A40', 'A40-8Q', 2, False)),
                *(('T4', 'T4-2Q', 1, False), ('', '', 1, False)),
            ],
            [(g.model, g.type, g.count, g.is_whole) for g in found.groups],
        )
        second = found.groups[1]
        self.assertEqual(
            (3, 12, 25, 1),
            (second.used, second.total, second.percent, second.fenced),
        )
        self.assertEqual(
            (5, 3, 3, 24, 1, 1),
            (
                *(found.count, found.hosts, found.used, found.total),
                *(found.whole_used, found.fenced),
            ),
        )

    def test_a_divided_gpu_counts_once(self) -> None:
        eight = clouds.gpu('compute1', capacity=0, used=2, reserved=5)
        other = dataclasses.replace(
            eight, device=f'{eight.device}_A40-4Q', traits=frozenset()
        )
        found = picture.make_fleet([eight, other])
        self.assertEqual((1, 1), (found.count, found.fenced))
        self.assertEqual([1, 1], [group.count for group in found.groups])

    def test_a_cloud_without_gpus(self) -> None:
        self.assertEqual(picture.Fleet((), (), 1, 0), picture.make_fleet([]))

    def test_a_tile_stands_for_several_gpus_of_a_large_cloud(self) -> None:
        for count, each, tiles in (
            (1, 1, 1),
            (200, 1, 200),
            (201, 2, 101),
            (1000, 5, 200),
        ):
            found = picture.make_fleet([clouds.gpu('compute1')] * count)
            self.assertEqual(each, found.each, count)
            drawn = found.groups[0].tiles.frames
            self.assertEqual(tiles, drawn.count('M'), count)

    def test_hosts_are_in_the_order_of_their_numbers(self) -> None:
        found = picture.make_fleet(
            [clouds.gpu('compute10'), clouds.gpu('compute9', used=6)]
        )
        self.assertEqual('M0 0h10v10h-10z', found.groups[0].tiles.used)

    def test_groups_without_number_are_left_out(self) -> None:
        found = picture.make_fleet(
            clouds.gpu('compute1', traits=(f'CUSTOM_GPU_MODEL_{number}',))
            for number in range(30)
        )
        self.assertEqual((24, 6), (len(found.groups), found.more))


class TestTiles(unittest.TestCase):
    def test_a_gpu_that_is_half_used(self) -> None:
        tiles = picture.draw([clouds.gpu('compute1', used=3)])
        self.assertEqual('M0 0h10v10h-10z', tiles.frames)
        self.assertEqual('M0 5h10v5h-10z', tiles.used)
        self.assertEqual('', tiles.fenced)
        self.assertEqual((10, 10), (tiles.width, tiles.height))

    def test_a_fenced_gpu_is_crossed_out(self) -> None:
        tiles = picture.draw([clouds.gpu('compute1', '41', 1, 1, 5)])
        self.assertEqual('M0 0l10 10M10 0l-10 10', tiles.fenced)

    def test_a_tile_of_several_gpus_shows_all_of_them(self) -> None:
        tiles = picture.draw(
            [clouds.gpu('a', used=6), clouds.gpu('b', '42', 1, 0, 5)], 2
        )
        self.assertEqual('M0 0h10v10h-10z', tiles.frames)
        self.assertEqual('M0 5h10v5h-10z', tiles.used)

    def test_a_tile_with_a_fenced_gpu_is_crossed_out(self) -> None:
        fenced = clouds.gpu('compute1', '41', 1, 1, 5)
        tiles = picture.draw([clouds.gpu('a')] * 4 + [fenced], 5)
        self.assertEqual('M0 0l10 10M10 0l-10 10', tiles.fenced)

    def test_many_gpus_are_in_lines(self) -> None:
        tiles = picture.draw([clouds.gpu('compute1')] * 26)
        self.assertEqual((298, 22), (tiles.width, tiles.height))
        self.assertTrue(tiles.frames.endswith('M0 12h10v10h-10z'))

    def test_little_is_not_nothing_and_much_is_not_all(self) -> None:
        for part, whole, level in (
            (0, 6, 0),
            (0, 0, 0),
            (1, 0, 0),
            (1, 1000, 1),
            (3, 6, 5),
            (999, 1000, 9),
            (6, 6, 10),
            (7, 6, 10),
        ):
            found = picture.fill_level(part, whole, 10)
            self.assertEqual(level, found, (part, whole))
