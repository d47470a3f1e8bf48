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

from collections.abc import Iterator
import contextlib
import dataclasses

from nova import exception as nova_exception
from nova.compute import power_state
import nova.conf
from nova.virt.libvirt import driver as libvirt_driver
from oslo_log import log as logging

from nova_vgpu import exception
from nova_vgpu.compute import allocator as vgpu_allocator
from nova_vgpu.compute import hotplug
from nova_vgpu.compute import locking
from nova_vgpu.compute import log
from nova_vgpu.compute import nova_types
from nova_vgpu.compute import usage as vgpu_usage

LOG = logging.getLogger(__name__)
CONF = nova.conf.CONF


@dataclasses.dataclass(frozen=True, slots=True)
class Detached:
    """vGPUs that a server is to have, for as long as its guest runs."""

    instance: nova_types.Instance
    #: libvirt gives a new one whenever a guest is started.
    guest_id: int
    devices: tuple[hotplug.Device, ...]


class Suspension:
    """Detaches vGPUs and attaches them again."""

    def __init__(
        self,
        nova: nova_types.Driver,
        usage: vgpu_usage.Usage,
        allocator: vgpu_allocator.Allocator,
        failures: log.FailureLog,
    ) -> None:
        self._nova = nova
        self._usage = usage
        self._allocator = allocator
        self._failures = failures
        #: vGPUs that guests may still release, by the UUIDs of servers.
        self._detached: dict[str, Detached] = {}

    @contextlib.contextmanager
    def suspending(self, instance: nova_types.Instance) -> Iterator[None]:
        """What is detached for a suspend stays the server's.

        If it fails, the server runs on with all that it had.
        """
        with self._allocator.operation():
            if not self._reserve_own(instance):
                yield
                return
            before = hotplug.list_devices(self._nova._host.get_guest(instance))
            try:
                yield
            except (
                libvirt_driver.libvirt.libvirtError,
                nova_exception.DeviceDetachFailed,
                nova_exception.PciDeviceDetachFailed,
            ) as error:
                # For a snapshot Nova does not log it.
                LOG.warning(
                    'Could not suspend the guest: %s', error, instance=instance
                )
                if not self._undo(instance, before, error):
                    raise
                raise nova_exception.InstanceFaultRollback(
                    nova_exception.InstanceSuspendFailure(reason=str(error))
                ) from error

    def _reserve_own(self, instance: nova_types.Instance) -> list[str]:
        try:
            return self._allocator.reserve_own(instance)
        except exception.NovaVGPUError as error:  # nothing has changed yet
            raise nova_exception.InstanceFaultRollback(
                nova_exception.InstanceSuspendFailure(reason=str(error))
            ) from error

    def detach(self, guest: nova_types.Guest) -> None:
        """Detach the vGPUs of a guest and wait until it has released them.

        :raises DeviceDetachFailed: if the guest does not release one.
        """
        left = hotplug.list_vgpus(guest)
        if (
            left
            and guest.get_power_state(self._nova._host) == power_state.PAUSED
        ):
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
        self, guest: nova_types.Guest, devices: tuple[hotplug.Device, ...]
    ) -> None:
        for device in devices:
            # The guest may have released it after an earlier attempt.
            with contextlib.suppress(nova_exception.DeviceNotFound):
                self._nova._detach_sync(
                    device,
                    guest,
                    guest.uuid,
                    device.name,
                    persistent=False,
                    live=True,
                )

    def _undo(
        self,
        instance: nova_types.Instance,
        before: tuple[hotplug.Device, ...],
        error: Exception,
    ) -> bool:
        """Attach what was detached.

        :returns: whether the guest runs as it did before.
        """
        guest = self._nova._host.get_guest(instance)
        if not guest.is_active():
            return False
        if isinstance(error, nova_exception.DeviceDetachFailed):
            # It was asked to, and may do so at any time from now on.
            self._note_detached(instance, guest, before)
        self._attach_again(instance, guest, before)
        return True

    def attach_after_snapshot(
        self, instance: nova_types.Instance, guest: nova_types.Guest
    ) -> None:
        """Attach the vGPUs that a guest was suspended without."""
        self._attach_again(instance, guest, hotplug.list_defined_vgpus(guest))

    def _attach_again(
        self,
        instance: nova_types.Instance,
        guest: nova_types.Guest,
        devices: tuple[hotplug.Device, ...],
    ) -> None:
        try:
            hotplug.attach_missing(guest, devices)
        except libvirt_driver.libvirt.libvirtError:
            self._note_detached(instance, guest, devices)
            raise

    def _note_detached(
        self,
        instance: nova_types.Instance,
        guest: nova_types.Guest,
        devices: tuple[hotplug.Device, ...],
    ) -> None:
        # Servers may lose other devices on purpose.
        vgpus = tuple(device for device in devices if device.is_vgpu)
        self._detached[instance.uuid] = Detached(instance, guest.id, vgpus)

    def attach_released_late(self, seconds: float) -> None:
        """Attach vGPUs again that guests released too late.

        :param seconds: how long to wait for the lock.
        :raises BusyError: if the lock is not free in time.
        """
        for uuid, noted in list(self._detached.items()):
            with locking.hold_allocation(seconds):
                pending = self._usage.pending.list()
                if pending.isdisjoint(device.name for device in noted.devices):
                    self._attach_noted(uuid, noted)

    def _attach_noted(self, uuid: str, noted: Detached) -> None:
        what = f'Could not attach the vGPU of {uuid} again'
        try:
            guest = self._nova._host.get_guest(noted.instance)
            if guest.id != noted.guest_id:
                raise nova_exception.InstanceNotFound(instance_id=uuid)
            attached = hotplug.attach_missing(guest, noted.devices)
        except nova_exception.InstanceNotFound:  # it was started since
            self._drop(uuid, noted)
        except (
            libvirt_driver.libvirt.libvirtError,
            nova_exception.InternalError,
        ) as error:
            self._failures.say(what, error)
        else:
            self._failures.forget(what)
            if attached:
                self._drop(uuid, noted)
                LOG.info(
                    'Attached vGPU %s again, which the guest released late.',
                    hotplug.join_names(attached),
                    instance=noted.instance,
                )

    def _drop(self, uuid: str, noted: Detached) -> None:
        """Forget a note, unless a newer one has replaced it meanwhile."""
        if self._detached.get(uuid) is noted:
            del self._detached[uuid]
