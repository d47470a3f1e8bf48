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

"""Modes of GPUs in plans, as far as they are known."""

import dataclasses

import testtools

from nova_vgpu import values
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests import hosts
from nova_vgpu.tests import migs
from nova_vgpu.tests import plans

T4 = hosts.gpu('84:00.0', boards.T4)
ON, OFF = values.GPUMode(True, True), values.GPUMode(False, False)
TIME_SLICED, MIG_BACKED = 'T4-2Q', 'A100-2-10C'


def plan(
    name: str,
    card: simulation.GPU = T4,
    switches_mig_mode: bool = False,
    why: str | None = None,
    **known: values.GPUMode | bool | None,
) -> values.Plan:
    """The plan of a card with a type.

    :param why: why NVML does not tell its modes.
    """
    declared = values.DeclaredType(name, f'vgpu_{name}', (str(card.address),))
    modes = values.GPUModes(**known)  # type: ignore[arg-type] # of each kind
    return plans.make_plan(
        values.Declaration((declared,), switches_mig_mode=switches_mig_mode),
        hosts.make_host(card),
        modes=values.ModesRead(((card.address, modes),), unknown_because=why),
    )


class TestMig(testtools.TestCase):
    def find(self, name: str, mig: values.GPUMode | None) -> list[str]:
        return [
            problem.code
            for problem in plan(name, mig=mig).problems
            if problem.code.startswith('mig-')
        ]

    def test_a_mode_that_does_not_fit_the_type(self) -> None:
        self.assertEqual(['mig-on'], self.find(TIME_SLICED, ON))
        self.assertEqual(['mig-off'], self.find(MIG_BACKED, OFF))

    def test_a_mode_that_fits(self) -> None:
        self.assertEqual([], self.find(TIME_SLICED, OFF))
        self.assertEqual([], self.find(MIG_BACKED, ON))

    def test_a_mode_that_is_not_known(self) -> None:
        self.assertEqual([], self.find(TIME_SLICED, None))
        self.assertEqual([], self.find(MIG_BACKED, None))

    def test_a_lack_of_room_that_the_mode_explains(self) -> None:
        """Its cure is for a GPU in the right mode."""
        card = dataclasses.replace(migs.switchable(), vfs=8, vendor_vfio=False)
        for mig, code in ((OFF, 'mig-off'), (None, 'no-room')):
            problems = plan(migs.TWO, card, mig=mig).problems
            self.assertEqual([code], [p.code for p in problems])

    def test_what_the_problem_says(self) -> None:
        (problem,) = plan(TIME_SLICED, mig=ON).problems
        self.assertEqual(values.Severity.ERROR, problem.severity)
        self.assertEqual('0000:84:00.0', problem.subject)
        self.assertIn('GRID T4-2Q', problem.message)
        self.assertIn('-mig 0', problem.cure)
        self.assertIn('[devices]switch_mig_mode = true', problem.cure)
        problems = plan(MIG_BACKED, mig=OFF).problems
        (cure,) = (p.cure for p in problems if p.code == 'mig-off')
        self.assertIn('-mig 1', cure)
        self.assertIn('[devices]switch_mig_mode = true', cure)

    def test_inventories_are_those_of_nova_compute(self) -> None:
        """It does not know modes; what a GPU offers decides."""
        for known in (ON, OFF, None):
            (assigned,) = plan(TIME_SLICED, mig=known).assignments
            assert assigned.capacity is not None
            self.assertEqual(8, assigned.capacity.total)


class TestUnknownMigMode(testtools.TestCase):
    """It is a problem only if an apply may have to switch it."""

    def find(
        self,
        name: str,
        card: simulation.GPU | None = None,
        switches_mig_mode: bool = True,
        **known: values.GPUMode,
    ) -> list[values.Problem]:
        made = plan(
            name,
            card or migs.switchable(),
            switches_mig_mode,
            'NVML failed',
            **known,
        )
        return [p for p in made.problems if p.code == 'mig-mode-unknown']

    def test_what_the_problem_says(self) -> None:
        (problem,) = self.find(migs.TWO)
        self.assertEqual(values.Severity.WARNING, problem.severity)
        self.assertEqual(migs.ADDRESS, problem.subject)
        for words in ('NVML failed', 'switch_mig_mode', 'not switched'):
            self.assertIn(words, problem.message)
        self.assertIn('extra nvml', problem.cure)

    def test_also_of_a_gpu_that_is_to_leave_it(self) -> None:
        on = dataclasses.replace(
            migs.gpu('2g.20gb', vfs=8), board=migs.BOTH_KINDS
        )
        self.assertEqual(1, len(self.find(migs.HALF, on)))
        off = dataclasses.replace(migs.switchable(), vfs=8)
        self.assertEqual([], self.find(migs.HALF, off))

    def test_where_it_makes_no_difference(self) -> None:
        unbound = dataclasses.replace(migs.switchable(), driver=None)
        self.assertEqual([], self.find(migs.TWO, switches_mig_mode=False))
        self.assertEqual([], self.find(migs.TWO, mig=OFF))
        self.assertEqual([], self.find(migs.TWO, unbound))
        self.assertEqual([], self.find(TIME_SLICED, T4))


class TestMixedSizes(testtools.TestCase):
    def test_the_plan_has_what_is_known(self) -> None:
        for known in (True, False, None):
            (assigned,) = plan(TIME_SLICED, heterogeneous=known).assignments
            self.assertIs(known, assigned.modes.heterogeneous)


class TestSharing(testtools.TestCase):
    """The values allow several types on a GPU, each with its share."""

    def test_all_assignments_of_a_gpu(self) -> None:
        (first,) = plan('T4-2Q').assignments
        (second,) = plan('T4-4Q').assignments
        (other,) = plans.make_plan(
            values.Declaration((values.DeclaredType('T4-2Q', 'vgpu_T4-2Q'),)),
            hosts.make_host(hosts.gpu('85:00.0', boards.T4)),
        ).assignments
        both = values.Plan((first, other, second))
        self.assertEqual(
            (first, second), both.assignments_of('pci_0000_84_00_0')
        )
        self.assertEqual((), both.assignments_of('pci_0000_86_00_0'))
        self.assertEqual((first.gpu, other.gpu), both.gpus)
