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

"""Every problem with a type or a section, in the words for an operator."""

from nova_vgpu import values
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans
from nova_vgpu.tests.unit.plan import test_problems
from nova_vgpu.tests.unit.plan.test_problems import HOST
from nova_vgpu.tests.unit.plan.test_problems import listed

ERROR, WARNING, FATAL = (
    values.Severity.ERROR,
    values.Severity.WARNING,
    values.Severity.FATAL,
)

T4 = hosts.gpu('84:00.0', boards.T4)


class TestTypes(test_problems.ProblemTestCase):
    def test_a_type_that_a_listed_gpu_does_not_offer(self) -> None:
        problem = self.find(
            'type-not-offered', HOST, listed('84:00.0', name='T4-61Q')
        )
        self.assertEqual(ERROR, problem.severity)
        self.assertEqual('0000:84:00.0', problem.subject)
        self.assertEqual(
            'GPU 0000:84:00.0 ([vgpu_T4-61Q]device_addresses) does not offer '
            "'T4-61Q'. It offers: T4-1B, T4-2B, T4-1A, T4-2A, T4-4A, T4-8A, "
            'T4-16A, T4-1Q, T4-2Q, T4-4Q, T4-8Q, T4-16Q and 3 more '
            '("nova-vgpu type list --gpu 0000:84:00.0").',
            problem.message,
        )
        self.assertEqual(
            'Did you mean T4-16Q? List the GPU under a type that it offers.',
            problem.cure,
        )

    def test_several_that_are_as_near_are_no_help(self) -> None:
        problem = self.find(
            'type-not-offered', HOST, listed('84:00.0', name='T4-3Q')
        )
        self.assertNotIn('Did you mean', problem.cure)

    def test_a_gpu_by_default_has_other_ways_out(self) -> None:
        problem = self.find(
            'type-not-offered',
            hosts.make_host(T4, hosts.gpu('41:00.0', boards.A40, vfs=2)),
            listed(name='T4-2Q'),
            unlisted=values.UnlistedGPUs.FIRST_TYPE,
        )
        self.assertIn('GPU 0000:41:00.0 (not listed', problem.message)
        self.assertIn('[devices]unlisted_gpus = ignore', problem.cure)

    def test_a_gpu_of_another_vendor_than_the_type(self) -> None:
        move = 'List the GPU under a type that it offers.'
        for card, name, message, cure in (
            (
                hosts.gpu('00:02.0', boards.UHD_770, vfs=7),
                'T4-2Q',
                "is an Intel GPU, and 'T4-2Q' is a type of NVIDIA.",
                'Remove its address from [vgpu_T4-2Q]device_addresses.',
            ),
            (
                hosts.gpu('00:02.0', boards.HD_530),
                'nvidia-231',
                "is an Intel GPU, and 'nvidia-231' is a type of NVIDIA.",
                move,
            ),
            (
                hosts.gpu('41:00.0', boards.A40),
                'i915-GVTg_V5_4',
                "is an NVIDIA GPU, and 'i915-GVTg_V5_4' is a type of Intel.",
                move,
            ),
        ):
            problem = self.find(
                'type-not-offered',
                hosts.make_host(card),
                listed(str(card.address), name=name),
            )
            self.assertIn(message, problem.message)
            self.assertEqual(cure, problem.cure)

    def test_a_type_that_is_too_large_for_a_gpu_that_is_not_ready(
        self,
    ) -> None:
        problem = self.find(
            'type-not-offered', HOST, listed('c1:00.0', name='A40-96Q')
        )
        self.assertIn(
            "is of model A40 and never offers 'A40-96Q'", problem.message
        )

    def test_a_host_without_gpus_of_the_vendor(self) -> None:
        uhd = hosts.make_host(hosts.gpu('00:02.0', boards.UHD_770, vfs=7))
        for host, name, cure in (
            (uhd, 'T4-2Q', 'This host has no NVIDIA GPUs.'),
            (values.Host(), 'T4-2Q', 'This host has no GPUs.'),
            (
                uhd,
                'i915-GVTg_V5_4',
                'No GPU of this host has vGPU types now; "nova-vgpu gpu '
                'list" shows why.',
            ),
            (
                uhd,
                'B60-1of4',
                'It is a VF profile, which only GPUs serve that are listed in '
                '[vgpu_B60-1of4]device_addresses.',
            ),
            (
                hosts.make_host(T4),
                'T4-3Q',
                '"nova-vgpu type list" shows the types.',
            ),
        ):
            problem = self.find(
                'type-on-no-gpu',
                host,
                listed(name=name),
                unlisted=values.UnlistedGPUs.FIRST_TYPE,
            )
            self.assertEqual(cure, problem.cure)

    def test_a_name_that_two_types_have(self) -> None:
        types = (
            values.VGPUType('nvidia-1', 'GRID T4-2Q'),
            values.VGPUType('nvidia-2', 'NVIDIA T4-2Q'),
        )
        gpu = values.PhysicalGPU(
            'pci_0000_84_00_0',
            values.PciAddress.parse('84:00.0'),
            values.PciIds(0x10DE, 0x1EB8),
            offers=tuple(values.Offer(t, 8) for t in types),
        )
        problem = self.find(
            'ambiguous-type', values.Host((gpu,)), listed('84:00.0')
        )
        self.assertEqual(ERROR, problem.severity)
        self.assertIn(
            "has more than one type that 'T4-2Q' can mean: nvidia-1 (GRID "
            'T4-2Q), nvidia-2 (NVIDIA T4-2Q).',
            problem.message,
        )
        self.assertIn('by its id', problem.cure)

    def test_a_type_that_no_gpu_of_the_host_offers(self) -> None:
        problem = self.find('type-on-no-gpu', HOST, listed(name='V100-3Q'))
        self.assertEqual(ERROR, problem.severity)
        self.assertEqual(
            '[devices]enabled_vgpu_types: no GPU of this host offers '
            '\'V100-3Q\'. "nova-vgpu type list" shows the types.',
            str(problem),
        )

    def test_a_slip_in_the_first_type_is_one_problem(self) -> None:
        host = hosts.make_host(T4, hosts.gpu('85:00.0', boards.T4))
        for case, name, meant in (
            ('two letters', 'T4-61Q', 'T4-16Q'),
            ('the number of an id', '231', 'nvidia-231'),
        ):
            for addresses in ((), ('84:00.0',)):
                declared = listed(*addresses, name=name)
                problem = self.find(
                    'type-on-no-gpu',
                    host,
                    declared,
                    unlisted=values.UnlistedGPUs.FIRST_TYPE,
                )
                self.assertIn(f'Did you mean {meant}?', problem.cure, case)
                plan = plans.make_plan(values.Declaration((declared,)), host)
                self.assertEqual(1 + len(addresses), len(plan.problems), case)

    def test_an_entry_that_is_more_than_one(self) -> None:
        for case, name, cure in (
            ('a comment', 'T4-2Q # ours', 'Put comments on separate lines'),
            ('spaces', 'T4-2Q A40-8Q', 'Separate entries with commas'),
            ('semicolons', 'T4-2Q;A40-8Q', 'Separate entries with commas'),
        ):
            problem = self.find('bad-separator', HOST, listed(name=name))
            self.assertEqual(FATAL, problem.severity, case)
            self.assertIn(cure, problem.cure, case)
        for case, name in (
            ('a brand', 'NVIDIA A40-8Q'),
            ('a model of many words', 'RTX Pro 6000 Blackwell DC-1-24Q'),
        ):
            plan = plans.make_plan(
                values.Declaration((listed(name=name),)), HOST
            )
            codes = [problem.code for problem in plan.problems]
            self.assertNotIn('bad-separator', codes, case)

    def test_a_section_with_another_name_of_an_enabled_type(self) -> None:
        for section, right in (
            ('vgpu_nvidia-231', '[vgpu_T4-2Q]'),
            ('mdev_GRID T4-2Q', '[mdev_T4-2Q]'),
        ):
            problem = self.find(
                'section-misnamed',
                hosts.make_host(T4),
                listed(name='T4-2Q'),
                unlisted=values.UnlistedGPUs.FIRST_TYPE,
                sections=(section,),
            )
            self.assertEqual(ERROR, problem.severity)
            self.assertEqual(f'Rename the section to {right}.', problem.cure)

    def test_a_trait_that_is_ours_to_give(self) -> None:
        declared = values.DeclaredType(
            'T4-2Q', 'vgpu_T4-2Q', traits=('CUSTOM_GPU_MODEL_A100',)
        )
        problem = self.find(
            'reserved-trait',
            hosts.make_host(T4),
            declared,
            unlisted=values.UnlistedGPUs.FIRST_TYPE,
        )
        self.assertEqual(WARNING, problem.severity)
        self.assertIn('CUSTOM_GPU_MODEL_A100', problem.message)

    def test_a_type_that_no_gpu_serves(self) -> None:
        for unlisted, why in (
            (
                values.UnlistedGPUs.FIRST_TYPE,
                'only the first type uses GPUs that are not listed.',
            ),
            (
                values.UnlistedGPUs.IGNORE,
                'GPUs that are not listed are ignored.',
            ),
        ):
            problem = self.find(
                'type-unused',
                hosts.make_host(T4),
                listed('84:00.0'),
                listed(name='T4-4Q'),
                unlisted=unlisted,
            )
            self.assertEqual(WARNING, problem.severity)
            self.assertEqual(
                "[devices]enabled_vgpu_types: no GPU serves 'T4-4Q'. List "
                f'GPUs in [vgpu_T4-4Q]device_addresses: {why}',
                str(problem),
            )

    def test_listed_functions_that_vgpus_of_other_types_use(self) -> None:
        card = hosts.gpu('21:00.0', boards.A100D, 'nvidia-700', vfs=4)
        problem = self.find(
            'no-room',
            hosts.make_host(card),
            listed('21:00.4', name='A100D-1-10C'),
        )
        self.assertIn(
            'the listed VFs have vGPUs of other types: 0000:21:00.4 has '
            'nvidia-700 (GRID A100D-2-20C)',
            problem.message,
        )
        self.assertIn('device list --gpu 0000:21:00.0', problem.cure)

    def test_a_gpu_full_of_another_size(self) -> None:
        busy = hosts.gpu('84:00.0', boards.T4, 'nvidia-233', 'nvidia-233')
        problem = self.find(
            'no-room', hosts.make_host(busy), listed('84:00.0')
        )
        self.assertEqual(ERROR, problem.severity)
        self.assertEqual(
            'GPU 0000:84:00.0 ([vgpu_T4-2Q]device_addresses) has no room for '
            'nvidia-231 (GRID T4-2Q): it has vGPUs: 2 of nvidia-233 '
            '(GRID T4-8Q).',
            problem.message,
        )
        self.assertIn('once the others are removed', problem.cure)

    def test_a_type_that_vgpus_of_another_size_hide(self) -> None:
        # In the vendor-specific VFIO framework the type is off the lists.
        busy = hosts.gpu(
            'd8:00.0', boards.A10, 'nvidia-594', vfs=32, vendor_vfio=True
        )
        first_type = values.UnlistedGPUs.FIRST_TYPE
        for case, addresses, where in (
            ('listed', ['d8:00.0'], '[vgpu_A10-12Q]device_addresses'),
            ('by default', [], 'not listed, so it serves the first type'),
        ):
            plan = plans.make_plan(
                values.Declaration(
                    (listed(*addresses, name='A10-12Q'),), first_type
                ),
                hosts.make_host(busy),
            )
            (problem,) = plan.problems
            self.assertEqual('no-room', problem.code, case)
            self.assertEqual(
                f"GPU 0000:d8:00.0 ({where}) does not offer 'A10-12Q' now: it "
                'has vGPUs (1 of nvidia-594 (NVIDIA A10-6Q)), and lists '
                'only the types that fit beside them.',
                problem.message,
                case,
            )
            self.assertIn('vGPUs of one size at a time', problem.cure, case)

    def test_a_type_that_the_gpu_cannot_have_is_not_hidden(self) -> None:
        busy = hosts.gpu(
            'd8:00.0', boards.A10, 'nvidia-594', vfs=32, vendor_vfio=True
        )
        host = hosts.make_host(busy)
        self.find('type-not-offered', host, listed('d8:00.0', name='A40-12Q'))
        self.find('type-on-no-gpu', host, listed(name='A40-12Q'))
        self.find('type-on-no-gpu', host, listed(name='A10-48Q'))

    def test_a_gpu_that_is_not_ready_for_a_type_it_will_never_have(
        self,
    ) -> None:
        off = hosts.gpu('41:00.0', boards.A40)
        problem = self.find(
            'type-not-offered',
            hosts.make_host(T4, off),
            listed('41:00.0', name='T4-2Q'),
        )
        self.assertIn('is of model A40 and never offers', problem.message)
        self.assertEqual(
            'List the GPU under a type that it offers.', problem.cure
        )

    def test_a_full_card_whose_driver_names_no_types_any_more(self) -> None:
        full = hosts.gpu(
            'c8:00.0',
            boards.L40S,
            'nvidia-1155',
            'nvidia-1155',
            vfs=2,
            vendor_vfio=True,
        )
        host = hosts.make_host(full)
        problem = self.find(
            'type-unnamed', host, listed('c8:00.0', name='L40S-24Q')
        )
        self.assertEqual(ERROR, problem.severity)
        self.assertIn(
            "unknown whether nvidia-1155 is 'L40S-24Q'", problem.message
        )
        self.assertIn('by its id, nvidia-1155', problem.cure)
        by_id = values.Declaration((listed('c8:00.0', name='nvidia-1155'),))
        self.assertEqual(1, len(plans.make_plan(by_id, host).assignments))

    def test_a_gpu_that_would_take_none_and_holds_none(self) -> None:
        gpu = values.PhysicalGPU(
            'pci_0000_41_00_0',
            values.PciAddress.parse('41:00.0'),
            values.PciIds(0x10DE, 0x20F1),
            offers=(
                values.Offer(
                    values.VGPUType('nvidia-474', 'NVIDIA A100-1-5C'), 0
                ),
            ),
        )
        problem = self.find(
            'no-room',
            values.Host((gpu,)),
            listed('41:00.0', name='A100-1-5C'),
        )
        self.assertIn('has no room for it now', problem.message)
        self.assertIn('GPU instances', problem.cure)

    def test_as_many_as_there_are_gpu_instances(self) -> None:
        vf = values.VirtualFunction(
            values.PciAddress.parse('41:00.4'),
            offers=(
                values.Offer(
                    values.VGPUType('nvidia-474', 'NVIDIA A100-1-5C'), 1
                ),
            ),
        )
        gpu = values.PhysicalGPU(
            'pci_0000_41_00_0',
            values.PciAddress.parse('41:00.0'),
            values.PciIds(0x10DE, 0x20F1),
            vfs=(vf,),
        )
        problem = self.find(
            'maximum-unknown',
            values.Host((gpu,)),
            listed('41:00.0', name='A100-1-5C'),
        )
        self.assertEqual(WARNING, problem.severity)
        self.assertIn('one for each GPU instance', problem.message)
        self.assertEqual(
            'Set [vgpu_A100-1-5C]max_instances to the number of those '
            'instances. If that differs from GPU to GPU, list as many '
            'virtual functions of each in [vgpu_A100-1-5C]device_addresses '
            'instead.',
            problem.cure,
        )
        plan = plans.make_plan(
            values.Declaration(
                (listed('41:00.0', name='A100-1-5C', max_instances=1),)
            ),
            values.Host((gpu,)),
        )
        self.assertEqual((), plan.problems)

    def test_gpus_that_differ_in_their_gpu_instances(self) -> None:
        # The first has three instances of 2g.20gb, the second has one.
        first = hosts.make_gpu(hosts.gpu('21:00.0', boards.A100D, vfs=16))
        second = hosts.make_gpu(hosts.gpu('81:00.0', boards.A100D, vfs=16))
        addresses = [str(vf.address) for vf in (*first.vfs[:3], second.vfs[0])]
        plan = plans.make_plan(
            values.Declaration((listed(*addresses, name='A100D-2-20C'),)),
            values.Host((first, second)),
        )
        self.assertEqual((), plan.problems)
        totals = [a.capacity.total for a in plan.assignments if a.capacity]
        self.assertEqual([3, 1], totals)

    def test_several_vgpus_in_each_gpu_instance(self) -> None:
        name = 'NVIDIA RTX Pro 6000 Blackwell DC-1-8Q'
        vfs = tuple(
            values.VirtualFunction(
                values.PciAddress.parse(f'04:00.{function}'),
                offers=(values.Offer(values.VGPUType('nvidia-9', name), 1),),
                vendor_vfio=True,
            )
            for function in range(2, 8)
        )
        gpu = values.PhysicalGPU(
            'pci_0000_04_00_0',
            values.PciAddress.parse('04:00.0'),
            values.PciIds(0x10DE, 0x2BB5),
            vfs=vfs,
        )
        problem = self.find(
            'maximum-unknown',
            values.Host((gpu,)),
            listed('04:00.0', name='DC-1-8Q'),
        )
        self.assertIn('takes 3 for each GPU instance', problem.message)
        self.assertIn('to 3 times the number of those', problem.cure)

    def test_what_to_do_about_a_gpu_in_the_wrong_mode_for_a_type(self) -> None:
        mig = hosts.gpu(
            '21:00.0', boards.A100D, *['nvidia-700'] * 3, 'nvidia-699', vfs=16
        )
        shared = hosts.gpu('21:00.0', boards.A100D, 'nvidia-697', vfs=16)
        for case, card, name, cures in (
            (
                'MIG, another instance',
                mig,
                'A100D-3-40C',
                ('repartition', 'mig -i 0000:21:00.0 -lgip'),
            ),
            (
                'MIG, a time-sliced type',
                mig,
                'A100D-40C',
                (
                    'is in MIG mode',
                    'nvidia-smi -i 0000:21:00.0 -mig 0',
                    'switch_mig_mode = true',
                ),
            ),
            (
                'time-sliced, a type of MIG',
                shared,
                'A100D-2-20C',
                (
                    'is not in MIG mode',
                    'nvidia-smi -i 0000:21:00.0 -mig 1',
                    'switch_mig_mode = true',
                ),
            ),
            (
                'time-sliced, another size',
                shared,
                'A100D-20C',
                ('vGPUs of one size at a time',),
            ),
        ):
            problem = self.find(
                'no-room', hosts.make_host(card), listed('21:00.0', name=name)
            )
            for words in cures:
                self.assertIn(words, problem.cure, case)
            self.assertEqual(
                case == 'time-sliced, another size',
                'once the others are removed' in problem.cure,
                case,
            )

    def test_more_vgpus_than_the_operator_allows(self) -> None:
        busy = hosts.gpu('84:00.0', boards.T4, *['nvidia-231'] * 4)
        problem = self.find(
            'more-than-maximum',
            hosts.make_host(busy),
            listed('84:00.0', max_instances=2),
        )
        self.assertEqual(WARNING, problem.severity)
        self.assertIn('has 4 vGPUs', problem.message)
        self.assertIn('[vgpu_T4-2Q]max_instances (2)', problem.message)
        self.assertIn('Its inventory is 4', problem.message)

    def test_a_slip_in_the_type_shows_beside_a_bad_address(self) -> None:
        declared = listed('0000:99:00.0', name='T4-2QQ')
        self.find('not-on-host', HOST, declared)
        problem = self.find('type-on-no-gpu', HOST, declared)
        self.assertIn('Did you mean T4-2Q?', problem.cure)

    def test_a_maximum_that_nobody_tells(self) -> None:
        vf = values.VirtualFunction(
            values.PciAddress.parse('41:00.4'),
            offers=(values.Offer(values.VGPUType('nvidia-9', 'Z9000-4Q'), 1),),
        )
        gpu = values.PhysicalGPU(
            'pci_0000_41_00_0',
            values.PciAddress.parse('41:00.0'),
            values.PciIds(0x10DE, 0xFFFF),
            vfs=(vf,),
        )
        host = values.Host((gpu,))
        problem = self.find(
            'maximum-unknown', host, listed('41:00.0', name='Z9000-4Q')
        )
        self.assertEqual(WARNING, problem.severity)
        self.assertEqual(
            "Set [vgpu_Z9000-4Q]max_instances to the number in the vendor's "
            'documentation.',
            problem.cure,
        )
        declared = listed('41:00.0', name='Z9000-4Q', max_instances=1)
        plan = plans.make_plan(values.Declaration((declared,)), host)
        self.assertEqual((), plan.problems)


class TestSections(test_problems.ProblemTestCase):
    def test_a_section_of_a_type_that_is_not_enabled(self) -> None:
        for section, meant in (
            ('vgpu_T4-4Q', ' Did you mean [vgpu_T4-2Q]?'),
            ('mdev_nvidia-35', ''),
        ):
            problem = self.find(
                'section-not-enabled',
                HOST,
                listed('84:00.0'),
                sections=(section, 'vgpu_t4-2q'),
            )
            of_type = section.partition('_')[2]
            self.assertEqual(WARNING, problem.severity)
            self.assertEqual(
                f'[{section}] is not used: [devices]enabled_vgpu_types does '
                f"not have '{of_type}'.",
                problem.message,
            )
            self.assertEqual(
                f'Add the type there, or remove the section.{meant}',
                problem.cure,
            )

    def test_both_sections_of_a_type(self) -> None:
        problem = self.find(
            'two-sections',
            HOST,
            listed('84:00.0'),
            sections=('mdev_T4-2Q', 'vgpu_T4-2Q'),
        )
        self.assertEqual(WARNING, problem.severity)
        self.assertIn('[mdev_T4-2Q] and [vgpu_T4-2Q]', problem.message)
        self.assertIn('the section named vgpu_ wins', problem.message)

    def test_a_trait_that_placement_would_refuse(self) -> None:
        declared = values.DeclaredType(
            'T4-2Q', 'vgpu_T4-2Q', ('84:00.0',), traits=('rack 7',)
        )
        problem = self.find('bad-trait', HOST, declared)
        self.assertEqual(FATAL, problem.severity)
        self.assertEqual('[vgpu_T4-2Q]traits', problem.subject)
        self.assertIn("'rack 7'", problem.message)
        self.assertEqual(
            'Custom traits look like CUSTOM_RACK_7.', problem.cure
        )
