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

"""Devices that leave a guest and come back to it."""

import testtools

from nova_vgpu.compute import hotplug

MDEV = """<hostdev mode='subsystem' type='mdev' managed='no'>
  <source><address uuid='7a1c3a52-0b6a-4c8e-9f0e-54d2c4c1c001'/></source>
  <alias name='hostdev0'/>
  <address type='pci' domain='0x0000' bus='0x00' slot='0x07' function='0x0'/>
</hostdev>"""
FUNCTION = """<hostdev mode='subsystem' type='pci' managed='no'>
  <source>
    <address domain='0x0000' bus='0x41' slot='0x00' function='0x4'/>
  </source>
  <alias name='ua-vgpu-0-NVIDIA_L40S-24Q'/>
</hostdev>"""
NIC_FUNCTION = """<hostdev mode='subsystem' type='pci' managed='yes'>
  <source>
    <address domain='0x0000' bus='0x81' slot='0x00' function='0x1'/>
  </source>
  <alias name='hostdev1'/>
</hostdev>"""
PORT = """<interface type='hostdev' managed='yes'>
  <mac address='52:54:00:6d:90:02'/>
</interface>"""
USB = """<hostdev mode='subsystem' type='usb'>
  <source><vendor id='0x1234'/><product id='0xbeef'/></source>
</hostdev>"""


class FakeGuest:
    """A guest that has and is defined with devices."""

    def __init__(self, *devices: str) -> None:
        self.defined = list(devices)
        self.devices = list(devices)
        self.looks = 0

    def get_xml_desc(self, dump_inactive: bool = False) -> str:
        self.looks += 1
        devices = self.defined if dump_inactive else self.devices
        return f'<domain><devices>{"".join(devices)}</devices></domain>'

    def attach_device(self, conf: hotplug.Device, live: bool = False) -> None:
        assert live
        self.devices.append(conf.to_xml())


class SlowGuest(FakeGuest):
    """Releases a device when it is looked at for the third time."""

    def get_xml_desc(self, dump_inactive: bool = False) -> str:
        if self.looks == 2:
            self.devices.remove(MDEV)
        return super().get_xml_desc(dump_inactive)


class HotplugTest(testtools.TestCase):
    def test_what_nova_detaches_is_found(self) -> None:
        guest = FakeGuest(MDEV, FUNCTION, NIC_FUNCTION, PORT, USB)
        self.assertEqual(
            [
                ('7a1c3a52-0b6a-4c8e-9f0e-54d2c4c1c001', True),
                ('pci_0000_41_00_4', True),
                ('pci_0000_81_00_1', False),
                ('52:54:00:6d:90:02', False),
            ],
            [(d.name, d.is_vgpu) for d in hotplug.list_devices(guest)],
        )
        names = [device.name for device in hotplug.list_vgpus(guest)]
        guest.devices.clear()
        self.assertEqual((), hotplug.list_vgpus(guest))
        defined = hotplug.list_defined_vgpus(guest)
        self.assertEqual(names, [device.name for device in defined])

    def test_what_is_missing_comes_back_as_it_was(self) -> None:
        guest = FakeGuest(MDEV, FUNCTION, PORT)
        before = hotplug.list_devices(guest)
        guest.devices.remove(FUNCTION)
        guest.devices.remove(PORT)
        attached = hotplug.attach_missing(guest, before)
        self.assertEqual(
            'pci_0000_41_00_4, 52:54:00:6d:90:02', hotplug.join_names(attached)
        )
        self.assertEqual(set(before), set(hotplug.list_devices(guest)))
        self.assertIn('ua-vgpu-0-NVIDIA_L40S-24Q', attached[0].to_xml())

    def test_its_place_in_the_guest_is_not_asked_for_again(self) -> None:
        """It may be another device's by then."""
        (mdev,) = hotplug.list_devices(FakeGuest(MDEV))
        self.assertIn('uuid=', mdev.to_xml())
        self.assertNotIn('slot=', mdev.to_xml())

    def test_what_is_there_is_not_attached(self) -> None:
        guest = FakeGuest(MDEV, FUNCTION)
        before = hotplug.list_devices(guest)
        self.assertEqual((), hotplug.attach_missing(guest, before))

    def test_a_removal_is_awaited(self) -> None:
        guest = SlowGuest(MDEV)
        (mdev,) = hotplug.list_devices(guest)
        self.assertEqual((), hotplug.await_removal(guest, [mdev], 60))
        self.assertEqual(3, guest.looks)

    def test_what_is_not_removed_in_time_is_told(self) -> None:
        guest = FakeGuest(MDEV, FUNCTION)
        mdev, function = hotplug.list_devices(guest)
        guest.devices.remove(MDEV)
        left = hotplug.await_removal(guest, [mdev, function], 0)
        self.assertEqual((function,), left)
