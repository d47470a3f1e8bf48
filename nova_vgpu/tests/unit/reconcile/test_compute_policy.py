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


import testtools

from nova_vgpu import values
from nova_vgpu.reconcile import gpu_steps
from nova_vgpu.reconcile import policy
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans

NAMES = {
    t.id: t.name
    for board in (boards.L40S, boards.T4)
    for t in board.types
    if t.name
}
UUID = 'c5f2b7f0-0f0c-4b6e-9a0e-0d8d0c7f0b11'
VF = plans.VFIO_NAMES


class TestCompute(testtools.TestCase):
    """What nova-compute does about vGPUs, and what it leaves alone."""

    def steps(
        self,
        plan: values.Plan,
        claimed: tuple[str, ...] = (),
        guests: dict[str, str | None] | None = None,
        released: tuple[str, ...] = (),
        running: bool = False,
        manual: tuple[str, ...] = (),
    ) -> list[str]:
        """``guests`` are vGPUs of one, with the names of their types."""
        functions = {
            name: values.PciAddress.parse_node_device_name(name)
            for name in guests or ()
        }
        guest = values.Guest(
            'uuid',
            'guest',
            running,
            frozenset(name for name, vf in functions.items() if vf is None),
            frozenset(filter(None, functions.values())),
            tuple(values.GuestVGPU(*item) for item in (guests or {}).items()),
        )
        usage = values.Usage(
            (guest,),
            records=values.VGPURecords(
                functions=dict.fromkeys(manual, 'NVIDIA L40S-24Q')
            ),
            claimed=frozenset(claimed),
            released=frozenset(released),
        )
        found = gpu_steps.plan_steps(
            plan,
            NAMES,
            usage,
            policy.for_compute(values.Creation.ON_DEMAND, True),
            lambda: UUID,
        )
        steps = [str(step) for planned in found for step in planned.steps]
        if steps:
            self.assertTrue(gpu_steps.may_need_steps(plan))
        return steps

    def test_what_nobody_has_loses_its_type(self) -> None:
        plan = plans.plan_types(
            plans.vfio('nvidia-1155', 'nvidia-1155'), 'L40S-24Q'
        )
        self.assertEqual(
            ['clear VF 0000:c8:00.5, which is NVIDIA L40S-24Q'],
            self.steps(plan, claimed=(VF[0],)),
        )
        self.assertEqual([], self.steps(plan, claimed=(VF[0], VF[1])))

    def test_a_gpu_that_is_not_ours_keeps_all_but_what_was_given_back(
        self,
    ) -> None:
        plan = plans.plan_types(plans.vfio('nvidia-1155', 'nvidia-1155'))
        self.assertEqual([], self.steps(plan))
        self.assertEqual(
            ['clear VF 0000:c8:00.4, which is NVIDIA L40S-24Q'],
            self.steps(plan, released=(VF[0],)),
        )
        self.assertEqual(
            [], self.steps(plan, claimed=(VF[0],), released=(VF[0],))
        )
        self.assertEqual(
            [], self.steps(plan, released=(VF[0],), manual=('0000:c8:00.4',))
        )

    def test_a_guest_gets_the_type_again_that_it_had(self) -> None:
        plan = plans.plan_types(plans.vfio(), 'L40S-24Q')
        elsewhere = plans.plan_types(plans.vfio())
        for case, found, expected in (
            (
                'what it had is not known: what is declared',
                self.steps(plan, guests={VF[0]: None}),
                'NVIDIA L40S-24Q',
            ),
            (
                'what it had is not what is declared',
                self.steps(plan, guests={VF[0]: 'NVIDIA L40S-12Q'}),
                'NVIDIA L40S-12Q',
            ),
            (
                'another brand in front',
                self.steps(plan, guests={VF[0]: 'GRID L40S-12Q'}),
                'GRID L40S-12Q',
            ),
            (
                'on a GPU that is left alone',
                self.steps(elsewhere, guests={VF[0]: 'NVIDIA L40S-12Q'}),
                'NVIDIA L40S-12Q',
            ),
        ):
            self.assertEqual(
                [f'set VF 0000:c8:00.4 to {expected}'],
                found,
                case,
            )
        for case, found in (
            (
                'a type that the GPU does not have',
                self.steps(plan, guests={VF[0]: 'NVIDIA A40-8Q'}),
            ),
            (
                'nothing is known',
                self.steps(elsewhere, guests={VF[0]: None}),
            ),
            (
                'it has its type',
                self.steps(
                    plans.plan_types(plans.vfio('nvidia-1155'), 'L40S-24Q'),
                    guests={VF[0]: 'NVIDIA L40S-24Q'},
                ),
            ),
            (
                'a function that is gone',
                self.steps(plan, guests={'pci_0000_99_00_4': None}),
            ),
        ):
            self.assertEqual([], found, case)

    def test_a_function_of_another_type_is_set_right_if_it_can_be(
        self,
    ) -> None:
        plan = plans.plan_types(plans.vfio('nvidia-1156'), 'L40S-24Q')
        clear = ['clear VF 0000:c8:00.4, which is NVIDIA L40S-48Q']
        for case, expected, running, noted in (
            ('of another type', clear, False, 'NVIDIA L40S-24Q'),
            ('but it is in use', [], True, 'NVIDIA L40S-24Q'),
            ('of its type', [], False, 'NVIDIA L40S-48Q'),
            ('which was not noted', [], False, None),
        ):
            found = self.steps(plan, guests={VF[0]: noted}, running=running)
            self.assertEqual(expected, found, case)

    def test_functions_that_are_not_listed_are_left_alone(self) -> None:
        declared = values.DeclaredType(
            'L40S-24Q', 'vgpu_L40S-24Q', device_addresses=('c8:00.4',)
        )
        host = hosts.make_host(plans.vfio('nvidia-1155', 'nvidia-1155'))
        plan = plans.make_plan(values.Declaration((declared,)), host)
        self.assertEqual(
            ['clear VF 0000:c8:00.4, which is NVIDIA L40S-24Q'],
            self.steps(plan),
        )

    def test_an_idle_mdev_makes_way_if_it_has_to(self) -> None:
        (mdev,) = hosts.make_gpu(plans.t4('nvidia-231')).vgpus
        in_the_way = plans.plan_types(plans.t4('nvidia-231'), 'T4-4Q')
        self.assertEqual(
            [f'remove mdev {mdev.uuid}, which is GRID T4-2Q'],
            self.steps(in_the_way),
        )
        self.assertEqual([], self.steps(in_the_way, claimed=(mdev.name,)))
        of_the_type = plans.plan_types(plans.t4('nvidia-231'), 'T4-2Q')
        self.assertEqual([], self.steps(of_the_type))
        self.assertFalse(gpu_steps.may_need_steps(of_the_type))

    def test_an_mdev_of_another_type_than_its_guest_was_given(self) -> None:
        """It goes while that does not run, and is made when it starts."""
        (mdev,) = hosts.make_gpu(plans.t4('nvidia-231')).vgpus
        remove = [f'remove mdev {mdev.uuid}, which is GRID T4-2Q']
        for case, expected, declared, running, noted in (
            ('of another type', remove, 'T4-4Q', False, 'GRID T4-4Q'),
            ('by another brand', remove, 'T4-4Q', False, 'NVIDIA T4-4Q'),
            ('but it is in use', [], 'T4-4Q', True, 'GRID T4-4Q'),
            ('of its type', [], 'T4-4Q', False, 'GRID T4-2Q'),
            ('which was not noted', [], 'T4-4Q', False, None),
            ('it would not be made', [], 'T4-2Q', False, 'GRID T4-4Q'),
        ):
            plan = plans.plan_types(plans.t4('nvidia-231'), declared)
            found = self.steps(
                plan, guests={mdev.name: noted}, running=running
            )
            self.assertEqual(expected, found, case)

    def test_also_if_it_is_in_nobodys_way(self) -> None:
        """Being of the size of the right one."""
        (mdev,) = hosts.make_gpu(plans.t4('nvidia-233')).vgpus
        plan = plans.plan_types(plans.t4('nvidia-233'), 'T4-8A')
        self.assertTrue(plan.assignments[0].serves)
        self.assertEqual(
            [f'remove mdev {mdev.uuid}, which is GRID T4-8Q'],
            self.steps(plan, guests={mdev.name: 'GRID T4-8A'}),
        )
