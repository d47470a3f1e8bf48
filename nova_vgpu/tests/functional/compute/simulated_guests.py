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

"""Guests as libvirt runs them, where Nova's fake ones are simpler.

Nova's fake guest starts with any device, knows no difference between what it
runs with and what it is configured with, and gives every host device the
alias ``hostdevN``.
"""

import typing
from xml.etree import ElementTree

from nova.tests.fixtures import libvirt as fakelibvirt

from nova_vgpu import values
from nova_vgpu.tests.functional.compute import hostdev_aliases

Hostdev = dict[str, typing.Any]


def key_of(hostdev: Hostdev) -> str:
    """What tells a host device: an mdev's UUID or a function's name."""
    if hostdev['type'] == 'mdev':
        return str(hostdev['address_uuid'])
    domain, bus, slot, function = (
        int(hostdev[part], 16)
        for part in ('domain', 'bus', 'slot', 'function')
    )
    return values.PciAddress(domain, bus, slot, function).node_device_name


def parse_hostdev(element: ElementTree.Element) -> Hostdev:
    address = element.find('source/address')
    alias = element.find('alias')
    hostdev: Hostdev = {'type': element.get('type')}
    if address is not None:
        hostdev |= {
            'address_uuid': address.get('uuid'),
            'domain': address.get('domain'),
            'bus': address.get('bus'),
            'slot': address.get('slot'),
            'function': address.get('function'),
        }
    # libvirt's default; Nova's fake has another word there.
    hostdev['managed'] = element.get('managed', 'no')
    hostdev['model'] = element.get('model')
    if alias is not None:
        hostdev['alias'] = alias.get('name')
    return hostdev


def _read_hostdev(xml: str) -> Hostdev:
    return parse_hostdev(ElementTree.fromstring(xml))  # noqa: S314 (Nova's)


class Guest(fakelibvirt.Domain):
    """A domain; its connection is a simulated one."""

    def __init__(
        self,
        connection: typing.Any,
        xml: str,
        running: bool = False,
        transient: bool = False,
    ) -> None:
        super().__init__(connection, xml, running=False, transient=transient)
        #: What it starts with; ``hostdevs`` is what it has right now.
        self.configured = list(self.hostdevs)
        #: What it had when its memory was saved.
        self._saved: list[Hostdev] | None = None
        #: How many looks at it see a device that it was asked to let go of;
        #: None: it never lets go by itself.
        self.looks_until_detached: int | None = 0
        #: What it was asked to let go of, and how many looks that lasts.
        self._detaching: dict[str, int | None] = {}
        if running:
            self.createWithFlags(0)

    @property
    def hostdevs(self) -> list[Hostdev]:
        found: list[Hostdev] = self._def['devices']['hostdevs']
        return found

    @hostdevs.setter
    def hostdevs(self, hostdevs: list[Hostdev]) -> None:
        self._def['devices']['hostdevs'] = hostdevs

    @property
    def is_running(self) -> bool:
        """Paused is running: its devices are in use."""
        with self._connection.lock:
            return self in self._connection._running_vms.values()

    def _parse_definition(self, xml: str) -> dict[str, typing.Any]:
        definition: dict[str, typing.Any] = super()._parse_definition(xml)
        domain = ElementTree.fromstring(xml)  # noqa: S314 (Nova wrote it)
        definition['devices']['hostdevs'] = [
            parse_hostdev(element)
            for element in domain.findall('devices/hostdev')
        ]
        return definition

    def take_over(self, before: 'Guest') -> None:
        """Be the new definition of one that had its memory saved.

        libvirt keeps what was saved by the name of the domain.
        """
        self._saved = before._saved
        self._has_saved_state: bool = before._has_saved_state

    # -- its life -----------------------------------------------------------

    def createWithFlags(self, flags: int) -> None:
        """Refuses a device that is not there, or that another one has.

        From saved memory it starts with the devices that it was saved with,
        whatever its configuration says.
        """
        with self._connection.lock:
            hostdevs = self.configured if self._saved is None else self._saved
            for hostdev in hostdevs:
                self._connection.require_usable(hostdev, self)
            self._connection.take(hostdevs)
            super().createWithFlags(flags)
            self._detaching.clear()
            self.hostdevs = list(hostdevs)
            self._saved = None

    def isActive(self) -> int:
        return int(self.is_running)

    def _end(self) -> None:
        """What it was given while it ran goes, what was taken comes back."""
        self._state = fakelibvirt.VIR_DOMAIN_SHUTOFF
        self._connection.give_back(self.hostdevs)
        self.hostdevs = list(self.configured)

    def destroy(self) -> None:
        with self._connection.lock:
            super().destroy()
            self._end()

    def shutdown(self) -> None:
        with self._connection.lock:
            super().shutdown()
            self._end()

    def undefine(self) -> None:
        """A running one would stay, as transient; here it ends as well.

        Nova undefines none that runs. Tests do, to lose a guest altogether.
        """
        with self._connection.lock:
            self._connection._mark_not_running(self)
            super().undefine()
            self._end()

    def managedSave(self, flags: int) -> None:
        with self._connection.lock:
            if self.hostdevs:
                raise self._connection.error(
                    'internal error: unable to execute QEMU command '
                    "'migrate': VFIO migration is not supported in kernel",
                    fakelibvirt.VIR_ERR_INTERNAL_ERROR,
                )
            self._saved = list(self.hostdevs)
            super().managedSave(flags)
            self._end()

    def managedSaveRemove(self, flags: int = 0) -> None:
        self._saved = None
        super().managedSaveRemove(flags)

    # -- its devices --------------------------------------------------------

    def _is_live(self, flags: int) -> bool:
        if flags & fakelibvirt.VIR_DOMAIN_AFFECT_LIVE and not self.is_running:
            raise self._connection.error(
                'domain is not running', fakelibvirt.VIR_ERR_OPERATION_INVALID
            )
        config = flags & fakelibvirt.VIR_DOMAIN_AFFECT_CONFIG
        return self.is_running and (
            bool(flags & fakelibvirt.VIR_DOMAIN_AFFECT_LIVE) or not config
        )

    def attachDeviceFlags(self, xml: str, flags: int = 0) -> None:
        if not xml.startswith('<hostdev'):
            super().attachDeviceFlags(xml, flags)
            return
        hostdev = _read_hostdev(xml)
        with self._connection.lock:
            live = self._is_live(flags)
            if live:
                self._connection.require_usable(hostdev, self)
                self.hostdevs = [*self.hostdevs, hostdev]
            if not live or flags & fakelibvirt.VIR_DOMAIN_AFFECT_CONFIG:
                self.configured = [*self.configured, hostdev]
            if not self.is_running:
                self.hostdevs = list(self.configured)

    def detachDeviceFlags(self, xml: str, flags: int = 0) -> None:
        """From the running guest alone, unless its configuration is meant.

        A running guest is only asked: libvirt waits some seconds for it, and
        does not tell whether it has let go.
        """
        if not xml.startswith('<hostdev'):
            super().detachDeviceFlags(xml, flags)
            return
        key = key_of(_read_hostdev(xml))
        with self._connection.lock:
            live = self._is_live(flags)
            if live:
                self._ask_to_let_go(key)
            if not live or flags & fakelibvirt.VIR_DOMAIN_AFFECT_CONFIG:
                self.configured = self._without(self.configured, key)
            if not self.is_running:
                self.hostdevs = list(self.configured)

    def _ask_to_let_go(self, key: str) -> None:
        left = self._without(self.hostdevs, key)
        if self.looks_until_detached == 0:
            self._detaching.pop(key, None)
            self.hostdevs = left
        elif key in self._detaching:
            raise self._connection.error(
                "internal error: unable to execute QEMU command 'device_del': "
                f'Device {key} is already in the process of unplug',
                fakelibvirt.VIR_ERR_INTERNAL_ERROR,
            )
        else:
            self._detaching[key] = self.looks_until_detached

    def let_go(self) -> None:
        """Give up what it was asked for, however long ago."""
        with self._connection.lock:
            for key in self._detaching:
                self.hostdevs = self._without(self.hostdevs, key)
            self._detaching.clear()

    def _pass_look(self) -> None:
        for key, looks in list(self._detaching.items()):
            if looks == 0:
                del self._detaching[key]
                self.hostdevs = self._without(self.hostdevs, key)
            elif looks is not None:
                self._detaching[key] = looks - 1

    def _without(self, hostdevs: list[Hostdev], key: str) -> list[Hostdev]:
        left = [hostdev for hostdev in hostdevs if key_of(hostdev) != key]
        if len(left) == len(hostdevs):
            raise self._connection.error(
                f'device not found: no host device {key}',
                fakelibvirt.VIR_ERR_DEVICE_MISSING,
            )
        return left

    def XMLDesc(self, flags: int) -> str:
        """One that was undefined since it was listed has none any more."""
        with self._connection.lock:
            if (
                not self.is_running
                and self.name() not in self._connection._vms
            ):
                raise self._connection.error(
                    f"Domain not found: no domain '{self.name()}'",
                    fakelibvirt.VIR_ERR_NO_DOMAIN,
                )
            configured = flags & fakelibvirt.VIR_DOMAIN_XML_INACTIVE
            if not configured:
                self._pass_look()
            now = self.hostdevs
            if configured:
                self.hostdevs = self.configured
            try:
                xml: str = super().XMLDesc(flags)
                shown = self.hostdevs
            finally:
                self.hostdevs = now
        # libvirt says so of an mdev, too; Nova's fake leaves it out.
        xml = xml.replace(
            "type='mdev' model=", "type='mdev' managed='no' model="
        )
        return hostdev_aliases.keep(xml, shown)
