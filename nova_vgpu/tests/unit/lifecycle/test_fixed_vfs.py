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

"""AMD GPUs: nothing of them is changed, and commands say what to do."""

import testtools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.reconcile import manual_steps
from nova_vgpu.tests import hosts
from nova_vgpu.tests import live

GPU = '0000:0c:00.0'


def declare(name: str, *options: str) -> str:
    return '\n'.join(
        (
            '[devices]',
            f'enabled_vgpu_types = {name}',
            f'[vgpu_{name}]',
            f'device_addresses = {GPU}',
            *options,
        )
    )


class TestFixedVFs(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        card = hosts.mi300x(GPU, 1, 'SPX/NPS1')
        self.host = self.useFixture(live.LiveHost(card))
        self.kernel = self.host.machine.kernel

    def read(self) -> values.PhysicalGPU:
        (gpu,) = self.host.read().gpus
        return gpu

    def test_apply_changes_nothing_and_names_the_cure(self) -> None:
        before = self.host.describe()
        text = declare('MI300X-1of8', 'partition = CPX/NPS4')
        outcome = self.host.apply(text)
        self.assertEqual([], [*outcome.done, *outcome.failures])
        (problem,) = outcome.problems
        self.assertEqual('vfs-differ', problem.code)
        self.assertIn('options gim vf_num=8', problem.cure)
        self.assertEqual(before, self.host.describe())

    def test_when_the_operator_has_done_it_nothing_is_left(self) -> None:
        address = values.PciAddress.parse(GPU)
        self.kernel.update(address, vf_num=8)
        self.kernel.reboot()
        self.kernel.update(address, partition='CPX/NPS4')
        text = declare('MI300X-1of8', 'partition = CPX/NPS4')
        outcome = self.host.apply(text)
        self.assertEqual([], [*outcome.done, *outcome.problems])
        self.assertEqual(8, len(self.read().vfs))

    def test_functions_are_not_enabled_or_disabled_by_hand(self) -> None:
        for change in (manual_steps.enable_vfs, manual_steps.disable_vfs):
            error = self.assertRaises(
                exception.UsageError, change, self.read()
            )
            self.assertIn('vf_num', str(error))
            self.assertIn(GPU, str(error))
