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

"""What is said beside the matrix."""

import dataclasses

from nova_vgpu.tests import fabrics
from nova_vgpu.tests import layouts
from nova_vgpu.tests.unit.topology import test_layouts
from nova_vgpu.topology import notes


class TestNotes(test_layouts.LayoutTestCase):
    def assertNoted(self, layout: layouts.Layout, *words: str) -> None:
        """Exactly one note has these words."""
        found = [
            note
            for note in notes.find_notes(self.read(layout))
            if all(word in note for word in words)
        ]
        self.assertEqual(1, len(found), str(words))

    def assertNotNoted(self, layout: layouts.Layout, word: str) -> None:
        for note in notes.find_notes(self.read(layout)):
            self.assertNotIn(word, note)

    def test_why_nvlink_is_not_shown(self) -> None:
        self.assertNoted(layouts.SINGLE_SWITCH, 'NVLink is not shown')
        self.assertNotNoted(layouts.NVSWITCH, 'NVLink')

    def test_one_gpu_has_no_use_for_nvlink(self) -> None:
        layout = layouts.Layout('0000:01:00.0 T4\n', '')
        self.assertNotNoted(layout, 'NVLink')

    def test_gpus_that_nvml_does_not_see_are_named(self) -> None:
        text = layouts.NVSWITCH.text.replace(
            '0f:00.0 A100D', '0f:00.0 A100D passthrough'
        )
        layout = dataclasses.replace(layouts.NVSWITCH, text=text)
        self.assertNoted(layout, 'NVLink of GPU1 is', 'vfio-pci')

    def test_acs_needs_root(self) -> None:
        text = layouts.SINGLE_SWITCH.text.replace('acs', 'acs secret')
        layout = dataclasses.replace(layouts.SINGLE_SWITCH, text=text)
        self.assertNoted(layout, 'ACS is unknown', 'as root')
        self.assertNotNoted(layouts.SINGLE_SWITCH, 'ACS')

    def test_a_virtual_machine_is_recognised(self) -> None:
        self.assertNoted(
            layouts.VIRTUAL_MACHINE, '0000:00:02.0', 'virtual machine'
        )
        self.assertNotNoted(layouts.WORKSTATION, 'virtual')

    def test_devices_without_a_numa_node(self) -> None:
        self.assertNoted(
            layouts.VIRTUAL_MACHINE, 'GPU0, GPU1, NIC0 is unknown', 'SYS'
        )
        self.assertNotNoted(layouts.NO_NUMA, 'NUMA')

    def test_devices_that_share_an_iommu_group(self) -> None:
        text = layouts.SINGLE_SWITCH.text.replace('group=41', 'group=40')
        layout = dataclasses.replace(layouts.SINGLE_SWITCH, text=text)
        self.assertNoted(layout, 'GPU0, GPU1 are in IOMMU group 40')
        self.assertNotNoted(layouts.SINGLE_SWITCH, 'IOMMU')

    def test_ports_of_one_card_may_share_a_group(self) -> None:
        text = layouts.GPUS_AND_NIC.text.replace('group=8', 'group=7')
        layout = dataclasses.replace(layouts.GPUS_AND_NIC, text=text)
        self.assertNotNoted(layout, 'IOMMU')

    def test_an_iommu_that_is_off(self) -> None:
        self.assertNoted(layouts.WORKSTATION, 'the IOMMU is off')

    def test_what_vgpus_cannot_do(self) -> None:
        layout = dataclasses.replace(
            layouts.SINGLE_SWITCH, nvml=fabrics.FabricNVML({})
        )
        topology = self.read(layout)
        sharing = [device.address for device in topology.devices[:2]]
        (note,) = (
            note
            for note in notes.find_notes(topology, sharing)
            if 'vGPU' in note
        )
        self.assertIn('GPU0, GPU1', note)
        self.assertIn('NVLink only', note)
        # One GPU with vGPUs: there is nothing to reach.
        for note in notes.find_notes(topology, sharing[:1]):
            self.assertNotIn('vGPU', note)
