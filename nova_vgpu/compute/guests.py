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


"""vGPUs in the shapes that Nova gives to the configuration of a guest.

An mdev is a hostdev of its own kind. A virtual function with its type set is a
PCI hostdev, and must have ``managed='no'``: with 'yes' libvirt binds it to
another driver, and the vGPU is gone. What their aliases are for is said in
:mod:`nova_vgpu.host.guests`.
"""

from collections.abc import Iterable
import typing

from nova.virt.libvirt import config as guest_config

from nova_vgpu import values
from nova_vgpu.compute import nova_types
from nova_vgpu.host import guests
from nova_vgpu.host import mdevs


# Nova has no type hints that mypy could follow.
class MdevHostdev(
    guest_config.LibvirtConfigGuestHostdevMDEV  # type: ignore[misc]
):
    """An mdev with an alias."""

    alias: str | None = None

    def format_dom(self) -> typing.Any:
        return _with_alias(super().format_dom(), self.alias)


class FunctionHostdev(
    guest_config.LibvirtConfigGuestHostdevPCI  # type: ignore[misc]
):
    """A PCI hostdev that keeps its alias; Nova's reads but does not write."""

    def format_dom(self) -> typing.Any:
        return _with_alias(super().format_dom(), self.alias)


class Connection:
    """libvirt's guests and mdevs, as Nova's own code asks for them.

    With eventlet, Nova has one thread, and libvirt is asked in others: a slow
    answer would stop the whole service. Nova wraps what its connection
    returns, but not what is in a list.
    """

    def __init__(self, host: nova_types.Host) -> None:
        self._host = host

    def listAllDomains(self, _flags: int = 0) -> Iterable[guests.Domain]:
        """All of them, running or not, whatever the flags are."""
        return self._host.list_instance_domains(only_running=False)

    def listAllDevices(self, flags: int = 0) -> Iterable[mdevs.NodeDevice]:
        found: Iterable[mdevs.NodeDevice] = self._host.list_all_devices(flags)
        return found

    def lookupByUUIDString(self, uuid: str) -> guests.Domain:
        return self._host.get_connection().lookupByUUIDString(uuid)


def make_mdev(uuid: str, alias: str) -> MdevHostdev:
    hostdev = MdevHostdev()
    hostdev.uuid = uuid
    hostdev.alias = alias
    return hostdev


def make_function(address: values.PciAddress, alias: str) -> FunctionHostdev:
    hostdev = FunctionHostdev()
    hostdev.managed = 'no'
    hostdev.domain = f'{address.domain:04x}'
    hostdev.bus = f'{address.bus:02x}'
    hostdev.slot = f'{address.slot:02x}'
    hostdev.function = f'{address.function:x}'
    hostdev.alias = alias
    return hostdev


def is_function(name: str) -> bool:
    """Whether a vGPU is a virtual function, by its name."""
    return name.startswith('pci_')


def list_gpu_functions(plan: values.Plan) -> dict[str, values.VirtualFunction]:
    """The virtual functions of all GPUs, by name."""
    return {vf.name: vf for gpu in plan.gpus for vf in gpu.vfs}


def _with_alias(element: typing.Any, alias: str | None) -> typing.Any:
    if alias is not None:
        element.append(element.makeelement('alias', name=alias))
    return element
