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

"""The picture: everything is in it once, and it is valid whatever is in it."""

import dataclasses
from xml.etree import ElementTree

from nova_vgpu import values
from nova_vgpu.tests import layouts
from nova_vgpu.tests.unit.topology import test_layouts
from nova_vgpu.topology import picture

SVG = '{http://www.w3.org/2000/svg}'


class TestPicture(test_layouts.LayoutTestCase):
    def draw(self, topology: values.Topology) -> ElementTree.Element:
        text = picture.draw(topology, 'A < B')
        return ElementTree.fromstring(text)  # noqa: S314 - our own text

    def boxes(self, root: ElementTree.Element) -> list[list[str]]:
        return [
            [text.text or '' for text in box.findall(f'{SVG}text')]
            for box in root.findall(f'{SVG}g')
        ]

    def test_every_bridge_and_device_is_drawn_once(self) -> None:
        for name, layout in layouts.LAYOUTS.items():
            topology = self.read(layout)
            expected = {str(device.address) for device in topology.devices}
            expected |= {
                str(bridge.address)
                for device in topology.devices
                for bridge in device.bridges
            }
            found = [
                line
                for box in self.boxes(self.draw(topology))
                for line in box
                if line in expected
            ]
            self.assertEqual(sorted(expected), sorted(found), name)

    def test_every_box_but_a_numa_node_hangs_on_another(self) -> None:
        root = self.draw(self.read(layouts.ONE_ROOT_PORT))
        boxes = self.boxes(root)
        nodes = [box for box in boxes if box[0].startswith('NUMA')]
        self.assertEqual([['NUMA node 0']], nodes)
        lines = root.findall(f'{SVG}path')
        self.assertEqual(len(boxes) - 1, len(lines))

    def test_a_port_that_redirects_is_marked(self) -> None:
        boxes = self.boxes(self.draw(self.read(layouts.SINGLE_SWITCH)))
        self.assertIn(
            ['downstream port', '0000:3c:04.0', 'ACS redirects'], boxes
        )
        self.assertIn(['upstream port', '0000:3b:00.0'], boxes)

    def test_nvlinks_are_said(self) -> None:
        for layout, expected in (
            (layouts.NVSWITCH, '12 NVLinks to NVSwitch'),
            (layouts.MESH, 'NVLinks to GPU1, GPU2…'),
        ):
            first = [
                box
                for box in self.boxes(self.draw(self.read(layout)))
                if box[0].startswith('GPU0')
            ]
            self.assertEqual(expected, first[0][-1])

    def test_boxes_do_not_cover_each_other(self) -> None:
        root = self.draw(self.read(layouts.NVSWITCH))
        places = [
            (rect.attrib['x'], rect.attrib['y'])
            for rect in root.iter(f'{SVG}rect')
        ]
        self.assertEqual(len(set(places)), len(places))

    def test_names_with_markup_are_text(self) -> None:
        topology = self.read(layouts.GPUS_AND_NIC)
        name = '<b>&"'
        topology = dataclasses.replace(
            topology,
            devices=tuple(
                dataclasses.replace(device, name=name)
                for device in topology.devices
            ),
        )
        names = [box[0] for box in self.boxes(self.draw(topology))]
        self.assertIn(f'NIC0 {name}', names)

    def test_a_host_without_devices(self) -> None:
        self.assertEqual([], self.boxes(self.draw(values.Topology())))
