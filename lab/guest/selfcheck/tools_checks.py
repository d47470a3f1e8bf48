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

"""The stand-ins for the vendor's programs."""

import os
import pathlib
import signal
import subprocess

from lab.guest.selfcheck import machine
from lab.guest.selfcheck import registry

SRIOV_MANAGE = '/usr/lib/nvidia/sriov-manage'
NVIDIA_SMI = '/usr/bin/nvidia-smi'
MANAGER = '/usr/bin/nvidia-vgpu-mgr'
MODPROBE = '/usr/sbin/modprobe'
FAULTS = pathlib.Path('/run/fakevgpu/sriov-manage')


def run(*argv: str) -> tuple[int, str]:
    """How a program ended, and all that it said."""
    done = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout.strip()


def _fail_next(*words: str) -> None:
    FAULTS.parent.mkdir(parents=True, exist_ok=True)
    FAULTS.write_text(''.join(f'{word}\n' for word in words))


def clear_faults() -> None:
    FAULTS.unlink(missing_ok=True)


@registry.check('sriov-manage: refuses what it does not know')
def _usage() -> None:
    usage = (1, 'usage: sriov-manage -e|-d GPU|ALL')
    registry.same('no arguments', run(SRIOV_MANAGE), usage)
    plain = machine.T4.address
    registry.same(
        'a GPU without VFs',
        run(SRIOV_MANAGE, '-e', plain),
        (1, f'{plain} is not a GPU with VFs'),
    )


@registry.check('sriov-manage: faults, one for each call')
def _faults() -> None:
    gpu = machine.L40S
    address = gpu.address
    machine.write(gpu.numvfs, 0)
    _fail_next('unbindLock', 'stub')
    registry.same(
        'the first call',
        run(SRIOV_MANAGE, '-e', address),
        (1, f'Cannot obtain unbindLock for {address}'),
    )
    registry.same('the driver after it', gpu.driver, 'nvidia')
    registry.same(
        'the second call',
        run(SRIOV_MANAGE, '-e', address),
        (1, f'Failed to enable VFs on {address}'),
    )
    registry.same('the driver after it', gpu.driver, machine.STUB)
    registry.same('VFs', machine.read(gpu.numvfs), '0')
    registry.same('knobs', gpu.knobs.exists(), False)
    registry.same(
        'the third call',
        run(SRIOV_MANAGE, '-e', address),
        (1, f'{address} is not bound to nvidia'),
    )
    registry.same(
        'nvidia-smi',
        run(NVIDIA_SMI, 'vgpu', '-shm', '1', '-i', address),
        (6, 'No devices were found'),
    )
    gpu.unbind()
    gpu.bind('nvidia')
    registry.same('knobs again', gpu.knobs.exists(), True)


@registry.check('sriov-manage: hangs when told to, and a child with it')
def _hang() -> None:
    machine.write(machine.L40S.numvfs, 0)
    _fail_next('hang')
    hanging = subprocess.Popen(
        (SRIOV_MANAGE, '-e', machine.L40S.address), start_new_session=True
    )
    children = pathlib.Path(f'/proc/{hanging.pid}/task/{hanging.pid}/children')
    registry.wait_for(
        'a child that sleeps',
        lambda: any(
            machine.read(pathlib.Path(f'/proc/{child}/comm')) == 'sleep'
            for child in machine.read(children).split()
        ),
    )
    registry.same('its end', hanging.poll(), None)
    os.killpg(hanging.pid, signal.SIGKILL)
    hanging.wait()
    registry.same('VFs', machine.read(machine.L40S.numvfs), '0')


@registry.check('VFs enabled on the stub wait for the driver of the GPU')
def _stub() -> None:
    registry.same('modprobe', run(MODPROBE, machine.STUB), (0, ''))
    for gpu in (machine.A10, machine.L40S):
        machine.write(gpu.numvfs, 0)
        gpu.unbind()
        gpu.bind(machine.STUB)
        (vf,) = gpu.have_vfs(1)
        registry.same('ids of the VF', vf.ids()[:2], gpu.ids()[:2])
        registry.same('its driver', vf.driver, None)
        gpu.unbind()
        gpu.bind('nvidia')
        registry.same('its driver afterwards', vf.driver, 'nvidia')
        types = vf.types.exists(), vf.current.exists()
        registry.same('ways to a vGPU', types.count(True), 1)


@registry.check('sriov-manage: by way of the stub, and back')
def _enable_all() -> None:
    had, has_not, other = machine.A10, machine.L40S, machine.A100
    had.have_vfs(1)
    for gpu in (has_not, other):
        machine.write(gpu.numvfs, 0)
    # A mode goes with the driver, as it does on a real host.
    machine.write(has_not.knobs / 'heterogeneous', 1)
    code, said = run(SRIOV_MANAGE, '-e', 'ALL')
    registry.same('its end', code, 0)
    already = f'VFs are already enabled on {had.address}'
    enabled = {f'Enabling VFs on {gpu.address}' for gpu in (has_not, other)}
    registry.same('what it said', set(said.splitlines()), {already, *enabled})
    total = machine.read_number(has_not.path / 'sriov_totalvfs')
    registry.same('VFs', len(has_not.vfs()), total)
    drivers = {function.driver for function in has_not.functions()}
    registry.same('drivers', drivers, {'nvidia'})
    for vf in has_not.vfs():
        registry.same(f'type of {vf.address}', machine.read(vf.current), '0')
    mode = machine.read(has_not.knobs / 'heterogeneous')
    registry.same('the mode', mode, '0')


@registry.check('sriov-manage: disables VFs, with idle vGPUs on them')
def _disable() -> None:
    (vf, *_) = machine.L40S.have_vfs(3)
    machine.write(vf.current, vf.creatable()['NVIDIA L40S-1Q'])
    (vf, *_) = machine.A10.have_vfs(3)
    vf.create('NVIDIA A10-1Q')
    for gpu in (machine.A10, machine.L40S):
        spelled = f'0000{gpu.address}'.upper()
        registry.same(
            'its end',
            run(SRIOV_MANAGE, '-d', spelled),
            (0, f'Disabling VFs on {gpu.address}'),
        )
        registry.same('VFs', gpu.vfs(), [])
        registry.same('vGPUs', machine.read(gpu.knobs / 'vgpus'), '0')
    gone = machine.A10.address
    registry.same(
        'again',
        run(SRIOV_MANAGE, '-d', gone),
        (0, f'VFs are already disabled on {gone}'),
    )


@registry.check('nvidia-smi: switches heterogeneous mode')
def _smi() -> None:
    gpu = machine.T4
    mode = gpu.knobs / 'heterogeneous'
    spelled = f'0000{gpu.address}'.upper()
    done = (0, f'Set vGPU heterogeneous mode of {spelled}')
    command = (NVIDIA_SMI, 'vgpu', '-shm')
    registry.same('on', run(*command, '1', '-i', spelled), done)
    registry.same('the mode', machine.read(mode), '1')
    gpu.create('GRID T4-1Q')
    registry.same(
        'with a vGPU',
        run(*command, '0', '-i', spelled),
        (1, f'Unable to set the mode of {spelled}: In use'),
    )
    registry.same('arguments', run(NVIDIA_SMI, 'vgpu')[0], 2)


@registry.check('the vGPU manager is there by its name')
def _manager() -> None:
    manager = subprocess.Popen((MANAGER,))
    comm = pathlib.Path(f'/proc/{manager.pid}/comm')
    try:
        registry.wait_for(
            'its name', lambda: machine.read(comm) == 'nvidia-vgpu-mgr', 5
        )
    finally:
        manager.terminate()
        manager.wait(10)
