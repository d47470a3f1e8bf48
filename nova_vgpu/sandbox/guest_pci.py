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


"""The configuration spaces of GPUs, as guests and hosts see them.

The places and lengths of the capabilities are those of public captures; what
is in them is left zero where it does not matter here:

* a vGPU of NVIDIA: the T4 vGPU that gpu-feature-discovery of NVIDIA has for
  its tests (``internal/vgpu/pciutil.go``), and ``lspci`` of a V100 vGPU in
  cloud-hypervisor/cloud-hypervisor issue 5319;
* a whole GPU of NVIDIA: ``lspci`` of a T4 in issue 434 there and of an A30 in
  5251, both with an empty capability at 0x68; a GRID K520 in
  gpu-feature-discovery has a vendor-specific one at 0xb4 that is not a vGPU's;
* the header of a Quadro RTX 4000 of Dell: ``lspci -xxx`` in issue 4353 there;
* GPUDirect cliques: QEMU, ``hw/vfio/pci-quirks.c``;
* Intel: ``lspci`` of integrated GPUs in strongtz/i915-sriov-dkms issues 47 and
  352; AMD: of a Navi 21 in QubesOS/qubes-issues issue 7971.

A virtual function has no interrupt pin, and no ids in its header (SR-IOV
specification 1.1, sections 3.4.1.1 and 3.4.1.18). A guest sees its ids: VFIO
fills them in.
"""

from collections.abc import Mapping
import itertools
import struct
import types

_BYTES = 256
_EXTENDED_BYTES = 4096
POWER, MSI, VENDOR, EXPRESS, MSI_X, EMPTY = 0x01, 0x05, 0x09, 0x10, 0x11, 0x00

#: A capability is its id and what follows its first two bytes, by its place.
Capabilities = Mapping[int, tuple[int, bytes]]


def make_vendor_capability(payload: bytes) -> tuple[int, bytes]:
    """A vendor-specific capability: its length, then the payload."""
    return VENDOR, bytes([3 + len(payload)]) + payload


def make_vgpu_payload(version: str, branch: str) -> bytes:
    """What is in the capability of a vGPU."""
    record = version.encode().ljust(10, b'\0')
    record += branch.encode().ljust(10, b'\0')
    return b'VF' + bytes([0, 2 + len(record)]) + record


def make_vgpu_capabilities(version: str, branch: str) -> Capabilities:
    payload = make_vgpu_payload(version, branch)
    return {0xD0: make_vendor_capability(payload), 0x68: (MSI, bytes(12))}


WHOLE_NVIDIA: Capabilities = types.MappingProxyType(
    {
        0x60: (POWER, bytes(6)),
        0x68: (EMPTY, bytes(6)),
        0x78: (EXPRESS, b'\x02\x00' + bytes(56)),
        0xB4: make_vendor_capability(b'\x01' + bytes(16)),
        0xC8: (MSI_X, bytes(10)),
    }
)
OLDER_NVIDIA: Capabilities = types.MappingProxyType(
    {
        0x60: (POWER, bytes(6)),
        0x68: (MSI, bytes(12)),
        0x78: (EXPRESS, b'\x02\x00' + bytes(56)),
    }
)
IN_CLIQUE: Capabilities = types.MappingProxyType(
    {**WHOLE_NVIDIA, 0xD4: make_vendor_capability(b'P2P\x00\x08')}
)
BARE_NVIDIA_VF: Capabilities = types.MappingProxyType(
    {0x78: (EXPRESS, b'\x02\x00' + bytes(56)), 0xC8: (MSI_X, bytes(10))}
)
INTEL: Capabilities = types.MappingProxyType(
    {
        0x40: make_vendor_capability(bytes(9)),
        0x70: (EXPRESS, b'\x92\x00' + bytes(56)),
        0xAC: (MSI, bytes(12)),
        0xD0: (POWER, bytes(6)),
    }
)
INTEL_VF: Capabilities = types.MappingProxyType(
    {0x70: (EXPRESS, b'\x02\x00' + bytes(56)), 0xAC: (MSI, bytes(12))}
)
AMD: Capabilities = types.MappingProxyType(
    {
        0x48: make_vendor_capability(bytes(5)),
        0x50: (POWER, bytes(6)),
        0x64: (EXPRESS, b'\x12\x00' + bytes(56)),
        0xA0: (MSI, bytes(12)),
        0xC0: (MSI_X, bytes(10)),
    }
)
#: The first 64 bytes of a Quadro RTX 4000 of Dell, and the next four.
DELL_HEADER = bytes.fromhex(
    'de10b11e43011000a100000308000000'
    '000000e6040000e0fe3f0000040000fc'
    'fe3f000081ff0000000000002810a012'
    '0000f0e76000000000000000ff010000'
    '2810a012'
)


def make_config(
    vendor: int,
    device: int,
    subsystem: tuple[int, int],
    pci_class: int,
    capabilities: Capabilities,
    pin: int = 1,
    header: bytes = b'',
) -> bytes:
    """A whole configuration space, with its list of capabilities.

    :param header: takes the place of the first bytes.
    """
    data = bytearray(_EXTENDED_BYTES)
    status = 0x0010 if capabilities else 0
    struct.pack_into('<HHHH', data, 0, vendor, device, 0x0007, status)
    # Revision, programming interface, subclass and base class.
    struct.pack_into('<I', data, 0x08, pci_class << 8 | 0xA1)
    struct.pack_into('<HH', data, 0x2C, *subsystem)
    data[0x3D] = pin
    places = [*capabilities, 0]
    data[0x34] = places[0]
    for place, following in itertools.pairwise(places):
        kind, body = capabilities[place]
        whole = bytes([kind, following]) + body
        data[place : place + len(whole)] = whole
    data[: len(header)] = header
    return bytes(data)
