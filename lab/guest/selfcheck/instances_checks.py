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

"""GPU instances, and that NVML tells what the kernel has."""

import ctypes
import functools
import pathlib

from lab.guest.selfcheck import machine
from lab.guest.selfcheck import registry
from lab.guest.selfcheck import tools_checks

_A100 = machine.A100
_ONE, _TWO = 'GRID A100D-1-10C', 'GRID A100D-2-20C'
_IN_TIME = 'GRID A100D-20C'
_LOST, _IN_USE, _INSUFFICIENT = 15, 19, 23
_REMEMBERED = pathlib.Path('/var/lib/fakevgpu/mig')


def _instances() -> list[str]:
    return machine.read(_A100.nvml / 'instances').splitlines()


def _refused(command: str) -> str:
    return machine.refusal(_A100.nvml / 'instances', command)


def _available(vf: machine.Function) -> list[int]:
    return [vf.available(name) for name in (_IN_TIME, _TWO, _ONE)]


def _divide() -> None:
    machine.write(_A100.numvfs, 0)
    machine.write(_A100.nvml / 'mig', 1)


@registry.check('A100: types by MIG mode and GPU instances')
def _types() -> None:
    (vf, *_) = _A100.have_vfs(2)
    registry.same('in time', _available(vf), [1, 0, 0])
    mode = _A100.nvml / 'mig'
    registry.same('the mode with VFs', machine.refusal(mode, 1), 'EBUSY')
    registry.same('an instance', _refused('cgi 14'), 'ENOTSUP')
    _divide()
    vf, other = _A100.have_vfs(2)
    registry.same('without instances', _available(vf), [0, 0, 0])
    registry.same('a vGPU', vf.refused_create(_TWO), 'ENOSPC')
    machine.write(_A100.nvml / 'instances', 'cgi 14')
    registry.same('without a compute instance', _available(vf), [0, 0, 0])
    machine.write(_A100.nvml / 'instances', 'cci 1')
    registry.same('with an instance', _available(vf), [0, 1, 0])
    vf.create(_TWO)
    registry.same('on the next VF', _available(other), [0, 0, 0])
    registry.same('two on one', other.refused_create(_TWO), 'ENOSPC')
    registry.same(
        'in use', [_refused('dci 1'), _refused('dgi 1')], ['EBUSY'] * 2
    )


@registry.check('A100: GPU instances draw on one pool of memory slices')
def _pool() -> None:
    _divide()
    for command, refusal in (
        ('cgi 14 2', ''),
        ('cgi 14', ''),
        ('cgi 14 3', 'ENOSPC'),
        ('cgi 19', ''),
        ('cgi 14', 'ENOSPC'),
        ('cgi 99', 'EINVAL'),
        ('dgi 4', 'ENOENT'),
        ('dgi 1', ''),
        ('cgi 19', ''),
    ):
        registry.same(command, _refused(command), refusal)
    registry.same(
        'instances',
        _instances(),
        ['1 19 2 1 0', '2 14 0 2 0', '3 19 4 1 0'],
    )


@registry.check('A100: VFs take GPU instances along')
def _lost() -> None:
    _divide()
    for count in (2, 0):
        machine.write(_A100.nvml / 'instances', 'cgi 9')
        machine.write(_A100.numvfs, count)
        registry.same(f'with {count} VFs', _instances(), [])
    machine.write(_A100.nvml / 'instances', 'cgi 9')
    _A100.unbind()
    _A100.bind('nvidia')
    registry.same('after the driver', _instances(), [])
    mode = machine.read(_A100.nvml / 'mig')
    registry.same('the mode', mode, '1 1')


@registry.check('nvidia-smi: GPU instances with compute instances')
def _smi() -> None:
    which = ('-i', _A100.address)

    def smi(*arguments: str) -> int:
        return tools_checks.run(tools_checks.NVIDIA_SMI, *arguments, *which)[0]

    registry.same('without the mode', smi('mig', '-cgi', '14', '-C'), 3)
    machine.write(_A100.numvfs, 0)
    registry.same('the mode', smi('-mig', '1'), 0)
    registry.same(
        'what is remembered', machine.read(_REMEMBERED), _A100.address
    )
    registry.same('four', smi('mig', '-cgi', '14,14,14,19', '-C'), 0)
    registry.same('no room', smi('mig', '-cgi', '19', '-C'), _INSUFFICIENT)
    registry.same('unknown', smi('mig', '-cgi', '99', '-C'), 2)
    registry.same(
        'instances',
        _instances(),
        ['1 14 0 2 1', '2 14 2 2 1', '3 14 4 2 1', '4 19 6 1 1'],
    )
    registry.same('with compute', smi('mig', '-dgi', '-gi', '2'), _IN_USE)
    registry.same('compute', smi('mig', '-dci', '-gi', '2'), 0)
    registry.same('without it', smi('mig', '-dgi', '-gi', '2'), 0)
    registry.same('not there', smi('mig', '-dgi', '-gi', '2'), 6)
    registry.same('how many are left', len(_instances()), 3)
    registry.same('off', smi('-mig', '0'), 0)
    registry.same('what is remembered', machine.read(_REMEMBERED), '')


class _NVML:
    """The functions of the library; a result of 0 is success."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL('libnvidia-ml.so.1')
        registry.same('nvmlInit', self._library.nvmlInit_v2(), 0)

    def ask(self, function: str, *arguments: object) -> int:
        return int(self._library[function](*arguments))

    def find(self, gpu: machine.GPU) -> ctypes.c_void_p:
        device = ctypes.c_void_p()
        registry.same(
            f'the handle of {gpu.address}',
            self.ask(
                'nvmlDeviceGetHandleByPciBusId_v2',
                gpu.address.encode(),
                ctypes.byref(device),
            ),
            0,
        )
        return device

    def list(self, function: str, device: ctypes.c_void_p) -> list[int]:
        count = ctypes.c_uint(64)
        found = (ctypes.c_uint * 64)()
        done = self.ask(function, device, ctypes.byref(count), found)
        registry.same(function, done, 0)
        return list(found[: count.value])


@registry.check('NVML tells what the kernel has, and changes it')
def _nvml() -> None:
    nvml = _NVML()
    count = ctypes.c_uint()
    nvml.ask('nvmlDeviceGetCount_v2', ctypes.byref(count))
    registry.same('GPUs', count.value, 4)
    device = nvml.find(_A100)
    creatable = functools.partial(
        nvml.list, 'nvmlDeviceGetCreatableVgpus', device
    )
    mode = functools.partial(nvml.ask, 'nvmlDeviceSetMigMode', device)
    activation = ctypes.byref(ctypes.c_uint())
    (vf, *_) = _A100.have_vfs(1)
    registry.same('MIG mode with VFs', mode(1, activation), _IN_USE)
    machine.write(_A100.numvfs, 0)
    registry.same('MIG mode', mode(1, activation), 0)
    registry.same('types', creatable(), [])
    instance = ctypes.c_void_p()
    create = functools.partial(
        nvml.ask, 'nvmlDeviceCreateGpuInstance', device, 0
    )
    # MIG 7g.80gb, which takes all of the GPU.
    registry.same('an instance', create(ctypes.byref(instance)), 0)
    registry.same('it', _instances(), ['1 0 0 8 0'])
    registry.same(
        'two', create(ctypes.byref(ctypes.c_void_p())), _INSUFFICIENT
    )
    registry.same('gone', nvml.ask('nvmlGpuInstanceDestroy', instance), 0)
    registry.same('none', _instances(), [])

    (vf, *_) = _A100.have_vfs(1)
    for command in ('cgi 14', 'cci 1'):
        machine.write(_A100.nvml / 'instances', command)
    number = int(vf.type_path(_TWO).name.split('-')[1])
    registry.same('types', creatable(), [number])
    vf.create(_TWO)
    registry.same('with a vGPU', creatable(), [])
    active = nvml.list('nvmlDeviceGetActiveVgpus', device)
    registry.same('active ones', active, [])
    _A100.unbind()
    registry.same('without the driver', mode(0, activation), _LOST)
    _A100.bind('nvidia')
    registry.same('the same handle', mode(0, activation), 0)
