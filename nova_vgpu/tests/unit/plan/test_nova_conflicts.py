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

"""GPUs that are declared for vGPUs and that Nova gives out as PCI devices."""

import dataclasses

import testtools

from nova_vgpu import values
from nova_vgpu.plan import nova_conflicts
from nova_vgpu.plan import type_matching
from nova_vgpu.reconcile import gpu_steps
from nova_vgpu.reconcile import policy
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans

T4 = hosts.make_gpu(hosts.gpu('84:00.0', boards.T4))
A40 = hosts.make_gpu(hosts.gpu('41:00.0', boards.A40, vfs=32))
L40S = hosts.make_gpu(
    hosts.gpu('0001:c8:00.0', boards.L40S, vfs=32, vendor_vfio=True)
)
L40S_OFF = hosts.make_gpu(hosts.gpu('0001:c8:00.0', boards.L40S))
TYPE = 'L40S-24Q'
IGNORE = values.UnlistedGPUs.IGNORE


def spec(
    *address: str,
    vendor_id: int | None = None,
    product_id: int | None = None,
    is_single: bool = False,
) -> values.PciDeviceSpec:
    domain, bus, slot, function = address or ('', '', '', '')
    return values.PciDeviceSpec(
        '[pci]device_spec',
        '{…}',
        vendor_id,
        product_id,
        (domain, bus, slot, function),
        is_single,
    )


FIRST_VF = spec('0001$', 'c8$', '00$', '4$', is_single=True)
GPU = spec('0001$', 'c8$', '00$', '0$', is_single=True)
NVIDIA = spec(vendor_id=0x10DE)


def make_plan(
    gpu: values.PhysicalGPU,
    declared: values.DeclaredType,
    *specs: values.PciDeviceSpec,
    unlisted: values.UnlistedGPUs = IGNORE,
) -> values.Plan:
    declaration = values.Declaration((declared,), unlisted, pci_devices=specs)
    return plans.make_plan(declaration, values.Host((gpu,)))


def listed(*addresses: str, name: str = TYPE) -> values.DeclaredType:
    return values.DeclaredType(name, f'vgpu_{name}', addresses)


class TestMatching(testtools.TestCase):
    def test_which_functions_a_line_is_for(self) -> None:
        every = {f'0001:c8:00.{n}' for n in range(4, 8)}
        every |= {f'0001:c8:0{s}.{n}' for s in '123' for n in range(8)}
        every |= {f'0001:c8:04.{n}' for n in range(4)}
        for case, given, expected in (
            ('a function', FIRST_VF, {'0001:c8:00.4'}),
            (
                'a function of a slot',
                spec('', '', '01$', '3$'),
                {'0001:c8:01.3'},
            ),
            (
                'a regular expression, from the beginning',
                spec('.*', 'c', '0[1]', '[0-2]'),
                {f'0001:c8:01.{n}' for n in range(3)},
            ),
            ('the GPU, and so its functions', GPU, {'0001:c8:00.0', *every}),
            (
                'the GPU by wildcard, and no functions',
                spec('', 'c8$', '00$', '0$'),
                {'0001:c8:00.0'},
            ),
            ('the vendor', NVIDIA, {'0001:c8:00.0', *every}),
            ('another product', spec(product_id=0x1EB8), set()),
            ('another vendor', spec(vendor_id=0x8086), set()),
            ('another domain', spec('0000$', '', '', ''), set()),
        ):
            for gpu in (L40S, L40S_OFF):
                found = nova_conflicts.find_listed([given], gpu)
                names = {
                    str(values.PciAddress.parse_node_device_name(name))
                    for name in found
                }
                self.assertEqual(expected, names, case)

    def test_what_is_not_a_pci_device_is_in_no_line(self) -> None:
        parent = values.PhysicalGPU('mtty_mtty')
        self.assertEqual({}, nova_conflicts.find_listed([spec()], parent))


class TestProblem(testtools.TestCase):
    def find(self, plan: values.Plan) -> values.Problem:
        (problem,) = plan.problems
        self.assertEqual('also-pci-device', problem.code)
        self.assertEqual(values.Severity.ERROR, problem.severity)
        return problem

    def test_it_names_both_lines(self) -> None:
        problem = self.find(make_plan(L40S, listed('0001:c8:00.0'), FIRST_VF))
        self.assertEqual(
            'GPU 0001:c8:00.0 ([vgpu_L40S-24Q]device_addresses) is declared '
            'for vGPUs, and Nova also assigns 0001:c8:00.4 by PCI '
            'passthrough: [pci]device_spec = {…}.',
            problem.message,
        )
        self.assertEqual(
            'Remove it from [pci]device_spec, or list in '
            '[vgpu_L40S-24Q]device_addresses only what is for vGPUs. Until '
            'then these functions are not used for vGPUs.',
            problem.cure,
        )

    def test_an_old_name_and_many_functions(self) -> None:
        old = dataclasses.replace(NVIDIA, option='[pci]passthrough_whitelist')
        problem = self.find(make_plan(L40S, listed('0001:c8:00.0'), old))
        self.assertIn('0001:c8:00.6 and 29 more by', problem.message)
        self.assertIn('[pci]passthrough_whitelist = {…}', problem.message)

    def test_functions_that_are_not_enabled_yet(self) -> None:
        plan = make_plan(L40S_OFF, listed('0001:c8:00.0'), FIRST_VF)
        self.assertEqual(
            {'also-pci-device', 'vfs-off'}, {p.code for p in plan.problems}
        )

    def test_mdevs_are_served_all_the_same(self) -> None:
        for gpu, address, name in (
            (T4, '84:00.0', 'T4-2Q'),
            (A40, '41:00.0', 'A40-8Q'),
        ):
            plan = make_plan(gpu, listed(address, name=name), NVIDIA)
            self.assertNotIn('not used', self.find(plan).cure)
            (assigned,) = plan.assignments
            self.assertTrue(assigned.serves)
            self.assertEqual(gpu.functions, assigned.functions)

    def test_a_gpu_that_is_not_listed(self) -> None:
        plan = make_plan(
            T4,
            listed(name='T4-2Q'),
            NVIDIA,
            unlisted=values.UnlistedGPUs.FIRST_TYPE,
        )
        problem = self.find(plan)
        self.assertIn(
            '(not listed, so it serves the first type)', problem.message
        )
        self.assertIn('[devices]unlisted_gpus = ignore', problem.cure)

    def test_other_functions_of_the_gpu_may_be_pci_devices(self) -> None:
        plan = make_plan(L40S, listed('0001:c8:00.5'), FIRST_VF)
        self.assertEqual((), plan.problems)

    def test_other_gpus_may_be_pci_devices(self) -> None:
        plan = make_plan(T4, listed('84:00.0', name='T4-2Q'), FIRST_VF, GPU)
        self.assertEqual((), plan.problems)


class TestLeftAlone(testtools.TestCase):
    """In the vendor-specific VFIO framework."""

    def test_a_function_in_both_is_not_used(self) -> None:
        plan = make_plan(L40S, listed('0001:c8:00.0'), FIRST_VF)
        (assigned,) = plan.assignments
        self.assertTrue(assigned.serves)
        self.assertNotIn('pci_0001_c8_00_4', assigned.functions)
        self.assertEqual(frozenset({'pci_0001_c8_00_4'}), assigned.pci_devices)

    def test_apply_does_not_set_its_type(self) -> None:
        for gpu in (L40S, L40S_OFF):
            plan = make_plan(gpu, listed('0001:c8:00.0'), FIRST_VF)
            wanted = {'0001:c8:00.4': TYPE, '0001:c8:00.5': TYPE}
            (planned,) = gpu_steps.plan_steps(
                plan,
                type_matching.list_type_names(values.Host((L40S,))),
                values.Usage(records=values.VGPURecords(functions=wanted)),
                policy.for_apply(values.Creation.ON_DEMAND),
                lambda: '',
            )
            functions = {
                step.function
                for step in planned.steps
                if isinstance(step, values.SetType)
            }
            self.assertNotIn('0001:c8:00.4', functions)

    def test_a_gpu_of_which_nothing_is_left(self) -> None:
        plan = make_plan(L40S, listed('0001:c8:00.0'), NVIDIA)
        (assigned,) = plan.assignments
        self.assertFalse(assigned.serves)
        self.assertEqual(['also-pci-device'], [p.code for p in plan.problems])

    def test_one_that_is_not_listed_is_left_alone(self) -> None:
        plan = make_plan(
            L40S, listed(), GPU, unlisted=values.UnlistedGPUs.FIRST_TYPE
        )
        (left,) = plan.left_alone
        self.assertEqual('not listed, and in [pci]device_spec', left.why)
