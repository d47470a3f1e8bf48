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

"""How a topology is read, also where files are missing or broken."""

import dataclasses
import pathlib

import fixtures
import testtools

from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import pcie
from nova_vgpu.host import sysfs
from nova_vgpu.sandbox import pcie_layout
from nova_vgpu.sandbox import tree
from nova_vgpu.tests import layouts


class ReadingTestCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.sysfs = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def write(self, text: str) -> None:
        tree.write_tree(pcie_layout.parse(text), self.sysfs)

    def read(self) -> values.Topology:
        tree = files.Files(str(self.sysfs))
        return pcie.read_topology(tree, sysfs.read_host(tree))

    def bus(self, address: str) -> pathlib.Path:
        return self.sysfs / 'bus/pci/devices' / address


class TestDevices(ReadingTestCase):
    def test_a_card_is_one_device_with_all_of_its_ports(self) -> None:
        self.write(layouts.GPUS_AND_NIC.text)
        *_, card = self.read().devices
        self.assertEqual(
            (values.DeviceKind.NIC, '0000:9a:00.0', 'mlx5_0, mlx5_1', (7, 8)),
            (card.kind, str(card.address), card.name, card.iommu_groups),
        )

    def test_virtual_functions_and_sound_are_not_listed(self) -> None:
        self.write(
            """
            0000:00:01.1 root
                0000:01:00.0 A40 vfs=4
                0000:01:00.1 GPU_AUDIO
            0000:00:01.2 root
                0000:02:00.0 CONNECTX_6 vfs=8
            """
        )
        self.assertEqual(
            ['0000:01:00.0', '0000:02:00.0'],
            [str(device.address) for device in self.read().devices],
        )

    def test_the_chain_of_bridges_with_their_ports(self) -> None:
        self.write(layouts.BRIDGE_CHAIN.text)
        gpu = self.read().devices[0]
        self.assertEqual('0000:20', gpu.host_bridge)
        self.assertEqual(
            [
                ('0000:20:01.0', 'root port'),
                ('0000:21:00.0', 'upstream port'),
                ('0000:22:00.0', 'downstream port'),
                ('0000:23:00.0', 'upstream port'),
                ('0000:24:00.0', 'downstream port'),
                ('0000:25:00.0', 'bridge'),
            ],
            [(str(b.address), b.port and b.port.value) for b in gpu.bridges],
        )

    def test_a_card_without_rdma_has_the_names_of_its_interfaces(self) -> None:
        self.write('0000:01:00.0 NETWORK_CARD\n')
        (self.bus('0000:01:00.0') / 'net' / 'ens1f0').mkdir(parents=True)
        self.assertEqual('ens1f0', self.read().devices[0].name)

    def test_the_last_host_bridge_on_the_way_counts(self) -> None:
        """Intel's volume management device has PCI domains of its own."""
        self.write('0000:01:00.0 T4\n')
        link = self.bus('0000:01:00.0')
        real = link.resolve()
        link.unlink()
        place = self.sysfs / 'devices/pci0000:00/0000:00:05.5/pci10000:00'
        place.mkdir(parents=True)
        real.rename(place / '0000:01:00.0')
        link.symlink_to(
            '../../../devices/pci0000:00/0000:00:05.5/pci10000:00/0000:01:00.0'
        )
        (gpu,) = self.read().devices
        self.assertEqual(('10000:00', ()), (gpu.host_bridge, gpu.bridges))


class TestMissing(ReadingTestCase):
    def test_numa_nodes(self) -> None:
        self.write(
            """
            0000:01:00.0 T4
            0000:02:00.0 T4 numa=-1
            0000:03:00.0 T4 numa=1
            """
        )
        (self.bus('0000:01:00.0') / 'numa_node').write_text('mess\n')
        found = self.read()
        self.assertEqual(0, found.numa_nodes)
        self.assertEqual(
            [None, None, 1], [device.numa_node for device in found.devices]
        )

    def test_a_bridge_without_its_directory_on_the_bus(self) -> None:
        self.write(layouts.SINGLE_SWITCH.text)
        self.bus('0000:3b:00.0').unlink()
        found = self.read()
        self.assertEqual(3, len(found.devices))
        bridge = found.devices[0].bridges[1]
        self.assertEqual(
            ('0000:3b:00.0', None, None),
            (str(bridge.address), bridge.port, bridge.redirects),
        )

    def test_a_device_without_a_place_is_a_fault_and_others_are_read(
        self,
    ) -> None:
        self.write(layouts.TWO_SOCKETS.text)
        link = self.bus('0000:01:00.0')
        real = link.resolve()
        link.unlink()
        (self.sysfs / 'elsewhere').mkdir()
        real.rename(self.sysfs / 'elsewhere/0000:01:00.0')
        link.symlink_to('../../../elsewhere/0000:01:00.0')
        found = self.read()
        self.assertEqual(4, len(found.devices))
        (fault,) = found.faults
        self.assertEqual('pci_0000_01_00_0', fault.device)
        self.assertIn('host bridge', fault.reason)

    def test_a_bridge_with_a_name_that_is_not_an_address(self) -> None:
        self.write('0000:01:00.0 T4\n')
        link = self.bus('0000:01:00.0')
        real = link.resolve()
        link.unlink()
        place = self.sysfs / 'devices/pci0000:00/mess'
        place.mkdir(parents=True)
        real.rename(place / '0000:01:00.0')
        link.symlink_to('../../../devices/pci0000:00/mess/0000:01:00.0')
        found = self.read()
        self.assertEqual((), found.devices)
        self.assertIn("'mess' is not a PCI address", found.faults[0].reason)

    def test_a_class_that_cannot_be_read(self) -> None:
        self.write('0000:01:00.0 T4\n0000:02:00.0 NETWORK_CARD\n')
        host = sysfs.read_host(files.Files(str(self.sysfs)))
        (self.bus('0000:02:00.0') / 'class').write_text('mess\n')
        found = pcie.read_topology(files.Files(str(self.sysfs)), host)
        self.assertEqual(1, len(found.devices))
        self.assertEqual('pci_0000_02_00_0', found.faults[0].device)

    def test_a_parent_of_mdevs_that_is_not_on_the_bus(self) -> None:
        simulated = dataclasses.replace(
            pcie_layout.parse('0000:01:00.0 T4\n'), mtty=True
        )
        tree.write_tree(simulated, self.sysfs)
        self.assertEqual(1, len(self.read().devices))
