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

"""The distances on machines whose answer is known."""

import dataclasses
import itertools
import pathlib

import fixtures
import testtools

from nova_vgpu import values
from nova_vgpu.tests import layouts
from nova_vgpu.topology import distance
from nova_vgpu.topology import matrix


class LayoutTestCase(testtools.TestCase):
    def read(self, layout: layouts.Layout) -> values.Topology:
        directory = self.useFixture(fixtures.TempDir()).path
        return layouts.read(layout, pathlib.Path(directory))


def parse_matrix(text: str) -> dict[tuple[str, str], str]:
    """Every cell of a matrix, by the names of its row and its column."""
    columns, *rows = (line.split() for line in text.splitlines() if line)
    return {
        (row[0], column): cell
        for row in rows
        for column, cell in zip(columns, row[1:], strict=True)
    }


class TestLayouts(LayoutTestCase):
    def test_every_distance_is_the_known_one(self) -> None:
        for name, layout in layouts.LAYOUTS.items():
            topology = self.read(layout)
            expected = parse_matrix(layout.matrix.strip())
            labels = matrix.label_devices(topology)
            found = {
                (labels[one.address], labels[other.address]): str(
                    distance.connect(topology, one, other)
                )
                for one in topology.devices
                for other in topology.devices
            }
            rows = {row for row, _ in expected}
            seen = {k: v for k, v in found.items() if k[0] in rows}
            self.assertEqual(expected, seen, name)
            self.assertEqual((), topology.faults, name)

    def test_a_distance_is_the_same_in_both_directions(self) -> None:
        for name, layout in layouts.LAYOUTS.items():
            topology = self.read(layout)
            for one, other in itertools.combinations(topology.devices, 2):
                self.assertEqual(
                    distance.connect(topology, one, other),
                    distance.connect(topology, other, one),
                    name,
                )

    def test_without_nvml_the_distances_are_those_of_pcie(self) -> None:
        layout = dataclasses.replace(layouts.NVSWITCH, nvml=None)
        topology = self.read(layout)
        first, second, third, _ = topology.devices[:4]
        self.assertEqual(
            ('PXB', 'SYS'),
            (
                str(distance.connect(topology, first, second)),
                str(distance.connect(topology, first, third)),
            ),
        )

    def test_an_unknown_node_is_far_where_there_are_several(self) -> None:
        for nodes, expected in ((0, 'NODE'), (1, 'NODE'), (2, 'SYS')):
            topology = dataclasses.replace(
                self.read(layouts.NO_NUMA), numa_nodes=nodes
            )
            connection = distance.connect(topology, *topology.devices)
            self.assertEqual(expected, str(connection), str(nodes))


class TestACS(LayoutTestCase):
    def find(self, layout: layouts.Layout) -> dict[str, bool | None]:
        topology = self.read(layout)
        labels = matrix.label_devices(topology)
        return {
            f'{labels[one.address]} {labels[other.address]}': distance.connect(
                topology, one, other
            ).redirected
            for one, other in itertools.combinations(topology.devices, 2)
        }

    def test_ports_of_the_common_switch_decide(self) -> None:
        found = self.find(layouts.ONE_ROOT_PORT)
        # The ports of the first inner switch redirect, and so does the port
        # of the outer switch that it is behind.
        self.assertIs(True, found['GPU0 GPU1'])
        self.assertIs(True, found['GPU0 GPU2'])
        self.assertIs(False, found['GPU2 NIC1'])

    def test_a_port_that_the_requests_do_not_turn_at_does_not_count(
        self,
    ) -> None:
        text = layouts.ONE_ROOT_PORT.text.replace(
            '32:00.0 down acs', '32:00.0 down'
        )
        found = self.find(
            dataclasses.replace(layouts.ONE_ROOT_PORT, text=text)
        )
        self.assertIs(True, found['GPU0 GPU1'])
        self.assertIs(False, found['GPU0 GPU2'])

    def test_beyond_a_root_port_there_is_nothing_to_redirect(self) -> None:
        text = layouts.WORKSTATION.text.replace('root', 'root acs')
        found = self.find(dataclasses.replace(layouts.WORKSTATION, text=text))
        self.assertEqual({'GPU0 GPU1': False}, found)

    def test_it_is_unknown_without_root(self) -> None:
        text = layouts.SINGLE_SWITCH.text.replace('acs', 'acs secret')
        layout = dataclasses.replace(layouts.SINGLE_SWITCH, text=text)
        self.assertEqual({None}, set(self.find(layout).values()))
