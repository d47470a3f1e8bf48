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

"""A simulated GPU in MIG mode, with few functions, and what is declared."""

import dataclasses

from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import mig
from nova_vgpu.tests import hosts
from nova_vgpu.tests import live

ADDRESS = '0000:21:00.0'
FIRST, SECOND, THIRD = '0000:21:00.4', '0000:21:00.5', '0000:21:00.6'
ONE, TWO, THREE, FOUR = (
    'A100D-1-10C',
    'A100D-2-20C',
    'A100D-3-40C',
    'A100D-4-40C',
)
#: Types that are not backed by MIG.
WHOLE, HALF, QUARTER = 'A100D-80C', 'A100D-40C', 'A100D-20C'
BOARD = live.shrink(boards.A100D, 8, ONE, TWO, THREE, FOUR)
BOTH_KINDS = live.shrink(boards.A100D, 8, ONE, TWO, FOUR, WHOLE, HALF, QUARTER)
SWITCH = 'switch_mig_mode = true'

#: The RTX PRO 6000 has types of which an instance takes several vGPUs. Ids
#: 1555 and 1558 are inferred from 1546 (DC-1-2Q) and 1561 (DC-1-24Q).
RTX_PRO_6000 = boards.Board(
    vendor=0x10DE,
    device=0x2BB5,
    subsystem=(0x10DE, 0x204E),
    driver='nvidia',
    types=tuple(
        boards.BoardType(
            id=f'nvidia-{number}',
            name=f'NVIDIA RTX Pro 6000 Blackwell DC-1-{gigabytes}Q',
            framebuffer_mib=gigabytes * 1024,
            maximum=maximum,
            description=f'framebuffer={gigabytes * 1024}M',
            number=number,
        )
        for number, gigabytes, maximum in (
            (1555, 8, 12),
            (1558, 12, 8),
            (1561, 24, 4),
        )
    ),
    total_vfs=48,
    vf_offset=2,
)
#: From "nvidia-smi mig -lgip"; an instance of the first one takes 24 GB.
RTX_PRO_6000_PROFILES = (
    mig.Profile('MIG 1g.24gb', 0, 14, 1, 1, 4, 24192, (0, 1, 2, 3)),
    mig.Profile('MIG 2g.48gb', 1, 5, 2, 2, 2, 48768, (0, 2)),
)


def rtx_pro_6000(address: str, instances: int) -> simulation.GPU:
    """In MIG mode, with instances of the smallest profile."""
    profiles = RTX_PRO_6000_PROFILES
    return dataclasses.replace(
        hosts.gpu(address, RTX_PRO_6000, vfs=48, vendor_vfio=True),
        mig_mode=True,
        profiles=profiles,
        gpu_instances=mig.lay_out(profiles, [profiles[0].name] * instances),
    )


def gpu(
    *instances: str, vfs: int = 0, vendor_vfio: bool = True
) -> simulation.GPU:
    """The instances are the names of their profiles."""
    return dataclasses.replace(
        hosts.gpu(ADDRESS, BOARD, vfs=vfs, vendor_vfio=vendor_vfio),
        mig_mode=True,
        profiles=mig.A100D_PROFILES,
        gpu_instances=mig.lay_out(
            mig.A100D_PROFILES, (f'MIG {name}' for name in instances)
        ),
    )


def switchable(*instances: str, mig_mode: bool = False) -> simulation.GPU:
    """A GPU that also has time-sliced types, with its functions disabled."""
    return dataclasses.replace(
        gpu(*instances), board=BOTH_KINDS, mig_mode=mig_mode
    )


def declare(*options: str, **numbers: int | None) -> str:
    """The GPU, for types by their names, each with a number or without."""
    lines = [
        '[devices]',
        f'enabled_vgpu_types = {", ".join(numbers)}',
        *options,
    ]
    for name, number in numbers.items():
        listed = ADDRESS if number is None else f'{ADDRESS}={number}'
        lines += [f'[vgpu_{name}]', f'device_addresses = {listed}']
    return '\n'.join(lines)
