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

"""Which devices reach each other, and the traits that say so."""

from nova_vgpu import values
from nova_vgpu.knowledge import traits
from nova_vgpu.tests import layouts
from nova_vgpu.tests.unit.topology import test_layouts
from nova_vgpu.topology import islands
from nova_vgpu.topology import matrix


class TestIslands(test_layouts.LayoutTestCase):
    def find(self, layout: layouts.Layout) -> dict[str, str]:
        """The devices with each trait."""
        topology = self.read(layout)
        labels = matrix.label_devices(topology)
        return {
            islands.name_trait(island): ' '.join(
                labels[address] for address in island.members
            )
            for island in islands.find_islands(topology)
        }

    def test_what_hangs_on_one_root_port_is_an_island(self) -> None:
        self.assertEqual(
            {'CUSTOM_PCIE_ISLAND_0': 'GPU0 GPU1 GPU2 NIC0 NIC1'},
            self.find(layouts.ONE_ROOT_PORT),
        )

    def test_nvswitches_make_one_island_of_all_gpus(self) -> None:
        self.assertEqual(
            {
                'CUSTOM_PCIE_ISLAND_0': 'GPU0 GPU1 NIC0 NIC1',
                'CUSTOM_PCIE_ISLAND_1': 'GPU2 GPU3 NIC2 NIC3',
                'CUSTOM_NVLINK_ISLAND_0': 'GPU0 GPU1 GPU2 GPU3',
            },
            self.find(layouts.NVSWITCH),
        )

    def test_in_a_mesh_all_members_are_joined(self) -> None:
        self.assertEqual(
            {
                'CUSTOM_NVLINK_ISLAND_0': 'GPU0 GPU1 GPU2 GPU3',
                'CUSTOM_NVLINK_ISLAND_1': 'GPU4 GPU5 GPU6 GPU7',
            },
            self.find(layouts.MESH),
        )

    def test_a_gpu_alone_below_its_root_port_has_none(self) -> None:
        for layout in (
            layouts.WORKSTATION,
            layouts.TWO_SOCKETS,
            layouts.VIRTUAL_MACHINE,
            layouts.NO_NUMA,
        ):
            self.assertEqual({}, self.find(layout))

    def test_network_cards_alone_are_not_one(self) -> None:
        layout = layouts.Layout(
            """
            0000:97:02.0 root
                0000:98:00.0 up
                    0000:99:00.0 down
                        0000:9a:00.0 CONNECTX_6
                    0000:99:01.0 down
                        0000:9b:00.0 CONNECTX_6
            0000:97:03.0 root
                0000:a0:00.0 T4
            """,
            '',
        )
        self.assertEqual({}, self.find(layout))

    def test_a_device_has_the_traits_of_its_islands(self) -> None:
        topology = self.read(layouts.NVSWITCH)
        expected = {
            '07:00.0': ('CUSTOM_PCIE_ISLAND_0', 'CUSTOM_NVLINK_ISLAND_0'),
            '4b:00.0': ('CUSTOM_PCIE_ISLAND_1',),
            '99:00.0': (),
        }
        for address, wanted in expected.items():
            self.assertEqual(
                wanted,
                islands.list_traits(
                    topology, values.PciAddress.parse(address)
                ),
            )

    def test_placement_takes_the_names(self) -> None:
        for kind in values.IslandKind:
            for number in (0, 17):
                name = islands.name_trait(values.Island(kind, number, ()))
                self.assertTrue(traits.is_valid(name), name)
                # Or the publisher would take them off the GPUs.
                self.assertFalse(name.startswith(traits.OWN_PREFIXES), name)
