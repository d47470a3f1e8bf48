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

"""The configuration space of a PCI bridge: its port type and its ACS.

The file ``config`` of a function has 4096 bytes in PCI Express. Without
``CAP_SYS_ADMIN`` the kernel shows the first 64, which have neither. The
numbers are those of the kernel's ``include/uapi/linux/pci_regs.h``.
"""

import dataclasses
import struct

from nova_vgpu import values

_HEADER_BYTES = 64
_STATUS, _HAS_CAPABILITIES = 0x06, 0x10
_FIRST_CAPABILITY = 0x34
_PCI_EXPRESS = 0x10
_FIRST_EXTENDED = 0x100
_ALL_BYTES = 0x1000
_ACS, _ACS_CONTROL = 0x000D, 6
# PCI_ACS_RR and PCI_ACS_CR: requests, and completions, go to the root complex.
_REDIRECT = 0x04 | 0x08
_PORTS = {
    4: values.PortType.ROOT,
    5: values.PortType.UPSTREAM,
    6: values.PortType.DOWNSTREAM,
}
_NOTHING = 0xFFFFFFFF


@dataclasses.dataclass(frozen=True, slots=True)
class BridgeFacts:
    """None is unknown."""

    port: values.PortType | None = None
    redirects: bool | None = None


def parse(data: bytes) -> BridgeFacts:
    """What the configuration space of a bridge says, as far as it is there."""
    if len(data) <= _HEADER_BYTES or _u32(data, 0) == _NOTHING:
        return BridgeFacts()  # not root, or the device does not answer
    at = _find_capability(data, _PCI_EXPRESS)
    if at is None:
        # Conventional PCI has no ACS.
        return BridgeFacts(values.PortType.OTHER, False)
    port = _PORTS.get(data[at + 2] >> 4, values.PortType.OTHER)
    if len(data) < _ALL_BYTES:
        return BridgeFacts(port)
    acs = _find_extended(data, _ACS)
    if acs is None:
        return BridgeFacts(port, False)
    control = int.from_bytes(data[acs + _ACS_CONTROL :][:2], 'little')
    return BridgeFacts(port, bool(control & _REDIRECT))


def _find_capability(data: bytes, wanted: int) -> int | None:
    if not data[_STATUS] & _HAS_CAPABILITIES:
        return None
    at = data[_FIRST_CAPABILITY] & 0xFC
    seen: set[int] = set()
    # The list may be damaged: no end, or a way out of the data.
    while _HEADER_BYTES <= at <= len(data) - 4 and at not in seen:
        if data[at] == wanted:
            return at
        seen.add(at)
        at = data[at + 1] & 0xFC
    return None


def _find_extended(data: bytes, wanted: int) -> int | None:
    at = _FIRST_EXTENDED
    seen: set[int] = set()
    while _FIRST_EXTENDED <= at <= len(data) - 8 and at not in seen:
        header = _u32(data, at)
        if header & 0xFFFF == wanted:
            return at
        seen.add(at)
        at = header >> 20 & 0xFFC
    return None


def _u32(data: bytes, at: int) -> int:
    (number,) = struct.unpack_from('<I', data, at)
    return int(number)
