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

"""VF profiles of AMD GPUs: what GIM enabled, against what is declared."""

import dataclasses

import testtools

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.knowledge import whole_gpu_names
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans

GPU = '0000:0c:00.0'
OTHER = '0000:22:00.0'
ONE = hosts.mi300x(GPU, 1, 'SPX/NPS1')
EIGHT = hosts.mi300x(GPU)
RELOAD = (
    ', and reload the driver while no server has a VF of its GPUs: modprobe '
    '-r gim; modprobe gim.'
)
FREE = 'while no server has a VF of it, or of a GPU that XGMI connects to it: '
SET = f'amd-smi set --gpu={GPU}'


def make_plan(
    name: str, *cards: simulation.GPU, **options: object
) -> values.Plan:
    declared = values.DeclaredType(
        name,
        f'vgpu_{name}',
        (GPU,),
        **options,  # type: ignore[arg-type]
    )
    return plans.make_plan(
        values.Declaration((declared,)), hosts.make_host(*cards)
    )


class TestNames(testtools.TestCase):
    def test_names_of_profiles(self) -> None:
        for text, expected in (
            ('MI300X-1of8', 'MI300X-1of8'),
            ('mi300x-1OF1', 'MI300X-1of1'),
            ('MI210-1of1', 'MI210-1of1'),
            ('V710-1of12', 'V710-1of12'),
            ('MI300X-1of0', None),
            ('MI300X-24G', None),
            ('MI300X-2of8', None),
            ('MI300X', None),
        ):
            profile = capabilities.parse_vf_profile(text)
            self.assertEqual(expected, profile and profile.name, text)
            if expected:
                vendor = capabilities.vendor_of_type(text)
                self.assertEqual('AMD', vendor and vendor.name, text)
                trait = capabilities.trait_of_type(values.VGPUType(expected))
                self.assertEqual(
                    values.VGPUType(expected),
                    capabilities.type_of_trait(trait),
                )

    def test_whole_gpus_are_called_as_before(self) -> None:
        """Flavors and aliases have these names."""
        for board, alias in (
            (boards.INSTINCT_MI300X, 'gpu-1002-74a1'),
            (boards.ARC_PRO_B60, 'gpu-8086-e211'),
        ):
            ids = values.PciIds(board.vendor, board.device)
            names = whole_gpu_names.name_ids(ids)
            self.assertEqual(alias, names.alias)
            self.assertEqual(names, whole_gpu_names.find_by_alias(alias))


class TestServing(testtools.TestCase):
    """A card as it is declared has one vGPU for each function."""

    def test_as_it_is_declared(self) -> None:
        for case, card, name, options, number in (
            ('eight', EIGHT, 'MI300X-1of8', {}, 8),
            ('spelling', EIGHT, 'mi300x-1OF8', {'partition': 'cpx/nps4'}, 8),
            ('one', ONE, 'MI300X-1of1', {'partition': 'SPX/NPS1'}, 1),
            (
                'any partition, if none is declared',
                hosts.mi300x(GPU, 8, ''),
                'MI300X-1of8',
                {},
                8,
            ),
            (
                'what is there is possible',
                hosts.mi300x(GPU, 4, ''),
                'MI300X-1of4',
                {},
                4,
            ),
            (
                'VFs that libvirt bound',
                dataclasses.replace(EIGHT, vf_driver='vfio-pci'),
                'MI300X-1of8',
                {},
                8,
            ),
        ):
            plan = make_plan(name, card, **options)
            self.assertEqual((), plan.problems, case)
            (provider,) = plans.list_providers(plan, 'node')
            self.assertEqual(number, provider.total, case)

    def test_the_provider(self) -> None:
        (provider,) = plans.list_providers(
            make_plan('MI300X-1of8', EIGHT), 'node'
        )
        self.assertEqual('node_pci_0000_0c_00_0', provider.name)
        self.assertEqual(
            (
                'CUSTOM_GPU_MODEL_MI300X',
                'CUSTOM_GPU_VENDOR_AMD',
                'CUSTOM_VGPU_TYPE_MI300X_1OF8',
                'OWNER_NOVA',
            ),
            provider.traits,
        )

    def test_one_that_no_type_lists_is_left_alone(self) -> None:
        other = hosts.mi300x(OTHER)
        plan = make_plan('MI300X-1of8', EIGHT, other)
        self.assertEqual([GPU], [str(a.gpu) for a in plan.assignments])
        self.assertEqual([OTHER], [str(left.gpu) for left in plan.left_alone])


class TestDifferences(testtools.TestCase):
    """Each problem names the GPU, the option, what was found and the cure."""

    def assert_problem(
        self, plan: values.Plan, code: str, finding: str, cure: str
    ) -> None:
        (problem,) = plan.problems
        self.assertEqual(code, problem.code, finding)
        self.assertEqual(values.Severity.ERROR, problem.severity)
        self.assertEqual(GPU, problem.subject)
        self.assertIn(finding, problem.message)
        self.assertEqual(cure, problem.cure)
        self.assertEqual([], plans.list_providers(plan, 'node'))

    def test_the_number_of_vfs(self) -> None:
        for card, name, finding, number in (
            (
                ONE,
                'MI300X-1of8',
                'it has 1 VF in partition SPX/NPS1 and is to have 8 VFs.',
                8,
            ),
            (
                EIGHT,
                'MI300X-1of1',
                'it has 8 VFs in partition CPX/NPS4 and is to have 1 VF.',
                1,
            ),
            (
                hosts.mi300x(GPU, 0, ''),
                'MI300X-1of8',
                'it has 0 VFs and is to have 8 VFs.',
                8,
            ),
        ):
            self.assert_problem(
                make_plan(name, card),
                'vfs-differ',
                finding,
                f'Write "options gim vf_num={number}" to '
                f'/etc/modprobe.d/gim.conf{RELOAD}',
            )

    def test_one_number_for_each_gpu_of_the_driver(self) -> None:
        order = (
            ' (one number for each GPU that gim finds, in the order of the '
            f'bus: {GPU}, {OTHER})'
        )
        unbound = dataclasses.replace(
            hosts.mi300x('0000:01:00.0'), driver=None
        )
        for case, other, option in (
            ('another one', hosts.mi300x(OTHER, 1, ''), ('8,1', order)),
            ('with that number', hosts.mi300x(OTHER), ('8', '')),
            ('without VFs', hosts.mi300x(OTHER, 0, ''), ('8,1', order)),
        ):
            plan = make_plan('MI300X-1of8', other, ONE, unbound)
            (problem,) = plan.problems
            numbers, where = option
            self.assertEqual(
                f'Write "options gim vf_num={numbers}" to '
                f'/etc/modprobe.d/gim.conf{where}{RELOAD}',
                problem.cure,
                case,
            )

    def test_the_partition(self) -> None:
        option = '[vgpu_MI300X-1of8]partition'
        self.assert_problem(
            make_plan(
                'MI300X-1of8',
                hosts.mi300x(GPU, 8, 'CPX/NPS1'),
                partition='CPX/NPS4',
            ),
            'vfs-differ',
            'it has 8 VFs in partition CPX/NPS1 and is to have 8 VFs in '
            f'partition CPX/NPS4 ({option})',
            f'Partition it {FREE}{SET} --memory-partition=NPS4.',
        )
        self.assert_problem(
            make_plan('MI300X-1of1', ONE, partition='CPX/NPS1'),
            'vfs-differ',
            'it has 1 VF in partition SPX/NPS1 and is to have 1 VF in '
            'partition CPX/NPS1',
            f'Partition it {FREE}{SET} --accelerator-partition=1.',
        )

    def test_both(self) -> None:
        """Indexes of partitions depend on the number of VFs."""
        self.assert_problem(
            make_plan('MI300X-1of8', ONE, partition='CPX/NPS4'),
            'vfs-differ',
            'it has 1 VF in partition SPX/NPS1 and is to have 8 VFs in '
            'partition CPX/NPS4',
            'Write "options gim vf_num=8" to /etc/modprobe.d/gim.conf'
            f'{RELOAD} Then partition it {FREE}{SET} --memory-partition=NPS4; '
            f'{SET} --accelerator-partition=INDEX ("amd-smi partition '
            f'--gpu={GPU} --accelerator" shows the index of CPX).',
        )

    def test_what_cannot_be(self) -> None:
        for code, card, name, options, finding, cure in (
            (
                'vf-profile-count',
                EIGHT,
                'MI300X-1of4',
                {},
                'it would have 4 VFs, and a MI300X has 1 or 8',
                'Declare MI300X-1of1 or MI300X-1of8.',
            ),
            (
                'vf-profile-count',
                EIGHT,
                'MI300X-1of16',
                {},
                'it would have 16 VFs, and has 8 at most',
                'Declare another VF profile.',
            ),
            (
                'type-not-offered',
                EIGHT,
                'MI325X-1of1',
                {},
                'it is of model MI300X',
                'Remove its address from [vgpu_MI325X-1of1]device_addresses.',
            ),
            (
                'vf-profile-unsupported',
                EIGHT,
                'MI300X-1of8',
                {'partition': 'SPX/NPS1'},
                'with 8 VFs its accelerator partition is CPX',
                'Correct [vgpu_MI300X-1of8]partition.',
            ),
            (
                'vf-profile-unsupported',
                hosts.mi300x(GPU, 8, ''),
                'MI300X-1of8',
                {'partition': 'CPX/NPS4'},
                'its partition is to be CPX/NPS4 '
                '([vgpu_MI300X-1of8]partition) and cannot be read',
                'Run the command as root, or remove '
                '[vgpu_MI300X-1of8]partition.',
            ),
            (
                'vf-profile-unsupported',
                dataclasses.replace(EIGHT, driver='amdgpu', vfs=0),
                'MI300X-1of8',
                {},
                'its driver, amdgpu, does not provision VFs',
                'Bind it to its own driver, gim.',
            ),
            (
                'vf-profile-unsupported',
                hosts.gpu(GPU, boards.INSTINCT_MI210),
                'MI210-1of1',
                {},
                'its driver, amdgpu, does not provision VFs',
                'Bind it to its own driver, gim.',
            ),
        ):
            plan = make_plan(name, card, **options)
            self.assert_problem(plan, code, finding, cure)

    def test_options_of_another_vendor(self) -> None:
        for name, card, options, finding in (
            (
                'MI300X-1of8',
                EIGHT,
                {'exec_quantum_ms': 20},
                '[vgpu_MI300X-1of8]exec_quantum_ms has no effect: '
                "'MI300X-1of8' is not a VF profile of Intel.",
            ),
            (
                'UHD770-1of7',
                hosts.gpu(GPU, boards.UHD_770, vfs=7),
                {'partition': 'CPX/NPS4'},
                '[vgpu_UHD770-1of7]partition has no effect: '
                "'UHD770-1of7' is not a VF profile of AMD.",
            ),
        ):
            plan = make_plan(name, card, **options)
            (problem,) = plan.problems
            self.assertEqual('vf-profile-option', problem.code)
            self.assertEqual(values.Severity.WARNING, problem.severity)
            self.assertEqual(finding, problem.message)
            self.assertEqual(1, len(plans.list_providers(plan, 'node')))
