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

"""The traits of providers against the plan, and which may be removed."""

import testtools

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.publish import decision
from nova_vgpu.publish import providers
from nova_vgpu.publish import trait_sync
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans
from nova_vgpu.tests import trees

A40 = hosts.gpu('41:00.0', boards.A40, vfs=2)
HOST = hosts.make_host(
    A40,
    hosts.gpu('84:00.0', boards.T4),
    hosts.gpu('85:00.0', boards.T4),
    hosts.gpu('86:00.0', boards.T4, types_ready=False),
)
PLAN = plans.make_plan(
    values.Declaration(
        (
            values.DeclaredType('T4-2Q', 'x', ('84:00.0', '86:00.0')),
            values.DeclaredType('A40-8Q', 'x', ('41:00.0',)),
        ),
        values.UnlistedGPUs.IGNORE,
    ),
    HOST,
)
T4_2Q = 'CUSTOM_VGPU_TYPE_T4_2Q'
STALE = 'CUSTOM_VGPU_TYPE_T4_8C'
TARGET = providers.Target(PLAN, trees.NODE)


def diff(*below: values.PlacementProvider) -> values.Difference:
    return decision.decide(TARGET, trees.make_tree(trees.ROOT, *below))


def set_traits(found: values.Difference) -> dict[str, values.SetTraits]:
    return {
        change.name.removeprefix(f'{trees.NODE}_'): change
        for change in found.changes
        if isinstance(change, values.SetTraits)
    }


class TestTraits(testtools.TestCase):
    def test_a_provider_gets_what_its_gpu_serves(self) -> None:
        found = set_traits(diff(trees.held('pci_0000_84_00_0', VGPU=8)))
        self.assertEqual(['pci_0000_84_00_0'], list(found))
        change = found['pci_0000_84_00_0']
        self.assertIn(T4_2Q, change.added)
        self.assertIn('OWNER_NOVA', change.added)
        self.assertEqual((), change.removed)

    def test_custom_traits_are_made_first_and_each_once(self) -> None:
        found = diff(
            *(
                trees.held(address.node_device_name, VGPU=1)
                for address in A40.vf_addresses
            )
        )
        kinds = [type(change) for change in found.changes]
        made = kinds.count(values.CreateTrait)
        self.assertEqual([values.CreateTrait] * made, kinds[:made])
        self.assertEqual([values.SetTraits] * 2, kinds[made:])
        names = [
            change.name
            for change in found.changes
            if isinstance(change, values.CreateTrait)
        ]
        self.assertEqual(sorted(set(names)), names)
        self.assertIn('CUSTOM_VGPU_TYPE_A40_8Q', names)
        self.assertFalse([n for n in names if not n.startswith('CUSTOM_')])

    def test_functions_that_are_off_now_belong_to_their_gpu(self) -> None:
        beyond = values.Sriov(32, 4, 1).addresses(A40.address)[9]
        found = set_traits(diff(trees.held(beyond.node_device_name, VGPU=1)))
        self.assertIn(
            'CUSTOM_VGPU_TYPE_A40_8Q', found[beyond.node_device_name].added
        )

    def test_a_gpu_that_is_left_alone_loses_ours_alone(self) -> None:
        found = set_traits(
            diff(
                trees.held(
                    'pci_0000_85_00_0', 'OWNER_NOVA', 'CUSTOM_RACK', STALE
                )
            )
        )
        change = found['pci_0000_85_00_0']
        self.assertEqual(((), (STALE,)), (change.added, change.removed))

    def test_a_gpu_that_is_not_ready_keeps_what_it_has(self) -> None:
        found = diff(trees.held('pci_0000_86_00_0', STALE))
        self.assertEqual((), found.changes)

    def test_what_is_not_of_these_gpus_is_not_touched(self) -> None:
        found = diff(
            trees.held('pci_0000_99_00_0', STALE, VGPU=1),
            trees.held('0000:84:00.0', STALE, CUSTOM_PCI=1),
        )
        self.assertEqual((), found.changes)

    def test_a_gpu_without_a_provider_is_a_problem(self) -> None:
        found = diff(trees.held('pci_0000_84_00_0', VGPU=8))
        self.assertEqual(
            [('gpu-without-provider', '0000:41:00.0')],
            [(p.code, p.subject) for p in found.problems],
        )

    def test_without_a_root_it_is_refused(self) -> None:
        found = decision.decide(TARGET, trees.make_tree())
        self.assertTrue(found.refused)
        self.assertEqual((), found.changes)
        self.assertEqual('no-root-provider', found.problems[0].code)

    def test_a_standard_trait_that_placement_lacks_is_left_out(self) -> None:
        known = trees.KNOWN - {'HW_GPU_API_VULKAN'}
        provider = trees.held('pci_0000_84_00_0', VGPU=8)
        tree = values.PlacementTree(
            trees.NODE, (trees.ROOT, provider), known, trees.CLASSES
        )
        found = decision.decide(TARGET, tree)
        change = set_traits(found)['pci_0000_84_00_0']
        self.assertNotIn('HW_GPU_API_VULKAN', change.after)
        self.assertIn(T4_2Q, change.after)
        self.assertIn(
            ('trait-unknown', 'HW_GPU_API_VULKAN'),
            [(p.code, p.subject) for p in found.problems],
        )

    def test_only_providers_of_interest_are_to_be_read(self) -> None:
        names = trait_sync.list_names_of_interest(TARGET)
        self.assertIn('compute1_pci_0000_84_00_0', names)
        self.assertIn('compute1_pci_0000_41_00_4', names)
        self.assertIn('compute1_pci_0000_85_00_0', names)
        self.assertNotIn('compute1_pci_0000_86_00_0', names)
        self.assertNotIn('compute1', names)


T4 = hosts.make_gpu(hosts.gpu('84:00.0', boards.T4))
A40_GPU = hosts.make_gpu(A40)
VULKAN = 'HW_GPU_API_VULKAN'
UHD = 'HW_GPU_RESOLUTION_W7680H4320'

#: What it is about, the GPU, what there is, what is wanted, what is stale.
CASES: tuple[
    tuple[str, values.PhysicalGPU, set[str], set[str], set[str]], ...
] = (
    ('nothing there', T4, set(), {T4_2Q}, set()),
    ('all as wanted', T4, {T4_2Q, VULKAN}, {T4_2Q, VULKAN}, set()),
    ('ours by its prefix', T4, {'CUSTOM_GPU_ARCH_PASCAL'}, set(),
     {'CUSTOM_GPU_ARCH_PASCAL'}),
    ("an operator's own", T4, {'CUSTOM_RACK_7', 'CUSTOM_GPU'}, set(), set()),
    ('set by hand', T4, {VULKAN}, set(), set()),
    ('follows from the type before', T4, {T4_2Q, VULKAN, UHD}, set(),
     {T4_2Q, VULKAN, UHD}),
    ('wanted by the type now, too', T4, {T4_2Q, VULKAN}, {VULKAN}, {T4_2Q}),
    ('does not follow from the type before', T4, {STALE, VULKAN}, set(),
     {STALE}),
    ('of either type before', T4, {STALE, T4_2Q, VULKAN}, set(),
     {STALE, T4_2Q, VULKAN}),
    ('of a type that the GPU does not offer', A40_GPU, {T4_2Q, VULKAN}, set(),
     {T4_2Q, VULKAN}),
    ('only the driver would know', A40_GPU, {T4_2Q, UHD}, set(), {T4_2Q}),
    ('of a type that nobody knows', T4, {'CUSTOM_VGPU_TYPE_X', VULKAN},
     set(), {'CUSTOM_VGPU_TYPE_X'}),
    ("Nova's", T4, {'OWNER_NOVA', T4_2Q}, set(), {T4_2Q}),
)  # fmt: skip


class TestStale(testtools.TestCase):
    def test_table(self) -> None:
        for case, gpu, there, wanted, stale in CASES:
            self.assertEqual(
                stale, trait_sync.find_stale(gpu, there, wanted), case
            )

    def test_all_that_a_type_brought_goes_with_it(self) -> None:
        for gpu in (T4, A40_GPU):
            for vgpu_type in gpu.types:
                brought = {*capabilities.traits_of(gpu, vgpu_type)}
                self.assertEqual(
                    brought - {'OWNER_NOVA'},
                    trait_sync.find_stale(gpu, brought, ()),
                )


class TestForeign(testtools.TestCase):
    def test_table(self) -> None:
        for trait, foreign in (
            ('CUSTOM_RACK_7', True),
            ('COMPUTE_NODE', True),
            ('OWNER_NOVA', False),
            (T4_2Q, False),
            (VULKAN, False),
        ):
            self.assertEqual(foreign, trait_sync.is_foreign(trait), trait)


class TestTypeOfTrait(testtools.TestCase):
    def test_every_type_is_known_again_by_its_trait(self) -> None:
        for name in (
            'GRID T4-2Q',
            'NVIDIA A100-2-10C',
            'NVIDIA A100-1-5CME',
            'NVIDIA RTX6000-Ada-48Q',
            'NVIDIA RTX Pro 6000 Blackwell DC-4-96Q',
            'GRID T4-2B4',
        ):
            wanted = values.VGPUType('nvidia-1', name)
            trait = capabilities.trait_of_type(wanted)
            found = capabilities.type_of_trait(trait)
            assert found is not None
            self.assertEqual(
                capabilities.short_name(wanted), capabilities.short_name(found)
            )

    def test_others_are_none(self) -> None:
        for trait in ('CUSTOM_VGPU_TYPE_', 'CUSTOM_VGPU_TYPE_X', 'CUSTOM_8Q'):
            self.assertIsNone(capabilities.type_of_trait(trait), trait)
