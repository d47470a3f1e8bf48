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

"""Mediated devices as libvirt manages them, on a simulated kernel.

A node device can be active, which is a device in sysfs, persistent, which is a
definition of mdevctl, or both. The caller provides libvirt's errors: Nova's
tests have their own libvirt.
"""

from collections.abc import Callable
from collections.abc import Iterable
import contextlib
import dataclasses
import errno
import typing
from xml.etree import ElementTree

from nova_vgpu.sandbox import host
from nova_vgpu.sandbox import kernel

_PCI = ('bus', 'pci', 'devices')
_MDEVS = ('bus', 'mdev', 'devices')


@dataclasses.dataclass(frozen=True)
class Errors:
    """Creates an error of libvirt: a message and a code."""

    make: Callable[[str, int], Exception]
    kind: type[Exception]
    internal_error: int
    no_node_device: int
    operation_invalid: int
    xml_error: int


class Mdev:
    """A node device that can be active, persistent, or both."""

    def __init__(
        self, mdevs: 'Mdevs', parent: str, type_id: str, uuid: str
    ) -> None:
        self._mdevs = mdevs
        self._parent = parent
        self.type_id, self.uuid = type_id, uuid
        self.active = self.persistent = self.starts_itself = False
        #: When libvirt itself last started or stopped it.
        self.changed = 0.0
        #: Until when it is shown although it exists no more.
        self.lingers_until: float | None = None

    def name(self) -> str:
        """With its parent, as libvirt names it since 7.7."""
        suffix = self._parent.removeprefix('pci_')
        return f'mdev_{self.uuid.replace("-", "_")}_{suffix}'

    def parent(self) -> str:
        return self._parent

    def listCaps(self) -> list[str]:
        return ['mdev']

    def XMLDesc(self, flags: int = 0) -> str:
        return (
            f'<device><name>{self.name()}</name>'
            f'<parent>{self._parent}</parent>'
            "<capability type='mdev'>"
            f"<type id='{self.type_id}'/><uuid>{self.uuid}</uuid>"
            f'<parent_addr>{_address_of(self._parent)}</parent_addr>'
            "<iommuGroup number='12'/></capability></device>"
        )

    def isActive(self) -> int:
        return int(self.active)

    def isPersistent(self) -> int:
        return int(self.persistent)

    def autostart(self) -> int:
        return int(self.starts_itself)

    def setAutostart(self, autostart: int) -> int:
        with self._mdevs.lock:
            if not self.persistent:
                raise self._mdevs.refuse(
                    f'cannot set autostart for transient device {self.name()}'
                )
            with self._mdevs.effect(f'autostart {autostart} of {self.uuid}'):
                self.starts_itself = bool(autostart)
        return 0

    def create(self, flags: int = 0) -> int:
        """Start it."""
        with self._mdevs.lock:
            if self.active:
                raise self._mdevs.refuse(
                    f"Device '{self.name()}' is already active"
                )
            self._mdevs.start(self)
        return 0

    def destroy(self) -> int:
        """Refuses for one that is in use, where the kernel would block."""
        with self._mdevs.lock:
            if not self.active:
                raise self._mdevs.refuse(
                    f"Device '{self.name()}' is not active"
                )
            if self._mdevs.is_used(self.uuid):
                raise self._mdevs.fail(
                    f"Unable to destroy '{self.name()}': device in use"
                )
            self._mdevs.stop(self)
        return 0

    def undefine(self, flags: int = 0) -> int:
        """An active one stays, but is transient from now on."""
        with self._mdevs.lock:
            if not self.persistent:
                raise self._mdevs.refuse(
                    f"Device '{self.name()}' is not persistent"
                )
            with self._mdevs.effect(f'no definition of {self.uuid}'):
                self.persistent = self.starts_itself = False
                self._mdevs.forget(self)
        return 0


class Mdevs:
    """The mdevs of one host, as its libvirt knows them."""

    def __init__(
        self,
        its_kernel: kernel.Kernel,
        is_used: Callable[[str], bool],
        is_shown: Callable[[str], bool],
        errors: Errors,
    ) -> None:
        self._kernel = its_kernel
        self._errors = errors
        self.lock = its_kernel.lock
        self.effect = its_kernel.effect
        #: Whether a running guest uses an mdev of this UUID.
        self.is_used = is_used
        #: Whether libvirt shows a device of this name.
        self._is_shown = is_shown
        self.devices: dict[str, Mdev] = {}
        #: Seconds for which libvirt shows one that is gone. One that is
        #: defined meanwhile is taken for it, and vanishes with it.
        self.lingering = 0.0
        #: When those that no longer exist were stopped.
        self._stopped: dict[str, float] = {}
        for parent, type_id, uuid in list_mdevs(its_kernel.get_gpus()):
            mdev = self._adopt(parent, type_id, uuid)
            mdev.persistent = mdev.starts_itself = True

    def _adopt(self, parent: str, type_id: str, uuid: str) -> Mdev:
        """One that was created without libvirt."""
        mdev = Mdev(self, parent, type_id, uuid)
        mdev.active = True
        self.devices[mdev.name()] = mdev
        return mdev

    def refuse(self, message: str) -> Exception:
        """The error for an operation that is invalid in the device's state."""
        return self._errors.make(message, self._errors.operation_invalid)

    def fail(self, message: str) -> Exception:
        """The error for an operation that failed."""
        return self._errors.make(
            f'internal error: {message}', self._errors.internal_error
        )

    # -- what libvirt shows -------------------------------------------------

    def get_all_devices(self) -> list[str]:
        """Inactive ones as well: the old call does not tell them apart."""
        with self.lock:
            return list(self.devices)

    def get_device_by_name(self, name: str) -> Mdev:
        with self.lock:
            if name in self.devices:
                return self.devices[name]
        raise self._missing(f"no node device with matching name '{name}'")

    def is_active(self, uuid: str) -> bool:
        with self.lock:
            return any(
                mdev.active and mdev.uuid == uuid
                for mdev in self.devices.values()
            )

    def _missing(self, message: str) -> Exception:
        return self._errors.make(message, self._errors.no_node_device)

    # -- what libvirt does --------------------------------------------------

    def create(self, xml: str) -> Mdev:
        """Create a transient one and start it."""
        with self.lock:
            mdev = self._parse(xml)
            if any(d.uuid == mdev.uuid for d in self.devices.values()):
                raise self.fail(
                    f'Unable to start mediated device: {mdev.uuid}: '
                    'File exists'
                )
            self.start(mdev)
            self.devices[mdev.name()] = mdev
            return mdev

    def define(self, xml: str) -> Mdev:
        """Make one persistent, or define one that is not started."""
        with self.lock:
            described = self._parse(xml)
            mdev = self.devices.get(described.name(), described)
            if mdev.lingers_until is not None:
                return mdev
            if mdev.persistent:
                raise self.fail(
                    f'Unable to define mediated device: {mdev.uuid} is '
                    'already defined'
                )
            with self.effect(f'definition of {mdev.uuid}'):
                self.devices[mdev.name()] = mdev
                mdev.persistent = True
            return mdev

    def start(self, mdev: Mdev) -> None:
        """Start one that is not active, as mdevctl does."""
        types = (*_PCI, _address_of(mdev.parent()), 'mdev_supported_types')
        try:
            self._kernel.files.write(mdev.uuid, *types, mdev.type_id, 'create')
        except OSError as reason:
            raise self.fail(
                f'Unable to start mediated device: {reason}'
            ) from reason
        mdev.active = True
        mdev.changed = self._kernel.clock.now()

    def stop(self, mdev: Mdev) -> None:
        """Stop one that is not in use; it may be gone with its GPU."""
        try:
            self._kernel.files.write('1', *_MDEVS, mdev.uuid, 'remove')
        except OSError as reason:
            if reason.errno != errno.ENOENT:
                raise self.fail(
                    f'Unable to stop mediated device: {reason}'
                ) from reason
        mdev.active = False
        mdev.changed = self._kernel.clock.now()
        self.forget(mdev)

    def forget(self, mdev: Mdev) -> None:
        """Unless it is active or defined."""
        if mdev.active or mdev.persistent:
            return
        now = self._kernel.clock.now()
        if mdev.lingers_until is None:
            self._stopped[mdev.uuid] = mdev.changed
            mdev.lingers_until = now + self.lingering
        if mdev.lingers_until <= now:
            self.devices.pop(mdev.name(), None)

    def start_those_on(self, parents: Iterable[str] | None = None) -> None:
        """Start those with autostart, on these functions or on any.

        One that does not start stays as it is, without an error.
        """
        with self.lock:
            for mdev in list(self.devices.values()):
                wanted = parents is None or mdev.parent() in parents
                # The kernel's state counts: it may be gone with its parent
                # before libvirt has noticed.
                there = self._kernel.find_mdev(mdev.uuid) is not None
                if wanted and mdev.starts_itself and not there:
                    with contextlib.suppress(self._errors.kind):
                        self.start(mdev)

    # -- changes without libvirt --------------------------------------------

    def restart(self, autostart: bool) -> None:
        """The state after a reboot, with the GPUs reset."""
        with self.lock:
            for mdev in list(self.devices.values()):
                mdev.active = False
                self.forget(mdev)
            self._stopped.clear()
            if autostart:
                self.start_those_on()

    def see(self, gpus: Iterable[host.GPU], when: float) -> None:
        """Update from the state of the host at a time.

        Later changes by libvirt itself are not affected.
        """
        with self.lock:
            # A UUID may be defined on one parent and started on another.
            found = {(mdev[0], mdev[2]): mdev for mdev in list_mdevs(gpus)}
            for mdev in list(self.devices.values()):
                key = mdev.parent(), mdev.uuid
                there = key in found
                found.pop(key, None)
                if mdev.changed <= when:
                    mdev.active = there
                    self.forget(mdev)
            for (_, uuid), described in found.items():
                if self._stopped.get(uuid, when) <= when:
                    self._adopt(*described)

    def _parse(self, xml: str) -> Mdev:
        try:
            # From a test that manages mdevs.
            device = ElementTree.fromstring(xml)  # noqa: S314
        except ElementTree.ParseError as error:
            raise self._errors.make(
                f'XML error: {error}', self._errors.xml_error
            ) from error
        parent = str(device.findtext('parent'))
        capability = device.find("capability[@type='mdev']")
        of_type = capability.find('type') if capability is not None else None
        if not self._is_shown(parent):
            raise self._missing(f'could not find parent device for {parent}')
        if capability is None or of_type is None:
            raise self._errors.make('no mdev in XML', self._errors.xml_error)
        uuid = str(capability.findtext('uuid'))
        return Mdev(self, parent, str(of_type.get('id')), uuid)

    # -- all of it ----------------------------------------------------------

    def snapshot(self) -> dict[str, typing.Any]:
        with self.lock:
            devices = [
                (
                    (mdev.parent(), mdev.type_id, mdev.uuid),
                    (mdev.active, mdev.persistent, mdev.starts_itself),
                    mdev.changed,
                )
                for mdev in self.devices.values()
            ]
            return {'devices': devices, 'stopped': dict(self._stopped)}

    def load(self, snapshot: dict[str, typing.Any]) -> None:
        with self.lock:
            self.devices.clear()
            self._stopped = dict(snapshot['stopped'])
            for described, states, changed in snapshot['devices']:
                mdev = self._adopt(*described)
                mdev.active, mdev.persistent, mdev.starts_itself = states
                mdev.changed = changed


def list_mdevs(
    gpus: Iterable[host.GPU],
) -> Iterable[tuple[str, str, str]]:
    """Parent, type and UUID of the mdevs on GPUs."""
    for gpu in gpus:
        functions = gpu.vf_addresses
        for created in gpu.pinned():
            if created.uuid is not None:
                vf = created.vf
                address = gpu.address if vf is None else functions[vf]
                yield address.node_device_name, created.type_id, created.uuid


def _address_of(name: str) -> str:
    """The address in the name of a PCI device."""
    domain, _, rest = name.removeprefix('pci_').partition('_')
    bus, _, rest = rest.partition('_')
    slot, _, function = rest.partition('_')
    return f'{domain}:{bus}:{slot}.{function}'
