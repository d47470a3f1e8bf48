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

"""Servers on the virtual functions of a GPU that its driver provisions."""

from lab.guest.tests import compute
from lab.guest.tests import domains
from lab.guest.tests import host
from lab.guest.tests import servers

_GIB = 1 << 30
_IDS = '8086:e211'


def _declare(profile: str, option: str = '') -> str:
    return (
        f'[devices]\nenabled_vgpu_types = {profile}\n'
        'unlisted_gpus = ignore\n'
        f'[vgpu_{profile}]\ndevice_addresses = {host.B60}\n{option}'
    )


_EQUAL = _declare('B60-1of4')
#: As many as the memory has room for: 3.
_QUOTAS = _declare('B60-6G', 'exec_quantum_ms = 20\n')


class TestVFProfiles(servers.ServersTest):
    declared = _EQUAL

    def apply(self) -> None:
        self.addCleanup(self.nova_vgpu, 'sriov', 'disable', host.B60)
        self.nova_vgpu('apply')

    def test_each_function_is_served_and_given_back(self) -> None:
        (share,) = set(self.read_profiles('vram_quota'))
        self.assertGreater(share, 5 * _GIB)
        self.assert_serves(4)
        held = self.fill(running=4)
        self.assert_serves(4, used=4)
        self.assert_no_run_takes(held)
        gone = self.servers[1]
        self.delete(gone)
        self.assertEqual('xe', host.driver_of(held[gone.uuid]))
        last = self.boot(host.B60, power_on=False)
        self.assertEqual(held[gone.uuid], self.vgpu_of(last.uuid, 'yes'))
        for server in tuple(self.servers):
            self.delete(server)
        self.assert_drivers('xe', host.list_vfs(host.B60))

        # Nothing uses the functions now: they may become others.
        self.declare(_QUOTAS)
        self.nova_vgpu('apply')
        self.assertEqual([6 * _GIB] * 3, self.read_profiles('vram_quota'))
        self.assertEqual([20] * 3, self.read_profiles('exec_quantum_ms'))
        self.restart(_QUOTAS)
        self.assert_serves(3)
        self.fill(running=0)

    # -- what an operator would do and see ----------------------------------

    def read_profiles(self, name: str) -> list[int]:
        """A setting of each function that is enabled."""
        numbers = range(1, host.count_vfs(host.B60) + 1)
        directories = (f'sriov_admin/vf{n}/profile' for n in numbers)
        return [int(host.read(host.B60, d, name)) for d in directories]

    def fill(self, running: int) -> dict[str, str]:
        """Give each function to a server: there is no place for another one.

        :param running: how many are started; to start one takes seconds.
        """
        vfs = host.list_vfs(host.B60)
        started = [self.boot(host.B60) for _ in vfs[:running]]
        others = [self.boot(host.B60, power_on=False) for _ in vfs[running:]]
        held = {
            server.uuid: self.vgpu_of(server.uuid, managed='yes')
            for server in (*started, *others)
        }
        self.assertEqual(sorted(vfs), sorted(held.values()))
        for server in started:
            self.assertEqual('vfio-pci', host.driver_of(held[server.uuid]))
            self.assertIn(_IDS, domains.list_pci_ids(server.uuid))
        more = compute.make_server(next(self.numbers))
        self.assertFalse(self.compute.claim(more, host.B60))
        return held

    # -- what is to hold ----------------------------------------------------

    def assert_drivers(self, driver: str, vfs: list[str]) -> None:
        self.assertEqual({driver}, {host.driver_of(vf) for vf in vfs})

    def assert_serves(self, total: int, used: int = 0) -> None:
        """Placement has all functions, and apply has nothing to do."""
        name = host.node_device(host.B60)
        found = self.compute.inventories()
        self.assertEqual({name: {'VGPU': total}}, found)
        shown = self.nova_vgpu('provider', 'show')
        self.assertRegex(shown, rf'{name} *\| VGPU: {used} of {total} ')
        said = self.nova_vgpu('provider', 'diff', '--mode', 'full')
        self.assertIn('Placement agrees', said)
        self.assertIn('Nothing to do', self.nova_vgpu('apply'))

    def assert_no_run_takes(self, held: dict[str, str]) -> None:
        """Neither with other functions declared."""
        self.declare(_QUOTAS)
        said = self.nova_vgpu('apply', code=3)
        for server in held:
            self.assertIn(server, said)
            self.assertEqual('paused', domains.state(server))
        self.assert_drivers('vfio-pci', list(held.values()))
