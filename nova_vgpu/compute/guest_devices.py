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

"""vGPUs in the configuration of a guest that is being defined.

An mdev is a hostdev of its own kind. A virtual function with its type set is a
PCI hostdev, and must have ``managed='no'``: with 'yes' libvirt binds it to
another driver, and the vGPU is gone. A virtual function that the kernel
provisioned is a PCI hostdev as well, which libvirt may bind to VFIO. What
their aliases are for is said in :mod:`nova_vgpu.host.guests`.

Some mdevs are Cyborg's: it creates them for servers and looks after them. Nova
names them in some operations only. The others find them among the vGPUs of the
guest, where their aliases tell which they are.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from collections.abc import Set
import contextlib
import typing

from nova.virt.libvirt import config as guest_config

from nova_vgpu import values
from nova_vgpu.compute import allocator
from nova_vgpu.compute import planner as vgpu_planner
from nova_vgpu.compute import vgpu_devices
from nova_vgpu.host import guests

#: What Cyborg tells Nova of the devices of a server.
AccelInfo = Iterable[Mapping[str, str]] | None


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


class GuestConfig(typing.Protocol):
    """``nova.virt.libvirt.config.LibvirtConfigGuest``."""

    def add_device(self, device: MdevHostdev | FunctionHostdev) -> None: ...


class GuestDevices:
    """Adds vGPUs of either framework to the configuration of a guest."""

    def __init__(self, planner: vgpu_planner.Planner) -> None:
        self._planner = planner
        #: The mdevs of Cyborg's for guests that are being defined.
        self._accelerators: set[str] = set()

    @contextlib.contextmanager
    def marking(self, accelerators: Set[str]) -> Iterator[None]:
        """Have a guest that is defined meanwhile say which are Cyborg's."""
        self._accelerators.update(accelerators)
        try:
            yield
        finally:
            self._accelerators.difference_update(accelerators)

    def add(self, guest: GuestConfig, vgpus: Sequence[str]) -> None:
        """Add vGPUs, and note their types and which of them are Cyborg's.

        :raises ComputeResourcesUnavailable: if a function is not there.
        """
        gpus = self._find_gpus(vgpus)
        functions = {vf.name: vf for gpu in gpus for vf in gpu.vfs}
        types = {
            vgpu.name: vgpu.type_id
            if gpu.framework is values.Framework.VF_PROFILES
            else self._planner.type_names.get(vgpu.type_id)
            for gpu in gpus
            for vgpu in gpu.all_vgpus
        }
        for order, name in enumerate(vgpus):
            alias = (
                guests.make_accelerator_alias(order)
                if name in self._accelerators
                else guests.make_alias(order, types.get(name))
            )
            if not vgpu_devices.is_function(name):
                guest.add_device(make_mdev(name, alias))
            elif name in functions:
                guest.add_device(make_function(functions[name], alias))
            else:
                raise allocator.unavailable(
                    f'The vGPU on {name} does not exist. "nova-vgpu check" '
                    'may show why.'
                )

    def _find_gpus(
        self, vgpus: Sequence[str]
    ) -> tuple[values.PhysicalGPU, ...]:
        """The GPUs that vGPUs are on, as they are now; or all of them."""
        found = []
        for name in vgpus:
            function = (
                name
                if vgpu_devices.is_function(name)
                else self._planner.find_parent(name)
            )
            assigned = self._planner.plan_gpu(function or name)
            if not assigned:
                return self._planner.make_plan().gpus
            found.append(assigned[0].gpu)
        return tuple(found)


def list_accelerators(accel_info: AccelInfo) -> set[str]:
    """The mdevs that Cyborg creates for a server."""
    return {
        request['attach_handle_uuid']
        for request in accel_info or ()
        if request['attach_handle_type'] == 'MDEV'
    }


def make_mdev(uuid: str, alias: str) -> MdevHostdev:
    hostdev = MdevHostdev()
    hostdev.uuid = uuid
    hostdev.alias = alias
    return hostdev


def make_function(vf: values.VirtualFunction, alias: str) -> FunctionHostdev:
    """A virtual function as it is, or bound for VFIO by libvirt.

    One with a type set is what its driver made of it, and one that is bound
    for VFIO already may be so on purpose, for live migration. Any other has a
    driver that uses it on the host: libvirt takes it from there for as long as
    the guest runs.
    """
    hostdev, address = FunctionHostdev(), vf.address
    is_ready = vf.vendor_vfio or vf.driver in (
        vgpu_devices.VFIO_DRIVER,
        vgpu_devices.VARIANT_DRIVER,
    )
    hostdev.managed = 'no' if is_ready else 'yes'
    hostdev.domain = f'{address.domain:04x}'
    hostdev.bus = f'{address.bus:02x}'
    hostdev.slot = f'{address.slot:02x}'
    hostdev.function = f'{address.function:x}'
    hostdev.alias = alias
    return hostdev


def _with_alias(element: typing.Any, alias: str | None) -> typing.Any:
    if alias is not None:
        element.append(element.makeelement('alias', name=alias))
    return element
