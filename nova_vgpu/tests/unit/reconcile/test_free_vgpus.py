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
from nova_vgpu.reconcile import free_vgpus
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans

VF = [f'pci_0000_c8_00_{function}' for function in (4, 5, 6, 7)]


def vfio(*created: str) -> simulation.GPU:
    return hosts.gpu('c8:00.0', boards.L40S, *created, vfs=4, vendor_vfio=True)


def t4(*created: str) -> simulation.GPU:
    return hosts.gpu('84:00.0', boards.T4, *created)


def make_plan(card: simulation.GPU, *types: str) -> values.Plan:
    declaration = values.Declaration(
        tuple(values.DeclaredType(name, f'vgpu_{name}') for name in types)
    )
    return plans.make_plan(declaration, hosts.make_host(card))


class TestChoice(testtools.TestCase):
    def idle(self, card: simulation.GPU, declared: str, *taken: str) -> int:
        (assigned,) = make_plan(card, declared).assignments
        return len(free_vgpus.list_idle(assigned, taken))

    def room(
        self, card: simulation.GPU, declared: str, *taken: str
    ) -> str | None:
        (assigned,) = make_plan(card, declared).assignments
        return next(free_vgpus.list_rooms(assigned, taken), None)

    def test_what_is_there_and_nobodys(self) -> None:
        (mdev,) = hosts.make_gpu(t4('nvidia-231')).vgpus
        for case, found, expected in (
            ('an mdev', self.idle(t4('nvidia-231'), 'T4-2Q'), 1),
            ('of another type', self.idle(t4('nvidia-230'), 'T4-2Q'), 0),
            ('taken', self.idle(t4('nvidia-231'), 'T4-2Q', mdev.name), 0),
            ('a function', self.idle(vfio('nvidia-1155'), 'L40S-24Q'), 1),
            (
                'a function that is taken',
                self.idle(vfio('nvidia-1155'), 'L40S-24Q', VF[0]),
                0,
            ),
        ):
            self.assertEqual(expected, found, case)

    def test_where_one_more_fits(self) -> None:
        full = vfio('nvidia-1155', 'nvidia-1155')
        for case, found, expected in (
            ('a T4', self.room(t4(), 'T4-16Q'), 'pci_0000_84_00_0'),
            ('a full T4', self.room(t4('nvidia-234'), 'T4-16Q'), None),
            ('functions', self.room(vfio(), 'L40S-24Q'), VF[0]),
            (
                'the first is in use',
                self.room(vfio('nvidia-1155'), 'L40S-24Q'),
                VF[1],
            ),
            (
                'the first is kept for a server that is off',
                self.room(vfio(), 'L40S-24Q', VF[0]),
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
        (assigned,) = make_plan(vfio('nvidia-1155'), 'L40S-24Q').assignments
        self.assertEqual(VF[1:], list(free_vgpus.list_rooms(assigned, ())))
        self.assertEqual(
            [VF[1], VF[3]], list(free_vgpus.list_rooms(assigned, (VF[2],)))
        )
