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


"""From plans to steps."""

import dataclasses
import itertools

import testtools

from nova_vgpu import values
from nova_vgpu.plan import type_matching
from nova_vgpu.reconcile import gpu_steps
from nova_vgpu.reconcile import policy
from nova_vgpu.reconcile import way_back
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests import hosts
from nova_vgpu.tests import live
from nova_vgpu.tests import plans

A40, T4, L40S = '0000:41:00.0', '0000:84:00.0', '0000:c1:00.0'
UUID = 'c5f2b7f0-0f0c-4b6e-9a0e-0d8d0c7f0b11'


def plan(
    text: str,
    *cards: simulation.GPU,
    usage: values.Usage | None = None,
    modes: values.ModesRead | None = None,
) -> dict[str, list[str]]:
    """The steps for each GPU, in words."""
    return {
        planned.gpu: [str(step) for step in planned.steps]
        for planned in find_steps(text, *cards, usage=usage, modes=modes)
    }


def find_steps(
    text: str,
    *cards: simulation.GPU,
    usage: values.Usage | None = None,
    modes: values.ModesRead | None = None,
) -> tuple[values.GPUSteps, ...]:
    declaration = live.declare(text)
    host = hosts.make_host(*cards)
    return gpu_steps.plan_steps(
        plans.make_plan(declaration, host, modes=modes),
        type_matching.list_type_names(host),
        usage or values.Usage(),
        policy.for_apply(declaration.creation),
        lambda: UUID,
    )


def declare(name: str, *addresses: str, more: str = '', own: str = '') -> str:
    listed = ', '.join(addresses)
    return (
        f'[devices]\nenabled_vgpu_types = {name}\nunlisted_gpus = ignore\n'
        f'{more}\n[vgpu_{name}]\ndevice_addresses = {listed}\n{own}\n'
    )


class TestMig(testtools.TestCase):
    def test_a_gpu_that_is_not_ready_is_made_ready_in_any_mode(self) -> None:
        """Servers may have vGPUs there that a reboot took away."""
        card = hosts.gpu(A40, boards.A100D)
        off = values.GPUModes(mig=values.GPUMode(False, False))
        address = values.PciAddress.parse(A40)
        expected = [
            f'enable the {boards.A100D.total_vfs} VFs of GPU {A40}',
            f'wait for the vGPU types of GPU {A40}',
        ]
        for modes in (None, values.ModesRead(((address, off),))):
            found = plan(declare('A100D-1-10C', A40), card, modes=modes)
            self.assertEqual({A40: expected}, found)


class TestOrder(testtools.TestCase):
    def test_what_a_gpu_needs_to_be_ready(self) -> None:
        ready = [f'wait for the vGPU types of GPU {A40}']
        enable = [f'enable the 32 VFs of GPU {A40}']
        bind = [f'bind GPU {A40} to its own driver']
        for case, card, expected in (
            ('nothing', hosts.gpu(A40, boards.A40, vfs=32), []),
            ('VFs', hosts.gpu(A40, boards.A40), [*enable, *ready]),
            (
                'its driver',
                hosts.gpu(A40, boards.A40, driver='pci-pf-stub'),
                [*bind, *enable, *ready],
            ),
            (
                'any driver',
                hosts.gpu(A40, boards.A40, driver=None),
                [*bind, *enable, *ready],
            ),
            (
                'its driver, the VFs are there',
                hosts.gpu(
                    A40,
                    boards.A40,
                    vfs=4,
                    driver='pci-pf-stub',
                    types_ready=False,
                ),
                [*bind, *ready],
            ),
            (
                'types',
                hosts.gpu(A40, boards.A40, vfs=32, types_ready=False),
                ready,
            ),
            (
                'more than can be done: it is passed through',
                hosts.gpu(A40, boards.A40, driver='vfio-pci'),
                [],
            ),
            (
                "more than can be done: it has the desktop's driver",
                hosts.gpu(A40, boards.A40, driver='nouveau'),
                [],
            ),
        ):
            found = plan(declare('A40-8Q', A40), card)
            self.assertEqual({A40: expected}, found, case)

    def test_a_gpu_of_another_model_is_not_made_ready(self) -> None:
        self.assertEqual(
            {}, plan(declare('T4-2Q', A40), hosts.gpu(A40, boards.A40))
        )

    def test_a_gpu_that_is_not_declared_is_not_touched(self) -> None:
        found = plan(
            declare('T4-2Q', T4),
            hosts.gpu(T4, boards.T4),
            hosts.gpu(A40, boards.A40),
            hosts.gpu('85:00.0', boards.T4, 'nvidia-230'),
        )
        self.assertEqual({T4: []}, found)

    def test_gpus_that_share_without_types_are_left_alone(self) -> None:
        card = hosts.gpu('03:00.0', boards.INSTINCT_MI210)
        found = plan(declare('T4-2Q', T4), hosts.gpu(T4, boards.T4), card)
        self.assertEqual({T4: []}, found)

    def test_nothing_is_done_for_a_type_that_a_gpu_cannot_have(self) -> None:
        intel = hosts.gpu('00:02.0', boards.UHD_770)
        for case, name, card in (
            ('another vendor', 'T4-2Q', intel),
            ('SR-IOV alone', 'i915-GVTg_V5_4', intel),
            ('another model', 'T4-2Q', hosts.gpu(A40, boards.A40)),
            ('too large', 'A40-96Q', hosts.gpu(A40, boards.A40)),
        ):
            found = plan(declare(name, str(card.address)), card)
            self.assertEqual([], [*itertools.chain(*found.values())], case)


class TestFunctionsThatAreListed(testtools.TestCase):
    """Only those are the operator's to give."""

    def test_what_is_on_others_stays(self) -> None:
        card = hosts.gpu(
            L40S,
            boards.L40S,
            'nvidia-1153',
            'nvidia-1153',
            vfs=4,
            vendor_vfio=True,
        )
        found = plan(declare('L40S-24Q', '0000:c1:00.4'), card)
        self.assertEqual(
            {L40S: ['clear VF 0000:c1:00.4, which is NVIDIA L40S-12Q']}, found
        )

    def test_no_more_are_made_ahead_than_are_listed(self) -> None:
        card = hosts.gpu(L40S, boards.L40S, vfs=4, vendor_vfio=True)
        found = plan(
            declare(
                'L40S-12Q',
                '0000:c1:00.5',
                '0000:c1:00.6',
                more='vgpu_creation = ahead',
            ),
            card,
        )
        self.assertEqual(
            {
                L40S: [
                    'set VF 0000:c1:00.5 to NVIDIA L40S-12Q',
                    'set VF 0000:c1:00.6 to NVIDIA L40S-12Q',
                ]
            },
            found,
        )

    def test_nor_than_the_operator_allows(self) -> None:
        text = declare(
            'T4-2Q', T4, more='vgpu_creation = ahead', own='max_instances = 3'
        )
        found = plan(text, hosts.gpu(T4, boards.T4, 'nvidia-231'))
        self.assertEqual({T4: [f'start mdev {UUID} of GRID T4-2Q'] * 2}, found)


class TestUndo(testtools.TestCase):
    def test_the_last_step_goes_first_and_the_other_way(self) -> None:
        absent, there = values.MdevState.ABSENT, values.MdevState.PERSISTENT
        mdev = (A40, 'pci_0000_41_00_4', UUID, 'A40-8Q')
        planned = values.GPUSteps(
            A40,
            (
                values.RepairDriver(A40),
                values.SetVFs(A40, 0, 32),
                values.AwaitTypes(A40),
                values.SetHeterogeneous(A40, False, True),
                values.SetType(A40, '0000:41:00.5', '', 'A40-8Q'),
                values.SetMdev(*mdev, absent, there),
            ),
        )
        self.assertEqual(
            (
                values.SetMdev(*mdev, there, absent),
                values.SetType(A40, '0000:41:00.5', 'A40-8Q', ''),
                values.SetHeterogeneous(A40, True, False),
                values.SetVFs(A40, 32, 0),
            ),
            way_back.undo(planned).steps,
        )


class TestDivided(testtools.TestCase):
    """A GPU that is to serve several types."""

    TWO = (
        '[devices]\nenabled_vgpu_types = A10-4Q, A10-6Q\n'
        f'[vgpu_A10-4Q]\ndevice_addresses = {A40}=3\n'
        f'[vgpu_A10-6Q]\ndevice_addresses = {A40}=2\n'
    )
    FOUR, SIX, EIGHT = 'nvidia-593', 'nvidia-594', 'nvidia-595'

    def card(self, *created: str, mixed: bool = True) -> simulation.GPU:
        return dataclasses.replace(
            hosts.gpu(A40, boards.A10, *created, vfs=8), mixed=mixed
        )

    def test_vgpus_of_each_of_its_types_stay(self) -> None:
        card = self.card(self.SIX, self.FOUR)
        self.assertEqual({A40: []}, plan(self.TWO, card))

    def test_idle_vgpus_of_other_types_go_once(self) -> None:
        card = self.card(self.SIX, self.EIGHT)
        (uuid,) = (u for u, _ in card.mdevs(1))
        (step,) = plan(self.TWO, card)[A40]
        self.assertIn(f'remove mdev {uuid}', step)

    def test_the_mode_is_set_before_servers_need_it(self) -> None:
        address = values.PciAddress.parse(A40)
        for heterogeneous, expected in (
            (False, [f'let GPU {A40} hold vGPUs of different sizes']),
            (True, []),
            (None, []),
        ):
            modes = values.GPUModes(heterogeneous=heterogeneous)
            found = plan(
                self.TWO,
                self.card(mixed=False),
                modes=values.ModesRead(((address, modes),)),
            )
            self.assertEqual({A40: expected}, found)

    def test_the_mode_is_set_after_functions_are_enabled(self) -> None:
        """That turns it off. The types may be declared by their ids."""
        address = values.PciAddress.parse(A40)
        bare = hosts.gpu(A40, boards.A10, vfs=0)
        # It names the types of the driver.
        other = hosts.gpu(L40S, boards.A10, vfs=1)
        by_id = self.TWO.replace('A10-4Q', self.FOUR).replace(
            'A10-6Q', self.SIX
        )
        for heterogeneous in (False, True):
            modes = values.GPUModes(heterogeneous=heterogeneous)
            for text in (self.TWO, by_id):
                found = plan(
                    text,
                    bare,
                    other,
                    modes=values.ModesRead(((address, modes),)),
                )
                self.assertEqual(
                    [
                        f'enable the 32 VFs of GPU {A40}',
                        f'wait for the vGPU types of GPU {A40}',
                        f'let GPU {A40} hold vGPUs of different sizes',
                    ],
                    found[A40],
                )

    def test_gpu_instances_of_different_sizes_need_no_mode(self) -> None:
        text = (
            '[devices]\nenabled_vgpu_types = A100D-2-20C, A100D-1-10C\n'
            'vgpu_creation = ahead\n'
            f'[vgpu_A100D-2-20C]\ndevice_addresses = {A40}=1\n'
            f'[vgpu_A100D-1-10C]\ndevice_addresses = {A40}=1\n'
        )
        card = hosts.gpu(A40, boards.A100D, vfs=4)
        for heterogeneous in (None, False):
            modes = values.GPUModes(heterogeneous=heterogeneous)
            address = values.PciAddress.parse(A40)
            (found,) = find_steps(
                text, card, modes=values.ModesRead(((address, modes),))
            )
            self.assertEqual(
                [values.SetMdev] * 2, [type(step) for step in found.steps]
            )

    def test_each_type_is_created_ahead_as_often_as_it_is_declared(
        self,
    ) -> None:
        ahead = self.TWO.replace(
            '[vgpu_A10-4Q]', 'vgpu_creation = ahead\n[vgpu_A10-4Q]'
        )
        (found,) = find_steps(ahead, self.card(self.SIX))
        created = [s for s in found.steps if isinstance(s, values.SetMdev)]
        self.assertEqual(
            [*['NVIDIA A10-4Q'] * 3, 'NVIDIA A10-6Q'],
            [step.type for step in created],
        )
        # Not on the function that has one already.
        places = {step.parent for step in created}
        self.assertEqual(4, len(places))
        self.assertNotIn('pci_0000_41_00_4', places)

    def test_functions_of_one_type_do_not_serve_another(self) -> None:
        """Functions that are off are known as well."""
        listed = (
            '[devices]\nenabled_vgpu_types = A10-4Q, A10-6Q\n'
            f'[vgpu_A10-4Q]\ndevice_addresses = {A40}=3\n'
            '[vgpu_A10-6Q]\ndevice_addresses = 0000:41:00.4\n'
        )
        # On the function of A10-6Q there is one of the other type.
        card = self.card(self.FOUR)
        (uuid,) = (u for u, _ in card.mdevs(0))
        (step,) = plan(listed, card)[A40]
        self.assertIn(f'remove mdev {uuid}', step)
