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

"""PCI functions: their addresses and ids.

Addresses come in many spellings: sysfs says ``0001:c8:00.0``, ``nvidia-smi``
says ``00000001:C8:00.0``, libvirt says ``pci_0001_c8_00_0`` and an operator
types ``84:00.0``. They are parsed once, here, and compared as numbers
everywhere else.
"""

import dataclasses
import re
import typing

_ADDRESS = re.compile(
    r'(?:(?P<domain>[0-9a-f]{1,8}):)?'
    r'(?P<bus>[0-9a-f]{1,2}):'
    r'(?P<slot>[0-9a-f]{1,2})\.'
    r'(?P<function>[0-7])',
    re.IGNORECASE | re.ASCII,
)

_NODE_DEVICE = re.compile(
    r'pci_([0-9a-f]{4,8})_([0-9a-f]{2})_([01][0-9a-f])_([0-7])', re.ASCII
)

_LAST_ROUTING_ID = 0xFFFF


class MalformedAddress(ValueError):
    """The text is not a PCI address."""


@dataclasses.dataclass(frozen=True, order=True, slots=True)
class PciAddress:
    """The address of a PCI function; orders as ``lspci`` does."""

    domain: int
    bus: int
    slot: int
    function: int

    @classmethod
    def parse(cls, text: str) -> typing.Self:
        """Read an address with or without its domain, in upper or lower case.

        :raises MalformedAddress: if the text is not an address.
        """
        match = _ADDRESS.fullmatch(text.strip())
        if match is None or int(match['slot'], 16) > 0x1F:
            raise MalformedAddress(f'{text!r} is not a PCI address')
        return cls(
            int(match['domain'] or '0', 16),
            int(match['bus'], 16),
            int(match['slot'], 16),
            int(match['function'], 16),
        )

    @property
    def node_device_name(self) -> str:
        """The device's name in libvirt, which Nova uses in provider names."""
        return f'pci_{self}'.replace(':', '_').replace('.', '_')

    @classmethod
    def parse_node_device_name(cls, text: str) -> typing.Self | None:
        """The function with this name in libvirt; None if it is not one."""
        match = _NODE_DEVICE.fullmatch(text)
        if match is None:
            return None
        return cls.parse('{}:{}:{}.{}'.format(*match.groups()))

    @property
    def routing_id(self) -> int:
        """Bus, slot and function as one number: SR-IOV counts VFs on it."""
        return self.bus << 8 | self.slot << 3 | self.function

    def offset_by(self, distance: int) -> typing.Self:
        """The function that many routing ids further, in the same domain."""
        routing_id = self.routing_id + distance
        return dataclasses.replace(
            self,
            bus=routing_id >> 8,
            slot=routing_id >> 3 & 0x1F,
            function=routing_id & 7,
        )

    def __str__(self) -> str:
        return (
            f'{self.domain:04x}:{self.bus:02x}:{self.slot:02x}.{self.function}'
        )


@dataclasses.dataclass(frozen=True, slots=True)
class PciIds:
    """The ids of a function, as in PCI configuration space."""

    vendor: int
    device: int
    subsystem_vendor: int | None = None
    subsystem_device: int | None = None

    def __str__(self) -> str:
        return f'{self.vendor:04x}:{self.device:04x}'


@dataclasses.dataclass(frozen=True, slots=True)
class Sriov:
    """The virtual functions that a GPU can have, enabled or not.

    Offset and stride are None where the source does not know them (libvirt).
    """

    total: int
    offset: int | None = None
    stride: int | None = None

    def addresses(self, physical: PciAddress) -> tuple[PciAddress, ...]:
        """The addresses of the GPU's VFs, enabled or not; () if unknown.

        A domain ends with bus ff; there is no function after that.
        """
        if self.offset is None or self.stride is None:
            return ()
        distances = (
            self.offset + self.stride * index for index in range(self.total)
        )
        return tuple(
            physical.offset_by(distance)
            for distance in distances
            if physical.routing_id + distance <= _LAST_ROUTING_ID
        )
