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

"""IOMMU groups and displays, read from sysfs."""

import dataclasses
import pathlib

import fixtures
import testtools

from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import isolation
from nova_vgpu.host import source
from nova_vgpu.host import sysfs
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import tree
from nova_vgpu.tests import hosts

T4 = hosts.gpu('84:00.0', boards.T4)


class TestIsolation(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def read(self, *cards: simulation.GPU) -> values.IsolationRead:
        tree.write_tree(simulation.SimulatedHost(cards), self.root)
        return self.read_again()

    def read_again(self) -> values.IsolationRead:
        its = files.Files(str(self.root))
        return isolation.read_isolation(its, sysfs.read_host(its))

    def read_t4(self, *others: simulation.GPU) -> values.GPUIsolation:
        return self.read(T4, *others).of(hosts.make_gpu(T4))

    def test_what_is_in_the_group_of_a_gpu(self) -> None:
        bridge = dataclasses.replace(
            hosts.gpu('80:01.0', boards.SWITCH_PORT),
            slot=simulation.Slot(iommu_group=0x8400),
        )
        audio = hosts.gpu('84:00.1', boards.GPU_AUDIO, driver=None)
        other = hosts.gpu('85:00.0', boards.T4)
        self.assertEqual(
            values.GPUIsolation(
                0x8400,
                (
                    values.PciFunction(bridge.address, 0x060400, 'pcieport'),
                    values.PciFunction(audio.address, 0x040300, None),
                ),
            ),
            self.read_t4(bridge, audio, other),
        )

    def test_without_an_iommu_there_are_no_groups(self) -> None:
        without = dataclasses.replace(T4, iommu=False)
        read = self.read(without)
        self.assertFalse(read.has_iommu)
        self.assertEqual(
            values.GPUIsolation(), read.of(hosts.make_gpu(without))
        )

    def test_vfs_are_not_in_the_group_of_their_gpu(self) -> None:
        a40 = hosts.gpu('41:00.0', boards.A40, vfs=4)
        read = self.read(a40)
        self.assertTrue(read.has_iommu)
        self.assertEqual((), read.of(hosts.make_gpu(a40)).others)

    def test_a_display_by_boot_vga_or_by_a_framebuffer(self) -> None:
        for shown in (False, True):
            self.root = self.root / 'next'
            card = dataclasses.replace(
                hosts.gpu('00:02.0', boards.HD_530), display=shown
            )
            found = self.read(card, T4).of(hosts.make_gpu(card))
            self.assertEqual(shown, found.is_display)
        t4 = hosts.make_gpu(T4)
        self.assertFalse(self.read_again().of(t4).is_display)
        pci = self.root / 'bus/pci/devices/0000:84:00.0'
        (pci / 'graphics/fb0').mkdir(parents=True)
        self.assertTrue(self.read_again().of(t4).is_display)

    def test_what_cannot_be_read_is_unknown(self) -> None:
        self.read(T4)
        pci = self.root / 'bus/pci/devices/0000:84:00.0'
        (pci / 'iommu_group').unlink()
        (pci / 'iommu_group').symlink_to('nowhere')
        found = self.read_again().of(hosts.make_gpu(T4))
        self.assertIn('nowhere', found.unknown_because or '')

    def test_of_another_machine_it_is_unknown(self) -> None:
        remote = source.HostSource('qemu+ssh://other/system')
        host = hosts.make_host(T4)
        found = remote.read_isolation(host)
        self.assertIn('sysfs', found.of(host.gpus[0]).unknown_because or '')
        self.assertEqual(found, remote.add_processes(host, found))

    def test_a_parent_that_is_not_a_pci_device_is_unknown(self) -> None:
        found = self.read(T4).of(values.PhysicalGPU('mtty_mtty'))
        self.assertEqual('it is not a PCI device', found.unknown_because)

    def test_processes_are_those_of_each_gpu(self) -> None:
        read = self.read(T4, hosts.gpu('85:00.0', boards.T4))
        assert T4.address is not None
        found = isolation.add_processes(read, {T4.address: (7, 9)})
        self.assertEqual([(7, 9), ()], [of.processes for _, of in found.gpus])
