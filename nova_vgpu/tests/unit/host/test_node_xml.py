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

"""Node devices whose XML libvirt does not write as it should."""

import testtools

from nova_vgpu import values
from nova_vgpu.host import node_xml

# libvirt 9.0 writes what is in a device's VPD as it is.
VPD = (
    "<capability type='vpd'><name>a < b</name><fields access='readonly'>"
    "<vendor_field index='A'>!@#$./><</vendor_field></fields></capability>"
)
TYPES = (
    "<capability type='mdev_types'><type id='nvidia-231'>"
    '<availableInstances>8</availableInstances></type></capability>'
)


def device(pci_class: str, vendor: str, inner: str) -> str:
    return (
        '<device><name>pci_0000_42_00_0</name>'
        f"<capability type='pci'><class>{pci_class}</class>"
        '<domain>0</domain><bus>66</bus><slot>0</slot><function>0</function>'
        f"<product id='0x1eb8'/><vendor id='{vendor}'/>{inner}"
        '</capability></device>'
    )


def parse(xml: str) -> node_xml.Function:
    found = node_xml.parse_device('pci_0000_42_00_0', xml)
    assert isinstance(found, node_xml.Function)
    return found


class TestBrokenXML(testtools.TestCase):
    def test_a_gpu_with_vpd_that_is_not_escaped(self) -> None:
        for inner in (VPD + TYPES, TYPES + VPD):
            found = parse(device('0x030200', '0x10de', inner))
            self.assertEqual(0x030200, found.pci_class)
            (offer,) = found.offers
            self.assertEqual(
                ('nvidia-231', 8), (offer.type.id, offer.available)
            )

    def test_of_a_device_that_is_not_a_gpu_no_more_has_to_be_read(
        self,
    ) -> None:
        for pci_class, vendor, inner in (
            ('0x020000', '0x15b3', '<'),
            ('0x020000', '0x10de', '\x01'),
            ('0x030000', '0x1a03', '<a></b>'),
            ('0x020000', '0x8086', "<capability type='vpd'>"),
        ):
            found = parse(device(pci_class, vendor, inner))
            self.assertEqual(values.PciAddress.parse('42:00.0'), found.address)
            self.assertEqual((), found.offers)

    def test_what_may_be_a_gpu_is_not_passed_over(self) -> None:
        for xml in (
            device('0x030200', '0x10de', '<'),
            device('0x120000', '0x1002', '<'),
            '<',
            '<class>0x020000</class>',
        ):
            self.assertRaises(node_xml.MalformedError, parse, xml)
