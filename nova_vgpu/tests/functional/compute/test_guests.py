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


"""vGPUs in guests' configurations, as real libvirt keeps them."""

import threading
import types
import typing

import fixtures
import libvirt
from nova import exception as nova_exception
from nova.virt.libvirt import host
import testtools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.compute import guest_devices
from nova_vgpu.compute import hotplug
from nova_vgpu.compute import vgpu_devices
from nova_vgpu.host import guests
from nova_vgpu.tests.functional import threading_mode

VF = values.VirtualFunction(
    values.PciAddress.parse('0001:c8:00.4'), 'nvidia', vendor_vfio=True
)

MDEV = 'c1b6ac4a-0b3c-4bd5-8d6d-3a0f8c0a0001'
OTHER_MDEV = 'c1b6ac4a-0b3c-4bd5-8d6d-3a0f8c0a0002'

DOMAIN = """<domain type='test'>
  <name>server</name><memory>1024</memory><os><type>hvm</type></os>
  <devices>%s
    <hostdev mode='subsystem' type='pci' managed='yes'>
      <source>
        <address domain='0' bus='0x81' slot='0' function='0'/>
      </source>
    </hostdev>
    <hostdev mode='subsystem' type='mdev' model='vfio-pci'>
      <source><address uuid='c1b6ac4a-0b3c-4bd5-8d6d-3a0f8c0a0001'/></source>
    </hostdev>
  </devices>
</domain>"""


class ConnectionTest(testtools.TestCase):
    def test_libvirt_that_nova_cannot_reach(self) -> None:
        def refuse(*_args: object, **_kwargs: object) -> typing.NoReturn:
            raise nova_exception.HypervisorUnavailable

        nova: typing.Any = types.SimpleNamespace(
            _host=types.SimpleNamespace(
                list_instance_domains=refuse,
                list_all_devices=refuse,
                get_connection=refuse,
            )
        )
        connection = vgpu_devices.Connection(nova)
        for ask in (
            connection.listAllDomains,
            connection.listAllDevices,
            lambda: connection.lookupByUUIDString(MDEV),
        ):
            self.assertRaises(exception.HostUnreadable, ask)


class GuestsTest(testtools.TestCase):
    def define(self, hostdev: typing.Any) -> str:
        """What libvirt makes of it."""
        connection = libvirt.open('test:///default')
        self.addCleanup(connection.close)
        domain = connection.defineXML(DOMAIN % hostdev.to_xml())
        xml: str = domain.XMLDesc(0)
        domain.undefine()
        return xml

    def test_libvirt_keeps_the_type_and_that_it_is_not_managed(self) -> None:
        for case, name, expected in (
            ('a name', 'NVIDIA L40S-24Q', 'NVIDIA L40S-24Q'),
            (
                'a long name',
                'NVIDIA RTX Pro 6000 Blackwell DC-1-24Q',
                'NVIDIA RTX Pro 6000 Blackwell DC-1-24Q',
            ),
            ('no name', None, None),
            ('what an alias cannot hold', "NVIDIA 'ä'/L40S", None),
        ):
            alias = guests.make_alias(0, name)
            xml = self.define(guest_devices.make_function(VF, alias))
            vgpus = guests.parse_devices(xml).vgpus
            self.assertEqual(expected, vgpus['pci_0001_c8_00_4'], case)
            hostdev, _ = hotplug.parse_vgpus(xml)
            self.assertIn('managed="no"', hostdev.to_xml(), case)
            # Detached and attached again it is the same.
            again = guests.parse_devices(self.define(hostdev))
            self.assertEqual(vgpus, again.vgpus, case)
            xml = self.define(guest_devices.make_mdev(OTHER_MDEV, alias))
            vgpus = guests.parse_devices(xml).vgpus
            self.assertEqual(expected, vgpus[OTHER_MDEV], case)
            mdev, _ = hotplug.parse_vgpus(xml)
            again = guests.parse_devices(self.define(mdev))
            self.assertEqual(vgpus, again.vgpus, case)

    def test_who_binds_a_function_to_vfio(self) -> None:
        for driver, expected in (
            ('xe', 'yes'),
            (None, 'yes'),
            ('vfio-pci', 'no'),
            ('xe-vfio-pci', 'no'),
        ):
            vf = values.VirtualFunction(VF.address, driver)
            alias = guests.make_alias(0, 'B60-1of4')
            xml = self.define(guest_devices.make_function(vf, alias))
            hostdev, _ = hotplug.parse_vgpus(xml)
            self.assertIn(f'managed="{expected}"', hostdev.to_xml())
            vgpus = guests.parse_devices(xml).vgpus
            self.assertEqual('B60-1of4', vgpus['pci_0001_c8_00_4'])

    def test_other_devices_are_told_from_vgpus(self) -> None:
        alias = guests.make_alias(0, None)
        found = guests.parse_devices(
            self.define(guest_devices.make_function(VF, alias))
        )
        self.assertEqual({MDEV, 'pci_0001_c8_00_4'}, set(found.vgpus))
        self.assertEqual(
            {'0001:c8:00.4', '0000:81:00.0'}, set(map(str, found.functions))
        )


class ThreadsTest(testtools.TestCase):
    def test_with_eventlet_a_slow_libvirt_does_not_stop_the_service(
        self,
    ) -> None:
        """Then Nova has it asked in other threads than its only one."""
        nova: typing.Any = types.SimpleNamespace(
            _host=host.Host('test:///default')
        )
        connection = vgpu_devices.Connection(nova)
        asked_in: set[int] = set()
        describe = libvirt.virDomain.XMLDesc

        def note(domain: typing.Any, flags: int = 0) -> str:
            asked_in.add(threading.get_native_id())
            return str(describe(domain, flags))

        with fixtures.MockPatchObject(libvirt.virDomain, 'XMLDesc', note):
            (guest,) = guests.read_guests(connection)
            guests.find_mdevs(connection, [MDEV])
            self.assertEqual(guest, guests.read_guest(connection, guest.uuid))
        self.assertEqual(
            threading_mode.is_native(),
            threading.get_native_id() in asked_in,
        )
