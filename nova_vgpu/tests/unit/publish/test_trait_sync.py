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

"""The traits of Nova's providers against the plan."""

import testtools

from nova_vgpu import values
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


def diff(*providers: values.PlacementProvider) -> values.Difference:
    tree = trees.make_tree(trees.ROOT, *providers)
    return trait_sync.diff_traits(PLAN, tree)


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
        found = trait_sync.diff_traits(PLAN, trees.make_tree())
        self.assertTrue(found.refused)
        self.assertEqual((), found.changes)
        self.assertEqual('no-root-provider', found.problems[0].code)

    def test_a_standard_trait_that_placement_lacks_is_left_out(self) -> None:
        known = trees.KNOWN - {'HW_GPU_API_VULKAN'}
        provider = trees.held('pci_0000_84_00_0', VGPU=8)
        tree = values.PlacementTree(
            trees.NODE, (trees.ROOT, provider), known, trees.CLASSES
        )
        found = trait_sync.diff_traits(PLAN, tree)
        change = set_traits(found)['pci_0000_84_00_0']
        self.assertNotIn('HW_GPU_API_VULKAN', change.after)
        self.assertIn(T4_2Q, change.after)
        self.assertIn(
            ('trait-unknown', 'HW_GPU_API_VULKAN'),
            [(p.code, p.subject) for p in found.problems],
        )

    def test_only_providers_of_interest_are_to_be_read(self) -> None:
        names = trait_sync.list_names_of_interest(PLAN, trees.NODE)
        self.assertIn('compute1_pci_0000_84_00_0', names)
        self.assertIn('compute1_pci_0000_41_00_4', names)
        self.assertIn('compute1_pci_0000_85_00_0', names)
        self.assertNotIn('compute1_pci_0000_86_00_0', names)
        self.assertNotIn('compute1', names)
