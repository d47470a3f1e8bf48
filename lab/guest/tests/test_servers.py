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

from nova import exception as nova_exception

from lab.guest.tests import compute
from lab.guest.tests import domains
from lab.guest.tests import host
from lab.guest.tests import servers

#: Who tells that a GPU has no room.
_LOG = 'nova_vgpu.compute.allocator'
_GPUS = (host.T4, host.A10, host.L40S)
_OTHERWISE = (
    host.DECLARED.replace('T4-8Q', 'T4-4Q')
    .replace('A10-12Q', 'A10-8Q')
    .replace('L40S-24Q', 'L40S-12Q')
)


class TestServers(servers.ServersTest):
    def test_the_life_of_servers(self) -> None:
        self.assert_placement_has_what_is_declared()
        booted = {gpu: self.boot(gpu) for gpu in _GPUS}
        vgpus = {gpu: self.vgpu_of(booted[gpu].uuid) for gpu in _GPUS}
        self.assert_made(vgpus, 1)

        # It is defined and not started, which is enough to hold its vGPU.
        more = {gpu: self.boot(gpu, power_on=False) for gpu in _GPUS}
        others = {gpu: self.vgpu_of(more[gpu].uuid) for gpu in _GPUS}
        self.assert_made(vgpus | {f'{g} too': v for g, v in others.items()}, 2)
        for gpu in _GPUS:
            self.assert_full(gpu)
        for server in more.values():
            self.delete(server)
        self.remove_mdevs({others[host.T4], others[host.A10]})
        self.assert_made(vgpus, 1)

        held = {booted[gpu].uuid: vgpus[gpu] for gpu in _GPUS}
        self.assert_no_command_takes(held)
        self.assert_nova_takes_none(held)

        for server in booted.values():
            self.delete(server)
        self.assertEqual([], host.typed_functions())
        self.assertEqual('nvidia', host.driver_of(vgpus[host.L40S]))

    # -- what an operator would see -----------------------------------------

    def kernel(self) -> tuple[object, ...]:
        """All that must not be taken from a server."""
        functions = [*host.list_vfs(host.A10), *host.list_vfs(host.L40S)]
        return (
            host.mdevs(),
            [(vf, host.driver_of(vf)) for vf in functions],
            [(vf, host.type_of(vf)) for vf in host.list_vfs(host.L40S)],
        )

    # -- what is to hold ----------------------------------------------------

    def assert_placement_has_what_is_declared(self) -> None:
        found = self.compute.inventories()
        gpus = (*_GPUS, host.GVTG)
        self.assertEqual(set(map(host.node_device, gpus)), set(found))
        for gpu in _GPUS:
            self.assertEqual({'VGPU': 2}, found[host.node_device(gpu)])
        shown = self.nova_vgpu('provider', 'show')
        for name, totals in found.items():
            self.assertRegex(
                shown, rf'{name} *\| VGPU: 0 of {totals["VGPU"]} '
            )
        said = self.nova_vgpu('provider', 'diff', '--mode', 'full')
        self.assertIn('Placement agrees', said)

    def assert_made(self, vgpus: dict[str, str], of_each: int) -> None:
        """The kernel has these vGPUs, each on its GPU, and no others."""
        mdevs = {v for g, v in vgpus.items() if host.L40S not in g}
        functions = {v for g, v in vgpus.items() if host.L40S in g}
        self.assertEqual(sorted(mdevs), host.mdevs())
        self.assertEqual(sorted(functions), sorted(host.typed_functions()))
        self.assertEqual(of_each, len(functions))
        for vf in functions:
            self.assertEqual('nvidia', host.driver_of(vf))
        for parents in ([host.T4], host.list_vfs(host.A10)):
            on_it = {
                mdev
                for mdev in mdevs
                for parent in parents
                if host.function(parent, mdev).exists()
            }
            self.assertEqual(of_each, len(on_it))

    def assert_full(self, gpu: str) -> None:
        """Neither Placement nor the driver has one more vGPU of it."""
        server = compute.make_server(next(self.numbers))
        self.assertFalse(self.compute.claim(server, gpu))
        provider = self.compute.providers()[host.node_device(gpu)]
        with (
            self.assertLogs(_LOG, 'ERROR') as said,
            self.assertRaises(nova_exception.ComputeResourcesUnavailable),
        ):
            self.compute.driver._allocate_mdevs(
                {provider: {'resources': {'VGPU': 1}}}
            )
        self.assertIn(host.node_device(gpu), ''.join(said.output))

    def assert_untouched(
        self, before: tuple[object, ...], held: dict[str, str]
    ) -> None:
        self.assertEqual(before, self.kernel())
        for server in held:
            self.assertEqual('paused', domains.state(server))

    def assert_no_command_takes(self, held: dict[str, str]) -> None:
        before = self.kernel()
        for server, device in held.items():
            said = self.nova_vgpu('device', 'disable', device, code=3)
            self.assertIn(server, said)
        *_, on_vf, vf = held
        for gpu, server in ((host.A10, on_vf), (host.L40S, vf)):
            said = self.nova_vgpu('sriov', 'disable', gpu, code=3)
            self.assertIn(server, said)
        self.nova_vgpu(
            'device', 'enable', held[vf], '--type', 'L40S-24A', code=2
        )
        self.nova_vgpu('restore', code=3)
        self.declare(_OTHERWISE)
        said = self.nova_vgpu('apply', code=3)
        for server in held:
            self.assertIn(server, said)
        self.assert_untouched(before, held)

    def assert_nova_takes_none(self, held: dict[str, str]) -> None:
        """Nor does nova-compute, started again: with other types at that."""
        before = self.kernel()
        for declared in (_OTHERWISE, host.DECLARED):
            self.restart(declared)
            self.assert_untouched(before, held)
            for server, device in held.items():
                self.assertEqual(device, self.vgpu_of(server), declared)
