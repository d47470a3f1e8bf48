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

"""A GPU is divided that has vGPUs which are not in use."""

import collections
import dataclasses
import io
import typing

import testtools

from nova_vgpu import values
from nova_vgpu.reconcile import gpu_steps
from nova_vgpu.reconcile import policy
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import modes
from nova_vgpu.tests import hosts
from nova_vgpu.tests import live
from nova_vgpu.tests import plans

A10 = '0000:41:00.0'
FOUR, SIX = 'NVIDIA A10-4Q', 'NVIDIA A10-6Q'
DIVIDED = f"""
[devices]
enabled_vgpu_types = A10-4Q, A10-6Q
unlisted_gpus = ignore
[vgpu_A10-4Q]
device_addresses = {A10}=3
[vgpu_A10-6Q]
device_addresses = {A10}=2
"""
AHEAD = DIVIDED.replace('unlisted', 'vgpu_creation = ahead\nunlisted')


class TestDividing(testtools.TestCase):
    def start(self, **changes: typing.Any) -> None:
        """A card with six vGPUs of one size, which fill it."""
        vendor_vfio = changes.pop('vendor_vfio', False)
        card = hosts.gpu(A10, boards.A10, vfs=16, vendor_vfio=vendor_vfio)
        card = dataclasses.replace(card, **changes)
        self.host = self.useFixture(live.LiveHost(card))
        kernel = self.host.machine.kernel
        self.host.access = dataclasses.replace(
            self.host.access, read_modes=lambda _host: modes.read_modes(kernel)
        )
        self.names = [self.create(card, vf) for vf in range(6)]

    def create(self, card: simulation.GPU, vf: int) -> str:
        address = card.vf_addresses[vf]
        if card.vendor_vfio:
            self.host.set_type(str(address), FOUR)
            return str(address)
        return self.host.create_mdev(str(address), FOUR)

    def give(self, *names: str) -> None:
        """Let a server run with vGPUs."""
        libvirt, types = self.host.machine.libvirt, dict.fromkeys(names, FOUR)
        if ':' in names[0]:
            libvirt.define_guest('db', functions=types)
        else:
            libvirt.define_guest('db', mdevs=types)
        libvirt.start_guest('db')

    def count(self) -> dict[str, int]:
        return collections.Counter(self.host.vgpus(A10).values())

    def apply(self, text: str = DIVIDED) -> list[str]:
        """The codes of the problems that are left."""
        outcome = self.host.apply(text)
        self.assertEqual([], outcome.failures)
        return [problem.code for problem in outcome.problems]

    def test_what_is_more_than_a_share_goes(self) -> None:
        for vendor_vfio in (False, True):
            self.start(vendor_vfio=vendor_vfio, mixed=True)
            self.give(*self.names[4:])
            self.assertEqual([], self.apply())
            self.assertEqual({FOUR: 3}, self.count())
            self.assertEqual([], self.host.apply(DIVIDED).done)
            self.assertEqual([], self.apply(AHEAD))
            self.assertEqual({FOUR: 3, SIX: 2}, self.count())

    def test_what_servers_have_stays(self) -> None:
        self.start(mixed=True)
        self.give(*self.names[:5])
        self.assertEqual(['no-room'], self.apply())
        self.assertEqual({FOUR: 5}, self.count())

    def test_what_an_operator_enabled_stays(self) -> None:
        self.start(vendor_vfio=True, mixed=True)
        for name in self.names[2:]:
            self.host.clear_type(name)
        program = live.Program(
            self.host, stdout=io.StringIO(), stderr=io.StringIO()
        )
        for name in self.names[2:]:
            program.run(['device', 'enable', name, '--type', 'A10-4Q'])
        self.apply()
        self.assertEqual({FOUR: 4}, self.count())

    def test_the_mode_is_set_when_no_server_has_any(self) -> None:
        """That is possible only while the GPU has no vGPU."""
        for vendor_vfio in (False, True):
            for text in (DIVIDED, AHEAD):
                self.start(vendor_vfio=vendor_vfio)
                self.assertEqual([], self.apply(text))
                (card,) = self.host.machine.kernel.get_gpus()
                self.assertTrue(card.mixed)
                self.assertEqual(
                    {FOUR: 3, SIX: 2} if text is AHEAD else {}, self.count()
                )

    def test_the_mode_is_not_set_beside_a_server(self) -> None:
        self.start()
        self.give(self.names[0])
        self.assertIn('heterogeneous-off', self.apply())
        (card,) = self.host.machine.kernel.get_gpus()
        self.assertFalse(card.mixed)
        self.assertEqual({FOUR: 3}, self.count())

    def test_functions_stay_if_what_operators_enabled_is_unknown(
        self,
    ) -> None:
        """To nova-compute, which cannot read the records."""
        self.start(vendor_vfio=True, mixed=True)
        made = plans.make_plan(live.declare(DIVIDED), self.host.read())
        for knows_records, expected in ((True, 6), (False, 0)):
            (found,) = gpu_steps.plan_steps(
                made,
                {'nvidia-593': FOUR, 'nvidia-594': SIX},
                values.Usage(),
                policy.for_compute(values.Creation.ON_DEMAND, knows_records),
                lambda: '',
            )
            self.assertEqual(expected, len(found.steps))
