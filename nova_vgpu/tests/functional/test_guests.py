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

"""Guests through real libvirt, by its own test driver.

It keeps everything of a <hostdev> that is read here. It has one definition of
a guest, so that what a guest runs with and what it is defined with cannot
differ there; a connection that is not libvirt's shows that.
"""

from collections.abc import Iterable
import pathlib

import fixtures
import libvirt
import testtools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import guests
from nova_vgpu.host import libvirt_nodes
from nova_vgpu.host import source as host_source
from nova_vgpu.tests import domains

FIRST, SECOND = (f'{n}1111111-0000-4000-8000-000000000000' for n in (1, 2))
MDEV, OTHER = (f'{n}aaaaaaa-0000-4000-8000-000000000000' for n in (1, 2))
ADDRESS = values.PciAddress.parse('0001:c8:00.5')


class LibvirtTest(testtools.TestCase):
    def read(self, *xml: str) -> tuple[values.Guest, ...]:
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        path = directory / 'node.xml'
        path.write_text(f'<node>{"".join(xml)}</node>')
        source = host_source.HostSource(f'test://{path}', str(directory))
        return source.read_guests()

    def test_running_and_shut_off(self) -> None:
        for running in (True, False):
            self.assertEqual(
                (
                    values.Guest(
                        FIRST,
                        'instance-1',
                        running,
                        frozenset({MDEV, OTHER}),
                        frozenset({ADDRESS}),
                        (values.GuestVGPU(MDEV), values.GuestVGPU(OTHER)),
                    ),
                ),
                self.read(
                    domains.write_domain(
                        FIRST,
                        'instance-1',
                        mdevs=(MDEV, OTHER),
                        functions=(ADDRESS,),
                        running=running,
                    )
                ),
            )

    def test_in_the_order_of_their_names(self) -> None:
        found = self.read(
            domains.write_domain(SECOND, 'instance-2', mdevs=(MDEV,)),
            domains.write_domain(FIRST, 'instance-1'),
        )
        self.assertEqual(
            ['instance-1', 'instance-2'], [guest.name for guest in found]
        )
        self.assertEqual(frozenset(), found[0].mdevs)

    def test_other_devices_are_passed_over(self) -> None:
        usb = (
            "<hostdev mode='subsystem' type='usb'><source>"
            "<vendor id='0x1234'/><product id='0xbeef'/></source></hostdev>"
        )
        found = self.read(domains.write_domain(FIRST, 'instance-1', more=usb))
        self.assertEqual((values.Guest(FIRST, 'instance-1', True),), found)

    def test_mdevs_are_found_whatever_a_guest_does(self) -> None:
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'node')
        path.write_text(
            '<node>'
            + domains.write_domain(FIRST, 'instance-1', mdevs=(MDEV,))
            + domains.write_domain(SECOND, 'instance-2', running=False)
            + '</node>'
        )
        with libvirt_nodes.connect(f'test://{path}', True) as connection:

            def find() -> frozenset[str]:
                return guests.find_mdevs(connection, (MDEV, OTHER))

            self.assertEqual({MDEV}, find())
            connection.lookupByName('instance-1').destroy()
            self.assertEqual({MDEV}, find())
            connection.lookupByName('instance-1').undefine()
            self.assertEqual(frozenset(), find())
            connection.defineXML(
                domains.write_domain(SECOND, 'instance-2', mdevs=(OTHER,))
            )
            self.assertEqual({OTHER}, find())

    def test_no_guests(self) -> None:
        self.assertEqual((), self.read())

    def test_sysfs_alone_does_not_tell(self) -> None:
        error = self.assertRaises(
            exception.HostUnreadable,
            host_source.HostSource(sysfs_root='/nowhere').read_guests,
        )
        self.assertIn('--libvirt qemu:///system', str(error))


class Domain:
    """A guest of a connection that is not libvirt's."""

    def __init__(self, now: str, defined: str) -> None:
        self._now, self._defined = now, defined

    def name(self) -> str:
        return 'instance-1'

    def UUIDString(self) -> str:
        return FIRST.upper()

    def isActive(self) -> int:
        return 1

    def XMLDesc(self, flags: int = 0) -> str:
        if flags & libvirt.VIR_DOMAIN_XML_INACTIVE:
            return self._defined
        return self._now


class GoneDomain(Domain):
    """One that cannot be read any more."""

    def __init__(self, code: int) -> None:
        super().__init__('', '')
        self._code = code

    def XMLDesc(self, flags: int = 0) -> str:
        error = libvirt.libvirtError('it is gone')
        error.err = (self._code, libvirt.VIR_FROM_TEST, 'gone', 2, *[''] * 5)
        raise error


class Connection:
    def __init__(self, *found: Domain) -> None:
        self._found = found

    def listAllDomains(self, flags: int = 0) -> Iterable[Domain]:
        return self._found

    def lookupByUUIDString(self, uuid: str) -> Domain:
        return next(d for d in self._found if d.UUIDString().lower() == uuid)


class OtherConnectionsTest(testtools.TestCase):
    def test_what_it_runs_with_and_what_it_is_defined_with(self) -> None:
        """Nova takes the mdevs of a guest that it suspends out of one."""
        now = domains.write_domain(FIRST, 'x', mdevs=(MDEV,))
        defined = domains.write_domain(FIRST, 'x', mdevs=(OTHER,))
        (guest,) = guests.read_guests(Connection(Domain(now, defined)))
        self.assertEqual({MDEV, OTHER}, guest.mdevs)
        self.assertEqual(FIRST, guest.uuid)

    def test_a_guest_that_is_gone_since_it_was_listed(self) -> None:
        there = domains.write_domain(FIRST, 'x')
        found = guests.read_guests(
            Connection(
                GoneDomain(libvirt.VIR_ERR_NO_DOMAIN), Domain(there, there)
            )
        )
        self.assertEqual(1, len(found))

    def test_a_guest_that_is_unclear_is_not_left_out(self) -> None:
        for case, xml in (
            ('no XML', '<domain'),
            ('nothing', ''),
            (
                'an mdev without a UUID',
                domains.write_domain(FIRST, 'x', mdevs=('',)),
            ),
            (
                'an mdev without an address',
                "<domain><devices><hostdev type='mdev'/></devices></domain>",
            ),
            (
                'no function',
                "<domain><devices><hostdev type='pci'><source><address "
                "domain='x'/></source></hostdev></devices></domain>",
            ),
        ):
            error = self.assertRaises(
                exception.HostUnreadable,
                guests.read_guests,
                Connection(Domain(xml, xml)),
            )
            self.assertIn('instance-1', str(error), case)

    def test_libvirt_that_stops_answering(self) -> None:
        error = self.assertRaises(
            exception.HostUnreadable,
            guests.read_guests,
            Connection(GoneDomain(libvirt.VIR_ERR_RPC)),
        )
        self.assertIn('it is gone', str(error))
