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
from nova_vgpu.reconcile import vgpu_facts
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans

VF = plans.VFIO_NAMES
PLAN = plans.make_plan(
    values.Declaration(
        (
            values.DeclaredType('T4-8Q', 'vgpu_T4-8Q'),
            values.DeclaredType('A40-24Q', 'vgpu_A40-24Q', ('41:00.0',)),
        )
    ),
    hosts.make_host(
        hosts.gpu('84:00.0', boards.T4),
        hosts.gpu('41:00.0', boards.A40, vfs=4),
    ),
)
A40, T4 = sorted(PLAN.assignments, key=lambda a: a.gpu.name)


class TestChoice(testtools.TestCase):
    def idle(self, card: simulation.GPU, declared: str, *taken: str) -> int:
        (assigned,) = plans.plan_types(card, declared).assignments
        return len(vgpu_facts.list_idle(assigned, taken))

    def room(
        self, card: simulation.GPU, declared: str, *taken: str
    ) -> str | None:
        (assigned,) = plans.plan_types(card, declared).assignments
        return next(vgpu_facts.list_rooms(assigned, taken), None)

    def test_what_is_there_and_nobodys(self) -> None:
        (mdev,) = hosts.make_gpu(plans.t4('nvidia-231')).vgpus
        for case, found, expected in (
            ('an mdev', self.idle(plans.t4('nvidia-231'), 'T4-2Q'), 1),
            ('of another type', self.idle(plans.t4('nvidia-230'), 'T4-2Q'), 0),
            (
                'taken',
                self.idle(plans.t4('nvidia-231'), 'T4-2Q', mdev.name),
                0,
            ),
            (
                'a function',
                self.idle(plans.vfio('nvidia-1155'), 'L40S-24Q'),
                1,
            ),
            (
                'a function that is taken',
                self.idle(plans.vfio('nvidia-1155'), 'L40S-24Q', VF[0]),
                0,
            ),
        ):
            self.assertEqual(expected, found, case)

    def test_where_one_more_fits(self) -> None:
        full = plans.vfio('nvidia-1155', 'nvidia-1155')
        for case, found, expected in (
            ('a T4', self.room(plans.t4(), 'T4-16Q'), 'pci_0000_84_00_0'),
            ('a full T4', self.room(plans.t4('nvidia-234'), 'T4-16Q'), None),
            ('functions', self.room(plans.vfio(), 'L40S-24Q'), VF[0]),
            (
                'the first is in use',
                self.room(plans.vfio('nvidia-1155'), 'L40S-24Q'),
                VF[1],
            ),
            (
                'the first is kept for a server that is off',
                self.room(plans.vfio(), 'L40S-24Q', VF[0]),
                VF[1],
            ),
            (
                'more functions than it takes',
                self.room(full, 'L40S-24Q'),
                None,
            ),
        ):
            self.assertEqual(expected, found, case)

    def test_every_function_is_a_choice(self) -> None:
        (assigned,) = plans.plan_types(
            plans.vfio('nvidia-1155'), 'L40S-24Q'
        ).assignments
        self.assertEqual(VF[1:], list(vgpu_facts.list_rooms(assigned, ())))
        self.assertEqual(
            [VF[1], VF[3]], list(vgpu_facts.list_rooms(assigned, (VF[2],)))
        )


class TestMatchPlaces(testtools.TestCase):
    def test_by_their_types_and_then_by_their_order(self) -> None:
        t4, a40, gone = 'GRID T4-8Q', 'NVIDIA A40-24Q', 'GRID T4-1Q'
        for case, lost, places, expected in (
            ('in order', {'a': t4, 'b': a40}, [T4, A40], {'a': T4, 'b': A40}),
            ('crossed', {'a': a40, 'b': t4}, [T4, A40], {'a': A40, 'b': T4}),
            (
                'brand',
                {'a': 'A40-24Q', 'b': t4},
                [T4, A40],
                {'a': A40, 'b': T4},
            ),
            (
                'one that is not known takes what is left',
                {'a': None, 'b': t4},
                [T4, A40],
                {'a': A40, 'b': T4},
            ),
            (
                'none is known',
                {'b': None, 'a': None},
                [T4, A40],
                {'a': T4, 'b': A40},
            ),
            ('not served any more', {'a': gone}, [T4], {'a': T4}),
            (
                'not served, and another one is',
                {'a': gone, 'b': t4},
                [T4, A40],
                {'a': A40, 'b': T4},
            ),
            (
                'two of one type',
                {'a': t4, 'b': t4},
                [T4, T4],
                {'a': T4, 'b': T4},
            ),
            ('more than places', {'a': None, 'b': t4}, [T4], {'b': T4}),
            ('no place', {'a': t4}, [], {}),
        ):
            found = dict(vgpu_facts.match_places(lost, places))
            self.assertEqual(expected, found, case)
