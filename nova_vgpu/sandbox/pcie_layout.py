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

"""Simulated hosts with switches, written down as ``lspci -t`` shows them.

::

    nodes 2
    0000:17:00.0 root
        0000:18:00.0 up
            0000:19:00.0 down acs
                0000:1a:00.0 A40 group=31 numa=0
            0000:19:01.0 down acs
                0000:1b:00.0 CONNECTX_6 group=32 numa=0 port=mlx5_0

A line is a function with its kind: a port (``root``, ``up``, ``down``,
``bridge``, ``qemu``) or the name of a board. What is indented is behind it.
``acs`` is a port that redirects peer-to-peer requests, ``secret`` one whose
configuration space is not shown to this user. ``nodes`` is the number of NUMA
nodes.
"""

from collections.abc import Iterator
import struct

from nova_vgpu import values
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host

#: The types of ports in the PCI Express capability.
_PORTS = {'root': 4, 'qemu': 4, 'up': 5, 'down': 6, 'bridge': 7}
_EXPRESS, _ACS = 0x40, 0x100


def parse(text: str) -> host.SimulatedHost:
    """The host that a text describes."""
    lines = [line for line in text.splitlines() if line.strip()]
    nodes = 0
    if lines[0].split()[0] == 'nodes':
        nodes = int(lines.pop(0).split()[1])
    return host.SimulatedHost(tuple(_parse_lines(lines)), numa_nodes=nodes)


def _parse_lines(lines: list[str]) -> Iterator[host.GPU]:
    above: list[tuple[int, values.PciAddress]] = []
    for line in lines:
        indent = len(line) - len(line.lstrip())
        while above and above[-1][0] >= indent:
            above.pop()
        address_text, kind, *words = line.split()
        address = values.PciAddress.parse(address_text)
        behind = tuple(address for _, address in above)
        yield _make_card(address, kind, words, behind)
        above.append((indent, address))


def _make_card(
    address: values.PciAddress,
    kind: str,
    words: list[str],
    behind: tuple[values.PciAddress, ...],
) -> host.GPU:
    given = dict(word.split('=') for word in words if '=' in word)
    numbers = {key: int(text) for key, text in given.items() if key != 'port'}
    ports = tuple(given['port'].split(',')) if 'port' in given else ()
    config = None
    if kind in _PORTS:
        config = make_config(_PORTS[kind], 'acs' in words)
    return host.GPU(
        address,
        _find_board(kind),
        vfs=numbers.get('vfs', 0),
        driver='vfio-pci' if 'passthrough' in words else 'default',
        iommu='group' in numbers,
        slot=host.Slot(
            behind,
            numbers.get('numa'),
            numbers.get('group'),
            ports,
            # Without privileges, the kernel shows the header only.
            config[:64] if config and 'secret' in words else config,
        ),
    )


def _find_board(kind: str) -> boards.Board:
    if kind == 'qemu':
        return boards.QEMU_ROOT_PORT
    if kind in _PORTS:
        return boards.SWITCH_PORT
    board: boards.Board = getattr(boards, kind)
    return board


def make_config(port: int, redirects: bool) -> bytes:
    """The configuration space of a port, with its two capabilities."""
    space = bytearray(4096)
    struct.pack_into('<HH', space, 0, 0x1000, 0xC010)
    space[0x06] = 0x10  # there are capabilities
    space[0x34] = _EXPRESS
    struct.pack_into('<BBH', space, _EXPRESS, 0x10, 0, port << 4 | 2)
    control = 0x1D if redirects else 0
    struct.pack_into('<IHH', space, _ACS, 0x0001000D, 0x5F, control)
    return bytes(space)
