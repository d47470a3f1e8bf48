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

"""The same host, described once, through sysfs and through real libvirt.

libvirt's own test driver (``test:///<file>``) serves the node devices through
the real library, with no daemon and no GPU.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import pathlib
import re
import uuid

import fixtures
import libvirt
import testtools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import libvirt_nodes
from nova_vgpu.host import source as host_source
from nova_vgpu.host import sysfs
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import node_devices
from nova_vgpu.sandbox import tree
from nova_vgpu.tests import hosts

CARDS = (
    ('T4', hosts.gpu('84:00.0', boards.T4)),
    (
        'T4 with vGPUs',
        hosts.gpu('85:00.0', boards.T4, 'nvidia-231', 'nvidia-231'),
    ),
    ('A40 on VFs', hosts.gpu('41:00.0', boards.A40, vfs=32)),
    (
        'A40 with vGPUs',
        hosts.gpu('42:00.0', boards.A40, 'nvidia-562', 'nvidia-562', vfs=8),
    ),
    (
        'A40, some VFs only',
        hosts.gpu('43:00.0', boards.A40, vfs=3),
    ),
    ('A40, VFs off', hosts.gpu('c1:00.0', boards.A40)),
    (
        'A40, types late',
        hosts.gpu('c2:00.0', boards.A40, vfs=4, types_ready=False),
    ),
    (
        'A40, left on the stub driver',
        hosts.gpu('c3:00.0', boards.A40, driver='pci-pf-stub'),
    ),
    (
        'L40S, vendor VFIO, another domain',
        hosts.gpu('0001:c8:00.0', boards.L40S, vfs=32, vendor_vfio=True),
    ),
    (
        'L40S with a vGPU',
        hosts.gpu(
            'c8:00.0', boards.L40S, 'nvidia-1155', vfs=8, vendor_vfio=True
        ),
    ),
    (
        'L40S, full',
        hosts.gpu(
            'c9:00.0', boards.L40S, 'nvidia-1156', vfs=8, vendor_vfio=True
        ),
    ),
    (
        'A10 in another domain',
        hosts.gpu('0002:01:00.0', boards.A10, 'nvidia-590', vfs=4),
    ),
    (
        'A10 whose types come in no order',
        hosts.gpu(
            '44:00.0',
            dataclasses.replace(boards.A10, types=boards.A10.types[::-1]),
            vfs=2,
        ),
    ),
    ('T4 in a VMD domain', hosts.gpu('10000:01:00.0', boards.T4)),
    ('GVT-g without names', hosts.gpu('00:02.0', boards.HD_530)),
    (
        'GVT-g with a vGPU',
        hosts.gpu('00:03.0', boards.HD_530, 'i915-GVTg_V5_4'),
    ),
    ('VFs that xe provisions', hosts.gpu('3:0.0', boards.ARC_PRO_B60, vfs=4)),
    ('VFs of i915', hosts.gpu('00:04.0', boards.UHD_770, vfs=2)),
    ('AMD', hosts.gpu('a1:00.0', boards.INSTINCT_MI210)),
    ('AMD with GIM', hosts.mi300x('a2:00.0')),
    (
        'no driver',
        hosts.gpu('86:00.0', boards.T4, driver=None, types_ready=False),
    ),
    ('no GPU', hosts.gpu('e1:00.0', boards.NETWORK_CARD)),
)


class Device:
    """A node device of a connection that is not libvirt's."""

    def __init__(self, name: str, xml: str) -> None:
        self._name = name
        self._xml = xml

    def name(self) -> str:
        return self._name

    def XMLDesc(self, flags: int = 0) -> str:
        return self._xml


class Connection:
    """Node devices without libvirt.

    Its test driver refuses to load a virtual parent of mdevs (``unknown
    capability type 'mdev_types'``), which real hosts do have.
    """

    def __init__(self, devices: Mapping[str, str]) -> None:
        self._devices = devices

    def listAllDevices(self, flags: int = 0) -> Iterable[Device]:
        return [Device(name, xml) for name, xml in self._devices.items()]


class FilteringConnection(Connection):
    """What a libvirt since 7.3 does: it lists what is inactive as well."""

    def __init__(self, active: Mapping[str, str], inactive: str) -> None:
        super().__init__(active)
        self._inactive = inactive

    def listAllDevices(self, flags: int = 0) -> Iterable[Device]:
        devices = list(super().listAllDevices(flags))
        if not flags & libvirt.VIR_CONNECT_LIST_NODE_DEVICES_ACTIVE:
            devices.append(Device('mdev_inactive', self._inactive))
        return devices


class OtherLibvirtsTest(testtools.TestCase):
    """What libvirt's test driver does not show."""

    def setUp(self) -> None:
        super().setUp()
        card = hosts.gpu('84:00.0', boards.T4, 'nvidia-231')
        self.xml = node_devices.list_device_xml(
            simulation.SimulatedHost((card,))
        )
        self.host = libvirt_nodes.read_host(Connection(self.xml))
        self.assertEqual(1, len(self.host.gpus[0].vgpus))

    def test_an_mdev_that_is_only_defined_is_no_vgpu(self) -> None:
        (mdev,) = (xml for name, xml in self.xml.items() if 'mdev_' in name)
        (vgpu,) = self.host.gpus[0].vgpus
        other = mdev.replace(str(vgpu.uuid), str(uuid.uuid4()))
        connection = FilteringConnection(self.xml, other)
        self.assertEqual(self.host, libvirt_nodes.read_host(connection))

    def test_the_uuid_is_taken_from_the_name_before_libvirt_7_3(self) -> None:
        old = {
            name: re.sub('<uuid>[^<]*</uuid>', '', xml)
            for name, xml in self.xml.items()
        }
        self.assertEqual(self.host, libvirt_nodes.read_host(Connection(old)))

    def test_a_gpu_is_known_by_its_types_before_libvirt_5_2(self) -> None:
        old = {
            name: re.sub('<class>[^<]*</class>', '', xml)
            for name, xml in self.xml.items()
        }
        self.assertEqual(self.host, libvirt_nodes.read_host(Connection(old)))


class ReadersTestCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.make_directory()

    def make_directory(self) -> None:
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.sysfs = directory / 'sys'
        self.xml = directory / 'node.xml'

    def write(self, *cards: simulation.GPU, mtty: bool = False) -> None:
        simulated = simulation.SimulatedHost(cards, mtty)
        tree.write_tree(simulated, self.sysfs)
        self.xml.write_text(node_devices.write_node_xml(simulated))

    def through_libvirt(self, with_sysfs: bool = True) -> values.Host:
        return host_source.HostSource(
            f'test://{self.xml}', str(self.sysfs) if with_sysfs else None
        ).read_host()

    def through_sysfs(self) -> values.Host:
        return sysfs.read_host(files.Files(str(self.sysfs)))


class TestReaders(ReadersTestCase):
    def test_each_kind_is_the_same_through_both(self) -> None:
        for case, card in CARDS:
            self.make_directory()
            self.write(card)
            host = self.through_sysfs()
            self.assertEqual((), host.faults, case)
            self.assertEqual(host, self.through_libvirt(), case)
            self.assertEqual(host, hosts.make_host(card), case)

    def test_a_mixed_host_is_the_same_through_both(self) -> None:
        self.write(*(card for _case, card in CARDS))
        host = self.through_sysfs()
        self.assertEqual(len(CARDS) - 1, len(host.gpus))
        self.assertEqual(host, self.through_libvirt())

    def test_an_empty_host_is_the_same_through_both(self) -> None:
        self.write()
        self.assertEqual(values.Host(), self.through_sysfs())
        self.assertEqual(values.Host(), self.through_libvirt())

    def test_a_sample_parent_is_the_same_through_both(self) -> None:
        # Not through libvirt's test driver: see Connection.
        cards = [card for _case, card in CARDS]
        self.write(*cards, mtty=True)
        simulated = simulation.SimulatedHost(tuple(cards), mtty=True)
        connection = Connection(node_devices.list_device_xml(simulated))
        found = libvirt_nodes.read_host(
            connection, files.Files(str(self.sysfs))
        )
        self.assertEqual('mtty_mtty', found.gpus[-1].name)
        self.assertEqual(self.through_sysfs(), found)


def without_facts(offer: values.Offer) -> values.Offer:
    return dataclasses.replace(
        offer, type=dataclasses.replace(offer.type, facts=values.TypeFacts())
    )


def without_sysfs(gpu: values.PhysicalGPU) -> values.PhysicalGPU:
    """A GPU less what libvirt's test driver does not tell by itself.

    The names of drivers are among that: the test driver drops them, libvirt
    on a host does not.
    """
    assert gpu.ids is not None
    return dataclasses.replace(
        gpu,
        ids=values.PciIds(gpu.ids.vendor, gpu.ids.device),
        driver=None,
        sriov=values.Sriov(gpu.sriov.total) if gpu.sriov else None,
        offers=tuple(map(without_facts, gpu.offers)),
        vf_profiles=None,
        vfs=tuple(
            values.VirtualFunction(vf.address)
            if vf.vendor_vfio
            else dataclasses.replace(
                vf, driver=None, offers=tuple(map(without_facts, vf.offers))
            )
            for vf in gpu.vfs
        ),
    )


class TestLibvirtAlone(ReadersTestCase):
    def test_the_same_less_what_only_sysfs_knows(self) -> None:
        self.write(*(card for _case, card in CARDS))
        host = self.through_sysfs()
        expected = dataclasses.replace(
            host, gpus=tuple(map(without_sysfs, host.gpus))
        )
        self.assertEqual(expected, self.through_libvirt(with_sysfs=False))

    def test_drivers_are_read_where_libvirt_names_them(self) -> None:
        card = hosts.gpu('41:00.0', boards.A40, vfs=1)
        simulated = simulation.SimulatedHost((card,))
        connection = Connection(node_devices.list_device_xml(simulated))
        (gpu,) = libvirt_nodes.read_host(connection).gpus
        self.assertEqual('nvidia', gpu.driver)
        self.assertEqual('nvidia', gpu.vfs[0].driver)

    def test_no_libvirt_to_be_had(self) -> None:
        for uri in ('nonsense:///system', 'qemu+none://x/system', 'x'):
            error = self.assertRaises(
                exception.HostUnreadable,
                host_source.HostSource(uri).read_host,
            )
            self.assertIn(uri, str(error))

    def test_the_nodes_name_is_libvirts(self) -> None:
        self.write()
        source = host_source.HostSource(f'test://{self.xml}')
        self.assertNotEqual('', source.get_node_name())

    def test_which_uris_are_about_this_machine(self) -> None:
        for uri, expected in (
            ('qemu:///system', True),
            ('qemu+unix:///system', True),
            ('qemu+ssh://root@compute1/system', False),
            ('qemu+tls://compute1/system', False),
            ('test:///default', False),
        ):
            self.assertEqual(expected, libvirt_nodes.is_local(uri), uri)
