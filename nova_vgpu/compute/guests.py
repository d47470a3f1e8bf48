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


"""vGPUs as they stand in the configuration of a guest.

An mdev is a hostdev of its own kind. A virtual function with its type set is a
PCI hostdev, and must have ``managed='no'``: with 'yes' libvirt binds it to
another driver, and the vGPU is gone. Its alias says that it is a vGPU, unlike
the PCI devices that Nova gives to servers by itself, and of which type: the
function loses the type when the host is rebooted. ::

    <hostdev mode='subsystem' type='pci' managed='no'>
      <source><address domain='0x0000' bus='0x41' slot='0x00' .../></source>
      <alias name='ua-vgpu-0-NVIDIA_L40S-24Q'/>
    </hostdev>

libvirt keeps an alias that starts with ``ua-``, and takes letters, digits,
``_`` and ``-`` in it.
"""

from collections.abc import Iterator
import re
import typing

from nova.virt.libvirt import config as guest_config

from nova_vgpu import values

_ALIAS = re.compile(r'ua-vgpu-[0-9]+(?:-([0-9A-Za-z_-]+))?', re.ASCII)
_NAME = re.compile(r'[0-9A-Za-z -]+', re.ASCII)

GuestConfig = typing.Any  # nova.virt.libvirt.config.LibvirtConfigGuest


class FunctionHostdev(
    guest_config.LibvirtConfigGuestHostdevPCI  # type: ignore[misc]
):
    """A PCI hostdev that keeps its alias; Nova's reads but does not write."""

    def format_dom(self) -> typing.Any:
        element = super().format_dom()
        if self.alias is not None:
            alias = element.makeelement('alias', name=self.alias)
            element.append(alias)
        return element


def make_hostdev(
    address: values.PciAddress, type_name: str | None, order: int
) -> FunctionHostdev:
    """A virtual function as a vGPU of a guest, in which ``order`` is unique.

    The name of a type that an alias cannot hold is left out.
    """
    hostdev = FunctionHostdev()
    hostdev.managed = 'no'
    hostdev.domain = f'{address.domain:04x}'
    hostdev.bus = f'{address.bus:02x}'
    hostdev.slot = f'{address.slot:02x}'
    hostdev.function = f'{address.function:x}'
    hostdev.alias = f'ua-vgpu-{order}'
    if type_name and _NAME.fullmatch(type_name):
        hostdev.alias += '-' + type_name.replace(' ', '_')
    return hostdev


def list_mdevs(config: GuestConfig) -> Iterator[str]:
    """The UUIDs of a guest's mdevs."""
    for device in config.devices:
        if isinstance(device, guest_config.LibvirtConfigGuestHostdevMDEV):
            yield device.uuid


def list_pci(config: GuestConfig) -> Iterator[str]:
    """The node device names of all PCI devices that a guest has."""
    for device in config.devices:
        if isinstance(device, guest_config.LibvirtConfigGuestHostdevPCI):
            yield _address(device).node_device_name


def list_functions(config: GuestConfig) -> Iterator[tuple[str, str | None]]:
    """A guest's virtual functions, each with the name of its type, if known.

    Only those that are vGPUs.
    """
    for device in config.devices:
        if isinstance(device, guest_config.LibvirtConfigGuestHostdevPCI):
            alias = _ALIAS.fullmatch(device.alias or '')
            if alias is not None:
                type_name = (alias[1] or '').replace('_', ' ') or None
                yield _address(device).node_device_name, type_name


def list_function_hostdevs(config: GuestConfig) -> Iterator[FunctionHostdev]:
    """The same as devices that can be attached and detached."""
    for device in config.devices:
        if isinstance(
            device, guest_config.LibvirtConfigGuestHostdevPCI
        ) and _ALIAS.fullmatch(device.alias or ''):
            hostdev = make_hostdev(_address(device), None, 0)
            hostdev.alias = device.alias
            yield hostdev


def _address(hostdev: typing.Any) -> values.PciAddress:
    return values.PciAddress(
        int(hostdev.domain, 16),
        int(hostdev.bus, 16),
        int(hostdev.slot, 16),
        int(hostdev.function, 16),
    )


def is_function(name: str) -> bool:
    """Whether a vGPU is a virtual function, by its name."""
    return name.startswith('pci_')


def list_gpu_functions(plan: values.Plan) -> dict[str, values.VirtualFunction]:
    """The virtual functions of all GPUs, by name."""
    return {vf.name: vf for gpu in plan.gpus for vf in gpu.vfs}
