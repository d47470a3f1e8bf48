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

"""GPU instances that exist, and what they make of types that need them."""

import dataclasses

import testtools

from nova_vgpu import values
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans

ON = values.GPUMode(True, True)
BLACKWELL = 'RTX Pro 6000 Blackwell DC'
#: Of each type: the profile, and how many vGPUs share one instance of it.
PROFILES = {
    'A100D-1-10C': (19, '1g.10gb', 1),
    'A100D-2-20C': (14, '2g.20gb', 1),
    'Z9-1-10C': (19, '1g.10gb', None),
    f'{BLACKWELL}-1-24Q': (47, '1g.24gb+gfx', 1),
    f'{BLACKWELL}-1-12Q': (47, '1g.24gb+gfx', 2),
    f'{BLACKWELL}-1-12A': (47, '1g.24gb+gfx', 2),
    f'{BLACKWELL}-1-8Q': (47, '1g.24gb+gfx', 3),
    f'{BLACKWELL}-2-48Q': (35, '2g.48gb+gfx', 1),
}
NUMBERS = {name: number for number, name in enumerate(PROFILES, 1)}
A100_80, RTX_PRO_6000, UNKNOWN = 0x20B5, 0x2BB5, 0xFFFF


def make_modes(
    instances: dict[str, int], *, shared: bool = True, named: bool = True
) -> values.GPUModes:
    """What NVML tells: the instances of each profile."""
    return values.GPUModes(
        mig=ON,
        mig_types=tuple(
            values.MigType(
                f'nvidia-{NUMBERS[name]}',
                f'NVIDIA {name}' if named else None,
                *(profile_id, profile, instances.get(profile, 0)),
                vgpus if shared else None,
            )
            for name, (profile_id, profile, vgpus) in PROFILES.items()
        ),
    )


def make_gpu(
    device: int, held: tuple[str, ...], offered: tuple[str, ...], vfs: int = 16
) -> values.PhysicalGPU:
    """The free functions of a GPU offer types, the others hold vGPUs."""
    found = []
    for index in range(vfs):
        address = values.PciAddress.parse(f'c1:{index // 8:02x}.{index % 8}')
        vgpus = tuple(
            values.VGPU(address.node_device_name, f'nvidia-{NUMBERS[name]}')
            for name in held[index : index + 1]
        )
        offers = tuple(
            values.Offer(
                values.VGPUType(f'nvidia-{NUMBERS[name]}', f'NVIDIA {name}'),
                1,
            )
            for name in offered
            if not vgpus
        )
        found.append(
            values.VirtualFunction(address, 'nvidia', offers, vgpus, True)
        )
    return values.PhysicalGPU(
        'pci_0000_c2_00_0',
        values.PciAddress.parse('c2:00.0'),
        values.PciIds(0x10DE, device),
        'nvidia',
        vfs=tuple(found),
    )


def make_plan(
    gpu: values.PhysicalGPU,
    wanted: str,
    modes: values.GPUModes,
    max_instances: int | None = None,
) -> values.Plan:
    declared = values.DeclaredType(
        wanted, f'vgpu_{wanted}', (str(gpu),), max_instances=max_instances
    )
    names = tuple(
        (f'nvidia-{number}', f'NVIDIA {name}')
        for name, number in NUMBERS.items()
    )
    assert gpu.address is not None
    return plans.make_plan(
        values.Declaration((declared,)),
        values.Host((gpu,), type_names=names),
        modes=values.ModesRead(((gpu.address, modes),)),
    )


class TestCapacity(testtools.TestCase):
    def count(
        self,
        device: int,
        wanted: str,
        modes: values.GPUModes,
        *held: str,
        vfs: int = 16,
        max_instances: int | None = None,
    ) -> tuple[int, str]:
        gpu = make_gpu(device, held, (wanted,), vfs)
        plan = make_plan(gpu, wanted, modes, max_instances)
        (assigned,) = plan.assignments
        assert assigned.capacity is not None
        return assigned.capacity.total, assigned.capacity.bound

    def test_what_exists(self) -> None:
        three = make_modes({'1g.10gb': 3})
        for case, found, expected in (
            (
                'seven would fit',
                self.count(A100_80, 'A100D-1-10C', three),
                (3, 'GPU instances'),
            ),
            (
                'fewer functions',
                self.count(A100_80, 'A100D-1-10C', three, vfs=2),
                (2, 'VFs'),
            ),
            (
                'fewer are wanted',
                self.count(A100_80, 'A100D-1-10C', three, max_instances=1),
                (1, 'max_instances'),
            ),
            (
                'of another profile',
                self.count(
                    *(A100_80, 'A100D-1-10C', three),
                    *['A100D-2-20C'] * 2,
                ),
                (3, 'GPU instances'),
            ),
            (
                'all have vGPUs',
                self.count(
                    *(A100_80, 'A100D-1-10C', three),
                    *['A100D-1-10C'] * 3,
                ),
                (3, 'GPU instances'),
            ),
            (
                'an instance went, its vGPU did not',
                self.count(
                    *(A100_80, 'A100D-1-10C', three),
                    *['A100D-1-10C'] * 4,
                ),
                (4, 'existing vGPUs'),
            ),
            (
                'a model never heard of',
                self.count(
                    UNKNOWN,
                    'Z9-1-10C',
                    dataclasses.replace(
                        three,
                        mig_types=tuple(
                            dataclasses.replace(t, vgpus=1)
                            for t in three.mig_types or ()
                        ),
                    ),
                ),
                (3, 'GPU instances'),
            ),
        ):
            self.assertEqual(expected, found, case)

    def test_several_vgpus_in_each_instance(self) -> None:
        own = f'{BLACKWELL}-1-12Q'
        modes = make_modes({'1g.24gb+gfx': 3, '2g.48gb+gfx': 1})
        for case, held, expected in (
            ('empty', [], 6),
            ('its own', [own], 6),
            ('the same size of another series', ['1-12A'], 5),
            ('another size has an instance', ['1-24Q'], 4),
            ('three share an instance', ['1-8Q'] * 3, 4),
            ('the fourth has another', ['1-8Q'] * 4, 2),
            ('two other sizes', ['1-8Q', '1-24Q'], 2),
            ('three of another size', ['1-24Q'] * 3, 0),
            ('more than there are instances', ['1-24Q'] * 4, 0),
            ('another profile', ['2-48Q'], 6),
        ):
            names = [
                name if name == own else f'{BLACKWELL}-{name}' for name in held
            ]
            found = self.count(RTX_PRO_6000, own, modes, *names)
            self.assertEqual((expected, 'GPU instances'), found, case)

    def test_how_many_share_an_instance_is_in_the_catalogue(self) -> None:
        """Drivers before 575 do not tell."""
        modes = make_modes({'1g.24gb+gfx': 3, '1g.10gb': 3}, shared=False)
        for device, wanted, held, expected in (
            (RTX_PRO_6000, f'{BLACKWELL}-1-12Q', (), 6),
            (RTX_PRO_6000, f'{BLACKWELL}-1-12Q', (f'{BLACKWELL}-1-8Q',), 4),
            (A100_80, 'A100D-1-10C', (), 3),
        ):
            total, bound = self.count(device, wanted, modes, *held)
            self.assertEqual((expected, 'GPU instances'), (total, bound))
        # Nothing is guessed of another model.
        self.assertEqual((1, 'memory'), self.count(UNKNOWN, 'Z9-1-10C', modes))

    def test_what_nvml_does_not_tell(self) -> None:
        """The catalogue has what fits on the GPU, as without NVML."""
        for modes in (
            values.GPUModes(),
            values.GPUModes(mig=ON),
            values.GPUModes(mig=ON, mig_types=()),
        ):
            self.assertEqual(
                (7, 'type maximum'), self.count(A100_80, 'A100D-1-10C', modes)
            )


class TestDividedGPU(testtools.TestCase):
    """Types that list a GPU with numbers."""

    def plan(
        self, modes: values.GPUModes, *held: str, **numbers: int
    ) -> list[tuple[str, int, str]]:
        """Type, total and bound; only the first type is shown by the GPU."""
        types = [f'{BLACKWELL}-1-{size}' for size in numbers]
        gpu = make_gpu(RTX_PRO_6000, held, (types[0],))
        declared = tuple(
            values.DeclaredType(name, f'vgpu_{name}', (f'{gpu}={count}',))
            for name, count in zip(types, numbers.values(), strict=True)
        )
        assert gpu.address is not None
        self.found = plans.make_plan(
            values.Declaration(declared),
            values.Host((gpu,)),
            modes=values.ModesRead(((gpu.address, modes),)),
        )
        return [
            (a.declared.name, a.capacity.total, a.capacity.bound)
            for a in self.found.assignments
            if a.capacity
        ]

    def problems(self) -> list[str]:
        return [
            problem.code
            for problem in self.found.problems
            if problem.code != 'type-not-offered'
        ]

    def test_what_others_are_to_have_is_not_free(self) -> None:
        """They need an instance of their own, whether it has vGPUs or not."""
        own = f'{BLACKWELL}-1-12Q'
        modes = make_modes({'1g.24gb+gfx': 3})
        self.assertEqual(
            [(own, 4, 'share')],
            self.plan(modes, **{'12Q': 4, '8Q': 3}),
        )
        self.assertEqual([], self.problems())
        self.assertEqual(
            [(own, 2, 'GPU instances')],
            self.plan(modes, **{'12Q': 3, '8Q': 4}),
        )
        self.assertEqual(['too-few-gpu-instances'], self.problems())

    def test_fewer_instances_than_are_written(self) -> None:
        own = f'{BLACKWELL}-1-12Q'
        self.assertEqual(
            [(own, 2, 'GPU instances')],
            self.plan(make_modes({'1g.24gb+gfx': 1}), **{'12Q': 5}),
        )
        (problem,) = self.found.problems
        self.assertEqual('too-few-gpu-instances', problem.code)
        self.assertEqual(values.Severity.WARNING, problem.severity)
        for words in ('5 vGPUs', '1g.24gb+gfx', 'room for 2'):
            self.assertIn(words, problem.message)
        self.assertIn('-cgi 47 -C', problem.cure)

    def test_numbers_that_never_fit(self) -> None:
        """Creating instances would not help."""
        self.plan(make_modes({'1g.24gb+gfx': 3}), **{'12Q': 6, '8Q': 4})
        self.assertEqual(['shares-do-not-fit'], self.problems())

    def test_none_is_left_until_apply_creates_them(self) -> None:
        modes = make_modes({'1g.24gb+gfx': 1})
        self.assertEqual(
            [(f'{BLACKWELL}-1-12Q', 0, 'GPU instances')],
            self.plan(modes, **{'12Q': 2, '8Q': 3}),
        )
        (problem,) = (p for p in self.found.problems if p.code == 'no-room')
        self.assertIn('Run "nova-vgpu apply"', problem.cure)


class TestProblems(testtools.TestCase):
    def find(
        self,
        modes: values.GPUModes,
        *held: str,
        offered: tuple[str, ...] = ('A100D-1-10C',),
        wanted: str = 'A100D-1-10C',
    ) -> dict[str, values.Problem]:
        gpu = make_gpu(A100_80, held, offered)
        plan = make_plan(gpu, wanted, modes)
        self.plan = plan
        return {problem.code: problem for problem in plan.problems}

    def test_a_maximum_that_is_known(self) -> None:
        self.assertEqual({}, self.find(make_modes({'1g.10gb': 3})))

    def test_a_maximum_that_is_not_known(self) -> None:
        for modes in (
            values.GPUModes(),
            values.GPUModes(mig=ON, mig_types=()),
        ):
            self.assertEqual({'maximum-unknown'}, {*self.find(modes)})

    def test_without_an_instance_of_the_profile(self) -> None:
        """Whether the driver shows the type or not."""
        for case, named, offered, wanted in (
            ('no types', True, (), 'A100D-1-10C'),
            ('no types, by id', True, (), 'nvidia-1'),
            ('other types', True, ('A100D-2-20C',), 'A100D-1-10C'),
            ('the type', True, ('A100D-1-10C',), 'A100D-1-10C'),
            ('a name from elsewhere', False, (), 'A100D-1-10C'),
        ):
            modes = make_modes({'2g.20gb': 2}, named=named)
            found = self.find(modes, offered=offered, wanted=wanted)
            self.assertEqual({'no-gpu-instance'}, {*found}, case)
            problem = found['no-gpu-instance']
            self.assertEqual(values.Severity.ERROR, problem.severity, case)
            self.assertEqual(frozenset(), self.plan.serving, case)
            for words in ('0000:c2:00.0', '1g.10gb', 'A100D-1-10C'):
                self.assertIn(words, problem.message, case)
            self.assertIn(
                'nvidia-smi mig -i 0000:c2:00.0 -cgi 19 -C', problem.cure
            )

    def test_instances_with_vgpus_of_another_size(self) -> None:
        modes = make_modes({'1g.24gb+gfx': 1})
        gpu = make_gpu(
            RTX_PRO_6000, (f'{BLACKWELL}-1-24Q',), (f'{BLACKWELL}-1-12Q',)
        )
        plan = make_plan(gpu, f'{BLACKWELL}-1-12Q', modes)
        (problem,) = plan.problems
        self.assertEqual('no-room', problem.code)
        self.assertIn('repartition', problem.cure)

    def test_other_obstacles_come_first(self) -> None:
        gpu = dataclasses.replace(
            make_gpu(A100_80, (), (), vfs=0), sriov=values.Sriov(16, 4, 1)
        )
        plan = make_plan(gpu, 'A100D-1-10C', make_modes({}))
        self.assertEqual(['vfs-off'], [p.code for p in plan.problems])

    def test_a_type_that_shares_time(self) -> None:
        """Its capacity is what it was; the mode is another problem."""
        gpu = hosts.make_gpu(hosts.gpu('c2:00.0', boards.A100D, vfs=16))
        plan = make_plan(gpu, 'A100D-20C', make_modes({'1g.10gb': 3}))
        self.assertEqual(['mig-on'], [p.code for p in plan.problems])
        (assigned,) = plan.assignments
        assert assigned.capacity is not None
        self.assertEqual(4, assigned.capacity.total)
