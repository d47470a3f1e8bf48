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

"""GPUs that are divided among several types."""

from collections.abc import Iterable
import dataclasses
import itertools
import time

import testtools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.plan import mapper
from nova_vgpu.plan import slot_placing
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans

A10 = dataclasses.replace(hosts.gpu('21:00.0', boards.A10, vfs=32), mixed=True)
A100D = dataclasses.replace(
    hosts.gpu('21:00.0', boards.A100D, vfs=16), mixed=True, instances=True
)
FOUR, SIX = 'A10-4Q', 'A10-6Q'
TWENTY, TEN = 'A100D-2-20C', 'A100D-1-10C'


def listed(name: str, *addresses: str) -> values.DeclaredType:
    return values.DeclaredType(name, f'vgpu_{name}', addresses)


def plan(
    card: simulation.GPU,
    *types: values.DeclaredType,
    type_names: values.TypeNames = (),
    heterogeneous: bool | None = None,
    scheduler: values.SchedulerPolicy | None = None,
    slots: tuple[values.TypeSlots, ...] | None = None,
) -> values.Plan:
    of_card = values.GPUModes(
        heterogeneous=heterogeneous, scheduler=scheduler, slots=slots
    )
    modes = values.ModesRead(((card.address, of_card),))
    return plans.make_plan(
        values.Declaration(types, values.UnlistedGPUs.IGNORE),
        hosts.make_host(card),
        type_names=type_names,
        modes=modes,
    )


def totals(found: values.Plan) -> dict[str, tuple[int, str]]:
    """The total of each provider, and what limits it."""
    return {
        assigned.device.removeprefix('pci_0000_21_00_0_'): (
            assigned.capacity.total,
            assigned.capacity.bound,
        )
        for assigned in found.assignments
        if assigned.capacity
    }


def with_vgpus(
    card: simulation.GPU, *types: str, first_vf: int = 0
) -> simulation.GPU:
    """The card with vGPUs of these types, one on each VF."""
    ids = {t.name.rpartition(' ')[2]: t.id for t in card.board.types if t.name}
    return dataclasses.replace(
        card,
        created=card.created
        + tuple(
            simulation.Created(ids[name], vf)
            for vf, name in enumerate(types, first_vf)
        ),
    )


def codes(problems: Iterable[values.Problem]) -> list[str]:
    return [problem.code for problem in problems]


class TestDivided(testtools.TestCase):
    def test_each_type_has_the_number_that_is_written(self) -> None:
        for case, card, types, expected in (
            (
                'sizes that mix',
                A10,
                (listed(FOUR, '21:00.0=3'), listed(SIX, '0000:21:00.0 = 2')),
                {FOUR: (3, 'share'), SIX: (2, 'share')},
            ),
            (
                'GPU instances',
                A100D,
                (listed(TWENTY, '21:00.0=3'), listed(TEN, '21:00.0=1')),
                {TWENTY: (3, 'share'), TEN: (1, 'share')},
            ),
            (
                'functions of each type',
                A100D,
                (
                    listed(TWENTY, '21:00.4', '21:00.5', '21:00.6'),
                    listed(TEN, '21:00.7'),
                ),
                {TWENTY: (3, 'VFs'), TEN: (1, 'VFs')},
            ),
            (
                'a number, and functions',
                A10,
                (listed(FOUR, '21:00.0=3'), listed(SIX, '21:00.4')),
                {FOUR: (3, 'share'), SIX: (1, 'VFs')},
            ),
            (
                'less than there is room for',
                A10,
                (listed(FOUR, '21:00.0=1'), listed(SIX, '21:00.0=1')),
                {FOUR: (1, 'share'), SIX: (1, 'share')},
            ),
        ):
            found = plan(card, *types)
            self.assertEqual((), found.problems, case)
            self.assertEqual(expected, totals(found), case)

    def test_a_number_for_the_only_type_is_a_limit(self) -> None:
        found = plan(A10, listed(FOUR, '21:00.0=3'))
        self.assertEqual((), found.problems)
        (assigned,) = found.assignments
        self.assertEqual('pci_0000_21_00_0', assigned.device)
        self.assertEqual({'pci_0000_21_00_0': (3, 'share')}, totals(found))

    def test_types_use_all_functions_that_are_not_listed(self) -> None:
        found = plan(A10, listed(FOUR, '21:00.0=3'), listed(SIX, '21:00.4'))
        four, six = found.assignments
        self.assertEqual({'pci_0000_21_00_4'}, six.functions)
        # And the GPU itself.
        self.assertEqual(31 + 1, len(four.functions))
        self.assertEqual(frozenset(), six.functions & four.functions)

    def test_max_instances_is_a_limit_of_each_share(self) -> None:
        four = dataclasses.replace(listed(FOUR, '21:00.0=3'), max_instances=2)
        found = plan(A10, four, listed(SIX, '21:00.0=2'))
        self.assertEqual(
            {FOUR: (2, 'max_instances'), SIX: (2, 'share')}, totals(found)
        )

    def test_the_totals_do_not_depend_on_what_is_used(self) -> None:
        types = (listed(FOUR, '21:00.0=3'), listed(SIX, '21:00.0=2'))
        for there in (
            (FOUR,),
            (FOUR, FOUR, FOUR),
            (SIX, SIX),
            (SIX, FOUR, SIX, FOUR, FOUR),
        ):
            found = plan(with_vgpus(A10, *there), *types)
            self.assertEqual((), found.problems, str(there))
            self.assertEqual(
                {FOUR: (3, 'share'), SIX: (2, 'share')},
                totals(found),
                str(there),
            )

    def test_more_vgpus_of_a_type_than_its_share_leave_less(self) -> None:
        """They were there before the GPU was divided."""
        types = (listed(FOUR, '21:00.0=3'), listed(SIX, '21:00.0=2'))
        found = plan(with_vgpus(A10, *[FOUR] * 5), *types)
        self.assertEqual((5, 'existing vGPUs'), totals(found)[FOUR])
        self.assertEqual(0, totals(found)[SIX][0])

    def test_a_vgpu_of_a_type_that_is_not_declared_takes_room(self) -> None:
        types = (listed(FOUR, '21:00.0=3'), listed(SIX, '21:00.0=2'))
        found = plan(with_vgpus(A10, 'A10-8Q'), *types)
        # 24 GB, of which 8 are in use: a share of the other counts in full.
        self.assertEqual(1, totals(found)[FOUR][0])
        self.assertEqual(0, totals(found)[SIX][0])

    def test_vgpus_on_functions_of_another_type_count_for_none(self) -> None:
        """One of the wrong type is on the function of the small type."""
        card = with_vgpus(A100D, TWENTY, first_vf=3)
        found = plan(
            card,
            listed(TWENTY, '21:00.4', '21:00.5', '21:00.6'),
            listed(TEN, '21:00.7'),
        )
        twenty, ten = found.assignments
        assert twenty.capacity and ten.capacity
        self.assertEqual(0, twenty.capacity.existing)
        self.assertEqual(2, twenty.capacity.total)
        self.assertEqual(0, ten.capacity.total)

    def test_one_that_is_not_offered_leaves_the_others_alone(self) -> None:
        found = plan(
            A10, listed(FOUR, '21:00.0=3'), listed('A10-5Q', '21:00.0=1')
        )
        self.assertEqual({FOUR: (3, 'share')}, totals(found))
        self.assertIn('type-not-offered', codes(found.problems))


class TestNames(testtools.TestCase):
    """What the providers of shares are called."""

    def devices(
        self, *args: values.DeclaredType, **kwargs: object
    ) -> set[str]:
        card = kwargs.pop('card', A10)
        assert isinstance(card, simulation.GPU)
        found = plan(card, *args, **kwargs)  # type: ignore[arg-type]
        return {assigned.device for assigned in found.assignments}

    def test_they_have_the_name_of_the_type_however_it_is_written(
        self,
    ) -> None:
        expected = {'pci_0000_21_00_0_A10-4Q', 'pci_0000_21_00_0_A10-6Q'}
        for four, six in (
            (FOUR, SIX),
            ('nvidia-593', 'NVIDIA A10-6Q'),
            ('a10-4q', 'nvidia-594'),
        ):
            self.assertEqual(
                expected,
                self.devices(
                    listed(four, '21:00.0=3'), listed(six, '21:00.0=2')
                ),
            )

    def test_they_stay_while_the_functions_are_off(self) -> None:
        """A provider that is in use is not replaced because of a reboot."""
        off = dataclasses.replace(A10, vfs=0)
        names = (('nvidia-593', 'NVIDIA A10-4Q'), ('nvidia-594', 'A10-6Q'))
        self.assertEqual(
            {'pci_0000_21_00_0_A10-4Q', 'pci_0000_21_00_0_A10-6Q'},
            self.devices(
                listed('nvidia-593', '21:00.0=3'),
                listed(SIX, '21:00.0=2'),
                card=off,
                type_names=names,
            ),
        )


class TestInvalid(testtools.TestCase):
    def test_numbers_that_are_none(self) -> None:
        for entry, words in (
            ('21:00.0=', "'21:00.0=' does not give a number"),
            ('21:00.0=0', 'Write 21:00.0=N'),
            ('21:00.0=-1', 'does not give a number'),
            ('21:00.0=three', 'does not give a number'),
            ('21:00.0=1=2', 'does not give a number'),
            ('21:00.0=99999', 'from 1 to 9999'),
            ('21:00.0=\u0663', 'does not give a number'),
            ('21:00.4=1', 'a virtual function, which has one vGPU'),
        ):
            found = plan(A10, listed(FOUR, entry))
            (problem,) = found.problems
            self.assertEqual('invalid-share', problem.code, entry)
            self.assertEqual(
                '[vgpu_A10-4Q]device_addresses', problem.subject, entry
            )
            self.assertIn(words, str(problem), entry)
            self.assertRaises(
                exception.InvalidLibvirtGPUConfig, mapper.require_valid, found
            )

    def test_a_number_and_the_same_gpu_again(self) -> None:
        for second in ('21:00.0=2', '21:00.0', '21:00.5'):
            found = plan(A10, listed(FOUR, '0000:21:00.0=1', second))
            self.assertIn('invalid-share', codes(found.problems), second)
            self.assertIn('List it once', found.problems[0].cure)

    def test_an_address_with_a_number_is_checked_like_any(self) -> None:
        for entry, code in (
            ('21:00.x=3', 'malformed-address'),
            ('99:00.0=3', 'not-on-host'),
            ('=3', 'malformed-address'),
        ):
            found = plan(A10, listed(FOUR, entry))
            self.assertEqual([code], codes(found.problems), entry)

    def test_without_a_number_two_types_are_a_conflict(self) -> None:
        for first, second in (
            ('21:00.0', '21:00.0'),
            ('21:00.0=3', '21:00.0'),
            ('21:00.0', '21:00.4'),
            ('21:00.4', '21:00.4'),
        ):
            found = plan(A10, listed(FOUR, first), listed(SIX, second))
            (problem,) = found.problems
            self.assertEqual('gpu-under-two-types', problem.code)
            self.assertIn('how many vGPUs of the type', problem.cure)
            self.assertEqual((), found.assignments)


def with_functions(total: int) -> simulation.GPU:
    board = dataclasses.replace(boards.A10, total_vfs=total)
    return dataclasses.replace(A10, board=board, vfs=total)


class TestMisfits(testtools.TestCase):
    """Whether the shares fit is known before anything is changed."""

    def test_what_does_not_fit_and_what_would(self) -> None:
        for case, card, four, six, words in (
            (
                'memory',
                A10,
                (FOUR, 4),
                (SIX, 2),
                (
                    '4 x A10-4Q and 2 x A10-6Q',
                    '28672 MiB of it, and it has 24576',
                    'Lower A10-4Q to 3, or A10-6Q to 1',
                ),
            ),
            (
                'one alone',
                A10,
                (FOUR, 7),
                (SIX, 1),
                ('6 x A10-4Q at most', 'Lower A10-4Q to 4'),
            ),
            (
                'slices',
                A100D,
                (TWENTY, 3),
                (TEN, 2),
                ('8 slices of it, and it has 7', 'Lower A100D-2-20C to 2'),
            ),
            (
                'GPU instances and time slices',
                A100D,
                (TWENTY, 1),
                ('A100D-20C', 1),
                ('backed by MIG do not mix with others', 'one of them only'),
            ),
            (
                'one type twice',
                A10,
                (FOUR, 1),
                ('nvidia-593', 1),
                ('two of them are the same type',),
            ),
            (
                'functions',
                with_functions(4),
                (FOUR, 3),
                (SIX, 2),
                ('it has 4 virtual functions', 'A10-4Q to 2'),
            ),
            (
                'slices of memory',
                A100D,
                ('A100D-3-40C', 2),
                (TEN, 1),
                ('9 slices of its memory, and it has 8', 'A100D-3-40C to 1'),
            ),
        ):
            found = plan(
                card,
                listed(four[0], f'21:00.0={four[1]}'),
                listed(six[0], f'21:00.0={six[1]}'),
            )
            (problem,) = (
                p for p in found.problems if p.code == 'shares-do-not-fit'
            )
            self.assertEqual('0000:21:00.0', problem.subject, case)
            self.assertIn(
                f'[vgpu_{four[0]}]device_addresses', problem.message, case
            )
            for text in words:
                self.assertIn(text, str(problem), case)
            self.assertRaises(
                exception.InvalidLibvirtGPUConfig, mapper.require_valid, found
            )

    def test_types_that_are_never_on_one_gpu(self) -> None:
        """Lower numbers do not help."""
        found = plan(
            A100D,
            listed(TWENTY, '21:00.0=3'),
            listed('A100D-20C', '21:00.0=1'),
        )
        (problem,) = (
            p for p in found.problems if p.code == 'shares-do-not-fit'
        )
        self.assertEqual('List the GPU under one of them only.', problem.cure)

    def test_no_lack_of_room_beside_numbers_that_do_not_fit(self) -> None:
        found = plan(A10, listed(FOUR, '21:00.0=30'), listed(SIX, '21:00.0=2'))
        self.assertEqual(
            ['shares-do-not-fit'], [p.code for p in found.problems]
        )

    def test_functions_that_are_not_enabled(self) -> None:
        """The numbers are right, the host is not ready for all of them."""
        found = plan(
            dataclasses.replace(A10, vfs=4),
            listed(FOUR, '21:00.0=3'),
            listed(SIX, '21:00.0=2'),
        )
        (problem,) = found.problems
        self.assertEqual('too-few-functions', problem.code)
        self.assertIn('4 of its 32 virtual functions', problem.message)
        mapper.require_valid(found)
        self.assertEqual({FOUR: (2, 'VFs'), SIX: (1, 'VFs')}, totals(found))

    def test_functions_that_other_vgpus_use(self) -> None:
        """One that is of no declared type, until its server is gone."""
        board = dataclasses.replace(boards.A10, total_vfs=4)
        card = dataclasses.replace(
            hosts.gpu('21:00.0', board, 'nvidia-591', vfs=4), mixed=True
        )
        found = plan(card, listed(FOUR, '21:00.0=2'), listed(SIX, '21:00.0=2'))
        self.assertEqual({FOUR: (1, 'VFs'), SIX: (1, 'VFs')}, totals(found))

    def test_too_many_of_the_only_type(self) -> None:
        found = plan(A10, listed(FOUR, '21:00.0=7'))
        (problem,) = found.problems
        self.assertEqual('shares-do-not-fit', problem.code)
        self.assertIn('Lower the number to 6.', problem.cure)

    def test_more_of_the_only_type_than_functions(self) -> None:
        (problem,) = plan(
            with_functions(4), listed(FOUR, '21:00.0=5')
        ).problems
        self.assertIn('it has 4 virtual functions', problem.message)
        self.assertIn('Lower the number to 4.', problem.cure)

    def test_it_is_known_before_the_functions_are_enabled(self) -> None:
        found = plan(
            dataclasses.replace(A10, vfs=0),
            listed(FOUR, '21:00.0=4'),
            listed(SIX, '21:00.0=2'),
        )
        self.assertIn('shares-do-not-fit', codes(found.problems))

    def test_what_is_in_use_does_not_make_a_declaration_wrong(self) -> None:
        found = plan(
            with_vgpus(A10, *['A10-8Q'] * 3),
            listed(FOUR, '21:00.0=3'),
            listed(SIX, '21:00.0=2'),
        )
        self.assertNotIn('shares-do-not-fit', codes(found.problems))

    def test_sizes_do_not_mix_while_the_mode_is_off(self) -> None:
        for heterogeneous, sixes, expected in (
            (False, SIX, ['heterogeneous-off']),
            (True, SIX, []),
            (None, SIX, []),
            # The same size: no mode is needed.
            (False, 'A10-2B', []),
        ):
            four = FOUR if sixes == SIX else 'A10-2Q'
            found = plan(
                A10,
                listed(four, '21:00.0=3'),
                listed(sixes, '21:00.0=2'),
                heterogeneous=heterogeneous,
            )
            self.assertEqual(expected, codes(found.problems), sixes)

    def test_the_fixed_share_does_not_mix_sizes(self) -> None:
        fixed = values.SchedulerPolicy.FIXED_SHARE
        for six, expected in ((SIX, ['scheduler-fixed-share']), (FOUR, [])):
            types = [listed(FOUR, '21:00.0=3')]
            types += [listed(six, '21:00.0=2')] if six != FOUR else []
            found = plan(A10, *types, heterogeneous=True, scheduler=fixed)
            self.assertEqual(expected, codes(found.problems))

    def test_old_models_have_one_size_at_a_time(self) -> None:
        """They have no heterogeneous mode."""
        m10 = dataclasses.replace(
            boards.T4, device=0x13BD, subsystem=(0x10DE, 0x1160)
        )
        for card, first, second, expected in (
            (m10, 'T4-2Q', 'T4-4Q', ['shares-do-not-fit']),
            (m10, 'T4-2Q', 'T4-2B', []),
            (boards.T4, 'T4-2Q', 'T4-4Q', []),
        ):
            found = plan(
                hosts.gpu('21:00.0', card),
                listed(first, '21:00.0=2'),
                listed(second, '21:00.0=1'),
            )
            self.assertEqual(expected, codes(found.problems), second)

    def test_sizes_without_slots_for_them(self) -> None:
        """There is memory for all of them, but not where they can begin."""
        six = values.TypeSlots('nvidia-594', SIX, 6, (0, 6, 12, 18))
        for case, starts, expected in (
            ('next to each other', (0, 4, 8, 12, 16, 20), []),
            ('as far apart as large ones', (0, 6, 12, 18), [(1, 1)]),
            ('not known', None, []),
        ):
            four = starts and values.TypeSlots('nvidia-593', FOUR, 4, starts)
            found = plan(
                A10,
                listed(FOUR, '21:00.0=3'),
                listed(SIX, '21:00.0=2'),
                slots=(six, four) if four else (six,),
            )
            problems = [
                p for p in found.problems if p.code == 'shares-do-not-fit'
            ]
            self.assertEqual(len(expected), len(problems), case)
            for problem in problems:
                self.assertIn('have no slots for that', problem.message)
                self.assertEqual(
                    'Lower A10-4Q to 2, or A10-6Q to 1, or list the GPU under '
                    'one of them only.',
                    problem.cure,
                )

    def test_what_can_be_placed(self) -> None:
        """Compared with trying all ways."""
        small = values.TypeSlots('s', None, 2, (0, 3, 4, 6))
        large = values.TypeSlots('l', None, 4, (0, 2, 5))
        for few in range(5):
            for many in range(4):
                wanted = ((small, few), (large, many))
                self.assertEqual(
                    any(
                        _are_apart(
                            [(at, 2) for at in first]
                            + [(at, 4) for at in second]
                        )
                        for first in itertools.combinations(small.starts, few)
                        for second in itertools.combinations(
                            large.starts, many
                        )
                    ),
                    slot_placing.can_place(wanted),
                    str((few, many)),
                )

    def test_many_types_on_many_slots(self) -> None:
        """A plan is made whenever a vGPU comes or goes: it must not take long.

        There are millions of ways to place some of these.
        """
        total = 96
        for counts, expected in (
            ({1: 10, 2: 8, 3: 6, 4: 3, 6: 2, 8: 2}, True),
            ({1: 3, 2: 2, 3: 9, 4: 7, 6: 3, 8: 2}, True),
            ({5: 1, 7: 13}, False),
        ):
            wanted = [
                (
                    values.TypeSlots(
                        f'{size} {series}',
                        None,
                        size,
                        tuple(range(0, total - size + 1, size)),
                    ),
                    count // 2 + count % 2 * number,
                )
                for size, count in counts.items()
                for number, series in enumerate('QC')
            ]
            begun = time.process_time()
            self.assertIs(expected, slot_placing.can_place(wanted))
            self.assertLess(time.process_time() - begun, 1)


def _are_apart(placed: list[tuple[int, int]]) -> bool:
    taken = [slot for at, size in placed for slot in range(at, at + size)]
    return len(taken) == len(set(taken))
