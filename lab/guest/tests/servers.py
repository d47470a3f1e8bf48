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

"""Tests with servers of Nova."""

from collections.abc import Iterable
import itertools
import typing
from xml.etree import ElementTree

from lab.guest.tests import compute
from lab.guest.tests import domains
from lab.guest.tests import host


class ServersTest(host.HostTest):
    """A nova-compute on a host that is as it is declared."""

    declared = host.DECLARED
    compute: compute.Compute
    numbers: typing.ClassVar = itertools.count(1)

    def setUp(self) -> None:
        self.declare(self.declared + compute.SETTINGS)
        self.addCleanup(self.declare, host.DECLARED)
        self.apply()
        compute.configure()
        self.compute = compute.Compute()
        self.compute.update()
        self.servers: list[typing.Any] = []
        self.addCleanup(self.remove_all)

    def apply(self) -> None:
        """Bring the host to what is declared.

        The last run is the one that enables VFs: restore would undo it.
        """
        self.nova_vgpu('sriov', 'disable', host.A10, host.L40S)
        self.applied = [row['Step'] for row in self.rows('apply')]

    def restart(self, declared: str) -> None:
        """Start nova-compute again, with what is declared now."""
        self.declare(declared + compute.SETTINGS)
        compute.configure()
        self.compute.stop()
        self.compute = compute.Compute()
        self.compute.update()

    # -- what an operator would do and see ----------------------------------

    def boot(
        self, gpu: str, power_on: bool = True, share: str = ''
    ) -> typing.Any:
        """A server with a vGPU of a GPU, or of its share for a type.

        Its guest has nothing to boot, and would take the processor of all that
        follows for that: it is paused as soon as it ran.
        """
        server = compute.make_server(next(self.numbers))
        self.assertTrue(self.compute.claim(server, gpu, share))
        self.servers.append(server)
        self.compute.spawn(server, power_on)
        if power_on:
            self.assertEqual('running', domains.state(server.uuid))
            domains.pause(server.uuid)
        return server

    def delete(self, server: typing.Any) -> None:
        self.compute.delete(server)
        self.servers.remove(server)

    def remove_all(self) -> None:
        """Servers of a test that failed, and what outlives servers."""
        for server in tuple(self.servers):
            self.delete(server)
        self.compute.stop()
        self.remove_mdevs(host.mdevs())

    def remove_mdevs(self, mdevs: Iterable[str]) -> None:
        """mdevs are left to the next server: these are not in use."""
        for mdev in mdevs:
            self.nova_vgpu('device', 'disable', mdev)

    def vgpu_of(self, uuid: str, managed: str = 'no') -> str:
        """Of a server: the UUID of its mdev, or the address of its VF.

        :param managed: whether libvirt is to bind the VF for the guest.
        """
        text = domains.read(uuid)
        domain = ElementTree.fromstring(text)  # noqa: S314 (libvirt's)
        (hostdev,) = domain.findall('devices/hostdev')
        (address,) = hostdev.findall('source/address')
        self.assertEqual(managed, hostdev.get('managed'))
        if hostdev.get('type') == 'mdev':
            return address.attrib['uuid']
        self.assertEqual('pci', hostdev.get('type'))
        parts = ('domain', 'bus', 'slot', 'function')
        return '{}:{}:{}.{}'.format(
            *(address.attrib[part].removeprefix('0x') for part in parts)
        )
