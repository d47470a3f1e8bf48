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

"""GPU instances that several vGPUs share, and those that may be removed."""

import dataclasses

import testtools

from nova_vgpu import values
from nova_vgpu.reconcile import gpu_instance_steps
from nova_vgpu.reconcile import gpu_steps
from nova_vgpu.reconcile import policy
from nova_vgpu.tests import plans
from nova_vgpu.tests.unit.plan import test_mig_capacity as gpus

SMALL, LARGE = '1g.24gb+gfx', '2g.48gb+gfx'
PROFILES = (
    values.GPUInstanceProfile(47, SMALL, 1, 24192, 4),
    values.GPUInstanceProfile(35, LARGE, 2, 48512, 2),
    values.GPUInstanceProfile(32, '4g.96gb+gfx', 4, 97280, 1),
)


def make_modes(*instances: values.GPUInstance) -> values.GPUModes:
    counts = {
        profile.name: sum(i.profile_id == profile.id for i in instances)
        for profile in PROFILES
    }
    return dataclasses.replace(
        gpus.make_modes(counts),
        gpu_instances=values.GPUInstances(PROFILES, instances),
    )


def make_small(
    number: int, is_used: bool | None, vgpus: int = 0
) -> values.GPUInstance:
    return values.GPUInstance(number, 47, is_used, vgpus)


class TestNeeds(testtools.TestCase):
    def plan(
        self, *held: str, modes: values.GPUModes, **numbers: int
    ) -> list[str]:
        """The steps, of types by their sizes; the GPU has these vGPUs."""
        types = [f'{gpus.BLACKWELL}-{size}' for size in numbers]
        names = [f'{gpus.BLACKWELL}-{size}' for size in held]
        gpu = gpus.make_gpu(gpus.RTX_PRO_6000, tuple(names), tuple(types))
        assert gpu.address is not None
        declaration = values.Declaration(
            tuple(
                values.DeclaredType(name, f'vgpu_{name}', (f'{gpu}={count}',))
                for name, count in zip(types, numbers.values(), strict=True)
            )
        )
        made = plans.make_plan(
            declaration,
            values.Host((gpu,)),
            modes=values.ModesRead(((gpu.address, modes),)),
        )
        (found,) = gpu_steps.plan_steps(
            made,
            {},
            values.Usage(),
            policy.for_apply(values.Creation.ON_DEMAND),
            lambda: 'new',
        )
        return [
            f'{step.profile}: {step.before} -> {step.after}'
            for step in found.steps
            if isinstance(step, values.SetGPUInstances)
        ]

    def test_vgpus_of_one_size_share_instances(self) -> None:
        for numbers, expected in (
            ({'1-12Q': 1}, [f'{SMALL}: 0 -> 1']),
            ({'1-12Q': 2}, [f'{SMALL}: 0 -> 1']),
            ({'1-12Q': 3}, [f'{SMALL}: 0 -> 2']),
            # Series may differ, sizes may not.
            ({'1-12Q': 1, '1-12A': 1}, [f'{SMALL}: 0 -> 1']),
            ({'1-12Q': 1, '1-8Q': 1}, [f'{SMALL}: 0 -> 2']),
            ({'1-12Q': 4, '1-8Q': 4}, [f'{SMALL}: 0 -> 4']),
            (
                {'1-8Q': 3, '2-48Q': 1},
                [f'{LARGE}: 0 -> 1', f'{SMALL}: 0 -> 1'],
            ),
        ):
            found = self.plan(modes=make_modes(), **numbers)
            self.assertEqual(expected, found, str(numbers))

    def test_vgpus_that_stay_need_theirs(self) -> None:
        modes = make_modes(make_small(1, True, 1))
        self.assertEqual(
            [f'{SMALL}: 1 -> 2'],
            self.plan('1-12Q', modes=modes, **{'1-12Q': 1, '1-8Q': 1}),
        )

    def test_what_is_missing_is_not_more_than_there_is_room_for(self) -> None:
        """Slices or memory are in use."""
        used = values.GPUInstance(1, 35, True)
        small, large, whole = PROFILES
        for slices, memory_mib, expected in (
            (2, 48512, 2),
            (1, 73000, 1),
            (3, 1000, 1),
        ):
            other = dataclasses.replace(
                large, slices=slices, memory_mib=memory_mib
            )
            modes = dataclasses.replace(
                make_modes(),
                gpu_instances=values.GPUInstances(
                    (small, other, whole), (used,)
                ),
            )
            found = self.plan(modes=modes, **{'1-24Q': 4})
            self.assertEqual([f'{SMALL}: 0 -> {expected}'], found)


class TestRemovable(testtools.TestCase):
    def find(self, *held: str, modes: values.GPUModes) -> set[int]:
        names = tuple(f'{gpus.BLACKWELL}-{size}' for size in held)
        gpu = gpus.make_gpu(gpus.RTX_PRO_6000, names, ())
        return {*gpu_instance_steps.list_removable(gpu, modes)}

    def test_by_their_use(self) -> None:
        idle, used = make_small(1, False), make_small(2, True, 1)
        large = values.GPUInstance(3, 35, False)
        for case, held, instances, expected in (
            ('idle', (), (idle,), {1}),
            ('used', (), (used,), set()),
            ('unknown', (), (make_small(1, None),), set()),
            ('beside one that is used', ('1-12Q',), (idle, used), {1}),
            ('a vGPU that NVML does not show', ('1-12Q',), (idle,), set()),
            ('one more', ('1-12Q', '1-12Q'), (idle, used), set()),
            ('of another profile', ('1-12Q',), (idle, large), {3}),
        ):
            found = self.find(*held, modes=make_modes(*instances))
            self.assertEqual(expected, found, case)

    def test_vgpus_of_a_type_that_nvml_does_not_know(self) -> None:
        """They may be on any instance."""
        modes = make_modes(make_small(1, False))
        modes = dataclasses.replace(modes, mig_types=())
        self.assertEqual(set(), self.find('1-12Q', modes=modes))
