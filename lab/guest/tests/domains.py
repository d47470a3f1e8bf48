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

"""Guests of the guest, with a vGPU and nothing else.

They are started paused: they have nothing to run.
"""

import re

from lab.guest.tests import host

_DOMAIN = """\
<domain type='qemu'>
  <name>{name}</name>
  <memory unit='MiB'>32</memory>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <controller type='usb' model='none'/>
    <memballoon model='none'/>
    {hostdev}
  </devices>
</domain>
"""
_MDEV = """\
<hostdev mode='subsystem' type='mdev' model='vfio-pci'>
  <source><address uuid='{}'/></source>
</hostdev>
"""
_VF = """\
<hostdev mode='subsystem' type='pci' managed='no'>
  <source>
    <address domain='0x{}' bus='0x{}' slot='0x{}' function='0x{}'/>
  </source>
</hostdev>
"""


def xml(name: str, device: str) -> str:
    """A domain with a vGPU: the UUID of an mdev, or the address of a VF."""
    if re.fullmatch(r'[0-9a-f]{4}(:[0-9a-f]{2}){2}\.[0-7]', device):
        hostdev = _VF.format(*re.split('[:.]', device))
    else:
        hostdev = _MDEV.format(device)
    return _DOMAIN.format(name=name, hostdev=hostdev)


def define(name: str, device: str) -> None:
    path = host.KEPT / f'{name}.xml'
    path.parent.mkdir(exist_ok=True)
    path.write_text(xml(name, device))
    virsh('define', str(path))


def start(name: str) -> None:
    virsh('start', '--paused', name)


def state(name: str) -> str:
    return virsh('domstate', name).strip()


def remove(name: str) -> None:
    if state(name) != 'shut off':
        virsh('destroy', name)
    virsh('undefine', name)


def virsh(*arguments: str) -> str:
    return host.run('virsh', '-c', 'qemu:///system', *arguments)
