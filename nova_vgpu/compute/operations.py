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

from nova.virt.libvirt import config as guest_config

from nova_vgpu.compute import guests
from nova_vgpu.compute import recovery


class Operations(recovery.Recovery):
    """Guests with vGPUs of either kind."""

    # -- a guest that gets vGPUs --------------------------------------------

    def spawn(self, *args: typing.Any, **kwargs: typing.Any) -> None:
        """Extends Nova's: claims hold until the guest is defined."""
        with self._operation():
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
        """Extends Nova's, which makes an mdev of every vGPU."""
        functions = [name for name in chosen_mdevs if guests.is_function(name)]
        super()._guest_add_mdevs(
            guest, [name for name in chosen_mdevs if name not in functions]
        )
        if not functions:
            return
        of_gpu = guests.list_gpu_functions(self._make_plan())
        for order, name in enumerate(functions):
            vf, vgpu = of_gpu[name], next(iter(of_gpu[name].vgpus), None)
            type_name = self._type_names.get(vgpu.type_id) if vgpu else None
            guest.add_device(guests.make_hostdev(vf.address, type_name, order))

    # -- a guest that has vGPUs, and is defined anew ------------------------

    def _hard_reboot(
        self,
        context: typing.Any,
        instance: typing.Any,
        *args: typing.Any,
        **kwargs: typing.Any,
    ) -> typing.Any:
        """Extends Nova's, which gives a lost vGPU back to some flavors only.

        Nova does so for the literal ``resources:VGPU``. This is also how a
        server is started, and how it comes back after a reboot of the host.
        """
        with self._with_own_vgpus(context, instance):
            return super()._hard_reboot(context, instance, *args, **kwargs)

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

    # -- a guest that leaves its vGPUs for a while, or for good -------------

    def suspend(self, context: typing.Any, instance: typing.Any) -> None:
        """Extends Nova's: what is detached for it stays the server's."""
        with self._operation():
            self._claims.add(self._get_all_assigned_mediated_devices(instance))
            super().suspend(context, instance)

    def resume(
        self,
        context: typing.Any,
        instance: typing.Any,
        *args: typing.Any,
        **kwargs: typing.Any,
    ) -> None:
        """Extends Nova's: the host may have been rebooted meanwhile."""
        with self._operation():
            held = list(self._get_all_assigned_mediated_devices(instance))
            self._claims.add(held)
            self._make_ready(context, instance, held)
            super().resume(context, instance, *args, **kwargs)

    def _detach_mediated_devices(self, guest: typing.Any) -> None:
        """Extends Nova's, which detaches mdevs alone."""
        super()._detach_mediated_devices(guest)
        for hostdev in guests.list_function_hostdevs(guest.get_config()):
            guest.detach_device(hostdev, live=True)

    def _get_mdevs_from_guest_config(self, xml: str) -> list[typing.Any]:
        """Extends Nova's, which finds mdevs alone to attach them again."""
        config = guest_config.LibvirtConfigGuest()
        config.parse_str(xml)
        return [
            *super()._get_mdevs_from_guest_config(xml),
            *guests.list_function_hostdevs(config),
        ]

    def _undefine_domain(
        self,
        instance: typing.Any,
        keep_vtpm: bool = False,
        keep_nvram: bool = False,
    ) -> None:
        """Extends Nova's: functions that the guest had lose their types."""
        released = {
            name
            for _, config in self._read_guests(instance)
            for name, _ in guests.list_functions(config)
        }
        super()._undefine_domain(
            instance, keep_vtpm=keep_vtpm, keep_nvram=keep_nvram
        )
        if released:
            self._give_back(released)
