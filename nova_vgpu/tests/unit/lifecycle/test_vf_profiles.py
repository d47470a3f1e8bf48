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

"""apply provisions VFs, through 0 and only while none is in use."""

import errno

import testtools

from nova_vgpu import values
from nova_vgpu.lifecycle import step_runner
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests import live

B60 = '0000:03:00.0'
FIRST = '0000:03:00.1'
SECOND = '0000:03:00.2'


def declare(name: str, *options: str) -> str:
    return '\n'.join(
        (
            '[devices]',
            f'enabled_vgpu_types = {name}',
            f'[vgpu_{name}]',
            f'device_addresses = {B60}',
            *options,
        )
    )


class VFProfilesTestCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        card = hosts.gpu(B60, boards.ARC_PRO_B60)
        self.host = self.useFixture(live.LiveHost(card))
        self.kernel = self.host.machine.kernel

    def apply(self, name: str, *options: str) -> step_runner.Outcome:
        return self.host.apply(declare(name, *options))

    def assert_done(self, outcome: step_runner.Outcome, *steps: str) -> None:
        self.assertEqual([], [*outcome.failures, *outcome.refusals])
        done = [str(s).replace(f' of GPU {B60}', '') for s in outcome.done]
        self.assertEqual(list(steps), done)

    def read(self) -> values.PhysicalGPU:
        (gpu,) = self.host.read().gpus
        return gpu

    def profiles(self) -> values.VFProfiles:
        found = self.read().vf_profiles
        assert found is not None
        return found

    def quotas(self) -> tuple[int, ...]:
        return self.profiles().vram_mib[: len(self.read().vfs)]

    def run_guest(self, function: str) -> str:
        libvirt = self.host.machine.libvirt
        server = libvirt.define_guest(
            'instance-1', functions={function: 'B60-1of4'}
        )
        libvirt.start_guest('instance-1')
        return str(server)


class TestProvisioning(VFProfilesTestCase):
    def test_equal_functions(self) -> None:
        self.assert_done(self.apply('B60-1of4'), 'enable the 4 VFs')
        self.assertEqual((6120,) * 4, self.quotas())
        self.assert_done(self.apply('B60-1of4'))

    def test_quotas_are_set_before(self) -> None:
        options = ('exec_quantum_ms = 20', 'preempt_timeout_us = 40000')
        self.assert_done(
            self.apply('B60-6G', *options),
            'set vram_mib of 3 VFs to 6144',
            'enable the 3 VFs',
            'set exec_quantum_ms of 3 VFs to 20',
            'set preempt_timeout_us of 3 VFs to 40000',
        )
        self.assertEqual((6144,) * 3, self.quotas())
        self.assert_done(self.apply('B60-6G', *options))

    def test_from_one_to_another_through_0(self) -> None:
        self.apply('B60-1of4')
        self.assert_done(
            self.apply('B60-8G', 'max_instances = 2'),
            'disable the 4 VFs',
            'set vram_mib of 2 VFs to 8192',
            'enable the 2 VFs',
        )
        self.assertEqual((8192,) * 2, self.quotas())
        # They are equal, whoever chose the quotas.
        self.assert_done(self.apply('B60-1of2'))
        self.assert_done(
            self.apply('B60-1of3'), 'disable the 2 VFs', 'enable the 3 VFs'
        )
        self.assertEqual((8160,) * 3, self.quotas())

    def test_scheduling_that_the_hardware_rounds(self) -> None:
        self.apply('B60-1of4', 'exec_quantum_ms = 20')
        card = self.kernel.get(values.PciAddress.parse(B60))
        rounded = tuple(
            (name, vf, 22 if name == 'exec_quantum_ms' else number)
            for name, vf, number in card.profile
        )
        self.kernel.update(card.address, profile=rounded)
        self.kernel.settle()
        self.assertEqual(22, self.profiles().exec_quantum_ms[0])
        self.assert_done(self.apply('B60-1of4', 'exec_quantum_ms = 20'))
        self.assert_done(
            self.apply('B60-1of4', 'exec_quantum_ms = 30'),
            'set exec_quantum_ms of 4 VFs to 30',
        )
        self.assert_done(
            self.apply('B60-1of4', 'exec_quantum_ms = 0'),
            'set exec_quantum_ms of 4 VFs to 0',
        )

    def test_scheduling_changes_while_a_guest_runs(self) -> None:
        self.apply('B60-1of4')
        self.run_guest(FIRST)
        self.assert_done(
            self.apply('B60-1of4', 'exec_quantum_ms = 10'),
            'set exec_quantum_ms of 4 VFs to 10',
        )

    def test_a_reboot_takes_all_and_apply_brings_it_back(self) -> None:
        self.apply('B60-6G')
        self.kernel.reboot()
        self.assertEqual((), self.read().vfs)
        self.apply('B60-6G')
        self.assertEqual((6144,) * 3, self.quotas())

    def test_restore_takes_it_back(self) -> None:
        self.apply('B60-6G')
        outcome = self.host.restore()
        assert outcome is not None
        self.assertEqual((), self.read().vfs)
        vf_profiles = self.read().vf_profiles
        assert vf_profiles is not None
        self.assertEqual({0}, set(vf_profiles.vram_mib))


class TestInUse(VFProfilesTestCase):
    def test_a_guest_keeps_its_function(self) -> None:
        self.apply('B60-1of4')
        server = self.run_guest(SECOND)
        outcome = self.apply('B60-1of2')
        self.assertEqual([], outcome.done)
        (refusal,) = outcome.refusals
        self.assertIn(SECOND, refusal.message)
        self.assertIn('2 VFs of B60-1of2', refusal.message)
        self.assertEqual(4, len(self.read().vfs))
        self.assertIsNotNone(server)

    def test_so_does_one_that_is_shut_off(self) -> None:
        self.apply('B60-1of4')
        libvirt = self.host.machine.libvirt
        libvirt.define_guest('instance-1', functions={SECOND: 'B60-1of4'})
        self.assertEqual(1, len(self.apply('B60-1of2').refusals))
        self.assertEqual(4, len(self.read().vfs))

    def test_one_that_is_shut_off_gets_it_back_after_a_reboot(self) -> None:
        self.apply('B60-1of4')
        libvirt = self.host.machine.libvirt
        libvirt.define_guest('instance-1', functions={SECOND: 'B60-1of4'})
        self.kernel.reboot()
        self.assert_done(self.apply('B60-1of4'), 'enable the 4 VFs')


class TestFailures(VFProfilesTestCase):
    def test_memory_that_does_not_suffice(self) -> None:
        outcome = self.apply('B60-6G', 'max_instances = 4')
        (failure,) = outcome.failures
        self.assertIn('VF 4 of 4', str(failure))
        self.assertIn('max_instances', str(failure))
        self.assertEqual((), self.read().vfs)

    def test_what_a_failed_run_left_is_cleared(self) -> None:
        """A quota that is left keeps the driver from choosing."""
        self.apply('B60-6G', 'max_instances = 4')
        self.assert_done(
            self.apply('B60-1of4'),
            'set vram_mib of 3 VFs to 0',
            'enable the 4 VFs',
        )
        self.assertEqual((6120,) * 4, self.quotas())

    def test_firmware_that_refuses(self) -> None:
        self.kernel.fail('vf2/profile/vram_quota', errno.EIO, times=9)
        (failure,) = self.apply('B60-6G').failures
        self.assertIn('vram_mib of VF 2 of 3', str(failure))
        self.assertEqual((), self.read().vfs)
