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

import testtools

from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.gpus import neighbours
from nova_vgpu.tests.unit.cloud import clouds


def whole(where: str, *islands: str) -> fleet.GPU:
    return clouds.whole(where, traits=(*clouds.WHOLE_A40, *islands))


class TestNeighbours(testtools.TestCase):
    def test_gpus_of_an_island_come_first(self) -> None:
        gpu = whole('c C1', 'CUSTOM_PCIE_ISLAND_0', 'CUSTOM_NVLINK_ISLAND_1')
        far = whole('c C2', 'CUSTOM_PCIE_ISLAND_1')
        near = whole('c C3', 'CUSTOM_PCIE_ISLAND_0')
        linked = whole(
            'c C4', 'CUSTOM_PCIE_ISLAND_0', 'CUSTOM_NVLINK_ISLAND_1'
        )
        self.assertEqual(
            (
                neighbours.Neighbour(linked, ('PCIe 0', 'NVLink 1')),
                neighbours.Neighbour(near, ('PCIe 0',)),
                neighbours.Neighbour(far),
            ),
            neighbours.list_neighbours(gpu, (gpu, far, near, linked)),
        )

    def test_an_island_of_another_host_is_another_one(self) -> None:
        gpu = whole('c C1', 'CUSTOM_PCIE_ISLAND_0')
        other = dataclasses.replace(gpu, uuid='other', host='d')
        self.assertEqual((), neighbours.list_neighbours(gpu, (gpu, other)))

    def test_other_traits_are_not_islands(self) -> None:
        gpu, other = whole('c C1'), clouds.gpu('c 84')
        self.assertEqual(
            (neighbours.Neighbour(other),),
            neighbours.list_neighbours(gpu, (other, gpu)),
        )
