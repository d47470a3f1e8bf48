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


"""What servers go through: each operation that defines a guest with vGPUs."""

from collections.abc import Sequence
import typing

from nova_vgpu import values
from nova_vgpu.compute import guests
from nova_vgpu.compute import recovery
from nova_vgpu.compute import suspension
from nova_vgpu.host import guests as host_guests


class Operations(suspension.Suspension):
    """Guests with vGPUs of either kind."""

    # -- a guest that gets vGPUs --------------------------------------------

    def spawn(self, *args: typing.Any, **kwargs: typing.Any) -> None:
        """Extends Nova's: claims hold until the guest is defined."""
        cyborgs = recovery.list_cyborgs(kwargs.get('accel_info'))
        with self._operation(), self._marking(cyborgs):
            super().spawn(*args, **kwargs)

    def finish_migration(
        self, *args: typing.Any, **kwargs: typing.Any
    ) -> typing.Any:
        """Extends Nova's: claims hold until the guest is defined."""
        with self._operation():
            return super().finish_migration(*args, **kwargs)

    def _guest_add_mdevs(
        self, guest: typing.Any, chosen_mdevs: Sequence[str]
    ) -> None:
        """Replaces Nova's, which makes an mdev of every vGPU.

        And it notes their types, and which of them are Cyborg's.
        """
        gpus = self._find_gpus(chosen_mdevs)
        functions = {vf.name: vf for gpu in gpus for vf in gpu.vfs}
        types = {
            vgpu.name: self._type_names.get(vgpu.type_id)
            for gpu in gpus
            for vgpu in gpu.all_vgpus
        }
        for order, name in enumerate(chosen_mdevs):
            alias = (
                host_guests.make_accelerator_alias(order)
                if name in self._cyborgs
                else host_guests.make_alias(order, types.get(name))
            )
            if not guests.is_function(name):
                guest.add_device(guests.make_mdev(name, alias))
            elif name in functions:
                address = functions[name].address
                guest.add_device(guests.make_function(address, alias))
            else:
                raise recovery.unavailable(
                    f'The vGPU on {name} is not there. "nova-vgpu check" may '
                    'say why.'
                )

    def _find_gpus(
        self, vgpus: Sequence[str]
    ) -> tuple[values.PhysicalGPU, ...]:
        """The GPUs that vGPUs are on, as they are now; or all of them."""
        found = []
        for name in vgpus:
            function = (
                name if guests.is_function(name) else self._find_parent(name)
            )
            assigned = self._plan_gpu(self._gpu_of(function or name))
            if assigned is None:
                return self._make_plan().gpus
            found.append(assigned.gpu)
        return tuple(found)

    def _find_parent(self, mdev: str) -> str | None:
        return self._monitor.find_parent(mdev) if self._monitor else None

    # -- a guest that has vGPUs, and is defined anew ------------------------

    def _hard_reboot(
        self,
        context: typing.Any,
        instance: typing.Any,
        network_info: typing.Any,
        share_info: typing.Any,
        block_device_info: typing.Any = None,
        accel_info: typing.Any = None,
    ) -> typing.Any:
        """Extends Nova's, which gives a lost vGPU back to some flavors only.

        Nova does so for the literal ``resources:VGPU``. This is also how a
        server is started, and how it comes back after a reboot of the host.
        """
        with self._with_own_vgpus(context, instance, accel_info):
            return super()._hard_reboot(
                context,
                instance,
                network_info,
                share_info,
                block_device_info,
                accel_info,
            )

    def finish_revert_migration(
        self,
        context: typing.Any,
        instance: typing.Any,
        *args: typing.Any,
        **kwargs: typing.Any,
    ) -> typing.Any:
        """Extends Nova's, which finds no vGPU after a resize on one host.

        There the guest of before was replaced by the one that is reverted.
        """
        with self._with_own_vgpus(context, instance):
            return super().finish_revert_migration(
                context, instance, *args, **kwargs
            )

    def rescue(
        self,
        context: typing.Any,
        instance: typing.Any,
        *args: typing.Any,
        **kwargs: typing.Any,
    ) -> typing.Any:
        """Extends Nova's: the host may have been rebooted meanwhile."""
        with self._with_own_vgpus(context, instance):
            return super().rescue(context, instance, *args, **kwargs)

    def unrescue(self, context: typing.Any, instance: typing.Any) -> None:
        """Extends Nova's: the host may have been rebooted meanwhile."""
        with self._operation():
            self._make_ready(context, instance, set(self._claim_own(instance)))
            super().unrescue(context, instance)

    # -- a guest that leaves its vGPUs for good ----------------------------

    def _undefine_domain(
        self,
        instance: typing.Any,
        keep_vtpm: bool = False,
        keep_nvram: bool = False,
    ) -> None:
        """Extends Nova's: functions that the guest had lose their types."""
        given_back: set[str] = set()
        with self._trying():
            given_back.update(v.name for v in self._read_vgpus(instance))
        super()._undefine_domain(
            instance, keep_vtpm=keep_vtpm, keep_nvram=keep_nvram
        )
        self._believed.remove(given_back)
        released = set(filter(guests.is_function, given_back))
        # One that migrated while it ran left no guest behind.
        released |= self._given.list_of(instance.uuid)
        if released:
            self._give_back(released)
