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

"""Ids that mean another type after an upgrade of the driver."""

import dataclasses

import testtools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.plan import mapper
from nova_vgpu.plan import type_matching
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import stores
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans

HOST = hosts.make_host(hosts.gpu('84:00.0', boards.T4))
NOW = {t.id: t.name for t in boards.T4.types}
OLD = 'GRID RTXA5500-1B'


def declare(*names: str) -> values.Declaration:
    return values.Declaration(
        tuple(values.DeclaredType(name, f'vgpu_{name}') for name in names)
    )


class TestChanges(testtools.TestCase):
    def find(
        self, remembered: dict[str, str], *declared: str
    ) -> tuple[type_matching.TypeChange, ...]:
        return type_matching.find_changes(
            tuple(sorted(remembered.items())), HOST, declare(*declared)
        )

    def test_a_host_that_is_as_it_was(self) -> None:
        remembered = {t.id: t.name or '' for t in boards.T4.types}
        self.assertEqual((), self.find(remembered, 'nvidia-231'))

    def test_the_first_run_has_nothing_to_compare_with(self) -> None:
        self.assertEqual((), self.find({}, 'nvidia-231'))

    def test_an_id_that_the_configuration_uses(self) -> None:
        for written in ('nvidia-231', 'NVIDIA-231', ' nvidia-231 '):
            (change,) = self.find({'nvidia-231': OLD}, 'T4-4Q', written)
            self.assertEqual(
                type_matching.TypeChange(
                    'nvidia-231',
                    OLD,
                    'GRID T4-2Q',
                    '[devices]enabled_vgpu_types',
                ),
                change,
            )

    def test_a_type_that_is_configured_by_name(self) -> None:
        (change,) = self.find({'nvidia-231': OLD}, 'T4-2Q', 'RTXA5500-1B')
        self.assertIsNone(change.option)

    def test_another_brand_is_no_other_meaning(self) -> None:
        for name in ('NVIDIA T4-2Q', 'T4-2Q', 'grid  t4-2q'):
            self.assertEqual((), self.find({'nvidia-231': name}), name)

    def test_an_id_that_nobody_names_now(self) -> None:
        self.assertEqual((), self.find({'nvidia-9': OLD}, 'nvidia-9'))


class TestRemembering(testtools.TestCase):
    def remember(
        self, remembered: dict[str, str], *declared: str
    ) -> dict[str, str]:
        return dict(
            type_matching.list_names_to_store(
                tuple(sorted(remembered.items())), HOST, declare(*declared)
            )
        )

    def test_everything_that_has_a_name(self) -> None:
        self.assertEqual(NOW, self.remember({}))

    def test_an_id_in_use_keeps_its_old_meaning(self) -> None:
        remembered = {'nvidia-231': OLD}
        for _ in range(3):
            remembered = self.remember(remembered, 'nvidia-231')
            self.assertEqual(OLD, remembered['nvidia-231'])

    def test_it_is_forgotten_once_the_type_is_named(self) -> None:
        remembered = self.remember({'nvidia-231': OLD}, 'T4-2Q')
        self.assertEqual('GRID T4-2Q', remembered['nvidia-231'])

    def test_without_a_configuration_nothing_is_forgotten(self) -> None:
        remembered = self.remember({'nvidia-231': OLD})
        self.assertEqual(OLD, remembered['nvidia-231'])
        self.assertEqual('GRID T4-4Q', remembered['nvidia-232'])

    def test_a_type_that_does_not_show_now_is_not_forgotten(self) -> None:
        self.assertEqual(
            {**NOW, 'nvidia-9': OLD}, self.remember({'nvidia-9': OLD}, 'T4-2Q')
        )

    def test_types_without_a_name_are_left_out(self) -> None:
        host = hosts.make_host(hosts.gpu('00:02.0', boards.HD_530))
        nameless = dataclasses.replace(
            host.gpus[0],
            offers=(values.Offer(values.VGPUType('i915-GVTg_V5_4'), 1),),
        )
        self.assertEqual(
            (),
            type_matching.list_names_to_store(
                (), values.Host((nameless,)), values.Declaration()
            ),
        )


class TestPlans(testtools.TestCase):
    """A configuration that has to be corrected before anything is done."""

    def plan(
        self,
        remembered: dict[str, str],
        *declared: str,
        host: values.Host = HOST,
    ) -> values.Plan:
        return plans.make_plan(
            declare(*declared), host, (), tuple(sorted(remembered.items()))
        )

    def test_it_says_what_changed_and_what_to_write(self) -> None:
        plan = self.plan({'nvidia-231': 'GRID T4-8Q'}, 'nvidia-231')
        (problem,) = plan.problems
        self.assertEqual(
            values.Problem(
                values.Severity.FATAL,
                'type-id-changed',
                '[devices]enabled_vgpu_types',
                '[devices]enabled_vgpu_types: nvidia-231 was GRID T4-8Q on '
                'this host before and is GRID T4-2Q now.',
                'Declare the type by name, also in the name of its section: '
                'T4-8Q for what was served so far, T4-2Q if that is wanted '
                'from now on.',
            ),
            problem,
        )
        error = self.assertRaises(
            exception.InvalidLibvirtGPUConfig, mapper.require_valid, plan
        )
        self.assertIn('GRID T4-8Q', str(error))

    def test_either_name_is_accepted(self) -> None:
        for name, total in (('T4-8Q', 2), ('T4-2Q', 8)):
            plan = self.plan({'nvidia-231': 'GRID T4-8Q'}, name)
            self.assertEqual((), plan.problems)
            (assigned,) = plan.assignments
            assert assigned.capacity is not None
            self.assertEqual(total, assigned.capacity.total)

    def test_nothing_is_remembered(self) -> None:
        self.assertEqual((), self.plan({}, 'nvidia-231').problems)

    def test_every_id_is_told_once(self) -> None:
        host = hosts.make_host(
            hosts.gpu('84:00.0', boards.T4), hosts.gpu('85:00.0', boards.T4)
        )
        remembered = {'nvidia-231': OLD, 'nvidia-232': OLD, 'nvidia-233': OLD}
        plan = self.plan(remembered, 'nvidia-231', 'nvidia-232', host=host)
        fatal = plan.problems_of(values.Severity.FATAL)
        self.assertEqual(
            ['nvidia-231', 'nvidia-232'],
            [problem.message.split()[1] for problem in fatal],
        )

    def test_a_gpu_serves_no_type_that_may_not_be_meant(self) -> None:
        """A nova-compute that runs already goes by this."""
        host = hosts.make_host(
            hosts.gpu('84:00.0', boards.T4), hosts.gpu('85:00.0', boards.T4)
        )
        types = (
            values.DeclaredType('nvidia-231', 'vgpu_nvidia-231', ('84:00.0',)),
            values.DeclaredType('T4-8Q', 'vgpu_T4-8Q', ('85:00.0',)),
        )
        plan = plans.make_plan(
            values.Declaration(types), host, (), (('nvidia-231', OLD),)
        )
        by_id, by_name = plan.assignments
        self.assertIsNone(by_id.type)
        self.assertFalse(by_id.serves)
        self.assertTrue(by_name.serves)

    def test_every_framework(self) -> None:
        for board, vfs, vendor_vfio in (
            (boards.T4, 0, False),
            (boards.A40, 2, False),
            (boards.L40S, 2, True),
        ):
            before = {t.id: str(t.name) for t in board.types}
            type_id = board.types[0].id
            for now, problems in (
                (board, set[str]()),
                (stores.renumber(board), {'type-id-changed'}),
            ):
                host = hosts.make_host(
                    hosts.gpu('84:00.0', now, vfs=vfs, vendor_vfio=vendor_vfio)
                )
                plan = self.plan(before, type_id, host=host)
                self.assertEqual(
                    problems,
                    {p.code for p in plan.problems_of(values.Severity.FATAL)},
                    type_id,
                )

    def test_a_full_gpu_that_names_no_types_has_not_changed(self) -> None:
        card = hosts.gpu(
            'c1:00.0',
            boards.L40S,
            *('nvidia-1157', 'nvidia-1157'),
            vfs=2,
            vendor_vfio=True,
        )
        full = hosts.make_host(card)
        self.assertEqual((), full.gpus[0].types)
        plan = self.plan({'nvidia-1157': OLD}, 'nvidia-1157', host=full)
        self.assertEqual((), plan.problems_of(values.Severity.FATAL))
        self.assertTrue(plan.assignments[0].serves)
