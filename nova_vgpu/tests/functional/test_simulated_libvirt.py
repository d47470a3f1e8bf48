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

"""libvirt of a simulated machine keeps the rules of a real one."""

import typing

import libvirt
import testtools

from nova_vgpu import values
from nova_vgpu.host import guests
from nova_vgpu.host import libvirt_nodes
from nova_vgpu.host import sysfs
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import machine
from nova_vgpu.tests import hosts

PCI = ('bus', 'pci', 'devices')
GPU, T4, L40S = '0000:41:00.0', '0000:84:00.0', '0001:c8:00.0'
VF, VENDOR_VF = '0000:41:00.4', '0001:c8:00.4'
PARENT, T4_PARENT = 'pci_0000_41_00_4', 'pci_0000_84_00_0'
UUID, OTHER = (f'{n}aaaaaaa-0000-4000-8000-000000000000' for n in (1, 2))
A40_8Q, A40_24Q, T4_2Q = 'nvidia-562', 'nvidia-565', 'nvidia-231'

MDEV = libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV
TYPES = libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV_TYPES
PCI_DEVICES = libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV
NETWORK = libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_NET
ACTIVE = libvirt.VIR_CONNECT_LIST_NODE_DEVICES_ACTIVE
INACTIVE = libvirt.VIR_CONNECT_LIST_NODE_DEVICES_INACTIVE


def write_xml(
    uuid: str = UUID, type_id: str = A40_8Q, parent: str = PARENT
) -> str:
    return (
        f'<device><parent>{parent}</parent><capability type="mdev">'
        f'<type id="{type_id}"/><uuid>{uuid}</uuid></capability></device>'
    )


class LibvirtTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.boot(hosts.gpu(GPU, boards.A40, vfs=4), hosts.gpu(T4, boards.T4))

    def boot(self, *gpus: simulation.GPU) -> None:
        self.machine = machine.Machine(*gpus)
        self.kernel = self.machine.kernel
        self.libvirt = self.machine.libvirt

    def define(self, **described: str) -> typing.Any:
        return self.libvirt.nodeDeviceDefineXML(write_xml(**described))

    def create(self, **described: str) -> typing.Any:
        return self.libvirt.nodeDeviceCreateXML(write_xml(**described))

    def list_mdevs(self, flags: int = 0) -> list[str]:
        """UUIDs of what libvirt lists."""
        found = self.libvirt.listAllDevices(MDEV | flags)
        return [
            device.name().removeprefix('mdev_')[:36].replace('_', '-')
            for device in found
        ]

    def list_in_sysfs(self) -> list[str]:
        return [
            str(vgpu.uuid)
            for gpu in sysfs.read_host(self.kernel.files).gpus
            for vgpu in (*gpu.vgpus, *(v for vf in gpu.vfs for v in vf.vgpus))
        ]

    def write(self, text: str, *path: str) -> None:
        self.kernel.files.write(text, *path)

    def create_in_sysfs(self, uuid: str = UUID) -> None:
        types = (*PCI, VF, 'mdev_supported_types')
        self.write(uuid, *types, A40_8Q, 'create')

    def assert_refused(
        self, code: str, call: typing.Callable[..., object], *args: object
    ) -> str:
        """libvirt's own error comes, with this code; its message."""
        error = self.assertRaises(libvirt.libvirtError, call, *args)
        self.assertEqual(
            getattr(libvirt, f'VIR_ERR_{code}'), error.get_error_code()
        )
        self.assertEqual(str(error), error.get_error_message())
        return str(error)


class TestNodeDevices(LibvirtTest):
    def test_it_shows_the_host_that_sysfs_shows(self) -> None:
        self.boot(*simulation.demo_host().gpus)
        self.assertEqual(
            sysfs.read_host(self.kernel.files),
            libvirt_nodes.read_host(self.libvirt, self.kernel.files),
        )

    def test_it_lists_what_is_asked_for(self) -> None:
        self.create()
        self.define(uuid=OTHER)
        total = 2 + 4 + 2
        for description, flags, number in (
            ('everything', 0, total),
            ('what is there', ACTIVE, total - 1),
            ('what is not', INACTIVE, 1),
            ('PCI devices', PCI_DEVICES, 6),
            ('PCI devices that are not there', PCI_DEVICES | INACTIVE, 0),
            ('parents of mdevs', TYPES, 5),
            ('mdevs', MDEV, 2),
            ('mdevs that are there', MDEV | ACTIVE, 1),
            ('parents and mdevs', TYPES | MDEV, 7),
            ('what is not simulated', NETWORK, 0),
        ):
            found = self.libvirt.listAllDevices(flags)
            self.assertEqual(number, len(found), description)

    def test_a_device_is_looked_up_by_its_name(self) -> None:
        name = self.create().name()
        for wanted in (name, PARENT):
            device = self.libvirt.nodeDeviceLookupByName(wanted)
            self.assertEqual(wanted, device.name())
            self.assertIn(f'<name>{wanted}</name>', device.XMLDesc())
        self.assert_refused(
            'NO_NODE_DEVICE', self.libvirt.nodeDeviceLookupByName, 'pci_x'
        )

    def test_a_pci_device_is_not_for_creating(self) -> None:
        device = self.libvirt.nodeDeviceLookupByName(PARENT)
        self.assert_refused('NO_SUPPORT', device.create)
        self.assertEqual(['pci', 'mdev_types'], device.listCaps())

    def test_it_says_where_it_is(self) -> None:
        self.assertTrue(libvirt_nodes.get_host_name(self.libvirt))
        self.libvirt.close()


class TestMdevs(LibvirtTest):
    def test_a_transient_one_lives_once(self) -> None:
        mdev = self.create()
        self.assertEqual(
            (PARENT, 1, 0),
            (mdev.parent(), mdev.isActive(), mdev.isPersistent()),
        )
        self.assertEqual([UUID], self.list_in_sysfs())
        mdev.destroy()
        self.assertEqual(([], []), (self.list_mdevs(), self.list_in_sysfs()))

    def test_a_definition_is_started_and_stopped(self) -> None:
        mdev = self.define()
        self.assertEqual((0, 1), (mdev.isActive(), mdev.isPersistent()))
        self.assertEqual([], self.list_in_sysfs())
        mdev.create()
        self.assertEqual([UUID], self.list_in_sysfs())
        mdev.destroy()
        self.assertEqual([UUID], self.list_mdevs(INACTIVE))
        mdev.undefine()
        self.assertEqual({}, self.libvirt.mdevs.devices)
        self.assertEqual([], self.list_mdevs())

    def test_an_active_one_is_made_persistent_and_transient(self) -> None:
        mdev = self.create()
        self.define()
        self.assertEqual((1, 1), (mdev.isActive(), mdev.isPersistent()))
        mdev.undefine()
        self.assertEqual((1, 0), (mdev.isActive(), mdev.isPersistent()))

    def test_autostart_is_of_definitions(self) -> None:
        mdev = self.define()
        self.assertEqual(0, mdev.autostart())
        mdev.setAutostart(1)
        self.assertEqual(1, mdev.autostart())

    def test_what_cannot_be_done_as_it_is(self) -> None:
        active, defined = self.create(), self.define(uuid=OTHER)
        invalid = 'OPERATION_INVALID'
        self.assert_refused(invalid, active.create)
        self.assert_refused(invalid, active.undefine)
        self.assert_refused(invalid, active.setAutostart, 1)
        self.assert_refused(invalid, defined.destroy)
        again = write_xml(uuid=OTHER, parent='pci_0000_41_00_5')
        create = self.libvirt.nodeDeviceCreateXML
        self.assert_refused('INTERNAL_ERROR', create, again)
        define = self.libvirt.nodeDeviceDefineXML
        self.assert_refused('INTERNAL_ERROR', define, write_xml(uuid=OTHER))

    def test_what_the_kernel_refuses(self) -> None:
        self.create()
        for description, described in (
            ('the same UUID', {'parent': 'pci_0000_41_00_5'}),
            ('another size', {'uuid': OTHER, 'type_id': A40_24Q}),
            ('no such type', {'uuid': OTHER, 'type_id': 'nvidia-1'}),
            ('no UUID', {'uuid': 'first', 'parent': 'pci_0000_41_00_5'}),
        ):
            error = self.assertRaises(
                libvirt.libvirtError, self.create, **described
            )
            self.assertEqual(
                libvirt.VIR_ERR_INTERNAL_ERROR,
                error.get_error_code(),
                description,
            )
        self.assertEqual([UUID], self.list_in_sysfs())

    def test_what_is_no_mdev(self) -> None:
        for xml, code in (
            (write_xml(parent='pci_0000_99_00_0'), 'NO_NODE_DEVICE'),
            (f'<device><parent>{PARENT}</parent></device>', 'XML_ERROR'),
            ('<device>', 'XML_ERROR'),
        ):
            for call in (
                self.libvirt.nodeDeviceCreateXML,
                self.libvirt.nodeDeviceDefineXML,
            ):
                self.assert_refused(code, call, xml)

    def test_one_in_use_is_not_destroyed(self) -> None:
        mdev = self.create()
        self.libvirt.define_guest('guest', {UUID: 'NVIDIA A40-8Q'})
        self.libvirt.start_guest('guest')
        message = self.assert_refused('INTERNAL_ERROR', mdev.destroy)
        self.assertIn('in use', message)
        self.assertEqual([UUID], self.list_in_sysfs())
        self.libvirt.stop_guest('guest')
        mdev.destroy()

    def test_what_others_do_is_noticed(self) -> None:
        self.create_in_sysfs()
        self.assertEqual([UUID], self.list_mdevs(ACTIVE))
        mdev = self.define()
        self.write('1', 'bus', 'mdev', 'devices', UUID, 'remove')
        self.assertEqual((0, 1), (mdev.isActive(), mdev.isPersistent()))
        self.assertEqual([UUID], self.list_mdevs(INACTIVE))


class TestLag(LibvirtTest):
    def setUp(self) -> None:
        super().setUp()
        self.libvirt.lag = 5.0
        self.kernel.clock.sleep(100)

    def test_what_others_do_is_noticed_later(self) -> None:
        self.create_in_sysfs()
        self.assertEqual([], self.list_mdevs())
        self.kernel.clock.sleep(4)
        self.assertEqual([], self.list_mdevs())
        self.kernel.clock.sleep(1)
        self.assertEqual([UUID], self.list_mdevs())

    def test_what_it_does_itself_shows_at_once(self) -> None:
        mdev = self.create()
        self.assertEqual([UUID], self.list_mdevs())
        self.kernel.clock.sleep(1)
        self.assertEqual([UUID], self.list_mdevs())
        self.kernel.clock.sleep(9)
        mdev.destroy()
        for _ in range(7):
            self.assertEqual([], self.list_mdevs())
            self.kernel.clock.sleep(1)

    def test_new_functions_are_no_parents_yet(self) -> None:
        self.write('0', *PCI, GPU, 'sriov_numvfs')
        self.kernel.clock.sleep(9)
        self.write('4', *PCI, GPU, 'sriov_numvfs')
        self.assert_refused(
            'NO_NODE_DEVICE', self.libvirt.nodeDeviceDefineXML, write_xml()
        )
        self.kernel.clock.sleep(5)
        self.define()


class TestReboot(LibvirtTest):
    def prepare(self) -> None:
        """One of each kind: on a GPU with VFs, and on one without."""
        for described in (
            {'uuid': UUID},
            {'uuid': OTHER, 'parent': T4_PARENT, 'type_id': T4_2Q},
        ):
            mdev = self.define(**described)
            mdev.setAutostart(1)
            mdev.create()
        self.create(uuid=OTHER.replace('2', '3'), parent='pci_0000_41_00_5')

    def test_definitions_are_left_and_start_with_their_parents(self) -> None:
        self.prepare()
        self.kernel.reboot()
        self.assertEqual([OTHER], self.list_in_sysfs())
        self.assertEqual([UUID], self.list_mdevs(INACTIVE))
        self.kernel.delays.types = 3
        self.write('4', *PCI, GPU, 'sriov_numvfs')
        self.assertEqual([UUID], self.list_mdevs(INACTIVE))
        self.kernel.clock.sleep(3)
        self.assertEqual({UUID, OTHER}, set(self.list_in_sysfs()))
        self.assertEqual([], self.list_mdevs(INACTIVE))

    def test_nothing_starts_where_nothing_has_it_start(self) -> None:
        self.prepare()
        self.libvirt.autostarts = False
        self.kernel.reboot()
        self.write('4', *PCI, GPU, 'sriov_numvfs')
        self.assertEqual([], self.list_in_sysfs())
        self.assertEqual({UUID, OTHER}, set(self.list_mdevs(INACTIVE)))

    def test_one_that_is_not_told_to_does_not_start(self) -> None:
        self.prepare()
        name = f'mdev_{OTHER.replace("-", "_")}_0000_84_00_0'
        self.libvirt.nodeDeviceLookupByName(name).setAutostart(0)
        self.kernel.reboot()
        self.assertEqual([], self.list_in_sysfs())

    def test_one_on_another_gpu_is_left_alone(self) -> None:
        self.prepare()
        name = f'mdev_{OTHER.replace("-", "_")}_0000_84_00_0'
        self.libvirt.nodeDeviceLookupByName(name).destroy()
        self.write('0', *PCI, GPU, 'sriov_numvfs')
        self.write('4', *PCI, GPU, 'sriov_numvfs')
        self.assertEqual([UUID], self.list_in_sysfs())

    def test_with_another_driver_another_type_starts(self) -> None:
        self.prepare()
        self.kernel.reboot(upgrade=True)
        host = sysfs.read_host(self.kernel.files)
        (vgpu,) = host.gpus[1].vgpus
        names = {o.type.id: o.type.name for o in host.gpus[1].offers}
        self.assertEqual(T4_2Q, vgpu.type_id)
        self.assertNotEqual('GRID T4-2Q', names[vgpu.type_id])

    def test_guests_are_off(self) -> None:
        self.create()
        self.libvirt.define_guest('guest', {UUID: None})
        self.libvirt.start_guest('guest')
        self.kernel.reboot()
        (guest,) = guests.read_guests(self.libvirt)
        self.assertFalse(guest.running)
        self.assertFalse(self.kernel.in_use(UUID))


class TestGuests(LibvirtTest):
    def setUp(self) -> None:
        super().setUp()
        self.kernel.plug(hosts.gpu(L40S, boards.L40S, vfs=4, vendor_vfio=True))
        self.create()
        self.write('1155', *PCI, VENDOR_VF, 'nvidia', 'current_vgpu_type')

    def define_guest(self, name: str = 'guest') -> str:
        return self.libvirt.define_guest(
            name,
            {UUID: 'NVIDIA A40-8Q'},
            {VENDOR_VF: 'NVIDIA L40S-24Q'},
        )

    def test_they_are_read_like_those_of_nova(self) -> None:
        uuid = self.define_guest()
        for running in (False, True):
            expected = values.Guest(
                uuid,
                'guest',
                running,
                frozenset({UUID}),
                frozenset({values.PciAddress.parse(VENDOR_VF)}),
                (
                    values.GuestVGPU(UUID, 'NVIDIA A40-8Q'),
                    values.GuestVGPU('pci_0001_c8_00_4', 'NVIDIA L40S-24Q'),
                ),
            )
            self.assertEqual((expected,), guests.read_guests(self.libvirt))
            self.assertEqual(expected, guests.read_guest(self.libvirt, uuid))
            self.libvirt.start_guest('guest')

    def test_they_are_listed_by_what_they_do(self) -> None:
        self.define_guest()
        self.libvirt.define_guest('other')
        self.libvirt.start_guest('other')
        for flags, names in (
            (0, ['guest', 'other']),
            (libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE, ['other']),
            (libvirt.VIR_CONNECT_LIST_DOMAINS_INACTIVE, ['guest']),
        ):
            found = self.libvirt.listAllDomains(flags)
            self.assertEqual(names, [domain.name() for domain in found])

    def test_one_that_is_not_there(self) -> None:
        uuid = self.define_guest()
        self.libvirt.undefine_guest('guest')
        self.assertIsNone(guests.read_guest(self.libvirt, uuid))
        self.assert_refused('NO_DOMAIN', self.libvirt.lookupByUUIDString, uuid)

    def test_what_they_have_is_in_use_while_they_run(self) -> None:
        self.define_guest()
        for used in (False, True):
            for device in (UUID, 'pci_0001_c8_00_4'):
                self.assertEqual(used, self.kernel.in_use(device))
            self.libvirt.start_guest('guest')
        self.assertRaises(
            OSError,
            self.write,
            '0',
            *(*PCI, VENDOR_VF, 'nvidia', 'current_vgpu_type'),
        )
        self.libvirt.stop_guest('guest')
        self.assertFalse(self.kernel.in_use(UUID))

    def test_none_starts_with_what_another_has(self) -> None:
        self.define_guest()
        self.libvirt.start_guest('guest')
        self.define_guest('other')
        self.assert_refused(
            'OPERATION_INVALID', self.libvirt.start_guest, 'other'
        )
        self.libvirt.stop_guest('guest')
        self.libvirt.start_guest('other')

    def test_none_starts_without_its_vgpu(self) -> None:
        for description, mdevs, functions, code in (
            ('no such mdev', {OTHER: None}, {}, 'DEVICE_MISSING'),
            ('no such function', {}, {'0000:99:00.0': None}, 'DEVICE_MISSING'),
            ('without a type', {}, {'0001:c8:00.5': None}, 'INTERNAL_ERROR'),
            ('no vGPU', {}, {VF: None}, 'INTERNAL_ERROR'),
            ('a whole GPU', {}, {L40S: None}, 'INTERNAL_ERROR'),
        ):
            self.libvirt.define_guest(description, mdevs, functions)
            self.assert_refused(code, self.libvirt.start_guest, description)
            self.assertEqual(
                [],
                self.libvirt.listAllDomains(
                    libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE
                ),
            )


class TestObserver(LibvirtTest):
    def test_it_sees_each_change(self) -> None:
        seen: list[bool] = []
        self.kernel.observe = lambda _what, done: seen.append(done)

        def count(change: typing.Callable[[], object]) -> int:
            seen.clear()
            change()
            self.assertEqual([False, True] * (len(seen) // 2), seen)
            return len(seen) // 2

        mdev = self.define()
        self.assertEqual(1, count(lambda: mdev.setAutostart(1)))
        self.assertEqual(1, count(mdev.create))
        self.assertEqual(
            1, count(lambda: self.libvirt.define_guest('x', {UUID: None}))
        )
        self.assertEqual(1, count(lambda: self.libvirt.start_guest('x')))
        self.assertEqual(1, count(lambda: self.libvirt.stop_guest('x')))
        self.assertEqual(1, count(lambda: self.libvirt.undefine_guest('x')))
        self.assertEqual(1, count(mdev.destroy))
        self.assertEqual(1, count(mdev.undefine))
        self.assertEqual(1, count(self.define))
        self.assertEqual(1, count(lambda: self.create(uuid=OTHER)))
        self.assertEqual(0, count(lambda: self.list_mdevs()))
        self.assertEqual(
            0,
            count(
                lambda: self.assertRaises(libvirt.libvirtError, mdev.destroy)
            ),
        )
