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

"""Machines whose topology is known, and the answers.

Where a machine was published with the output of ``nvidia-smi topo -m``, the
answer is what it says there; the others follow from its definitions.
"""

import dataclasses
import pathlib
import types
import typing
from unittest import mock

from nova_vgpu import values
from nova_vgpu.host import nvlinks
from nova_vgpu.host import source
from nova_vgpu.sandbox import pcie_layout
from nova_vgpu.sandbox import tree
from nova_vgpu.tests import fabrics


@dataclasses.dataclass(frozen=True)
class Layout:
    """A machine, as text of ``pcie_layout``, and its matrix."""

    text: str
    matrix: str
    nvml: types.ModuleType | None = None


# Threadripper PRO 3975WX with two GPUs that have displays, and so sound:
# https://github.com/noonghunna/club-3090/issues/1140
WORKSTATION = Layout(
    """
    nodes 1
    0000:00:01.1 root
        0000:01:00.0 A40 numa=0
        0000:01:00.1 GPU_AUDIO numa=0
    0000:00:03.1 root
        0000:02:00.0 A40 numa=0
        0000:02:00.1 GPU_AUDIO numa=0
    """,
    """
         GPU0 GPU1
    GPU0 X    PHB
    GPU1 PHB  X
    """,
)

SINGLE_SWITCH = Layout(
    """
    nodes 1
    0000:3a:00.0 root
        0000:3b:00.0 up
            0000:3c:04.0 down acs
                0000:3d:00.0 T4 numa=0 group=40
            0000:3c:08.0 down acs
                0000:3e:00.0 T4 numa=0 group=41
            0000:3c:0c.0 down acs
                0000:3f:00.0 T4 numa=0 group=42
    """,
    """
         GPU0 GPU1 GPU2
    GPU0 X    PIX  PIX
    GPU1 PIX  X    PIX
    GPU2 PIX  PIX  X
    """,
)

# Five GPUs, one of them on the other socket:
# https://github.com/noonghunna/club-3090/issues/46
TWO_SOCKETS = Layout(
    """
    nodes 2
    0000:00:03.1 root
        0000:01:00.0 A40 numa=1
    0000:40:01.1 root
        0000:41:00.0 A40 numa=0
    0000:40:03.1 root
        0000:42:00.0 A40 numa=0
    0000:60:01.1 root
        0000:61:00.0 A40 numa=0
    0000:60:03.1 root
        0000:62:00.0 A40 numa=0
    """,
    """
         GPU0 GPU1 GPU2 GPU3 GPU4
    GPU0 X    SYS  SYS  SYS  SYS
    GPU1 SYS  X    PHB  NODE NODE
    GPU2 SYS  PHB  X    NODE NODE
    GPU3 SYS  NODE NODE X    PHB
    GPU4 SYS  NODE NODE PHB  X
    """,
)

# A100 PCIe and a ConnectX with two ports and VFs, on one switch that has a
# management function beside its upstream port:
# https://github.com/NVIDIA/nccl/issues/1405
GPUS_AND_NIC = Layout(
    """
    nodes 2
    0000:97:02.0 root
        0000:98:00.0 up
            0000:99:00.0 down
                0000:9a:00.0 CONNECTX_6 numa=1 group=7 vfs=2 port=mlx5_0
                0000:9a:00.1 CONNECTX_6 numa=1 group=8 port=mlx5_1
            0000:99:01.0 down
                0000:9b:00.0 A100D numa=1
            0000:99:02.0 down
                0000:9c:00.0 A100D numa=1
        0000:98:00.1 GPU_AUDIO numa=1
    """,
    """
         GPU0 GPU1 NIC0
    GPU0 X    PIX  PIX
    GPU1 PIX  X    PIX
    NIC0 PIX  PIX  X
    """,
)

# A quarter of a DGX-2: two switches behind a third. It was published with
# NVML, so that only the distances to the NICs are in the source:
# https://github.com/NVIDIA/nccl-tests/issues/78
ONE_ROOT_PORT = Layout(
    """
    nodes 2
    0000:30:00.0 root
        0000:31:00.0 up
            0000:32:00.0 down acs
                0000:33:00.0 up
                    0000:34:00.0 down acs
                        0000:35:00.0 A100D numa=0
                    0000:34:04.0 down acs
                        0000:36:00.0 A100D numa=0
                    0000:34:08.0 down acs
                        0000:37:00.0 CONNECTX_6 numa=0 port=mlx5_0
            0000:32:04.0 down
                0000:38:00.0 up
                    0000:39:00.0 down
                        0000:3a:00.0 A100D numa=0
                    0000:39:08.0 down
                        0000:3c:00.0 CONNECTX_6 numa=0 port=mlx5_1
    """,
    """
         GPU0 GPU1 GPU2 NIC0 NIC1
    GPU0 X    PIX  PXB  PIX  PXB
    GPU1 PIX  X    PXB  PIX  PXB
    GPU2 PXB  PXB  X    PXB  PIX
    NIC0 PIX  PIX  PXB  X    PXB
    NIC1 PXB  PXB  PIX  PXB  X
    """,
)


def _write_half(root: str, node: int, *buses: str) -> str:
    """Two GPUs and two NICs of a DGX A100, each on its own inner switch."""
    lines = [f'0000:{root}:01.1 root', f'    0000:{buses[0]}:00.0 up']
    kinds = ('A100D', 'A100D', 'CONNECTX_6', 'CONNECTX_6')
    places = zip(kinds, buses[1:5], buses[5:9], buses[9:], strict=True)
    for slot, (kind, upper, inner, bus) in enumerate(places):
        lines += [
            f'        0000:{buses[0]}:{slot + 1:02x}.0 down acs',
            f'            0000:{upper}:00.0 up',
            f'                0000:{inner}:00.0 down acs',
            f'                    0000:{bus}:00.0 {kind} numa={node}',
        ]
    return '\n'.join(lines)


def _count_up(first: int, gpus: str, nics: str) -> tuple[str, ...]:
    inner = (f'{first + number:02x}' for number in range(9))
    return (*inner, *gpus.split(), *nics.split())


# DGX A100 40GB, four NUMA nodes for a socket; two of the four roots:
# https://github.com/NVIDIA/nccl/issues/1505
NVSWITCH = Layout(
    '\n'.join(
        (
            'nodes 8',
            _write_half('00', 3, *_count_up(0x21, '07 0f', '0c 12')),
            _write_half('40', 1, *_count_up(0x61, '47 4e', '4b 54')),
        )
    ),
    """
         GPU0 GPU1 GPU2 GPU3 NIC0 NIC1 NIC2 NIC3
    GPU0 X    NV12 NV12 NV12 PXB  PXB  SYS  SYS
    GPU1 NV12 X    NV12 NV12 PXB  PXB  SYS  SYS
    GPU2 NV12 NV12 X    NV12 SYS  SYS  PXB  PXB
    GPU3 NV12 NV12 NV12 X    SYS  SYS  PXB  PXB
    NIC0 PXB  PXB  SYS  SYS  X    PXB  SYS  SYS
    NIC1 PXB  PXB  SYS  SYS  PXB  X    SYS  SYS
    NIC2 SYS  SYS  PXB  PXB  SYS  SYS  X    PXB
    NIC3 SYS  SYS  PXB  PXB  SYS  SYS  PXB  X
    """,
    fabrics.join_by_switches(
        ('07:00.0', '0f:00.0', '47:00.0', '4e:00.0'),
        dict.fromkeys([f'0000:c{n}:00.0' for n in range(4, 10)], 2),
    ),
)

_H100_BUSES = ('19', '3b', '4c', '5d', '9b', 'bb', 'cb', 'db')

# Eight H100 SXM with four NVSwitches, of which a GPU has 4, 5, 5 and 4 links;
# each GPU with a NIC on a switch of its own, here in its own PCI domain:
# https://github.com/aliyun/SimAI/issues/128 (the tree) and
# https://github.com/NVIDIA/nccl/issues/1264 (the matrix of the GPUs)
EIGHT_H100 = Layout(
    'nodes 2\n'
    + '\n'.join(
        f"""
    000{number + 1}:00:01.0 root
        000{number + 1}:01:00.0 up
            000{number + 1}:02:00.0 down
                000{number + 1}:{bus}:00.0 A100D numa={number // 4}
            000{number + 1}:02:01.0 down
                000{number + 1}:f0:00.0 CONNECTX_6 numa={number // 4}"""
        for number, bus in enumerate(_H100_BUSES)
    ),
    '\n'.join(
        (
            ' '.join(f'GPU{n}' for n in range(8))
            + ' '
            + ' '.join(f'NIC{n}' for n in range(8)),
            *(
                f'GPU{row} '
                + ' '.join('X' if n == row else 'NV18' for n in range(8))
                + ' '
                + ' '.join(
                    'PIX'
                    if n == row
                    else ('NODE' if n // 4 == row // 4 else 'SYS')
                    for n in range(8)
                )
                for row in range(8)
            ),
        )
    ),
    fabrics.join_by_switches(
        tuple(f'{n + 1}:{bus}:00.0' for n, bus in enumerate(_H100_BUSES)),
        {
            '0000:05:00.0': 4,
            '0000:06:00.0': 5,
            '0000:07:00.0': 5,
            '0000:08:00.0': 4,
        },
    ),
)

NO_NUMA = Layout(
    """
    0000:16:00.0 root
        0000:17:00.0 T4
    0000:64:00.0 root
        0000:65:00.0 T4 numa=-1
    """,
    """
         GPU0 GPU1
    GPU0 X    NODE
    GPU1 NODE X
    """,
)

# Everything is PHB in a guest of KVM, whatever the host has, and the NICs have
# no NUMA node: https://github.com/NVIDIA/nccl/issues/1674
VIRTUAL_MACHINE = Layout(
    """
    nodes 2
    0000:00:02.0 qemu
        0000:01:00.0 A100D numa=-1
    0000:00:02.1 qemu
        0000:02:00.0 A100D numa=-1
    0000:00:02.2 qemu
        0000:03:00.0 CONNECTX_6 numa=-1 port=mlx5_0
    """,
    """
         GPU0 GPU1 NIC0
    GPU0 X    PHB  PHB
    GPU1 PHB  X    PHB
    NIC0 PHB  PHB  X
    """,
)

# GPU0 is behind a riser with a switch of one port, and a bridge behind that.
# A retimer on the way would not be a PCI function.
BRIDGE_CHAIN = Layout(
    """
    nodes 1
    0000:20:01.0 root
        0000:21:00.0 up
            0000:22:00.0 down
                0000:23:00.0 up
                    0000:24:00.0 down
                        0000:25:00.0 bridge
                            0000:26:00.0 T4 numa=0
            0000:22:01.0 down
                0000:27:00.0 NETWORK_CARD numa=0
    0000:20:03.0 root
        0000:28:00.0 T4 numa=0
    """,
    """
         GPU0 GPU1 NIC0
    GPU0 X    PHB  PXB
    GPU1 PHB  X    PHB
    NIC0 PXB  PHB  X
    """,
)

# DGX-1 with V100: each GPU has links to four others and none to the rest:
# https://github.com/NVIDIA/nccl/issues/671
_MESH = ('06', '07', '0a', '0b', '85', '86', '89', '8a')
_MESH_LINKS = {
    (0, 1): 1,
    (0, 2): 1,
    (0, 3): 2,
    (0, 4): 2,
    (1, 2): 2,
    (1, 3): 1,
    (1, 5): 2,
    (2, 3): 2,
    (2, 6): 1,
    (3, 7): 1,
    (4, 5): 1,
    (4, 6): 1,
    (4, 7): 2,
    (5, 6): 2,
    (5, 7): 1,
    (6, 7): 2,
}
MESH = Layout(
    'nodes 2\n'
    + '\n'.join(
        f"""
    0000:{'00' if number < 4 else '80'}:{number:02x}.0 root
        0000:{bus}:00.0 A100D numa={number // 4}"""
        for number, bus in enumerate(_MESH)
    ),
    """
         GPU0 GPU1 GPU2 GPU3 GPU4 GPU5 GPU6 GPU7
    GPU0 X    NV1  NV1  NV2  NV2  SYS  SYS  SYS
    GPU1 NV1  X    NV2  NV1  SYS  NV2  SYS  SYS
    GPU2 NV1  NV2  X    NV2  SYS  SYS  NV1  SYS
    GPU3 NV2  NV1  NV2  X    SYS  SYS  SYS  NV1
    GPU4 NV2  SYS  SYS  SYS  X    NV1  NV1  NV2
    GPU5 SYS  NV2  SYS  SYS  NV1  X    NV2  NV1
    GPU6 SYS  SYS  NV1  SYS  NV1  NV2  X    NV2
    GPU7 SYS  SYS  SYS  NV1  NV2  NV1  NV2  X
    """,
    fabrics.join_directly(
        {
            (f'0000:{_MESH[one]}:00.0', f'0000:{_MESH[other]}:00.0'): count
            for (one, other), count in _MESH_LINKS.items()
        }
    ),
)

LAYOUTS = {
    'a workstation': WORKSTATION,
    'a single switch': SINGLE_SWITCH,
    'two sockets': TWO_SOCKETS,
    'GPUs and a NIC behind one switch': GPUS_AND_NIC,
    'everything under one root port': ONE_ROOT_PORT,
    'NVSwitches of a DGX A100': NVSWITCH,
    'NVSwitches of an HGX H100': EIGHT_H100,
    'no NUMA': NO_NUMA,
    'a virtual machine': VIRTUAL_MACHINE,
    'a GPU behind a chain of bridges': BRIDGE_CHAIN,
    'a mesh of NVLinks': MESH,
}


def read(layout: Layout, directory: pathlib.Path) -> values.Topology:
    """The topology of a machine, read from the files that it has."""
    tree.write_tree(pcie_layout.parse(layout.text), directory)
    machine = source.HostSource(sysfs_root=str(directory))
    host = machine.read_host()
    found = machine.read_topology(host)
    if layout.nvml is None:
        return found
    modules = typing.cast(typing.Any, {'pynvml': layout.nvml})
    with mock.patch.dict('sys.modules', modules):
        links = nvlinks.read_nvlinks(host)
    return dataclasses.replace(found, nvlinks=links)
