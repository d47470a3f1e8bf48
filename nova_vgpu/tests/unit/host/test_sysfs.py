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

"""Every kind of GPU, read from a tree that is laid out as the kernel does."""

import dataclasses
import pathlib

import fixtures
import testtools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import sysfs
from nova_vgpu.knowledge import vendors
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import tree
from nova_vgpu.tests import hosts

A2 = dataclasses.replace(boards.A10, device=0x25B6, total_vfs=16)

T4 = hosts.gpu('84:00.0', boards.T4)
A40 = hosts.gpu('41:00.0', boards.A40, vfs=8)
L40S = hosts.gpu('c8:00.0', boards.L40S, vfs=8, vendor_vfio=True)


class SysfsTestCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def write(self, *cards: simulation.GPU, mtty: bool = False) -> None:
        tree.write_tree(simulation.SimulatedHost(cards, mtty), self.root)

    def read(self) -> values.Host:
        return sysfs.read_host(files.Files(str(self.root)))

    def device(self, address: str) -> pathlib.Path:
        return self.root / 'bus/pci/devices' / address

    def read_gpu(self, *cards: simulation.GPU) -> values.PhysicalGPU:
        self.write(*cards)
        host = self.read()
        self.assertEqual((), host.faults)
        (gpu,) = host.gpus
        return gpu


class TestKinds(SysfsTestCase):
    def test_every_kind_is_read_as_it_is(self) -> None:
        for case, card in (
            ('T4', T4),
            ('T4 with vGPUs', hosts.gpu('84:00.0', boards.T4, 'nvidia-231')),
            ('A40 on VFs', A40),
            (
                'A40 with vGPUs',
                hosts.gpu('41:00.0', boards.A40, 'nvidia-562', vfs=8),
            ),
            ('L40S, vendor VFIO', L40S),
            (
                'L40S, full',
                hosts.gpu(
                    'c8:00.0',
                    boards.L40S,
                    'nvidia-1155',
                    'nvidia-1155',
                    vfs=8,
                    vendor_vfio=True,
                ),
            ),
            ('GVT-g', hosts.gpu('00:02.0', boards.HD_530)),
            ('another domain', hosts.gpu('0001:c8:00.0', boards.A10, vfs=2)),
            ('a VMD domain', hosts.gpu('10000:01:00.0', boards.T4)),
            ('VFs off', hosts.gpu('c1:00.0', boards.A40)),
            (
                'no driver',
                hosts.gpu(
                    '84:00.0', boards.T4, driver=None, types_ready=False
                ),
            ),
            (
                'left on the stub driver',
                hosts.gpu('c1:00.0', boards.A40, driver='pci-pf-stub'),
            ),
            (
                'types late',
                hosts.gpu('41:00.0', boards.A40, vfs=8, types_ready=False),
            ),
            (
                'AMD, processing accelerator',
                hosts.gpu('a1:00.0', boards.INSTINCT_MI210),
            ),
        ):
            self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
            self.write(card)
            self.assertEqual(hosts.make_host(card), self.read(), case)

    def test_the_kernels_sample_parent(self) -> None:
        self.write(mtty=True)
        (gpu,) = self.read().gpus
        self.assertEqual('mtty_mtty', gpu.name)
        self.assertIsNone(gpu.address)
        self.assertEqual(
            [('mtty-1', 'Single port serial'), ('mtty-2', 'Dual port serial')],
            [(t.id, t.name) for t in gpu.types],
        )

    def test_a_mixed_host_in_order_of_address(self) -> None:
        cards = (
            hosts.gpu('00:02.0', boards.HD_530),
            A40,
            T4,
            L40S,
            hosts.gpu('e1:00.0', boards.NETWORK_CARD),
            hosts.gpu('0001:01:00.0', boards.T4),
            hosts.gpu('2000:01:00.0', boards.T4),
            hosts.gpu('10000:01:00.0', boards.T4),
        )
        self.write(*reversed(cards), mtty=True)
        self.assertEqual(hosts.make_host(*cards, mtty=True), self.read())

    def test_what_is_no_gpu_is_known_to_be_there(self) -> None:
        card = hosts.gpu('e1:00.0', boards.NETWORK_CARD)
        self.write(card)
        self.assertEqual(
            values.Host(other_functions=frozenset({card.address})),
            self.read(),
        )

    def test_which_classes_are_gpus(self) -> None:
        for case, vendor, pci_class, expected in (
            ('NVIDIA, VGA', 0x10DE, 0x030000, True),
            ('NVIDIA, 3D', 0x10DE, 0x030200, True),
            ('Intel, other display', 0x8086, 0x038000, True),
            ('AMD, accelerator', 0x1002, 0x120000, True),
            ('NVIDIA, sound', 0x10DE, 0x040300, False),
            ('NVIDIA, bridge', 0x10DE, 0x068000, False),
            ('Intel, network', 0x8086, 0x020000, False),
            ('ASPEED, VGA', 0x1A03, 0x030000, False),
        ):
            found = vendors.is_gpu(vendor, pci_class)
            self.assertEqual(expected, found, case)

    def test_hardware_that_does_not_tell_where_its_vfs_would_be(self) -> None:
        silent = dataclasses.replace(A2, vf_offset=0, vf_stride=0)
        gpu = self.read_gpu(hosts.gpu('08:00.0', silent))
        self.assertEqual(values.Sriov(16), gpu.sriov)

    def test_an_a2_and_its_functions(self) -> None:
        gpu = self.read_gpu(hosts.gpu('08:00.0', A2, vfs=16))
        self.assertEqual(values.Sriov(16, 4, 1), gpu.sriov)
        addresses = [str(vf.address) for vf in gpu.vfs]
        self.assertEqual(16, len(addresses))
        self.assertEqual('0000:08:00.4', addresses[0])
        self.assertEqual('0000:08:01.0', addresses[4])
        self.assertEqual('0000:08:02.3', addresses[15])

    def test_a_host_without_sysfs(self) -> None:
        error = self.assertRaises(exception.HostUnreadable, self.read)
        self.assertIn(str(self.root), str(error))
        self.assertIn('--sysfs-root', str(error))

    def test_a_host_without_devices(self) -> None:
        self.write()
        self.assertEqual(values.Host(), self.read())


class TestDetails(SysfsTestCase):
    def test_a_list_without_its_header_line(self) -> None:
        self.write(L40S)
        with_header = self.read()
        for vf in with_header.gpus[0].vfs:
            path = self.device(str(vf.address)) / 'nvidia/creatable_vgpu_types'
            header, _, rest = path.read_text().partition('\n')
            self.assertEqual('ID    : vGPU Name', header)
            path.write_text(rest)
        self.assertEqual(with_header, self.read())

    def test_a_parent_is_called_what_libvirt_calls_it(self) -> None:
        self.write()
        types = self.root / 'devices/css0/0.0.26ab/mdev_supported_types'
        (types / 'vfio_ccw-io').mkdir(parents=True)
        (types / 'vfio_ccw-io/available_instances').write_text('4\n')
        (types.parent / 'subsystem').symlink_to('../../../bus/css')
        bus = self.root / 'class/mdev_bus'
        bus.mkdir(parents=True)
        (bus / '0.0.26ab').symlink_to('../../devices/css0/0.0.26ab')
        (gpu,) = self.read().gpus
        self.assertEqual('css_0_0_26ab', gpu.name)
        self.assertTrue(gpu.is_other_device)

    def test_a_list_of_types_as_it_was_seen_on_a_host(self) -> None:
        self.write(hosts.gpu('c8:00.0', boards.L40S, vfs=1, vendor_vfio=True))
        path = self.device('0000:c8:00.4') / 'nvidia/creatable_vgpu_types'
        for case, text, expected in (
            (
                'without a header',
                '1428 : NVIDIA H200X-141C\n',
                [('nvidia-1428', 'NVIDIA H200X-141C')],
            ),
            (
                'with one',
                'ID    : vGPU Name\n1145  : NVIDIA L40S-1B\n'
                '1146  : NVIDIA L40S-2B\n',
                [
                    ('nvidia-1145', 'NVIDIA L40S-1B'),
                    ('nvidia-1146', 'NVIDIA L40S-2B'),
                ],
            ),
            ('of a full card', 'ID    : vGPU Name\n', []),
            ('empty', '', []),
            (
                'with blank lines and tabs',
                '\nID : vGPU Name\n\n 1428\t: NVIDIA H200X-141C \n\n \n',
                [('nvidia-1428', 'NVIDIA H200X-141C')],
            ),
        ):
            path.write_text(text)
            (gpu,) = self.read().gpus
            self.assertEqual(
                expected, [(t.id, t.name) for t in gpu.types], case
            )
            self.assertEqual(values.Framework.VENDOR_VFIO, gpu.framework, case)

    def test_a_function_that_is_set_to_a_type_takes_no_other(self) -> None:
        self.write(L40S)
        function = self.device('0000:c8:00.4') / 'nvidia'
        (function / 'current_vgpu_type').write_text('1155\n')
        vf = self.read().gpus[0].vfs[0]
        self.assertEqual((), vf.offers)
        self.assertEqual(
            (values.VGPU('pci_0000_c8_00_4', 'nvidia-1155'),), vf.vgpus
        )

    def test_types_without_a_name_or_a_description(self) -> None:
        self.write(T4)
        types = self.device('0000:84:00.0') / 'mdev_supported_types'
        (types / 'nvidia-231/name').unlink()
        (types / 'nvidia-232/description').unlink()
        host = self.read()
        self.assertEqual((), host.faults)
        by_id = {t.id: t for t in host.gpus[0].types}
        self.assertIsNone(by_id['nvidia-231'].name)
        self.assertEqual(8, by_id['nvidia-231'].facts.max_instances)
        self.assertEqual('GRID T4-4Q', by_id['nvidia-232'].name)
        self.assertEqual(values.TypeFacts(), by_id['nvidia-232'].facts)

    def test_a_board_without_a_subsystem(self) -> None:
        self.write(T4)
        (self.device('0000:84:00.0') / 'subsystem_device').unlink()
        host = self.read()
        self.assertEqual((), host.faults)
        self.assertEqual(values.PciIds(0x10DE, 0x1EB8), host.gpus[0].ids)

    def test_a_gpu_that_could_have_no_functions(self) -> None:
        self.write(hosts.gpu('c1:00.0', boards.A40))
        (self.device('0000:c1:00.0') / 'sriov_totalvfs').write_text('0\n')
        self.assertIsNone(self.read().gpus[0].sriov)

    def test_an_older_kernel_tells_no_offset(self) -> None:
        self.write(hosts.gpu('c1:00.0', boards.A40))
        (self.device('0000:c1:00.0') / 'sriov_offset').unlink()
        host = self.read()
        self.assertEqual((), host.faults)
        self.assertEqual(values.Sriov(32), host.gpus[0].sriov)


class TestFaults(SysfsTestCase):
    def test_what_cannot_be_read_is_named_and_the_rest_is_read(self) -> None:
        for case, path, text, device, gpus in (
            ('no vendor', '84:00.0/vendor', 'x', 'pci_0000_84_00_0', 1),
            ('no class', '84:00.0/class', '', 'pci_0000_84_00_0', 1),
            ('no device', '84:00.0/device', '-1', 'pci_0000_84_00_0', 1),
            (
                'no subsystem',
                '84:00.0/subsystem_device',
                'many',
                'pci_0000_84_00_0',
                2,
            ),
            (
                'a count that is none',
                '84:00.0/mdev_supported_types/nvidia-231/available_instances',
                'many',
                'pci_0000_84_00_0',
                2,
            ),
            (
                'VFs without number',
                '41:00.0/sriov_totalvfs',
                'all',
                'pci_0000_41_00_0',
                2,
            ),
            (
                'a count of a VF',
                '41:00.4/mdev_supported_types/nvidia-557/available_instances',
                '-1',
                'pci_0000_41_00_4',
                2,
            ),
        ):
            self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
            self.write(hosts.gpu('41:00.0', boards.A40, vfs=2), T4)
            (self.device(f'0000:{path}')).write_text(text)
            host = self.read()
            (fault,) = host.faults
            self.assertEqual(device, fault.device, case)
            self.assertIn(path, fault.source, case)
            self.assertEqual(gpus, len(host.gpus), case)
            self.assertNotIn(
                values.PciAddress.parse('84:00.0'), host.other_functions, case
            )

    def test_a_name_on_the_bus_that_is_no_address(self) -> None:
        self.write(T4)
        (self.root / 'bus/pci/devices/rubbish').mkdir()
        host = self.read()
        self.assertEqual(1, len(host.gpus))
        self.assertEqual('rubbish', host.faults[0].device)

    def test_a_function_whose_state_is_not_told_is_not_on_offer(self) -> None:
        self.write(L40S)
        function = self.device('0000:c8:00.4') / 'nvidia'
        (function / 'current_vgpu_type').unlink()
        host = self.read()
        vf = host.gpus[0].vfs[0]
        self.assertEqual(((), ()), (vf.offers, vf.vgpus))
        self.assertEqual('pci_0000_c8_00_4', host.faults[0].device)

    def test_a_link_to_a_function_that_is_gone(self) -> None:
        self.write(hosts.gpu('41:00.0', boards.A40, vfs=2))
        self.device('0000:41:00.5').unlink()
        host = self.read()
        self.assertEqual(1, len(host.gpus[0].vfs))
        self.assertIn('0000:41:00.5', host.faults[0].reason)
