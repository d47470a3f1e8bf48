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

"""VF profiles of Intel GPUs: what a declared name means on a card."""

import dataclasses

import testtools

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans

B60 = '0000:03:00.0'
GIB = 1 << 30


def quotas(*gib: int) -> tuple[tuple[str, int, int], ...]:
    return tuple(
        ('vram_quota', vf, each * GIB) for vf, each in enumerate(gib, 1)
    )


def b60(vfs: int = 0, **changes: object) -> simulation.GPU:
    card = hosts.gpu(B60, boards.ARC_PRO_B60, vfs=vfs)
    return dataclasses.replace(card, **changes)  # type: ignore[arg-type]


def declare(name: str, **options: int) -> values.Declaration:
    group = f'vgpu_{name}'
    return values.Declaration(
        (values.DeclaredType(name, group, (B60,), **options),)  # type: ignore[arg-type]
    )


def make_plan(card: simulation.GPU, name: str, **options: int) -> values.Plan:
    return plans.make_plan(declare(name, **options), hosts.make_host(card))


class TestNames(testtools.TestCase):
    def test_names_of_profiles(self) -> None:
        for text, expected in (
            ('B60-1of4', ('B60', 4, None)),
            ('b60-1OF4', ('b60', 4, None)),
            ('Flex 170-1of2', ('Flex 170', 2, None)),
            ('B60-6G', ('B60', None, 6144)),
            ('B60-2of4', None),
            ('B60-1of0', None),
            ('B60-0G', None),
            ('B60', None),
            ('-1of4', None),
            ('A40-8Q', None),
            ('i915-GVTg_V5_4', None),
        ):
            profile = capabilities.parse_vf_profile(text)
            found = profile and (
                profile.model,
                profile.count,
                profile.vram_mib,
            )
            self.assertEqual(expected, found, text)

    def test_a_trait_names_a_profile(self) -> None:
        for name in ('B60-1of4', 'B60-6G'):
            profile = values.VGPUType(name)
            trait = capabilities.trait_of_type(profile)
            self.assertEqual(profile, capabilities.type_of_trait(trait))

    def test_no_profile_is_a_type_of_another_vendor(self) -> None:
        for text in ('B60-1of4', 'B60-6G'):
            self.assertIsNone(capabilities.parse_type_name(text))
            vendor = capabilities.vendor_of_type(text)
            assert vendor is not None
            self.assertEqual('Intel', vendor.name)


class TestServing(testtools.TestCase):
    """A card whose functions are as declared serves all of them."""

    def assert_serves(
        self, number: int, card: simulation.GPU, name: str, **options: int
    ) -> values.Assignment:
        plan = make_plan(card, name, **options)
        self.assertEqual((), plan.problems)
        (assigned,) = plan.assignments
        assert assigned.capacity is not None and assigned.type is not None
        self.assertEqual(number, assigned.capacity.total)
        self.assertEqual(values.Framework.VF_PROFILES, assigned.gpu.framework)
        self.assertEqual(number, len(assigned.gpu.all_vgpus))
        return assigned

    def test_equal_functions(self) -> None:
        for case, card in (
            ('by the driver', b60(4, profile=quotas(6, 6, 6, 6))),
            ('before Linux 7.0', b60(4, admin=())),
        ):
            assigned = self.assert_serves(4, card, 'b60-1OF4')
            assert assigned.type is not None
            self.assertEqual('B60-1of4', str(assigned.type), case)

    def test_quotas(self) -> None:
        for number, card, options in (
            (3, b60(3, profile=quotas(6, 6, 6)), {}),
            (2, b60(2, profile=quotas(6, 6)), {'max_instances': 2}),
        ):
            self.assert_serves(number, card, 'B60-6G', **options)

    def test_a_limit_leaves_functions_unused(self) -> None:
        """All of them are there, and no server has them for that."""
        card = b60(4, profile=quotas(6, 6, 6, 6))
        for most, expected in (
            (2, (2, 'max_instances')),
            (4, (4, 'VFs')),
            (9, (4, 'VFs')),
        ):
            plan = make_plan(card, 'B60-1of4', max_instances=most)
            self.assertEqual((), plan.problems)
            counted = plan.assignments[0].capacity
            assert counted is not None
            self.assertEqual(expected, (counted.total, counted.bound))

    def test_a_model_that_is_not_known_is_what_the_operator_calls_it(
        self,
    ) -> None:
        card = hosts.gpu(B60, boards.UHD_770, vfs=7)
        self.assert_serves(7, card, 'UHD770-1of7')

    def test_scheduling_that_is_not_set_yet(self) -> None:
        """Servers need not wait for it: apply sets it beside them."""
        self.assert_serves(4, b60(4), 'B60-1of4', exec_quantum_ms=20)

    def test_functions_that_are_listed(self) -> None:
        declared = values.DeclaredType(
            'B60-1of4', 'vgpu_B60-1of4', ('03:00.1', '03:00.3')
        )
        plan = plans.make_plan(
            values.Declaration((declared,)), hosts.make_host(b60(4))
        )
        (assigned,) = plan.assignments
        assert assigned.capacity is not None
        self.assertEqual(2, assigned.capacity.total)

    def test_functions_on_vfio_pci_are_right(self) -> None:
        for driver in ('vfio-pci', 'xe-vfio-pci', 'xe'):
            card = b60(4, vf_driver=driver)
            self.assert_serves(4, card, 'B60-1of4')

    def test_the_provider(self) -> None:
        plan = make_plan(b60(3, profile=quotas(6, 6, 6)), 'B60-6G')
        (provider,) = plans.list_providers(plan, 'node')
        self.assertEqual('node_pci_0000_03_00_0', provider.name)
        self.assertEqual(3, provider.total)
        self.assertEqual(
            (
                'CUSTOM_GPU_MODEL_B60',
                'CUSTOM_GPU_VENDOR_INTEL',
                'CUSTOM_VGPU_FRAMEBUFFER_6G',
                'CUSTOM_VGPU_TYPE_B60_6G',
                'OWNER_NOVA',
            ),
            provider.traits,
        )
        plan = make_plan(b60(4, profile=quotas(6, 6, 6, 6)), 'B60-1of4')
        (provider,) = plans.list_providers(plan, 'node')
        self.assertIn('CUSTOM_VGPU_TYPE_B60_1OF4', provider.traits)
        self.assertIn('CUSTOM_VGPU_FRAMEBUFFER_6G', provider.traits)

    def test_one_that_no_type_lists_is_left_alone(self) -> None:
        declaration = values.Declaration(
            (values.DeclaredType('B60-1of4', 'vgpu_B60-1of4'),)
        )
        plan = plans.make_plan(declaration, hosts.make_host(b60(4)))
        self.assertEqual((), plan.assignments)


class TestObstacles(testtools.TestCase):
    """Every problem names the GPU, the option and the cure."""

    def test_why_a_card_does_not_serve(self) -> None:
        apply = 'Run "nova-vgpu apply", which provisions them.'
        for code, card, name, options, finding, cure in (
            (
                'not-provisioned',
                b60(),
                'B60-1of4',
                {},
                'its VFs are not enabled (0 of 12)',
                apply,
            ),
            (
                'not-provisioned',
                b60(2, profile=quotas(12, 12)),
                'B60-1of4',
                {},
                'it has 2 of 12288 MiB and is to have 4',
                apply,
            ),
            (
                'not-provisioned',
                b60(4, profile=quotas(6, 6, 6, 4)),
                'B60-1of4',
                {},
                'it has 4 of 4096 and 6144 MiB and is to have 4',
                apply,
            ),
            (
                'not-provisioned',
                b60(3, profile=quotas(8, 8, 8)),
                'B60-6G',
                {},
                'it has 3 of 8192 MiB and is to have 3 of 6144 MiB',
                apply,
            ),
            (
                'vf-profile-unsupported',
                b60(4, admin=()),
                'B60-6G',
                {},
                'its driver has no quotas of memory',
                'Declare equal VFs, such as 1of4, instead.',
            ),
            (
                'vf-profile-unsupported',
                b60(4, admin=()),
                'B60-1of4',
                {'preempt_timeout_us': 1},
                'its driver does not show preempt_timeout_us',
                'Remove [vgpu_B60-1of4]preempt_timeout_us.',
            ),
            (
                'vf-profile-unsupported',
                b60(driver='vfio-pci'),
                'B60-1of4',
                {},
                'its driver, vfio-pci, does not provision VFs',
                'Bind it to its own driver, xe.',
            ),
            (
                'vf-profile-count',
                b60(),
                'B60-1of24',
                {},
                'it would have 24 VFs, and has 12 at most',
                'Declare another VF profile.',
            ),
            (
                'vf-profile-count',
                b60(),
                'B60-24G',
                {},
                'it would have 0 VFs',
                'Declare another VF profile.',
            ),
            (
                'type-not-offered',
                b60(),
                'B50-1of4',
                {},
                'it is of model B60',
                'Remove its address from [vgpu_B50-1of4]device_addresses.',
            ),
        ):
            plan = make_plan(card, name, **options)
            (problem,) = plan.problems
            self.assertEqual(code, problem.code, finding)
            self.assertEqual(values.Severity.ERROR, problem.severity)
            self.assertEqual(B60, problem.subject)
            self.assertIn(f'[vgpu_{name}]', problem.message)
            self.assertIn(finding, problem.message)
            self.assertEqual(cure, problem.cure)
            self.assertEqual([], plans.list_providers(plan, 'node'))

    def test_the_number_behind_the_address(self) -> None:
        """It says how many quotas there are, and all of them are served."""
        for name, listed, code in (
            ('B60-6G', f'{B60}=2', None),
            ('B60-1of2', f'{B60}=2', None),
            ('B60-1of2', f'{B60}=1', 'vf-profile-count'),
        ):
            declared = values.DeclaredType(name, f'vgpu_{name}', (listed,))
            card = b60(2, profile=quotas(6, 6))
            plan = plans.make_plan(
                values.Declaration((declared,)), hosts.make_host(card)
            )
            codes = [problem.code for problem in plan.problems]
            self.assertEqual([code] if code else [], codes, listed)

    def test_several_types_on_one_card(self) -> None:
        declaration = values.Declaration(
            tuple(
                values.DeclaredType(name, f'vgpu_{name}', (f'{B60}=2',))
                for name in ('B60-6G', 'B60-8G')
            )
        )
        plan = plans.make_plan(
            declaration, hosts.make_host(b60(2, profile=quotas(6, 6)))
        )
        self.assertEqual([], plans.list_providers(plan, 'node'))
        messages = [p.message for p in plan.problems]
        self.assertIn('B60-8G is declared for it, too', messages[0])

    def test_several_types_on_one_card_without_numbers(self) -> None:
        """The cure is not to write some, and each has its address."""
        for listed in (B60, '0000:03:00.1'):
            declaration = values.Declaration(
                tuple(
                    values.DeclaredType(name, f'vgpu_{name}', (listed,))
                    for name in ('B60-6G', 'B60-1of4')
                )
            )
            plan = plans.make_plan(declaration, hosts.make_host(b60(4)))
            (problem,) = plan.problems
            self.assertEqual('gpu-under-two-types', problem.code)
            self.assertEqual(
                'Its VFs have one profile: list it under one type.',
                problem.cure,
            )

    def test_functions_that_nova_assigns(self) -> None:
        """Those of [pci]device_spec are not given twice."""
        spec = values.PciDeviceSpec(
            '[pci]device_spec',
            '{"address": "0000:03:00.2"}',
            address=('0000', '03', '00', '2'),
            is_single=True,
        )
        declaration = dataclasses.replace(
            declare('B60-1of4'), pci_devices=(spec,)
        )
        plan = plans.make_plan(declaration, hosts.make_host(b60(4)))
        (assigned,) = plan.assignments
        self.assertEqual({'pci_0000_03_00_2'}, assigned.pci_devices)
        assert assigned.capacity is not None
        self.assertEqual(3, assigned.capacity.total)
        self.assertNotEqual((), plan.problems)

    def test_how_many_quotas_an_unknown_model_has_room_for(self) -> None:
        board = dataclasses.replace(boards.ARC_PRO_B60, device=0xE2FF)
        plan = make_plan(hosts.gpu(B60, board), 'B70-8G')
        (problem,) = plan.problems
        self.assertEqual('vf-profile-count', problem.code)
        self.assertIn('max_instances', problem.cure)
        plan = make_plan(hosts.gpu(B60, board), 'B70-8G', max_instances=4)
        (problem,) = plan.problems
        self.assertEqual('not-provisioned', problem.code)

    def test_options_that_only_profile_have(self) -> None:
        plan = make_plan(
            hosts.gpu(B60, boards.A40, vfs=32), 'A40-8Q', exec_quantum_ms=20
        )
        (problem,) = plan.problems
        self.assertEqual('vf-profile-option', problem.code)
        self.assertEqual(values.Severity.WARNING, problem.severity)
        self.assertIn('[vgpu_A40-8Q]exec_quantum_ms', problem.message)

    def test_a_profile_of_a_gpu_of_another_vendor(self) -> None:
        plan = make_plan(hosts.gpu(B60, boards.A40, vfs=32), 'B60-1of4')
        (problem,) = plan.problems
        self.assertEqual('type-not-offered', problem.code)
        self.assertIn('is a type of Intel', problem.message)
