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

"""What is different while a guest has a vGPU.

One paused domain has an mdev and a VF, for a domain takes its time where
there is no hardware for it.
"""

import contextlib
import errno
import fcntl
import os
import pathlib
import struct
import subprocess
import tempfile

from lab.guest.selfcheck import machine
from lab.guest.selfcheck import registry
from lab.guest.selfcheck import tools_checks

# Of linux/vfio.h.
_VFIO_SET_IOMMU = 0x3B66
_VFIO_GROUP_SET_CONTAINER = 0x3B68
_VFIO_GROUP_GET_DEVICE_FD = 0x3B6A
_VFIO_TYPE1_IOMMU = 1

_NAME = 'fakevgpu-selfcheck'
_DOMAIN = """
<domain type='qemu'>
  <name>{name}</name>
  <memory unit='MiB'>32</memory>
  <os><type arch='x86_64' machine='pc'>hvm</type></os>
  <features><acpi/></features>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <controller type='usb' model='none'/>
    <memballoon model='none'/>
    {devices}
  </devices>
</domain>
"""
_MDEV = """
<hostdev mode='subsystem' type='mdev' model='vfio-pci'>
  <source><address uuid='{}'/></source>
</hostdev>
"""
_VF = """
<hostdev mode='subsystem' type='pci' managed='no'>
  <source>
    <address domain='0x{}' bus='0x{}' slot='0x{}' function='0x{}'/>
  </source>
</hostdev>
"""


def _virsh(*arguments: str) -> tuple[int, str]:
    uri = 'qemu:///system'
    return tools_checks.run('/usr/bin/virsh', '-c', uri, *arguments)


def _start(*devices: str) -> tuple[int, str]:
    text = _DOMAIN.format(name=_NAME, devices=''.join(devices))
    with tempfile.NamedTemporaryFile('w', suffix='.xml') as file:
        file.write(text)
        file.flush()
        return _virsh('create', '--paused', file.name)


def _describe(vf: machine.Function) -> str:
    domain, bus, rest = vf.address.split(':')
    return _VF.format(domain, bus, *rest.split('.'))


def stop() -> None:
    """End the domain, if there is one."""
    if pathlib.Path(f'/run/libvirt/qemu/{_NAME}.pid').exists():
        code, said = _virsh('destroy', _NAME)
        registry.same(f'destroying the domain: {said}', code, 0)


@registry.check('libvirt shows types, VFs and their class')
def _node_devices() -> None:
    (vf, *_) = machine.L40S.have_vfs(2)
    (a10_vf, *_) = machine.A10.have_vfs(2)
    total = machine.read(machine.L40S.path / 'sriov_totalvfs')
    expected = (
        (machine.T4, "<type id='nvidia-"),
        (machine.INTEL, "<type id='i915-GVTg_V5_4'>"),
        (machine.L40S, f"type='virt_functions' maxCount='{total}'"),
        (vf, '<class>0x030200</class>'),
        (a10_vf, '<name>NVIDIA A10-24C</name>'),
    )
    # All in one call: to begin is most of the work of virsh.
    dumps = '; '.join(
        f'nodedev-dumpxml {function.node_device}' for function, _ in expected
    )

    def look() -> bool:
        _, shown = _virsh(dumps)
        return all(text in shown for _, text in expected)

    registry.wait_for(f'{[text for _, text in expected]}', look, 60)


def open_as_vfio(vf: machine.Function) -> str:
    """The error that opening a VF ends with, in the way that QEMU does it."""
    group = (vf.path / 'iommu_group').readlink().name
    with contextlib.ExitStack() as stack:

        def open_file(path: str) -> int:
            fd = os.open(path, os.O_RDWR)
            stack.callback(os.close, fd)
            return fd

        container = open_file('/dev/vfio/vfio')
        members = open_file(f'/dev/vfio/{group}')
        argument = struct.pack('i', container)
        fcntl.ioctl(members, _VFIO_GROUP_SET_CONTAINER, argument)
        fcntl.ioctl(container, _VFIO_SET_IOMMU, _VFIO_TYPE1_IOMMU)
        try:
            # Of what it may change, ioctl() returns the number: a file.
            name = bytearray(f'{vf.address}\0'.encode())
            os.close(fcntl.ioctl(members, _VFIO_GROUP_GET_DEVICE_FD, name))
        except OSError as e:
            return errno.errorcode[e.errno or 0]
    return ''


@registry.check('a VF is for a guest only with a type')
def _no_type() -> None:
    (vf, *_) = machine.L40S.have_vfs(2)
    registry.same('without one', open_as_vfio(vf), 'ENODEV')
    machine.write(vf.current, vf.creatable()['NVIDIA L40S-24Q'])
    registry.same('with one', open_as_vfio(vf), '')
    in_use = machine.read(machine.L40S.knobs / 'in_use')
    registry.same('vGPUs in use', in_use, '0')


def _check_vf_in_use(vf: machine.Function, other: int) -> None:
    gpu = machine.L40S
    registry.same('the driver of the VF', vf.driver, 'nvidia')
    registry.same('in use', machine.read(gpu.knobs / 'in_use'), '1')
    before = machine.read(vf.current)
    busy = [machine.refusal(vf.current, n) for n in (0, other, before)]
    registry.same('other types', busy, ['EBUSY'] * 3)
    registry.same('the type', machine.read(vf.current), before)
    params = vf.path / 'nvidia' / 'vgpu_params'
    registry.same('parameters', machine.refusal(params, 'x=1'), 'EBUSY')
    registry.same('no VFs', machine.refusal(gpu.numvfs, 0), 'EBUSY')
    registry.same(
        'sriov-manage',
        tools_checks.run(tools_checks.SRIOV_MANAGE, '-d', gpu.address),
        (1, f'{gpu.address} is in use'),
    )


def _check_libvirt_refuses(uuid: str) -> None:
    parent = machine.T4.node_device.removeprefix('pci_')
    name = f'mdev_{uuid.replace("-", "_")}_{parent}'

    # Until libvirt has heard of it, that is what it says.
    def is_refused() -> bool:
        code, said = _virsh('nodedev-destroy', name)
        return code != 0 and 'device in use' in said

    registry.wait_for(f'{name} in use, for libvirt', is_refused, 60)
    mdev = machine.MDEVS / uuid
    registry.same('the mdev', mdev.exists(), True)


def _remove_behind_its_back(uuid: str) -> subprocess.Popen[bytes]:
    """Begin a removal that does not end while the guest is there."""
    path = machine.MDEVS / uuid
    remover = subprocess.Popen(
        ('/bin/sh', '-c', f'echo 1 > {path}/remove'),
        stderr=subprocess.DEVNULL,
    )
    status = pathlib.Path(f'/proc/{remover.pid}/wchan')
    registry.wait_for('a link that is gone', lambda: not path.exists())
    registry.wait_for(
        'a removal that waits', lambda: machine.read(status) not in ('', '0')
    )
    with contextlib.suppress(subprocess.TimeoutExpired):
        remover.wait(0.5)
    registry.same('the end of the removal', remover.returncode, None)
    available = machine.T4.available('GRID T4-2Q')
    registry.same('how many fit meanwhile', available, 7)
    return remover


@registry.check('a guest has an mdev and a VF: nothing is taken from it')
def _in_use() -> None:
    mdev = machine.T4.create('GRID T4-2Q')
    (vf, *_) = machine.L40S.have_vfs(2)
    every = vf.creatable()
    machine.write(vf.current, every['NVIDIA L40S-24Q'])
    code, said = _start(_MDEV.format(mdev), _describe(vf))
    registry.same(f'the start of the domain: {said}', code, 0)
    try:
        in_use = machine.read(machine.T4.knobs / 'in_use')
        registry.same('mdevs in use', in_use, '1')
        _check_vf_in_use(vf, every['NVIDIA L40S-24A'])
        _check_libvirt_refuses(mdev)
        remover = _remove_behind_its_back(mdev)
    finally:
        stop()
    registry.same('the removal, afterwards', remover.wait(30), 0)
    registry.same('how many fit', machine.T4.available('GRID T4-2Q'), 8)
    registry.wait_for(
        'a VF that is free', lambda: not machine.refusal(vf.current, 0)
    )
