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
BOARD = live.shrink(boards.A100D, 8, ONE, TWO, THREE, FOUR)


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
