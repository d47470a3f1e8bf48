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

"""Types that are backed by MIG: servers get as many as instances exist."""

import contextlib
import dataclasses
import pathlib
import typing

import fixtures
import nova.conf

from nova_vgpu import values
from nova_vgpu.compute import modes
from nova_vgpu.host import state
from nova_vgpu.lifecycle import apply
from nova_vgpu.lifecycle import host_access
from nova_vgpu.lifecycle import step_runner
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import kernel
from nova_vgpu.sandbox import modes as simulated_modes
from nova_vgpu.sandbox import vendor_tools
from nova_vgpu.tests import hosts
from nova_vgpu.tests import live
from nova_vgpu.tests import migs
from nova_vgpu.tests.functional.compute import test_servers
from nova_vgpu.tests.functional.compute import test_shares

CONF = nova.conf.CONF
A100 = 'pci_0000_c1_00_0'
RTX_PRO_6000 = 'pci_0000_c2_00_0'
HANGS = values.ModesRead(unknown_because='NVML did not answer within 10 s')


def a100() -> typing.Any:
    card = hosts.gpu('c1:00.0', boards.A100D, vfs=16)
    return dataclasses.replace(card, instances=True)


def known(instances: int) -> values.ModesRead:
    of_type = values.MigType(
        *('nvidia-699', 'GRID A100D-1-10C', 19, '1g.10gb', instances, 1)
    )
    found = values.GPUModes(
        mig=values.GPUMode(True, True), mig_types=(of_type,)
    )
    return values.ModesRead(((a100().address, found),))


class InstancesTestBase(test_servers.OurTestBase):
    def tell(self, found: values.ModesRead | Exception) -> None:
        """From now on NVML tells this, and /proc that something changed."""
        self.simulated['host1'].modes = found
        known_modes = self.computes['host1'].driver.vgpus.planner.modes
        capabilities = pathlib.Path(
            known_modes.proc.root, 'driver/nvidia/capabilities/gpu0/mig'
        )
        capabilities.mkdir(parents=True, exist_ok=True)
        number = len(list(capabilities.iterdir()))
        (capabilities / f'gi{number}').mkdir()
        self._run_periodics()


class GPUInstancesTest(InstancesTestBase):
    def start(self, found: values.ModesRead | Exception) -> None:
        self.declare('A100D-1-10C')
        self.start_host('host1', a100(), modes=found)

    def said(self, text: str) -> int:
        return int(self.stdlog.logger.output.count(text))

    def test_as_many_servers_as_instances(self) -> None:
        self.start(known(3))
        self.assertEqual(3, self.total(A100))
        servers = [self.boot() for _ in range(3)]
        functions = {f for server in servers for f in self.mdevs_of(server)}
        self.assertEqual(3, len(functions))
        self.boot(expected_state='ERROR')
        self.tell(known(4))
        self.assertEqual(4, self.total(A100))
        self.boot()
        # Fewer than servers have: none of them loses its vGPU.
        self.tell(known(2))
        self.assertEqual(4, self.total(A100))
        self.assertEqual(0, self.said('[maximum-unknown]'))

    def test_the_last_instance_of_the_profile_goes(self) -> None:
        self.start(known(3))
        self.tell(known(0))
        found = self.inventory(A100)
        self.assertIn(found and found['total'] - found['reserved'], (0, None))
        self.assertEqual(1, self.said('no GPU instance of profile 1g.10gb'))
        self.tell(known(1))
        self.assertEqual(1, self.total(A100))
        self.boot()

    def test_without_nvml_it_says_what_is_unknown(self) -> None:
        self.start(HANGS)
        self._run_periodics()
        self.assertEqual(1, self.said('NVML did not answer within 10 s'))
        self.tell(OSError(1, 'no helper'))
        self._run_periodics()
        self.assertEqual(1, self.said('no helper'))
        self.assertEqual(2, self.said(modes.FAILED))
        self.assertEqual(1, self.said('[maximum-unknown]'))
        self.assertEqual(7, self.total(A100))
        self.tell(known(2))
        self.assertEqual(2, self.total(A100))

    def test_if_nvml_fails_later_what_was_known_counts(self) -> None:
        self.start(known(3))
        for found in (HANGS, ValueError('what nothing foresaw')):
            self.tell(found)
            self.assertEqual(3, self.total(A100))
            self.boot()  # and the rest goes on
        self.assertEqual(1, self.said('again: what nothing foresaw'))
        self.assertEqual(0, self.said('[maximum-unknown]'))


class SeveralOfAnInstanceTest(test_shares.SharesTestBase, InstancesTestBase):
    """An instance of 24 GB has two vGPUs of 12 GB, or three of 8 GB."""

    def start(self, shares: dict[str, list[str]], instances: int) -> None:
        self.declare_shares(shares, {})
        card = migs.rtx_pro_6000('c2:00.0', instances)
        found = simulated_modes.read_modes(kernel.Kernel(card))
        self.start_host('host1', card, modes=found)

    def has(self, instances: int) -> None:
        """The instances that the GPU has from now on."""
        host = self.simulated['host1']
        card = migs.rtx_pro_6000('c2:00.0', instances)
        host.gpus[0] = dataclasses.replace(
            host.gpus[0], gpu_instances=card.gpu_instances
        )
        self.tell(simulated_modes.read_modes(host.kernel))

    def test_as_many_servers_as_the_instances_take(self) -> None:
        self.start({'DC-1-12Q': ['c2:00.0']}, instances=2)
        self.assertEqual(4, self.total(RTX_PRO_6000))
        servers = [self.boot() for _ in range(4)]
        functions = {f for server in servers for f in self.names_of(server)}
        self.assertEqual(4, len(functions))
        self.boot(expected_state='ERROR')
        self._reboot_server(servers[1], hard=True)
        self._delete_server(servers[0])
        self.boot()
        self.boot(expected_state='ERROR')
        self.has(instances=3)
        self.assertEqual(6, self.total(RTX_PRO_6000))
        self.boot()

    def test_types_of_two_sizes_have_instances_of_their_own(self) -> None:
        shares = {'DC-1-12Q': ['c2:00.0=2'], 'DC-1-8Q': ['c2:00.0=3']}
        self.start(shares, instances=2)
        model = 'RTX-Pro-6000-Blackwell'
        devices = [f'{RTX_PRO_6000}_{model}-{name}' for name in shares]
        self.assertEqual([('VGPU', 2), ('VGPU', 3)], self.totals(*devices))
        large, small = (
            self.of_type(f'RTX_PRO_6000_BLACKWELL_{name}') for name in shares
        )
        order = [small, large, small, large, small]
        servers = [self.boot(flavor_id=flavor) for flavor in order]
        self.assertEqual({'DC-1-12Q': 2, 'DC-1-8Q': 3}, self.types_in_use())
        for flavor in (large, small):
            self.boot(flavor_id=flavor, expected_state='ERROR')
        self._delete_server(servers[0])
        self.boot(flavor_id=large, expected_state='ERROR')
        self.boot(flavor_id=small)


class SwitchedTest(InstancesTestBase):
    """An apply switches MIG mode while nova-compute runs."""

    def setUp(self) -> None:
        super().setUp()
        self.state_directory = self.useFixture(fixtures.TempDir()).path
        self.card = migs.switchable()
        self.declare(migs.HALF)
        self.start_host('host1', self.card)
        self.kernel = self.simulated['host1'].kernel

    def apply(self, name: str) -> step_runner.Outcome:
        """Declare a type, apply that, and restart nova-compute."""
        clock = self.kernel.clock
        access = host_access.HostAccess(
            self.kernel.files,
            lambda: contextlib.nullcontext(self.connection()),
            state.StateDirectory(self.state_directory),
            CONF.oslo_concurrency.lock_path,
            vendor_tools.VendorTools(self.kernel).run,
            sleep=clock.sleep,
            now=clock.now,
            read_modes=lambda _: simulated_modes.read_modes(self.kernel),
        )
        declared = live.declare(migs.declare(migs.SWITCH, **{name: None}))
        outcome = apply.apply(
            access, values.Configuration(declared), live.Recorder()
        )
        self.declare(name)
        self.restart_host('host1')
        self.tell(simulated_modes.read_modes(self.kernel))
        return outcome

    def test_the_inventory_is_that_of_the_mode(self) -> None:
        device = self.card.address.node_device_name
        self.assertIsNone(self.inventory(device))
        for name, total in ((migs.TWO, 3), (migs.HALF, 2), (migs.TWO, 3)):
            outcome = self.apply(name)
            self.assertEqual([], [*outcome.failures, *outcome.refusals])
            self.assertEqual(total, self.total(device))
            servers = [self.boot() for _ in range(total)]
            self.boot(expected_state='ERROR')
            for server in servers:
                self._delete_server(server)

    def test_not_while_a_server_uses_the_gpu(self) -> None:
        device = self.card.address.node_device_name
        self.apply(migs.TWO)
        server = self.boot()
        before = self.vgpus_of(server)
        refusal, *_ = self.apply(migs.HALF).refusals
        self.assertIn(server['id'], refusal.message)
        self.assertIn('MIG mode is only switched', refusal.message)
        self.assertTrue(self.kernel.get(self.card.address).mig_mode)
        self.assertEqual(before, self.vgpus_of(server))
        self._delete_server(server)
        self.assertEqual([], self.apply(migs.HALF).refusals)
        self.assertFalse(self.kernel.get(self.card.address).mig_mode)
        self.assertEqual(2, self.total(device))
