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

"""Which GPU serves which type, and when the service must not start."""

from collections.abc import Iterable

import testtools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import mapper
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans

T4_84 = hosts.gpu('84:00.0', boards.T4)
T4_85 = hosts.gpu('85:00.0', boards.T4)
T4_86 = hosts.gpu('86:00.0', boards.T4)
A40 = hosts.gpu('41:00.0', boards.A40, vfs=32)
A40_OFF = hosts.gpu('c1:00.0', boards.A40)
L40S = hosts.gpu('0001:c8:00.0', boards.L40S, vfs=32, vendor_vfio=True)
HD_530 = hosts.gpu('00:02.0', boards.HD_530)
NETWORK_CARD = hosts.gpu('e1:00.0', boards.NETWORK_CARD)

IGNORE = values.UnlistedGPUs.IGNORE


def listed(name: str, *addresses: str) -> values.DeclaredType:
    return values.DeclaredType(name, f'vgpu_{name}', addresses)


def served(plan: values.Plan) -> dict[str, str]:
    """The short name of the type that each GPU serves."""
    return {
        str(assigned.gpu): capabilities.short_name(assigned.type)
        for assigned in plan.assignments
        if assigned.type is not None and assigned.serves
    }


def codes(problems: Iterable[values.Problem]) -> list[str]:
    return [problem.code for problem in problems]


def make_plan(
    host: values.Host,
    *types: values.DeclaredType,
    unlisted: values.UnlistedGPUs = values.UnlistedGPUs.FIRST_TYPE,
) -> values.Plan:
    return plans.make_plan(values.Declaration(types, unlisted), host)


class TestListed(testtools.TestCase):
    def test_each_gpu_serves_the_type_that_lists_it(self) -> None:
        plan = make_plan(
            hosts.make_host(A40, T4_84, T4_85, T4_86, L40S),
            listed('nvidia-231', '84:00.0', '0000:85:00.0'),
            listed('GRID T4-4Q', '00000000:86:00.0'),
            listed('A40-8Q', '0000:41:00.0'),
            listed('l40s-24q', '00000001:C8:00.0'),
        )
        self.assertEqual((), plan.problems)
        self.assertEqual(
            {
                '0000:41:00.0': 'A40-8Q',
                '0000:84:00.0': 'T4-2Q',
                '0000:85:00.0': 'T4-2Q',
                '0000:86:00.0': 'T4-4Q',
                '0001:c8:00.0': 'L40S-24Q',
            },
            served(plan),
        )
        self.assertEqual(
            {values.Reason.LISTED}, {a.reason for a in plan.assignments}
        )

    def test_a_gpu_listed_twice_under_one_type_is_listed(self) -> None:
        plan = make_plan(
            hosts.make_host(T4_84), listed('T4-2Q', '84:00.0', '0000:84:00.0')
        )
        self.assertEqual((), plan.problems)
        self.assertEqual({'0000:84:00.0': 'T4-2Q'}, served(plan))

    def test_only_the_listed_functions_are_used(self) -> None:
        plan = make_plan(
            hosts.make_host(A40),
            listed('A40-1Q', '41:00.4', '0000:41:01.0'),
        )
        (assigned,) = plan.assignments
        self.assertEqual((), plan.problems)
        self.assertEqual(
            {'pci_0000_41_00_4', 'pci_0000_41_01_0'}, assigned.functions
        )
        assert assigned.capacity is not None
        self.assertEqual(2, assigned.capacity.total)

    def test_a_gpu_beside_its_functions_stands_for_all_of_them(self) -> None:
        plan = make_plan(
            hosts.make_host(A40), listed('A40-1Q', '41:00.4', '41:00.0')
        )
        (assigned,) = plan.assignments
        self.assertEqual(33, len(assigned.functions))

    def test_a_parent_that_is_no_pci_device_goes_by_its_name(self) -> None:
        plan = make_plan(
            hosts.make_host(T4_84, mtty=True),
            listed('T4-2Q'),
            listed('mtty-2', 'mtty_mtty'),
        )
        self.assertEqual((), plan.problems)
        self.assertEqual(
            {'0000:84:00.0': 'T4-2Q', 'mtty_mtty': 'Dual port serial'},
            served(plan),
        )


TYPES = ('T4-1Q', 'T4-2Q', 'T4-4Q')


class TestConflicts(testtools.TestCase):
    def test_one_gpu_under_two_types(self) -> None:
        for case, card, first, second in (
            ('literally', T4_84, '0000:84:00.0', '0000:84:00.0'),
            ('in other spelling', T4_84, '84:00.0', '00000000:84:00.0'),
            ('in upper case', L40S, '0001:C8:00.0', '0001:c8:00.0'),
            ('a GPU and its function', A40, '41:00.0', '41:00.4'),
            ('one of its functions', A40, '41:00.4', '41:00.4'),
            ('a function that is off', A40_OFF, 'c1:00.0', 'c1:00.4'),
        ):
            plan = make_plan(
                hosts.make_host(T4_85, card),
                listed('A', first),
                listed('B', second),
            )
            (problem,) = (
                p for p in plan.problems if p.code == 'gpu-under-two-types'
            )
            gpu = str(card.address)
            self.assertEqual(values.Severity.FATAL, problem.severity, case)
            self.assertEqual(gpu, problem.subject, case)
            self.assertEqual(
                f'GPU {gpu} is listed under more than one type: '
                f'[vgpu_A]device_addresses has {first}; '
                f'[vgpu_B]device_addresses has {second}.',
                problem.message,
                case,
            )
            self.assertIn(
                'Write at each how many vGPUs of the type',
                problem.cure,
                case,
            )
            (left,) = (x for x in plan.left_alone if str(x.gpu) == gpu)
            self.assertEqual('under two types', left.why, case)
            self.assertNotIn(gpu, [str(a.gpu) for a in plan.assignments])
            error = self.assertRaises(
                exception.InvalidLibvirtGPUConfig, mapper.require_valid, plan
            )
            self.assertIn(problem.message, str(error), case)

    def test_three_types_are_one_problem_that_names_all(self) -> None:
        plan = make_plan(
            hosts.make_host(T4_84),
            *(listed(name, '84:00.0') for name in TYPES),
        )
        (problem,) = plan.problems
        for name in TYPES:
            self.assertIn(f'[vgpu_{name}]device_addresses', problem.message)


class TestNotReady(testtools.TestCase):
    def test_a_gpu_that_is_not_ready_does_not_stop_the_others(self) -> None:
        plan = make_plan(
            hosts.make_host(
                A40,
                T4_84,
                hosts.gpu(
                    '85:00.0', boards.T4, driver=None, types_ready=False
                ),
                A40_OFF,
            ),
            listed('A40-8Q', '41:00.0', 'c1:00.0'),
            listed('T4-2Q', '84:00.0', '85:00.0'),
        )
        self.assertEqual(['no-driver', 'vfs-off'], codes(plan.problems))
        self.assertEqual(
            {'0000:41:00.0': 'A40-8Q', '0000:84:00.0': 'T4-2Q'}, served(plan)
        )
        mapper.require_valid(plan)  # nova-compute starts

    def test_a_fault_of_one_device_does_not_stop_the_others(self) -> None:
        host = values.Host(
            hosts.make_host(T4_84).gpus,
            faults=(
                values.ReadFault(
                    'pci_0000_85_00_0', 'vendor', 'permission denied'
                ),
            ),
        )
        plan = make_plan(host, listed('T4-2Q', '84:00.0', '85:00.0'))
        self.assertEqual(
            ['unreadable', 'listed-but-unreadable'], codes(plan.problems)
        )
        self.assertEqual({'0000:84:00.0': 'T4-2Q'}, served(plan))
        mapper.require_valid(plan)


class TestWhole(testtools.TestCase):
    def test_nothing_set_changes_nothing(self) -> None:
        host = hosts.make_host(A40, T4_84, HD_530, A40_OFF, mtty=True)
        plan = make_plan(host)
        self.assertEqual((), plan.assignments)
        self.assertEqual((), plan.problems)
        self.assertEqual(
            {'no type is enabled'}, {left.why for left in plan.left_alone}
        )
        self.assertEqual(
            host.gpus, tuple(left.gpu for left in plan.left_alone)
        )
        mapper.require_valid(plan)

    def test_a_host_without_gpus(self) -> None:
        plan = make_plan(values.Host())
        self.assertEqual(values.Plan(), plan)

    def test_all_problems_at_once_and_the_worst_first(self) -> None:
        declaration = values.Declaration(
            (
                values.DeclaredType(
                    'T4-2Q',
                    'vgpu_T4-2Q',
                    ('nonsense', '48:00.0', 'e1:00.0', '84:00.0'),
                    traits=('shiny',),
                ),
                listed('T4-4Q', '84:00.0', 'c1:00.0'),
                listed('T4-8Q'),
            ),
            IGNORE,
            ('vgpu_T4-16Q', 'mdev_T4-4Q', 'vgpu_T4-4Q'),
        )
        before = values.Problem(
            values.Severity.WARNING, 'found-before', 'x', 'x', 'x'
        )
        plan = plans.make_plan(
            declaration,
            hosts.make_host(T4_84, T4_85, A40_OFF, NETWORK_CARD),
            (before, before),
        )
        self.assertEqual(
            [
                'bad-trait',
                'malformed-address',
                'not-on-host',
                'not-a-gpu',
                'gpu-under-two-types',
                'type-not-offered',
                'found-before',
                'section-not-enabled',
                'two-sections',
                'type-unused',
            ],
            codes(plan.problems),
        )
        error = self.assertRaises(
            exception.InvalidLibvirtGPUConfig, mapper.require_valid, plan
        )
        self.assertEqual(plan.problems[:5], error.problems)
        for problem in error.problems:
            self.assertIn(str(problem), str(error))
