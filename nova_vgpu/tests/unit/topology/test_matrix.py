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

"""The matrix as text."""

from nova_vgpu.tests import layouts
from nova_vgpu.tests.unit.topology import test_layouts
from nova_vgpu.topology import matrix


class TestMatrix(test_layouts.LayoutTestCase):
    def write(self, layout: layouts.Layout, width: int = 80) -> str:
        return '\n'.join(matrix.write(self.read(layout), width))

    def test_everything_on_one_page(self) -> None:
        self.assertEqual(
            """\
      GPU0  GPU1  GPU2
GPU0  X     PIX   PIX
GPU1  PIX   X     PIX
GPU2  PIX   PIX   X

Device  Address       NUMA node  IOMMU group  ACS        Name
GPU0    0000:3d:00.0  0          40           redirects  T4
GPU1    0000:3e:00.0  0          41           redirects  T4
GPU2    0000:3f:00.0  0          42           redirects  T4

Trait                 Devices
CUSTOM_PCIE_ISLAND_0  GPU0, GPU1, GPU2
""",
            self.write(layouts.SINGLE_SWITCH).partition('\nX  ')[0],
        )

    def test_the_legend_explains_every_word(self) -> None:
        explained = {word for word, _ in matrix.LEGEND}
        text = '\n'.join(layout.matrix for layout in layouts.LAYOUTS.values())
        used = {
            'NV#' if word.startswith('NV') else word
            for word in text.split()
            if not word.startswith(('GPU', 'NIC'))
        }
        self.assertEqual(used, explained)

    def test_a_wide_matrix_is_written_in_parts(self) -> None:
        for width in (40, 80, 100):
            text = self.write(layouts.EIGHT_H100, width)
            longest = max(map(len, text.splitlines()))
            self.assertLessEqual(longest, max(width, 70), str(width))
            found: dict[tuple[str, str], str] = {}
            for block in text.split('\n\nDevice')[0].split('\n\n'):
                found |= test_layouts.parse_matrix(block)
            self.assertEqual(16 * 16, len(found))
            self.assertEqual('NV18', found['GPU0', 'GPU7'])
            self.assertEqual('PIX', found['GPU7', 'NIC7'])

    def test_without_a_width_it_is_written_at_once(self) -> None:
        lines = self.write(layouts.EIGHT_H100, 0).splitlines()
        self.assertEqual(16, len(lines[0].split()))

    def test_members_of_a_large_island_are_all_there(self) -> None:
        text = self.write(layouts.EIGHT_H100, 60)
        _, _, after = text.partition('CUSTOM_NVLINK_ISLAND_0')
        listed = after.partition('\n\n')[0].replace(',', ' ').split()
        self.assertEqual([f'GPU{number}' for number in range(8)], listed)

    def test_acs_of_each_device(self) -> None:
        topology = self.read(layouts.ONE_ROOT_PORT)
        found = [matrix.describe_acs(topology, d) for d in topology.devices]
        self.assertEqual(['redirects'] * 5, found)
        self.assertEqual(
            ('GPU0', 'GPU1', 'NIC0'),
            matrix.list_redirected(topology, topology.devices[2]),
        )
        topology = self.read(layouts.GPUS_AND_NIC)
        found = [matrix.describe_acs(topology, d) for d in topology.devices]
        self.assertEqual(['direct'] * 3, found)
        topology = self.read(layouts.WORKSTATION)
        found = [matrix.describe_acs(topology, d) for d in topology.devices]
        self.assertEqual([None, None], found)
