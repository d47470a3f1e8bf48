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

"""Servers on the GPU instances of a GPU in MIG mode."""

import collections

from nova import exception as nova_exception

from lab.guest.tests import compute
from lab.guest.tests import domains
from lab.guest.tests import host
from lab.guest.tests import servers
from nova_vgpu.host import files
from nova_vgpu.host import guest_drivers
from nova_vgpu.host import sysfs

_SHARES = {'A100D-2-20C': 3, 'A100D-1-10C': 1}
_VFS = 5
#: Profile and first memory slice of the GPU instances for that.
_INSTANCES = [('14', '0'), ('14', '2'), ('14', '4'), ('19', '6')]
_LOG = 'nova_vgpu.compute.allocator'


def _declare(shares: dict[str, int]) -> str:
    sections = (
        f'[vgpu_{name}]\ndevice_addresses = {host.A100}={count}\n'
        for name, count in shares.items()
    )
    return (
        f'[devices]\nenabled_vgpu_types = {", ".join(shares)}\n'
        'unlisted_gpus = ignore\n' + ''.join(sections)
    )


class TestGPUInstances(servers.ServersTest):
    declared = _declare(_SHARES)
    has_a100 = True

    def setUp(self) -> None:
        host.run('nvidia-smi', '-i', host.A100, '-mig', '1')
        self.addCleanup(self.leave_mig_mode)
        super().setUp()

    def leave_mig_mode(self) -> None:
        self.nova_vgpu('sriov', 'disable', host.A100)
        host.run('nvidia-smi', '-i', host.A100, '-mig', '0')

    def test_each_type_is_served_to_the_last_instance(self) -> None:
        self.assert_created_in_order()
        self.assertEqual(
            {self.device(name): {'VGPU': n} for name, n in _SHARES.items()},
            self.compute.inventories(),
        )
        # The small one first: the large ones have their places nevertheless.
        for name in reversed(_SHARES):
            # Each type has one server that runs.
            for number in range(_SHARES[name]):
                self.boot(host.A100, power_on=not number, share=name)
        self.assertEqual(_SHARES, self.read_types())
        for name in _SHARES:
            self.assert_full(name)
        said = self.nova_vgpu('provider', 'diff', '--mode', 'full')
        self.assertIn('Placement agrees', said)
        self.assert_nvml_knows_guests()
        self.assert_no_command_takes_instances()
        self.assertIn('Nothing to do', self.nova_vgpu('apply'))
        self.assert_gives_back()
        self.assert_lost_instances_come_back()

    # -- what an operator would see -----------------------------------------

    def device(self, name: str) -> str:
        return f'{host.node_device(host.A100)}_{name}'

    def read_types(self) -> dict[str, int]:
        """How many vGPUs of each type the kernel has."""
        return dict(collections.Counter(map(host.mdev_type, host.mdevs())))

    def read_instances(self) -> list[tuple[str, str]]:
        """Those with a compute instance, by their places."""
        lines = host.read(host.A100, 'fakenvml', 'instances').splitlines()
        found = (line.split() for line in lines)
        return sorted(
            ((profile, start) for _, profile, start, _, n in found if n > '0'),
            key=lambda instance: instance[1],
        )

    # -- what is to hold ----------------------------------------------------

    def assert_created_in_order(self) -> None:
        """VFs before GPU instances, and of those the large ones first."""
        gpu = host.A100
        self.assertEqual(
            [
                f'create 3 GPU instances of 2g.20gb on GPU {gpu}',
                f'create 1 GPU instance of 1g.10gb on GPU {gpu}',
            ],
            [s for s in self.applied if 'GPU instance' in s],
        )
        self.assertIn('VFs', self.applied[0])
        self.assertEqual(_VFS, host.count_vfs(gpu))
        self.assertEqual(_INSTANCES, self.read_instances())

    def assert_full(self, name: str) -> None:
        """Neither Placement nor the driver has one more vGPU of a type."""
        server = compute.make_server(next(self.numbers))
        self.assertFalse(self.compute.claim(server, host.A100, name))
        provider = self.compute.providers()[self.device(name)]
        with (
            self.assertLogs(_LOG, 'ERROR') as said,
            self.assertRaises(nova_exception.ComputeResourcesUnavailable),
        ):
            self.compute.driver._allocate_mdevs(
                {provider: {'resources': {'VGPU': 1}}}
            )
        self.assertIn(name, ''.join(said.output))

    def assert_nvml_knows_guests(self) -> None:
        """Those that run, by the UUIDs that Nova has given them."""
        states = {s.uuid: domains.state(s.uuid) for s in self.servers}
        running = [uuid for uuid in states if states[uuid] == 'paused']
        self.assertEqual(2, len(running))
        drivers = guest_drivers.read_guest_drivers(
            sysfs.read_host(files.Files('/sys'))
        )
        self.assertCountEqual(running, [found.server for found in drivers])

    def assert_no_command_takes_instances(self) -> None:
        before = host.mdevs()
        self.declare(_declare({'A100D-3-40C': 2}))
        said = self.nova_vgpu('apply', code=3)
        for server in self.servers:
            self.assertIn(server.uuid, said)
        self.nova_vgpu('sriov', 'disable', host.A100, code=3)
        self.assertEqual(before, host.mdevs())
        self.assertEqual(_INSTANCES, self.read_instances())
        self.assert_nvml_knows_guests()
        self.declare(self.declared + compute.SETTINGS)

    def assert_gives_back(self) -> None:
        """What a server had is for the next one."""
        for server in tuple(self.servers):
            self.delete(server)
        self.boot(host.A100, power_on=False, share='A100D-2-20C')
        self.assertEqual(_SHARES, self.read_types())
        self.delete(*self.servers)
        self.remove_mdevs(host.mdevs())

    def assert_lost_instances_come_back(self) -> None:
        for option in ('-d', '-e'):
            host.run('/usr/lib/nvidia/sriov-manage', option, host.A100)
        self.assertEqual([], self.read_instances())
        self.nova_vgpu('apply')
        self.assertEqual(_INSTANCES, self.read_instances())
        self.nova_vgpu('restore')
        self.assertEqual([], self.read_instances())
        self.nova_vgpu('apply')
        self.assertEqual(_INSTANCES, self.read_instances())
