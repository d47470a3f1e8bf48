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

"""Boards for simulated hosts.

Type ids and maxima are those of public captures of real hosts; what a driver
of another release would number differently does not matter here.
"""

import dataclasses

_Q_DISPLAY = (4, '7680x4320')
_DISPLAYS = {
    'Q': _Q_DISPLAY,
    'B': (4, '5120x2880'),
    'A': (1, '1280x1024'),
    'C': (1, '4096x2160'),
}


@dataclasses.dataclass(frozen=True, slots=True)
class BoardType:
    """A vGPU type of a board."""

    id: str
    name: str | None
    framebuffer_mib: int
    maximum: int
    description: str
    #: The bare number, as the vendor-specific VFIO framework shows it.
    number: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Board:
    """A model of GPU."""

    vendor: int
    device: int
    subsystem: tuple[int, int]
    driver: str
    types: tuple[BoardType, ...]
    total_vfs: int = 0
    vf_offset: int = 4
    vf_stride: int = 1
    pci_class: int = 0x030200
    #: What the kernel provisions virtual functions with, if it does.
    vf_memory_mib: int = 0
    #: Where the driver enables virtual functions when it is loaded, in which
    #: numbers, and the partitions for each; the first one is the default.
    partitions: tuple[tuple[int, tuple[str, ...]], ...] = ()


def _nvidia(
    gpu: str, series: str, first_id: int, maxima: dict[int, int]
) -> tuple[BoardType, ...]:
    """Types of one series by size in GB; ids count up from the first."""
    heads, resolution = _DISPLAYS[series]
    return tuple(
        BoardType(
            id=f'nvidia-{number}',
            name=f'{gpu}-{gigabytes}{series}',
            framebuffer_mib=gigabytes * 1024,
            maximum=maximum,
            description=(
                f'num_heads={heads}, frl_config=60, '
                f'framebuffer={gigabytes * 1024}M, '
                f'max_resolution={resolution}, max_instance={maximum}'
            ),
            number=number,
        )
        for number, (gigabytes, maximum) in enumerate(maxima.items(), first_id)
    )


def _gvt_g(share: int, memory: int, resolution: str) -> BoardType:
    return BoardType(
        id=f'i915-GVTg_V5_{share}',
        name=None,
        framebuffer_mib=memory,
        maximum=share,
        description=(
            f'low_gm_size: 128MB\nhigh_gm_size: {memory}MB\nfence: 4\n'
            f'resolution: {resolution}\nweight: {16 // share}'
        ),
    )


_48_GB = {1: 32, 2: 24, 3: 16, 4: 12, 6: 8, 8: 6, 12: 4, 16: 3, 24: 2, 48: 1}

T4 = Board(
    vendor=0x10DE,
    device=0x1EB8,
    subsystem=(0x10DE, 0x12A2),
    driver='nvidia',
    types=(
        *_nvidia('GRID T4', 'B', 222, {1: 16, 2: 8}),
        *_nvidia('GRID T4', 'A', 225, {1: 16, 2: 8, 4: 4, 8: 2, 16: 1}),
        *_nvidia('GRID T4', 'Q', 230, {1: 16, 2: 8, 4: 4, 8: 2, 16: 1}),
        *_nvidia('GRID T4', 'C', 319, {4: 4, 8: 2, 16: 1}),
    ),
)
A40 = Board(
    vendor=0x10DE,
    device=0x2235,
    subsystem=(0x10DE, 0x145A),
    driver='nvidia',
    types=(
        *_nvidia('NVIDIA A40', 'B', 555, {1: 32, 2: 24}),
        *_nvidia('NVIDIA A40', 'Q', 557, _48_GB),
        *_nvidia('NVIDIA A40', 'A', 567, _48_GB),
        *_nvidia(
            'NVIDIA A40', 'C', 581, {s: _48_GB[s] for s in _48_GB if s > 3}
        ),
    ),
    total_vfs=32,
)
L40S = Board(
    vendor=0x10DE,
    device=0x26B9,
    subsystem=(0x10DE, 0x1851),
    driver='nvidia',
    types=(
        *_nvidia('NVIDIA L40S', 'B', 1145, {1: 32, 2: 24}),
        *_nvidia('NVIDIA L40S', 'Q', 1147, _48_GB),
        *_nvidia('NVIDIA L40S', 'A', 1157, _48_GB),
    ),
    total_vfs=32,
)
A10 = Board(
    vendor=0x10DE,
    device=0x2236,
    subsystem=(0x10DE, 0x1482),
    driver='nvidia',
    types=(
        *_nvidia('NVIDIA A10', 'B', 588, {1: 24, 2: 12}),
        *_nvidia(
            'NVIDIA A10',
            'Q',
            590,
            {1: 24, 2: 12, 3: 8, 4: 6, 6: 4, 8: 3, 12: 2, 24: 1},
        ),
    ),
    total_vfs=32,
)
A100D = Board(
    vendor=0x10DE,
    device=0x20B5,
    subsystem=(0x10DE, 0x1533),
    driver='nvidia',
    types=(
        *_nvidia(
            'GRID A100D',
            'C',
            692,
            {4: 20, 8: 10, 10: 8, 16: 5, 20: 4, 40: 2, 80: 1},
        ),
        *_nvidia('GRID A100D-1', 'C', 699, {10: 7}),
        *_nvidia('GRID A100D-2', 'C', 700, {20: 3}),
        *_nvidia('GRID A100D-3', 'C', 701, {40: 2}),
        *_nvidia('GRID A100D-4', 'C', 702, {40: 1}),
        *_nvidia('GRID A100D-7', 'C', 703, {80: 1}),
    ),
    total_vfs=16,
)
HD_530 = Board(
    vendor=0x8086,
    device=0x191B,
    subsystem=(0x8086, 0x2015),
    driver='i915',
    types=(_gvt_g(4, 512, '1920x1200'), _gvt_g(8, 256, '1024x768')),
    pci_class=0x030000,
)
# Alder Lake's graphics with the SR-IOV that came after GVT-g.
UHD_770 = Board(
    vendor=0x8086,
    device=0x4680,
    subsystem=(0x8086, 0x2212),
    driver='i915',
    types=(),
    total_vfs=7,
    vf_offset=1,
    pci_class=0x030000,
)
ARC_PRO_B60 = Board(
    vendor=0x8086,
    device=0xE211,
    subsystem=(0x8086, 0x1114),
    driver='xe',
    types=(),
    total_vfs=12,
    vf_offset=1,
    pci_class=0x030000,
    vf_memory_mib=24480,
)
INSTINCT_MI210 = Board(
    vendor=0x1002,
    device=0x740F,
    subsystem=(0x1002, 0x0C34),
    driver='amdgpu',
    types=(),
    pci_class=0x120000,
)
# The partitions are those of mi300_nbio.c of amd/MxGPU-Virtualization, the
# address of the first function that of the output of amd-smi there.
INSTINCT_MI300X = Board(
    vendor=0x1002,
    device=0x74A1,
    subsystem=(0x1002, 0x74A1),
    driver='gim',
    types=(),
    total_vfs=8,
    vf_offset=16,
    pci_class=0x120000,
    partitions=(
        (1, ('SPX/NPS1', 'CPX/NPS1', 'CPX/NPS4')),
        (8, ('CPX/NPS1', 'CPX/NPS4')),
    ),
)
NETWORK_CARD = Board(
    vendor=0x8086,
    device=0x1572,
    subsystem=(0x8086, 0x0001),
    driver='i40e',
    types=(),
    pci_class=0x020000,
)
CONNECTX_6 = Board(
    vendor=0x15B3,
    device=0x101B,
    subsystem=(0x15B3, 0x0007),
    driver='mlx5_core',
    types=(),
    total_vfs=8,
    vf_offset=2,
    pci_class=0x020700,
)
# A port of a PCIe switch, and one of a virtual machine of QEMU.
SWITCH_PORT = Board(
    vendor=0x1000,
    device=0xC010,
    subsystem=(0x1000, 0xA096),
    driver='pcieport',
    types=(),
    pci_class=0x060400,
)
QEMU_ROOT_PORT = Board(
    vendor=0x1B36,
    device=0x000C,
    subsystem=(0x1B36, 0x0000),
    driver='pcieport',
    types=(),
    pci_class=0x060400,
)
# The sound of a GPU with displays: its second function.
GPU_AUDIO = Board(
    vendor=0x10DE,
    device=0x22BA,
    subsystem=(0x10DE, 0x1482),
    driver='snd_hda_intel',
    types=(),
    pci_class=0x040300,
)
MTTY_TYPES = (
    BoardType('mtty-1', 'Single port serial', 1, 24, '1 port'),
    BoardType('mtty-2', 'Dual port serial', 2, 12, '2 ports'),
)
