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

"""A connection to a simulated libvirt, and its objects.

Arguments are names and results are text and numbers: the host may be in this
process, or in another one behind a manager of :mod:`multiprocessing`.
"""

import typing


class End(typing.Protocol):
    """What a connection calls, with arguments that can be pickled."""

    def list_devices(self, flags: int) -> list[str]: ...

    def call_device(
        self, name: str, method: str, *args: typing.Any
    ) -> typing.Any: ...

    def create_device(self, xml: str) -> str: ...

    def define_device(self, xml: str) -> str: ...

    def list_guests(self, flags: int) -> list[tuple[str, str]]: ...

    def call_guest(
        self, uuid: str, method: str, *args: typing.Any
    ) -> typing.Any: ...


class NodeDevice:
    """A node device by name, like ``virNodeDevice``."""

    def __init__(self, end: End, name: str) -> None:
        self._end = end
        self._name = name

    def name(self) -> str:
        return self._name

    def parent(self) -> str:
        return str(self._call('parent'))

    def listCaps(self) -> list[str]:
        return list(self._call('listCaps'))

    def XMLDesc(self, flags: int = 0) -> str:
        return str(self._call('XMLDesc', flags))

    def isActive(self) -> int:
        return int(self._call('isActive'))

    def isPersistent(self) -> int:
        return int(self._call('isPersistent'))

    def autostart(self) -> int:
        return int(self._call('autostart'))

    def setAutostart(self, autostart: int) -> int:
        return int(self._call('setAutostart', autostart))

    def create(self, flags: int = 0) -> int:
        return int(self._call('create', flags))

    def destroy(self) -> int:
        return int(self._call('destroy'))

    def undefine(self, flags: int = 0) -> int:
        return int(self._call('undefine', flags))

    def _call(self, method: str, *args: int) -> typing.Any:
        return self._end.call_device(self._name, method, *args)


class Domain:
    """A guest, like ``virDomain``."""

    def __init__(self, end: End, uuid: str, name: str) -> None:
        self._end = end
        self._uuid = uuid
        self._name = name

    def name(self) -> str:
        return self._name

    def UUIDString(self) -> str:
        return self._uuid

    def isActive(self) -> int:
        return int(self._end.call_guest(self._uuid, 'isActive'))

    def XMLDesc(self, flags: int = 0) -> str:
        return str(self._end.call_guest(self._uuid, 'XMLDesc', flags))


class Connection:
    """A connection to a host that may be in another process."""

    def __init__(self, end: End | None = None) -> None:
        self._end: End = typing.cast(End, self) if end is None else end

    def close(self) -> int:
        return 0

    def getHostname(self) -> str:
        return 'simulated'

    def getType(self) -> str:
        return 'QEMU'

    def getLibVersion(self) -> int:
        return 10_000_000

    def getVersion(self) -> int:
        return 8_002_002

    def listAllDevices(self, flags: int = 0) -> list[NodeDevice]:
        names = self._end.list_devices(flags)
        return [NodeDevice(self._end, name) for name in names]

    def nodeDeviceLookupByName(self, name: str) -> NodeDevice:
        self._end.call_device(name, 'name')
        return NodeDevice(self._end, name)

    def nodeDeviceCreateXML(self, xml: str, flags: int = 0) -> NodeDevice:
        return NodeDevice(self._end, self._end.create_device(xml))

    def nodeDeviceDefineXML(self, xml: str, flags: int = 0) -> NodeDevice:
        return NodeDevice(self._end, self._end.define_device(xml))

    def listAllDomains(self, flags: int = 0) -> list[Domain]:
        found = self._end.list_guests(flags)
        return [Domain(self._end, uuid, name) for uuid, name in found]

    def lookupByUUIDString(self, uuid: str) -> Domain:
        name = str(self._end.call_guest(uuid, 'name'))
        return Domain(self._end, uuid, name)
