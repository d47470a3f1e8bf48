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
from nova_vgpu.reconcile import lost_mdevs
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans

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
            found = dict(lost_mdevs.match_places(lost, places))
            self.assertEqual(expected, found, case)
