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

"""The types of the GPUs and the rules for them."""

import pathlib

from lab.guest.selfcheck import machine
from lab.guest.selfcheck import registry

_UNKNOWN = 65000


@registry.check('ids of the five GPUs, physical ones')
def _ids() -> None:
    registry.same(
        'T4', machine.T4.ids(), (0x10DE, 0x1EB8, 0x10DE, 0x12A2, 0x030200)
    )
    registry.same(
        'A10', machine.A10.ids(), (0x10DE, 0x2236, 0x10DE, 0x1482, 0x030200)
    )
    registry.same(
        'L40S', machine.L40S.ids(), (0x10DE, 0x26B9, 0x10DE, 0x1851, 0x030200)
    )
    registry.same(
        'A100', machine.A100.ids(), (0x10DE, 0x20B5, 0x10DE, 0x1533, 0x030200)
    )
    registry.same(
        'Intel',
        machine.INTEL.ids(),
        (0x8086, 0x191B, 0x8086, 0x2015, 0x030000),
    )
    registry.same(
        'their drivers',
        [gpu.driver for gpu in machine.GPUS],
        ['nvidia', 'nvidia', 'nvidia', 'nvidia', 'i915'],
    )


@registry.check('T4: types on the PF')
def _t4_types() -> None:
    registry.same('how many', len(list(machine.T4.types.iterdir())), 15)
    path = machine.T4.type_path('GRID T4-2Q')
    registry.same('its prefix', path.name.split('-')[0], 'nvidia')
    registry.same('its API', machine.read(path / 'device_api'), 'vfio-pci')
    registry.same(
        'its description',
        machine.read(path / 'description'),
        'num_heads=4, frl_config=60, framebuffer=2048M, '
        'max_resolution=7680x4320, max_instance=8',
    )
    registry.same('how many fit', machine.T4.available('GRID T4-2Q'), 8)


@registry.check('T4: one size of frame buffer, other series of it stay')
def _t4_homogeneous() -> None:
    first = machine.T4.create('GRID T4-2Q')
    mdev = machine.MDEVS / first
    names = ['2Q', '2A', '2B', '1B', '4C', '16Q']
    registry.same(
        'available',
        [machine.T4.available(f'GRID T4-{name}') for name in names],
        [7, 7, 7, 0, 0, 0],
    )
    registry.same(
        'another size', machine.T4.refused_create('GRID T4-1B'), 'ENOSPC'
    )
    registry.same(
        'the same UUID',
        machine.T4.refused_create('GRID T4-2Q', first),
        'EEXIST',
    )
    registry.same(
        'no UUID', machine.T4.refused_create('GRID T4-2Q', 'x'), 'EINVAL'
    )
    registry.same('the mdev driver', _driver(mdev), 'nvidia-vgpu-vfio')
    machine.write(mdev / 'nvidia' / 'vgpu_params', 'frame_rate_limiter=0')
    registry.same(
        'its parameters',
        machine.read(mdev / 'nvidia' / 'vgpu_params'),
        'frame_rate_limiter=0',
    )
    machine.write(mdev / 'remove', 1)
    registry.same('available again', machine.T4.available('GRID T4-16Q'), 1)


def _driver(path: pathlib.Path) -> str:
    return (path / 'driver').readlink().name


@registry.check('T4: full is ENOSPC')
def _t4_full() -> None:
    machine.T4.create('GRID T4-8Q')
    machine.T4.create('GRID T4-8C')
    registry.same('available', machine.T4.available('GRID T4-8A'), 0)
    registry.same('a third', machine.T4.refused_create('GRID T4-8Q'), 'ENOSPC')


@registry.check('T4: heterogeneous mode')
def _t4_heterogeneous() -> None:
    knob = machine.T4.knobs / 'heterogeneous'
    with machine.T4.knob('heterogeneous', 1):
        mdev = machine.MDEVS / machine.T4.create('GRID T4-8Q')
        names = ['1B', '4Q', '8C', '16A']
        registry.same(
            'available',
            [machine.T4.available(f'GRID T4-{name}') for name in names],
            [8, 2, 1, 0],
        )
        registry.same('switching it', machine.refusal(knob, 0), 'EBUSY')
        registry.same('not switching it', machine.refusal(knob, 1), '')
        machine.write(mdev / 'remove', 1)


@registry.check('creation fails as told, on one GPU alone')
def _create_errno() -> None:
    (vf, *_) = machine.L40S.have_vfs(3)
    with (
        machine.T4.knob('create_errno', 5),
        machine.L40S.knob('create_errno', 12),
    ):
        registry.same(
            'an mdev', machine.T4.refused_create('GRID T4-1Q'), 'EIO'
        )
        number = vf.creatable()['NVIDIA L40S-1Q']
        registry.same('a type', machine.refusal(vf.current, number), 'ENOMEM')
        registry.same('clearing', machine.refusal(vf.current, 0), '')
        machine.write(
            machine.MDEVS / machine.INTEL.create('GVTg_V5_8') / 'remove', 1
        )
    registry.same('vGPUs', machine.read(machine.T4.knobs / 'vgpus'), '0')
    registry.same('afterwards', machine.refusal(vf.current, number), '')


@registry.check('GVT-g: types without a size of their own')
def _intel() -> None:
    registry.same(
        'types',
        sorted(path.name for path in machine.INTEL.types.iterdir()),
        ['i915-GVTg_V5_4', 'i915-GVTg_V5_8'],
    )
    registry.same(
        'description',
        machine.read(
            machine.INTEL.types / 'i915-GVTg_V5_4' / 'description'
        ).splitlines(),
        [
            'low_gm_size: 128MB',
            'high_gm_size: 512MB',
            'fence: 4',
            'resolution: 1920x1200',
            'weight: 4',
        ],
    )
    machine.INTEL.create('GVTg_V5_4')
    registry.same('V5_4', machine.INTEL.available('GVTg_V5_4'), 3)
    registry.same('V5_8', machine.INTEL.available('GVTg_V5_8'), 6)


@registry.check('A10: types on the VFs, one vGPU on each')
def _a10() -> None:
    registry.same('types on the PF', machine.A10.types.exists(), False)
    first, second, third = machine.A10.have_vfs(3)
    registry.same('a VF', first.ids(), (0x10DE, 0x2236, 0x10DE, 0, 0x030200))
    registry.same('its knobs', (first.path / 'fakevgpu').exists(), False)
    registry.same('types', len(list(first.types.iterdir())), 23)
    registry.same('to begin with', first.available('NVIDIA A10-12Q'), 1)
    first.create('NVIDIA A10-12Q')
    registry.same('on it', first.available('NVIDIA A10-12Q'), 0)
    registry.same('on the next', second.available('NVIDIA A10-12A'), 1)
    registry.same('another size', second.available('NVIDIA A10-8Q'), 0)
    registry.same(
        'two on one', first.refused_create('NVIDIA A10-12Q'), 'ENOSPC'
    )
    second.create('NVIDIA A10-12C')
    registry.same('on a full GPU', third.available('NVIDIA A10-12Q'), 0)
    registry.same('a third', third.refused_create('NVIDIA A10-12Q'), 'ENOSPC')
    registry.same('no VFs', machine.refusal(machine.A10.numvfs, 0), 'EBUSY')


@registry.check('L40S: nvidia/ on the VFs, no mdev')
def _l40s() -> None:
    first, second, third = machine.L40S.have_vfs(3)
    registry.same(
        'nvidia/ on the PF', (machine.L40S.path / 'nvidia').exists(), False
    )
    registry.same('mdev types', first.types.exists(), False)
    registry.same('a VFIO device', (first.path / 'vfio-dev').exists(), True)
    registry.same('a VF', first.ids(), (0x10DE, 0x26B9, 0x10DE, 0, 0x030200))
    registry.same('idle', machine.read(first.current), '0')
    registry.same(
        'parameters', machine.read(first.path / 'nvidia' / 'vgpu_params'), ''
    )
    every = first.creatable()
    registry.same('types', len(every), 23)
    number = every['NVIDIA L40S-24Q']
    registry.same(
        'unknown', machine.refusal(first.current, _UNKNOWN), 'EINVAL'
    )
    registry.same('no number', machine.refusal(first.current, 'x'), 'EINVAL')
    machine.write(first.current, number)
    registry.same('the type', machine.read(first.current), str(number))
    registry.same(
        'another one',
        machine.refusal(first.current, every['NVIDIA L40S-24A']),
        'EBUSY',
    )
    registry.same('of its own', first.creatable(), {})
    size = ['NVIDIA L40S-24Q', 'NVIDIA L40S-24A']
    registry.same('of the others', list(third.creatable()), size)
    registry.same(
        'another size',
        machine.refusal(second.current, every['NVIDIA L40S-8Q']),
        'ENOSPC',
    )
    machine.write(second.current, every['NVIDIA L40S-24A'])
    registry.same('of a full GPU', third.creatable(), {})
    registry.same('a third', machine.refusal(third.current, number), 'ENOSPC')
    registry.same('no VFs', machine.refusal(machine.L40S.numvfs, 0), 'EBUSY')
    machine.write(first.current, 0)
    registry.same('with one less', list(third.creatable()), size)


@registry.check('L40S: heterogeneous mode')
def _l40s_heterogeneous() -> None:
    first, second, third = machine.L40S.have_vfs(3)
    every = first.creatable()
    machine.write(machine.L40S.knobs / 'heterogeneous', 1)
    machine.write(first.current, every['NVIDIA L40S-24Q'])
    machine.write(second.current, every['NVIDIA L40S-16A'])
    left = third.creatable()
    registry.same(
        'of 8 GB',
        [f'NVIDIA L40S-{n}' in left for n in ('3B', '8Q', '12Q')],
        [True, True, False],
    )
    registry.same(
        'switching',
        machine.refusal(machine.L40S.knobs / 'heterogeneous', 0),
        'EBUSY',
    )


@registry.check('more VFs than there are: ERANGE; other VFs: EBUSY')
def _numvfs() -> None:
    numvfs = machine.L40S.numvfs
    total = machine.read_number(machine.L40S.path / 'sriov_totalvfs')
    machine.L40S.have_vfs(3)
    now = machine.read_number(numvfs)
    registry.same('too many', machine.refusal(numvfs, total + 1), 'ERANGE')
    registry.same('less', machine.refusal(numvfs, now - 1), 'EBUSY')
    registry.same('as they are', machine.refusal(numvfs, now), '')
