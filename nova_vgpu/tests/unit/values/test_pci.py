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

"""One place on the PCI bus, however it is spelled."""

import testtools

from nova_vgpu import values

parse = values.PciAddress.parse


class TestSpellings(testtools.TestCase):
    def test_every_way_to_write_an_address(self) -> None:
        for description, text, expected in (
            ('as sysfs has it', '0000:84:00.0', '0000:84:00.0'),
            ('as an operator types it', '84:00.0', '0000:84:00.0'),
            ('as nvidia-smi prints it', '00000000:84:00.0', '0000:84:00.0'),
            ('nvidia-smi, other domain', '00000001:C8:00.0', '0001:c8:00.0'),
            ('in upper case', '0000:C1:1F.7', '0000:c1:1f.7'),
            ('domain and upper case', '00AB:84:00.0', '00ab:84:00.0'),
            ('a short domain', '1:c8:00.0', '0001:c8:00.0'),
            ('a short bus and slot', '8:0.0', '0000:08:00.0'),
            ('a VMD domain', '10000:01:00.0', '10000:01:00.0'),
            ('a long VMD domain', '0001000a:01:00.0', '1000a:01:00.0'),
            ('white space around it', ' 84:00.0\n', '0000:84:00.0'),
        ):
            self.assertEqual(expected, str(parse(text)), description)

    def test_what_was_printed_is_read_again(self) -> None:
        for text in ('0000:84:00.0', '0001:c8:1f.7', '10000:01:00.0'):
            self.assertEqual(text, str(parse(text)))

    def test_what_is_no_address(self) -> None:
        for description, text in (
            ('nothing', ''),
            ('white space', '   '),
            ('a word', 'mtty'),
            ('no function', '0000:84:00'),
            ('a function too far', '0000:84:00.8'),
            ('two digits of function', '0000:84:00.00'),
            ('a slot too far', '0000:84:20.0'),
            ('three digits of bus', '0000:184:00.0'),
            ('nine digits of domain', '000000000:84:00.0'),
            ('no bus', ':00.0'),
            ('a letter that is no digit', '0000:8g:00.0'),
            ('the letter O for a zero', 'OOOO:84:00.0'),
            ('a dot for a colon', '0000.84.00.0'),
            ("libvirt's name of it", 'pci_0000_84_00_0'),
            ('digits of another script', '0000:84:0\u0660.0'),
            ('two addresses', '84:00.0 85:00.0'),
            ('a path', '../84:00.0'),
            ('a sign', '-1:84:00.0'),
        ):
            error = self.assertRaises(values.MalformedAddress, parse, text)
            self.assertIn(repr(text), str(error), description)

    def test_libvirts_name_of_the_device(self) -> None:
        for text, expected in (
            ('84:00.0', 'pci_0000_84_00_0'),
            ('00000001:C8:00.0', 'pci_0001_c8_00_0'),
            ('10000:01:00.0', 'pci_10000_01_00_0'),
        ):
            self.assertEqual(expected, parse(text).node_device_name)


class TestOrder(testtools.TestCase):
    def test_addresses_order_as_lspci_prints_them(self) -> None:
        ordered = [
            '0000:08:00.0',
            '0000:08:00.4',
            '0000:08:01.0',
            '0000:84:00.0',
            '0000:c1:00.0',
            '0001:01:00.0',
            '10000:01:00.0',
        ]
        found = sorted(parse(text) for text in reversed(ordered))
        self.assertEqual(ordered, [str(address) for address in found])

    def test_two_spellings_are_one_address(self) -> None:
        self.assertEqual(1, len({parse('84:00.0'), parse('00000000:84:00.0')}))
        self.assertNotEqual(parse('84:00.0'), parse('0001:84:00.0'))


class TestVirtualFunctions(testtools.TestCase):
    def test_an_a2_spreads_its_16_functions_over_three_slots(self) -> None:
        addresses = values.Sriov(16, 4, 1).addresses(parse('0000:08:00.0'))
        self.assertEqual(16, len(addresses))
        for index, expected in (
            (0, '0000:08:00.4'),
            (3, '0000:08:00.7'),
            (4, '0000:08:01.0'),
            (11, '0000:08:01.7'),
            (12, '0000:08:02.0'),
            (15, '0000:08:02.3'),
        ):
            self.assertEqual(expected, str(addresses[index]), f'virtfn{index}')

    def test_where_functions_lie(self) -> None:
        for description, first, sriov, expected in (
            (
                'the domain stays',
                '0001:c8:00.0',
                values.Sriov(2, 2, 1),
                ['0001:c8:00.2', '0001:c8:00.3'],
            ),
            (
                'every other function',
                '0000:08:00.0',
                values.Sriov(3, 4, 2),
                ['0000:08:00.4', '0000:08:00.6', '0000:08:01.0'],
            ),
            (
                'over to the next bus',
                '0000:08:1f.6',
                values.Sriov(2, 1, 1),
                ['0000:08:1f.7', '0000:09:00.0'],
            ),
            ('none at all', '0000:08:00.0', values.Sriov(0, 4, 1), []),
            ('not known (libvirt)', '0000:08:00.0', values.Sriov(16), []),
            ('half known', '0000:08:00.0', values.Sriov(16, 4), []),
        ):
            found = sriov.addresses(parse(first))
            self.assertEqual(expected, [str(a) for a in found], description)


class TestIds(testtools.TestCase):
    def test_ids_print_as_lspci_prints_them(self) -> None:
        self.assertEqual('10de:1eb8', str(values.PciIds(0x10DE, 0x1EB8)))
        self.assertEqual('1002:00ff', str(values.PciIds(0x1002, 0xFF)))


class TestNodeDeviceNames(testtools.TestCase):
    def test_there_and_back(self) -> None:
        for text in ('0000:41:00.4', '0001:c8:1f.7', '10000:00:00.0'):
            address = values.PciAddress.parse(text)
            self.assertEqual(
                address,
                values.PciAddress.parse_node_device_name(
                    address.node_device_name
                ),
            )

    def test_what_is_none(self) -> None:
        for text in (
            'mtty_mtty',
            'pci_0000_41_00',
            'pci_0000_41_00_8',
            'pci_0000_41_20_0',
            'mdev_c5f2b7f0_0f0c_4b6e_9a0e_0d8d0c7f0b11_0000_41_00_4',
            '',
        ):
            self.assertIsNone(values.PciAddress.parse_node_device_name(text))
