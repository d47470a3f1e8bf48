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


"""Create and remove mediated devices with libvirt.

libvirt defines them, so that they exist again after a reboot, and refuses to
destroy one that a guest uses: a write to sysfs would block until the guest
ends.
"""

from collections.abc import Iterable
import typing
from xml.etree import ElementTree

import libvirt

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import node_xml


class NodeDevice(typing.Protocol):
    """The part of ``libvirt.virNodeDevice`` that is used here."""

    def name(self) -> str: ...

    def XMLDesc(self, flags: int = 0) -> str: ...

    def isActive(self) -> int: ...

    def isPersistent(self) -> int: ...

    def autostart(self) -> int: ...

    def setAutostart(self, autostart: int) -> int: ...

    def create(self, flags: int = 0) -> int: ...

    def destroy(self) -> int: ...

    def undefine(self, flags: int = 0) -> int: ...


class Connection(typing.Protocol):
    """The part of ``libvirt.virConnect`` that is used here."""

    def listAllDevices(self, flags: int = 0) -> Iterable[NodeDevice]: ...

    def nodeDeviceDefineXML(self, xml: str, flags: int = 0) -> NodeDevice: ...

    def nodeDeviceCreateXML(self, xml: str, flags: int = 0) -> NodeDevice: ...


def list_mdevs(connection: Connection) -> tuple[values.Mdev, ...]:
    """Every mdev, started or only defined.

    :raises HostUnreadable: if libvirt does not answer, or its XML is invalid.
    """
    try:
        return tuple(mdev for _, mdev in _list(connection))
    except libvirt.libvirtError as error:
        raise exception.HostUnreadable(
            f'libvirt failed while its mdevs were read: {error}'
        ) from error


def undefine_outdated(connection: Connection, wanted: values.Mdev) -> bool:
    """Remove the definition of an mdev with another parent or type.

    As after a driver upgrade; only if it is not started. libvirt shows it
    until it has noticed that, and would take it for one that is defined
    meanwhile.

    :returns: whether there was one.
    :raises StepFailed: if libvirt refuses.
    """
    try:
        found = [
            (device, mdev)
            for device, mdev in _list(connection)
            if mdev.uuid == wanted.uuid
        ]
        if any(mdev.state.is_started for _, mdev in found):
            return False
        outdated = [d for d, mdev in found if is_outdated(mdev, wanted)]
        for device in outdated:
            device.undefine()
    except libvirt.libvirtError as error:
        raise _refused(error) from error
    return bool(outdated)


def is_outdated(mdev: values.Mdev, wanted: values.Mdev) -> bool:
    """Whether it is the same mdev with another parent or type."""
    return mdev.uuid == wanted.uuid and (
        (mdev.parent, mdev.type_id) != (wanted.parent, wanted.type_id)
    )


def set_state(connection: Connection, wanted: values.Mdev) -> None:
    """Bring an mdev to its state; nothing changes if it already has it.

    :raises StepFailed: if libvirt refuses, for example because it is in use.
    :raises PlanOutdated: if it exists with another parent or type.
    :raises HostUnreadable: if libvirt's XML is invalid.
    """
    try:
        if wanted.state is values.MdevState.ABSENT:
            _remove(connection, wanted.uuid, keep_definition=False)
        elif wanted.state is values.MdevState.DEFINED:
            _define(connection, wanted)
            _remove(connection, wanted.uuid, keep_definition=True)
        elif wanted.state is values.MdevState.TRANSIENT:
            _create(connection, wanted)
        else:
            _define_and_start(connection, wanted)
    except libvirt.libvirtError as error:
        raise _refused(error) from error


def _refused(error: Exception) -> exception.StepFailed:
    return exception.StepFailed(
        f'libvirt refuses: {error}.',
        'Is mdevctl installed, and has the GPU room for it ("nova-vgpu type '
        'list")?',
    )


def _define(connection: Connection, wanted: values.Mdev) -> NodeDevice:
    """The mdev with its definition; it may be started or not."""
    for device, mdev in _list(connection):
        if mdev.uuid != wanted.uuid:
            continue
        same = (mdev.parent, mdev.type_id) == (wanted.parent, wanted.type_id)
        if mdev.state.is_started and not same:
            raise exception.PlanOutdated(
                f'mdev {mdev.uuid} is on {mdev.parent}, as {mdev.type_id}.',
                'Remove it with "nova-vgpu device disable".',
            )
        if same and mdev.state.is_defined:
            if not mdev.starts_itself:
                device.setAutostart(1)
            return device
        if mdev.state is values.MdevState.DEFINED:
            device.undefine()  # by an earlier id of its type
    device = connection.nodeDeviceDefineXML(_xml(wanted), 0)
    device.setAutostart(1)
    return device


def _create(connection: Connection, wanted: values.Mdev) -> None:
    """Start one without a definition, unless it exists."""
    if not any(
        mdev.uuid == wanted.uuid and mdev.state.is_started
        for _, mdev in _list(connection)
    ):
        connection.nodeDeviceCreateXML(_xml(wanted), 0)


def _define_and_start(connection: Connection, wanted: values.Mdev) -> None:
    """If it does not start, its definition is removed again."""
    known = {mdev.uuid for _, mdev in _list(connection)}
    device = _define(connection, wanted)
    if device.isActive():
        return
    try:
        device.create(0)
    except libvirt.libvirtError:
        if wanted.uuid not in known:
            device.undefine()
        raise


def _remove(connection: Connection, uuid: str, keep_definition: bool) -> None:
    for device, mdev in _list(connection):
        if mdev.uuid != uuid:
            continue
        if mdev.state.is_started:
            device.destroy()
        if mdev.state.is_defined and not keep_definition:
            device.undefine()


def _list(
    connection: Connection,
) -> Iterable[tuple[NodeDevice, values.Mdev]]:
    found = []
    for device in _list_devices(connection):
        try:
            mdev = _parse(device)
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_NO_NODE_DEVICE:
                raise
        else:
            if mdev is not None:
                found.append((device, mdev))
    return found


def _list_devices(connection: Connection) -> Iterable[NodeDevice]:
    """Also those that are only defined, if libvirt supports that."""
    flags = libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV
    every = (
        libvirt.VIR_CONNECT_LIST_NODE_DEVICES_ACTIVE
        | libvirt.VIR_CONNECT_LIST_NODE_DEVICES_INACTIVE
    )
    try:
        return connection.listAllDevices(flags | every)
    except libvirt.libvirtError as error:
        # libvirt's test driver supports neither.
        if error.get_error_code() != libvirt.VIR_ERR_INVALID_ARG:
            raise
    return connection.listAllDevices(flags)


def _parse(device: NodeDevice) -> values.Mdev | None:
    """The mdev; None if its XML is invalid."""
    try:
        vgpu = node_xml.parse_device(device.name(), device.XMLDesc(0))
    except node_xml.MalformedError:
        return None  # and it is not changed
    if not isinstance(vgpu, values.VGPU) or vgpu.uuid is None:
        return None
    return values.Mdev(
        vgpu.uuid,
        vgpu.function,
        vgpu.type_id,
        _state(device),
        bool(device.isPersistent() and device.autostart()),
    )


def _state(device: NodeDevice) -> values.MdevState:
    if not device.isActive():
        return values.MdevState.DEFINED
    if device.isPersistent():
        return values.MdevState.PERSISTENT
    return values.MdevState.TRANSIENT


def _xml(wanted: values.Mdev) -> str:
    device = ElementTree.Element('device')
    ElementTree.SubElement(device, 'parent').text = wanted.parent
    capability = ElementTree.SubElement(device, 'capability', type='mdev')
    ElementTree.SubElement(capability, 'type', id=wanted.type_id)
    ElementTree.SubElement(capability, 'uuid').text = wanted.uuid
    return ElementTree.tostring(device, encoding='unicode')
