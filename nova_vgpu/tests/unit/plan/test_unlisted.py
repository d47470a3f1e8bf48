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

"""What becomes of GPUs that no type lists."""

import testtools

from nova_vgpu import values
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests.unit.plan.test_mapper import listed
from nova_vgpu.tests.unit.plan.test_mapper import make_plan
from nova_vgpu.tests.unit.plan.test_mapper import served

T4_84 = hosts.gpu('84:00.0', boards.T4)
T4_85 = hosts.gpu('85:00.0', boards.T4)
T4_86 = hosts.gpu('86:00.0', boards.T4)
A40 = hosts.gpu('41:00.0', boards.A40, vfs=32)
A40_OFF = hosts.gpu('c1:00.0', boards.A40)
HD_530 = hosts.gpu('00:02.0', boards.HD_530)
INSTINCT = hosts.gpu('a1:00.0', boards.INSTINCT_MI210)


class TestUnlisted(testtools.TestCase):
    def test_the_first_type_takes_what_no_type_lists(self) -> None:
        plan = make_plan(
            hosts.make_host(T4_84, T4_85, T4_86),
            listed('T4-2Q'),
            listed('T4-4Q', '85:00.0'),
        )
        self.assertEqual((), plan.problems)
        self.assertEqual(
            [
                ('0000:84:00.0', 'T4-2Q', values.Reason.FIRST_TYPE),
                ('0000:85:00.0', 'T4-4Q', values.Reason.LISTED),
                ('0000:86:00.0', 'T4-2Q', values.Reason.FIRST_TYPE),
            ],
            [
                (str(a.gpu), a.declared.name, a.reason)
                for a in plan.assignments
            ],
        )

    def test_also_if_the_first_type_lists_others(self) -> None:
        plan = make_plan(
            hosts.make_host(T4_84, T4_85), listed('T4-2Q', '84:00.0')
        )
        self.assertEqual(
            {'0000:84:00.0': 'T4-2Q', '0000:85:00.0': 'T4-2Q'}, served(plan)
        )

    def test_an_operator_may_have_them_left_alone(self) -> None:
        plan = make_plan(
            hosts.make_host(T4_84, T4_85, A40_OFF),
            listed('T4-2Q', '84:00.0'),
            unlisted=values.UnlistedGPUs.IGNORE,
        )
        self.assertEqual((), plan.problems)
        self.assertEqual({'0000:84:00.0': 'T4-2Q'}, served(plan))
        self.assertEqual(
            ['0000:85:00.0', '0000:c1:00.0'],
            [str(left.gpu) for left in plan.left_alone],
        )

    def test_who_is_left_alone_and_why(self) -> None:
        for case, first, card, why in (
            (
                'a GPU that is set aside',
                'T4-2Q',
                hosts.gpu(
                    '85:00.0',
                    boards.T4,
                    driver='vfio-pci',
                    types_ready=False,
                ),
                'not listed, and passed through',
            ),
            (
                'an Intel GPU beside an NVIDIA type, by its name',
                'T4-2Q',
                HD_530,
                'not listed, and of another vendor',
            ),
            (
                'an NVIDIA GPU beside an Intel type',
                'i915-GVTg_V5_4',
                A40_OFF,
                'not listed, and of another vendor',
            ),
            (
                'an Intel GPU beside an id that nobody offers',
                'nvidia-9999',
                HD_530,
                'not listed, and of another vendor',
            ),
            (
                'a GPU that makes no vGPUs',
                'T4-2Q',
                INSTINCT,
                'does not support vGPUs',
            ),
            (
                'a GPU for VF profiles',
                'T4-2Q',
                hosts.gpu('03:00.0', boards.ARC_PRO_B60),
                'not listed, and has no vGPU types',
            ),
        ):
            plan = make_plan(hosts.make_host(T4_84, card), listed(first))
            left = {str(left.gpu): left.why for left in plan.left_alone}
            self.assertEqual(why, left.get(str(card.address)), case)

    def test_a_sample_parent_is_left_alone_too(self) -> None:
        plan = make_plan(hosts.make_host(T4_84, mtty=True), listed('T4-2Q'))
        (left,) = plan.left_alone
        self.assertEqual('mtty_mtty', str(left.gpu))

    def test_a_gpu_of_the_vendor_without_the_type_is_an_error(self) -> None:
        plan = make_plan(hosts.make_host(T4_84, A40), listed('T4-2Q'))
        (problem,) = plan.problems
        self.assertEqual('type-not-offered', problem.code)
        self.assertEqual('0000:41:00.0', problem.subject)
        self.assertIn('unlisted_gpus = ignore', problem.cure)
