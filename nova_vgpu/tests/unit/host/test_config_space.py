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

"""The configuration space of a bridge, whole, partial and damaged."""

import struct

import hypothesis
from hypothesis import strategies as st
import testtools

from nova_vgpu import values
from nova_vgpu.host import config_space
from nova_vgpu.sandbox import pcie_layout

UNKNOWN = config_space.BridgeFacts()


def change(data: bytes, at: int, *numbers: int) -> bytes:
    return data[:at] + bytes(numbers) + data[at + len(numbers) :]


class TestBridges(testtools.TestCase):
    def test_a_port_is_what_its_capability_says(self) -> None:
        for number, port in (
            (4, values.PortType.ROOT),
            (5, values.PortType.UPSTREAM),
            (6, values.PortType.DOWNSTREAM),
            (7, values.PortType.OTHER),
        ):
            data = pcie_layout.make_config(number, redirects=False)
            self.assertEqual(port, config_space.parse(data).port)

    def test_redirection_of_requests_or_completions_counts(self) -> None:
        data = pcie_layout.make_config(6, redirects=False)
        # PCI_ACS_SV, TB, RR, CR, UF, EC, DT of the kernel, in this order.
        expected = (False, False, True, True, False, False, False)
        for bit, redirects in enumerate(expected):
            space = change(data, 0x106, 1 << bit)
            self.assertIs(redirects, config_space.parse(space).redirects)

    def test_a_port_without_acs_does_not_redirect(self) -> None:
        data = pcie_layout.make_config(6, redirects=True)
        # An advanced error reporting capability, and none after it.
        space = change(data, 0x100, *struct.pack('<I', 0x00010001))
        self.assertIs(False, config_space.parse(space).redirects)

    def test_acs_behind_other_capabilities_is_found(self) -> None:
        data = pcie_layout.make_config(5, redirects=True)
        acs = data[0x100:0x108]
        space = change(data, 0x100, *struct.pack('<II', 0x14810001, 0))
        space = change(space, 0x148, *acs)
        # And PCI Express behind power management.
        space = change(space, 0x40, 0x01, 0x68)
        space = change(space, 0x68, 0x10, 0, 0x52, 0)
        self.assertEqual(
            config_space.BridgeFacts(values.PortType.UPSTREAM, True),
            config_space.parse(space),
        )

    def test_a_bridge_of_conventional_pci(self) -> None:
        data = pcie_layout.make_config(4, redirects=True)
        for space in (change(data, 0x06, 0), change(data, 0x40, 0x01)):
            self.assertEqual(
                config_space.BridgeFacts(values.PortType.OTHER, False),
                config_space.parse(space[:256]),
            )


class TestWithoutKnowing(testtools.TestCase):
    def test_the_header_says_nothing(self) -> None:
        data = pcie_layout.make_config(6, redirects=True)
        for size in (0, 1, 64):
            self.assertEqual(UNKNOWN, config_space.parse(data[:size]))

    def test_without_the_extended_space_acs_is_unknown(self) -> None:
        data = pcie_layout.make_config(6, redirects=True)
        self.assertEqual(
            config_space.BridgeFacts(values.PortType.DOWNSTREAM),
            config_space.parse(data[:256]),
        )

    def test_a_device_that_does_not_answer(self) -> None:
        self.assertEqual(UNKNOWN, config_space.parse(b'\xff' * 4096))

    def test_a_list_without_an_end(self) -> None:
        data = pcie_layout.make_config(6, redirects=True)
        circle = change(data, 0x40, 0x01, 0x40)
        self.assertEqual(
            values.PortType.OTHER, config_space.parse(circle).port
        )
        circle = change(data, 0x100, *struct.pack('<I', 0x10010001))
        self.assertIs(False, config_space.parse(circle).redirects)

    @hypothesis.given(
        st.binary(max_size=300) | st.binary(min_size=4096, max_size=4096)
    )
    def test_anything_can_be_parsed(self, data: bytes) -> None:
        facts = config_space.parse(data)
        self.assertIsInstance(facts, config_space.BridgeFacts)
