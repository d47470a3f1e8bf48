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

"""Servers of Nova with vGPUs, in real guests of a real libvirt."""

import itertools
import typing
from xml.etree import ElementTree

from nova import exception as nova_exception

from lab.guest.tests import compute
from lab.guest.tests import domains
from lab.guest.tests import host

#: Who tells that a GPU has no room.
_LOG = 'nova_vgpu.compute.allocation'


class TestServers(host.HostTest):
    """One nova-compute for all tests: Nova takes long to be loaded."""

    compute: compute.Compute
    numbers: typing.ClassVar = itertools.count(1)

    @classmethod
    def setUpClass(cls) -> None:
        test = cls()
        test.declare(host.DECLARED + compute.SETTINGS)
        cls.addClassCleanup(test.declare, host.DECLARED)
        if not host.count_vfs(host.A10) or not host.count_vfs(host.L40S):
            test.nova_vgpu('apply')
        compute.configure()
        cls.compute = compute.Compute()
        cls.compute.update()

    def setUp(self) -> None:
        self.addCleanup(self.remove_idle)

    # -- what an operator would do and see ----------------------------------

    def boot(self, gpu: str, power_on: bool = True) -> typing.Any:
        """A server with a vGPU of a GPU.

        Its guest has nothing to boot, and would take the processor of all that
        follows for that: it is paused as soon as it ran.
        """
        server = compute.make_server(next(self.numbers))
        self.assertTrue(self.compute.claim(server, gpu))
        self.addCleanup(self.compute.delete, server)
        self.compute.spawn(server, power_on)
        if power_on:
            self.assertEqual('running', domains.state(server.uuid))
            domains.virsh('suspend', server.uuid)
        return server

    def hostdev_of(self, server: typing.Any) -> ElementTree.Element:
        text = domains.virsh('dumpxml', server.uuid)
        self.assertNotIn("managed='yes'", text)
        domain = ElementTree.fromstring(text)  # noqa: S314 (libvirt's)
        (hostdev,) = domain.findall('devices/hostdev')
        return hostdev

    def vgpu_of(self, server: typing.Any) -> str:
        """The UUID of its mdev, or the address of its virtual function."""
        hostdev = self.hostdev_of(server)
        (address,) = hostdev.findall('source/address')
        if hostdev.get('type') == 'mdev':
            return address.attrib['uuid']
        self.assertEqual(
            ('pci', 'no'), (hostdev.get('type'), hostdev.get('managed'))
        )
        parts = ('domain', 'bus', 'slot', 'function')
        return '{}:{}:{}.{}'.format(
            *(address.attrib[part].removeprefix('0x') for part in parts)
        )

    def assert_lives(self, server: typing.Any) -> None:
        self.assertEqual('paused', domains.state(server.uuid))

    def assert_full(self, gpu: str) -> None:
        """Neither Placement nor the driver has one more vGPU of it."""
        server = compute.make_server(next(self.numbers))
        self.assertFalse(self.compute.claim(server, gpu))
        provider = self.compute.providers()[compute.node_device(gpu)]
        with (
            self.assertLogs(_LOG, 'ERROR') as said,
            self.assertRaises(nova_exception.ComputeResourcesUnavailable),
        ):
            self.compute.driver._allocate_mdevs(
                {provider: {'resources': {'VGPU': 1}}}
            )
        self.assertIn(compute.node_device(gpu), ''.join(said.output))

    def typed_functions(self) -> list[str]:
        """The functions of the L40S that are vGPUs."""
        every = (
            host.virtual_function(host.L40S, number)
            for number in range(host.VFS)
        )
        return [vf for vf in every if host.type_of(vf) != '0']

    def remove_idle(self) -> None:
        """The driver leaves mdevs of the declared type to the next server."""
        for mdev in host.mdevs():
            self.compute.driver._remove_mdev(mdev)
        self.assertEqual([], host.mdevs())
        self.assertEqual([], self.typed_functions())

    # -- tests --------------------------------------------------------------

    def test_placement_has_what_is_declared(self) -> None:
        found = self.compute.inventories()
        gpus = (host.T4, host.A10, host.L40S, host.GVTG)
        self.assertEqual(set(map(compute.node_device, gpus)), set(found))
        for gpu in (host.T4, host.A10, host.L40S):
            self.assertEqual({'VGPU': 2}, found[compute.node_device(gpu)])
        shown = self.nova_vgpu('provider', 'show')
        for name, totals in found.items():
            self.assertRegex(
                shown, rf'{name} *\| VGPU: 0 of {totals["VGPU"]} '
            )
        said = self.nova_vgpu('provider', 'diff', '--mode', 'full')
        self.assertIn('Placement agrees', said)

    def test_an_mdev_on_the_gpu(self) -> None:
        self.assert_life_with_mdevs(host.T4, [host.T4])

    def test_an_mdev_on_a_virtual_function(self) -> None:
        functions = [
            host.virtual_function(host.A10, number)
            for number in range(host.VFS)
        ]
        self.assert_life_with_mdevs(host.A10, functions)

    def assert_life_with_mdevs(self, gpu: str, parents: list[str]) -> None:
        first = self.boot(gpu)
        # It is defined and not started, which is enough to hold its vGPU.
        second = self.boot(gpu, power_on=False)
        mdevs = [self.vgpu_of(first), self.vgpu_of(second)]
        self.assertEqual(sorted(mdevs), host.mdevs())
        for mdev in mdevs:
            self.assertTrue(
                any(host.function(p, mdev).exists() for p in parents)
            )
        self.assert_full(gpu)
        self.assertEqual(sorted(mdevs), host.mdevs())
        self.compute.delete(second)
        # It is left for the next one.
        self.assertEqual(sorted(mdevs), host.mdevs())
        self.assert_lives(first)

    def test_a_virtual_function_that_is_the_vgpu(self) -> None:
        first = self.boot(host.L40S)
        second = self.boot(host.L40S, power_on=False)
        functions = [self.vgpu_of(first), self.vgpu_of(second)]
        self.assertEqual(sorted(functions), sorted(self.typed_functions()))
        self.assertEqual(2, len(set(functions)))
        for vf in functions:
            self.assertEqual('nvidia', host.driver_of(vf))
        self.assert_full(host.L40S)
        self.compute.delete(second)
        self.assertEqual(functions[:1], self.typed_functions())
        self.assert_untouched_by_a_restart(first, functions[0])
        self.compute.delete(first)
        self.assertEqual([], self.typed_functions())
        self.assertEqual('nvidia', host.driver_of(functions[0]))

    def assert_untouched_by_a_restart(
        self, server: typing.Any, vf: str
    ) -> None:
        number = host.type_of(vf)
        again = compute.Compute()
        again.update()
        self.assert_lives(server)
        self.assertEqual(vf, self.vgpu_of(server))
        self.assertEqual(number, host.type_of(vf))
        self.assertEqual([vf], self.typed_functions())
        self.assertEqual('nvidia', host.driver_of(vf))
