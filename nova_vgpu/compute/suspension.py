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


"""Guests that leave their vGPUs for a while.

A guest is suspended without its vGPUs, whose state cannot be saved. Nova does
the same for a snapshot if it cannot copy the disk of a guest that runs.
"""

import contextlib
import typing

from nova import exception as nova_exception
from nova.compute import power_state
import nova.conf
from nova.virt.libvirt import driver as libvirt_driver
from oslo_log import log as logging

from nova_vgpu.compute import hotplug
from nova_vgpu.compute import locking
from nova_vgpu.compute import recovery

LOG = logging.getLogger(__name__)
CONF = nova.conf.CONF


class Suspension(recovery.Recovery):
    """Detaches vGPUs and attaches them again."""

    def __init__(self, *args: typing.Any, **kwargs: typing.Any) -> None:
        #: vGPUs that guests may still release, by the UUIDs of servers.
        self._detached: dict[str, hotplug.Detached] = {}
        super().__init__(*args, **kwargs)

    def suspend(self, context: typing.Any, instance: typing.Any) -> None:
        """Extends Nova's: what is detached for it stays the server's.

        If it fails, the server runs on with all that it had.
        """
        with self._operation():
            if not self._claim_own(instance):
                super().suspend(context, instance)
                return
            before = hotplug.list_devices(self._host.get_guest(instance))
            try:
                super().suspend(context, instance)
            except (
                libvirt_driver.libvirt.libvirtError,
                nova_exception.DeviceDetachFailed,
                nova_exception.PciDeviceDetachFailed,
            ) as error:
                # For a snapshot Nova does not log it.
                LOG.warning(
                    'Could not suspend the guest: %s', error, instance=instance
                )
                if not self._undo_suspend(instance, before, error):
                    raise
                raise nova_exception.InstanceFaultRollback(
                    nova_exception.InstanceSuspendFailure(reason=str(error))
                ) from error

    def resume(
        self,
        context: typing.Any,
        instance: typing.Any,
        *args: typing.Any,
        **kwargs: typing.Any,
    ) -> None:
        """Extends Nova's: the host may have been rebooted meanwhile."""
        with self._operation():
            self._make_ready(context, instance, set(self._claim_own(instance)))
            super().resume(context, instance, *args, **kwargs)

    def _detach_mediated_devices(self, guest: typing.Any) -> None:
        """Replaces Nova's, which does not wait, and detaches mdevs alone.

        :raises DeviceDetachFailed: if the guest does not release one.
        """
        left = hotplug.list_vgpus(guest)
        if left and guest.get_power_state(self._host) == power_state.PAUSED:
            raise nova_exception.DeviceDetachFailed(
                device=hotplug.join_names(left),
                reason='a paused guest cannot release its vGPU. Unpause the '
                'server.',
            )
        attempts = CONF.libvirt.device_detach_attempts
        seconds = CONF.libvirt.device_detach_timeout
        for _ in range(attempts):
            self._ask_to_detach(guest, left)
            left = hotplug.await_removal(guest, left, seconds)
            if not left:
                return
        raise nova_exception.DeviceDetachFailed(
            device=hotplug.join_names(left),
            reason=f'the guest did not release its vGPU within {attempts} x '
            f'{seconds} s. Try again when its operating system is up.',
        )

    def _ask_to_detach(
        self, guest: typing.Any, devices: tuple[hotplug.Device, ...]
    ) -> None:
        for device in devices:
            # The guest may have released it after an earlier attempt.
            with contextlib.suppress(nova_exception.DeviceNotFound):
                self._detach_sync(
                    device,
                    guest,
                    guest.uuid,
                    device.name,
                    persistent=False,
                    live=True,
                )

    def _undo_suspend(
        self,
        instance: typing.Any,
        before: tuple[hotplug.Device, ...],
        error: Exception,
    ) -> bool:
        """Attach what was detached.

        :returns: whether the guest runs as it did before.
        """
        guest = self._host.get_guest(instance)
        if not guest.is_active():
            return False
        if isinstance(error, nova_exception.DeviceDetachFailed):
            # It was asked to, and may do so at any time from now on.
            self._note_detached(instance, guest, before)
        self._attach_again(instance, guest, before)
        return True

    def _resume_guest_after_snapshot(
        self,
        context: typing.Any,
        live_snapshot: bool,
        original_power_state: int,
        instance: typing.Any,
        guest: typing.Any,
    ) -> None:
        """Extends Nova's, which attaches PCI devices and ports alone.

        If the disk cannot be copied while the guest runs, Nova suspends it.
        """
        super()._resume_guest_after_snapshot(
            context, live_snapshot, original_power_state, instance, guest
        )
        if self._needs_suspend_resume_for_snapshot(
            live_snapshot, original_power_state
        ):
            vgpus = hotplug.list_defined_vgpus(guest)
            self._attach_again(instance, guest, vgpus)

    def _attach_again(
        self,
        instance: typing.Any,
        guest: typing.Any,
        devices: tuple[hotplug.Device, ...],
    ) -> None:
        try:
            hotplug.attach_missing(guest, devices)
        except libvirt_driver.libvirt.libvirtError:
            self._note_detached(instance, guest, devices)
            raise

    def _note_detached(
        self,
        instance: typing.Any,
        guest: typing.Any,
        devices: tuple[hotplug.Device, ...],
    ) -> None:
        # Servers may lose other devices on purpose.
        vgpus = tuple(device for device in devices if device.is_vgpu)
        self._detached[instance.uuid] = hotplug.Detached(
            instance, guest.id, vgpus
        )

    def _attach_detached(self, seconds: float) -> None:
        """Attach vGPUs again that guests released too late.

        :param seconds: how long to wait for the lock.
        """
        for uuid, noted in list(self._detached.items()):
            with locking.hold_allocation(seconds):
                claimed = self._claims.list()
                if claimed.isdisjoint(device.name for device in noted.devices):
                    self._attach_noted(uuid, noted)

    def _attach_noted(self, uuid: str, noted: hotplug.Detached) -> None:
        try:
            guest = self._host.get_guest(noted.instance)
            if guest.id != noted.guest_id:
                raise nova_exception.InstanceNotFound(instance_id=uuid)
            attached = hotplug.attach_missing(guest, noted.devices)
        except nova_exception.InstanceNotFound:  # it was started since
            self._detached.pop(uuid, None)
        except (
            libvirt_driver.libvirt.libvirtError,
            nova_exception.InternalError,
        ) as error:
            self._failures.say(
                f'Could not attach the vGPU of {uuid} again', error
            )
        else:
            self._failures.forget(f'Could not attach the vGPU of {uuid} again')
            if attached:
                self._detached.pop(uuid, None)
                LOG.info(
                    'Attached vGPU %s again, which the guest released late.',
                    hotplug.join_names(attached),
                    instance=noted.instance,
                )

    def _get_mdevs_from_guest_config(
        self, xml: str
    ) -> tuple[hotplug.Device, ...]:
        """Replaces Nova's, which finds mdevs alone and drops their aliases."""
        return hotplug.parse_vgpus(xml)
