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

"""What decides whether a GPU can be given to a server as a whole.

::

    bus/pci/devices/<GPU>/
        iommu_group -> ../../../kernel/iommu_groups/<number>
        iommu_group/devices/<function>  what the kernel isolates together
        boot_vga                        1: the firmware shows its screen on it
        graphics/fb<N>                  a framebuffer of the host is on it
    kernel/iommu_groups/                empty without an IOMMU

It is read when an operator asks for it, and is not part of a host: the driver
in nova-compute does not need it.
"""

from collections.abc import Mapping
import dataclasses

from nova_vgpu import values
from nova_vgpu.host import files

_GROUPS = ('kernel', 'iommu_groups')


def read_isolation(
    tree: files.Files, host: values.Host
) -> values.IsolationRead:
    """The isolation of every GPU that is a PCI device."""
    return values.IsolationRead(
        tuple(
            (gpu.address, _read_gpu(tree, gpu.address))
            for gpu in host.gpus
            if gpu.address is not None
        ),
        _has_groups(tree),
    )


def make_unknown(host: values.Host, because: str) -> values.IsolationRead:
    """The isolation of a host whose sysfs cannot be read."""
    unknown = values.GPUIsolation(unknown_because=because)
    return values.IsolationRead(
        tuple((gpu.address, unknown) for gpu in host.gpus if gpu.address)
    )


def add_processes(
    found: values.IsolationRead,
    processes: Mapping[values.PciAddress, tuple[int, ...]],
) -> values.IsolationRead:
    """The same, with the processes of the host that use each GPU."""
    return dataclasses.replace(
        found,
        gpus=tuple(
            (
                address,
                dataclasses.replace(of, processes=processes.get(address, ())),
            )
            for address, of in found.gpus
        ),
    )


def _has_groups(tree: files.Files) -> bool:
    try:
        return bool(tree.list(*_GROUPS))
    except files.Unreadable:
        return False


def _read_gpu(
    tree: files.Files, address: values.PciAddress
) -> values.GPUIsolation:
    where = (*files.PCI, str(address))
    try:
        entries = tree.list(*where)
        is_display = 'graphics' in entries or (
            'boot_vga' in entries and tree.read(*where, 'boot_vga') == '1'
        )
        if 'iommu_group' not in entries:
            return values.GPUIsolation(is_display=is_display)
        return values.GPUIsolation(
            _read_group(tree, where),
            _read_others(tree, where, address),
            is_display,
        )
    except (files.Unreadable, values.MalformedAddress) as error:
        return values.GPUIsolation(unknown_because=str(error))


def _read_group(tree: files.Files, where: files.Path) -> int:
    """The number of a function's IOMMU group.

    :raises Unreadable: if it is not a number.
    """
    name = tree.link_name(*where, 'iommu_group')
    if not (name.isascii() and name.isdecimal()):
        raise files.Unreadable(
            tree.path(*where, 'iommu_group'),
            f'leads to {name[:40]!r} instead of a number',
        )
    return int(name)


def _read_others(
    tree: files.Files,
    where: files.Path,
    address: values.PciAddress,
) -> tuple[values.PciFunction, ...]:
    """The other functions of the group, in order of address.

    :raises Unreadable: if one cannot be read.
    :raises MalformedAddress: if one is not a PCI function.
    """
    names = tree.list(*where, 'iommu_group', 'devices')
    members = {values.PciAddress.parse(name): name for name in names}
    members.pop(address, None)
    return tuple(
        values.PciFunction(
            member,
            tree.read_number(*files.PCI, name, 'class', base=16),
            tree.find_link_name(*files.PCI, name, 'driver'),
        )
        for member, name in sorted(members.items())
    )
