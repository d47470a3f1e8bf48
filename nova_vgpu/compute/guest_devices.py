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

"""vGPUs in the configuration of a guest that is being defined."""

from collections.abc import Sequence
import typing

from nova_vgpu import values
from nova_vgpu.compute import accelerators as vgpu_accelerators
from nova_vgpu.compute import guests
from nova_vgpu.compute import operations
from nova_vgpu.compute import planner as vgpu_planner
from nova_vgpu.host import guests as host_guests


class GuestConfig(typing.Protocol):
    """``nova.virt.libvirt.config.LibvirtConfigGuest``."""

    def add_device(
        self, device: guests.MdevHostdev | guests.FunctionHostdev
    ) -> None: ...


class GuestDevices:
    """Adds vGPUs of either framework to the configuration of a guest."""

    def __init__(
        self,
        planner: vgpu_planner.Planner,
        accelerators: vgpu_accelerators.Accelerators,
    ) -> None:
        self._planner = planner
        self._accelerators = accelerators

    def add(self, guest: GuestConfig, vgpus: Sequence[str]) -> None:
        """Add vGPUs, and note their types and which of them are Cyborg's.

        :raises ComputeResourcesUnavailable: if a function is not there.
        """
        gpus = self._find_gpus(vgpus)
        functions = {vf.name: vf for gpu in gpus for vf in gpu.vfs}
        types = {
            vgpu.name: self._planner.type_names.get(vgpu.type_id)
            for gpu in gpus
            for vgpu in gpu.all_vgpus
        }
        for order, name in enumerate(vgpus):
            alias = (
                host_guests.make_accelerator_alias(order)
                if name in self._accelerators
                else host_guests.make_alias(order, types.get(name))
            )
            if not guests.is_function(name):
                guest.add_device(guests.make_mdev(name, alias))
            elif name in functions:
                address = functions[name].address
                guest.add_device(guests.make_function(address, alias))
            else:
                raise operations.unavailable(
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
                if guests.is_function(name)
                else self._planner.find_parent(name)
            )
            assigned = self._planner.plan_gpu(
                self._planner.gpu_of(function or name)
            )
            if assigned is None:
                return self._planner.make_plan().gpus
            found.append(assigned.gpu)
        return tuple(found)
