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

from collections.abc import Iterator
import contextlib
import re

import libvirt
import libvirt_qemu

_UUID = r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}'
_STATES = {
    libvirt.VIR_DOMAIN_RUNNING: 'running',
    libvirt.VIR_DOMAIN_PAUSED: 'paused',
    libvirt.VIR_DOMAIN_SHUTOFF: 'shut off',
}

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
    with _connection() as connection:
        connection.defineXML(xml(name, device))


def start(name: str) -> None:
    with _domain(name) as domain:
        domain.createWithFlags(libvirt.VIR_DOMAIN_START_PAUSED)


def pause(name: str) -> None:
    with _domain(name) as domain:
        domain.suspend()


def stop(name: str) -> None:
    with _domain(name) as domain:
        domain.destroy()


def state(name: str) -> str:
    with _domain(name) as domain:
        return _STATES[domain.state()[0]]


def read(name: str) -> str:
    with _domain(name) as domain:
        return str(domain.XMLDesc())


def list_pci_ids(name: str) -> set[str]:
    """The ids of the PCI devices that its guest sees."""
    hmp = libvirt_qemu.VIR_DOMAIN_QEMU_MONITOR_COMMAND_HMP
    with _domain(name) as domain:
        shown = libvirt_qemu.qemuMonitorCommand(domain, 'info qtree', hmp)
    return set(re.findall(r'pci id ([0-9a-f]{4}:[0-9a-f]{4})', shown))


def remove(name: str) -> None:
    with _domain(name) as domain:
        if domain.isActive():
            domain.destroy()
        domain.undefine()


@contextlib.contextmanager
def _connection() -> Iterator[libvirt.virConnect]:
    """A new one each time: libvirtd is restarted now and then."""
    connection = libvirt.open('qemu:///system')
    try:
        yield connection
    finally:
        connection.close()


@contextlib.contextmanager
def _domain(name: str) -> Iterator[libvirt.virDomain]:
    """By name, or by the UUID of a server, which is that of its domain."""
    with _connection() as connection:
        if re.fullmatch(_UUID, name):
            yield connection.lookupByUUIDString(name)
        else:
            yield connection.lookupByName(name)
