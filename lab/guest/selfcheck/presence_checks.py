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

"""GPUs, their drivers and their types come and go."""

import pathlib
import time

from lab.guest.selfcheck import machine
from lab.guest.selfcheck import registry
from lab.guest.selfcheck import tools_checks

_UDEVADM = '/usr/bin/udevadm'
_PARAMETERS = pathlib.Path('/sys/module/fakevgpu/parameters')
_DELAY_MS = 700


def _add_one_of_each() -> None:
    """An unused vGPU on every GPU."""
    machine.T4.create('GRID T4-1Q')
    machine.INTEL.create('GVTg_V5_8')
    machine.A10.have_vfs(2)[1].create('NVIDIA A10-4C')
    (vf, *_) = machine.L40S.have_vfs(2)
    machine.write(vf.current, vf.creatable()['NVIDIA L40S-8A'])


def _count_mdevs() -> int:
    return len(list(machine.MDEVS.iterdir()))


@registry.check('types come late if told so')
def _late() -> None:
    a10, l40s = machine.A10, machine.L40S
    for gpu in (a10, l40s):
        machine.write(gpu.numvfs, 0)
        machine.write(gpu.knobs / 'delay_ms', _DELAY_MS)
    began = time.monotonic()
    mdev_vf, *_ = a10.have_vfs(1)
    vfio_vf, *_ = l40s.have_vfs(1)
    early = mdev_vf.types.exists(), vfio_vf.current.exists()
    if time.monotonic() - began < _DELAY_MS / 1000:
        registry.same('types at once', early, (False, False))
    registry.wait_for('mdev types', mdev_vf.types.exists)
    registry.wait_for('nvidia/', vfio_vf.current.exists)
    took = time.monotonic() - began
    registry.same('late', took >= _DELAY_MS / 1000, True)
    # Without the types having come, too.
    machine.write(l40s.numvfs, 0)
    machine.write(l40s.knobs / 'delay_ms', 60000)
    l40s.have_vfs(1)
    machine.write(l40s.numvfs, 0)


@registry.check('GPUs leave their driver and come back, with idle vGPUs')
def _rebind() -> None:
    _add_one_of_each()
    machine.write(machine.T4.knobs / 'create_errno', 28)
    for gpu in machine.GPUS:
        gpu.unbind()
        registry.same('types', gpu.types.exists(), False)
        registry.same('VFs', gpu.vfs(), [])
    registry.same('mdevs', _count_mdevs(), 0)
    for gpu in machine.GPUS:
        gpu.bind(gpu.own_driver)
        registry.same('vGPUs', machine.read(gpu.knobs / 'vgpus'), '0')
    registry.same(
        'a fault that was told before',
        machine.read(machine.T4.knobs / 'create_errno'),
        '28',
    )


@registry.check('GPUs are unplugged and plugged in, with idle vGPUs')
def _unplug() -> None:
    _add_one_of_each()
    ids = [gpu.ids() for gpu in machine.GPUS]
    for gpu in machine.GPUS:
        machine.write(gpu.path / 'remove', 1)
        registry.same('the GPU', gpu.path.exists(), False)
    registry.same('mdevs', _count_mdevs(), 0)
    machine.write(machine.RESCAN, 1)
    registry.same('ids', [gpu.ids() for gpu in machine.GPUS], ids)
    registry.wait_for('types', machine.T4.types.exists)
    machine.A10.have_vfs(1)


def _reload(**parameters: str) -> None:
    given = (f'{name}={value}' for name, value in parameters.items())
    # For a GPU that it hears of late, udev would load the module in between,
    # without parameters.
    settled = tools_checks.run(_UDEVADM, 'settle', '--timeout=60')
    registry.same('udevadm settle', settled, (0, ''))
    for arguments in (('-r', 'fakevgpu'), ('fakevgpu', *given)):
        done = tools_checks.run(tools_checks.MODPROBE, *arguments)
        registry.same(f'modprobe {arguments}', done, (0, ''))


@registry.check('the driver is unloaded with idle vGPUs, the next renumbers')
def _renumber() -> None:
    before = {
        path.name: machine.read(path)
        for path in _PARAMETERS.iterdir()
        if path.name in ('id_offset', 'delay_ms')
    }
    old = machine.T4.type_path('GRID T4-4Q').name
    _add_one_of_each()
    number = int(before['id_offset']) + 7
    try:
        _reload(id_offset=str(number), delay_ms='300')
        registry.same(
            'the delay', machine.read(machine.A10.knobs / 'delay_ms'), '300'
        )
        registry.wait_for('types', machine.T4.types.exists)
        new = machine.T4.type_path('GRID T4-4Q').name
        added = int(new.split('-')[1]) - int(old.split('-')[1])
        registry.same('what was added', added, 7)
        registry.same('VFs', machine.A10.vfs(), [])
    finally:
        _reload(**before)
