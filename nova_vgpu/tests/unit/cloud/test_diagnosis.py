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

"""The findings of ``openstack vgpu doctor``."""

import dataclasses
import typing

import testtools

from nova_vgpu import values
from nova_vgpu.cloud.diagnose import diagnosis
from nova_vgpu.cloud.diagnose import examination
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.tests.unit.cloud import clouds

T4 = clouds.gpu('compute1 84', 8, 3)
A40 = clouds.gpu('compute2 41', 6, 1, None, clouds.A40)
OWN = clouds.gpu('compute2 42', 6, 1, None, clouds.A40, 'CUSTOM_A40_8Q')
BOTH = flavors.parse('both', {'resources:VGPU': '1'})
IS_T4 = 'CUSTOM_VGPU_TYPE_T4_2Q'


def diagnose(
    *gpus: fleet.GPU,
    made: tuple[flavors.Flavor, ...] = (BOTH,),
    **given: typing.Any,
) -> tuple[values.Finding, ...]:
    examined = examination.Examination(
        gpus,
        made,
        frozenset({'compute1', 'compute2'}),
        services=frozenset({'nova'}),
        regions=frozenset({'RegionOne'}),
        region='RegionOne',
    )
    return diagnosis.diagnose(dataclasses.replace(examined, **given))


def codes(found: tuple[values.Finding, ...]) -> list[tuple[str, str, str]]:
    return [(f.severity.value, f.code, f.subject) for f in found]


class TestFlavors(testtools.TestCase):
    def find(self, extra_specs: dict[str, str]) -> list[str]:
        """Codes of errors beside a flavor without problems."""
        return [f.code for f in self.findings(extra_specs)]

    def findings(
        self, extra_specs: dict[str, str]
    ) -> tuple[values.Finding, ...]:
        made = (BOTH, flavors.parse('f', extra_specs))
        found = diagnose(T4, A40, made=made)
        for finding in found:
            self.assertEqual(
                (values.Severity.ERROR, 'f'),
                (finding.severity, finding.subject),
            )
        return found

    def test_flavors_without_problems(self) -> None:
        for extra_specs in (
            {},
            {'resources:VGPU': '1'},
            {'resources:VGPU': '1', f'trait:{IS_T4}': 'required'},
            {'resources1:VGPU': '8', f'trait1:{IS_T4}': 'required'},
            {'resources_A-b:VGPU': '1', f'trait_A-b:{IS_T4}': 'forbidden'},
            # About something else.
            {'resources:CUSTOM_FPGA': '1', 'trait:CUSTOM_FAST': 'required'},
            {'resources:VCPU': '0', 'trait:HW_CPU_X86_AVX': 'required'},
            {'trait:CUSTOM_GPU_MODEL_A40': 'required', 'resources:PGPU': '1'},
            {'hw:cpu_policy': 'dedicated', 'resource:CUSTOM_X': '1'},
            {'resources:CUSTOM_FPGA': 'many', 'trait:CUSTOM_FAST': 'yes'},
            {'trait:CUSTOM_VGPU_HOST': 'required'},
        ):
            self.assertEqual([], self.find(extra_specs), str(extra_specs))

    def test_misspelled_keys_and_what_is_meant(self) -> None:
        for key, meant in (
            ('resource:VGPU', 'resources:VGPU'),
            ('resources:vgpu', 'resources:VGPU'),
            ('Resources1:VGPU', 'resources1:VGPU'),
            ('resources.VGPU', 'resources:VGPU'),
            ('resources: VGPU', 'resources:VGPU'),
            ('resource:CUSTOM_A40_8Q', 'resources:CUSTOM_A40_8Q'),
            (f'traits:{IS_T4}', f'trait:{IS_T4}'),
            (f'traits_A:{IS_T4}', f'trait_A:{IS_T4}'),
            (f'required:{IS_T4}', f'trait:{IS_T4}'),
            (f'trait:{IS_T4.lower()}', f'trait:{IS_T4}'),
        ):
            found = self.findings({key: '1'})
            self.assertEqual(
                [('flavor-misspelled', f'Set "{meant}" in its place.')],
                [(f.code, f.cure) for f in found],
                key,
            )

    def test_values_that_nova_ignores(self) -> None:
        for extra_specs in (
            {'resources:VGPU': 'one'},
            {'resources:VGPU': '1', f'trait:{IS_T4}': 'True'},
        ):
            self.assertEqual(['flavor-value-ignored'], self.find(extra_specs))

    def test_no_vgpu_at_all(self) -> None:
        self.assertEqual(
            ['flavor-without-vgpu'], self.find({'resources:VGPU': '0'})
        )
        self.assertEqual(
            [], self.find({'resources:VGPU': '0', 'resources1:VGPU': '1'})
        )

    def test_a_trait_without_a_vgpu_in_its_group(self) -> None:
        for extra_specs in (
            {f'trait:{IS_T4}': 'required'},
            {f'trait1:{IS_T4}': 'required', 'resources2:VGPU': '1'},
            {f'trait:{IS_T4}': 'required', 'resources1:VGPU': '1'},
        ):
            self.assertEqual(['flavor-trait-alone'], self.find(extra_specs))

    def test_an_operators_trait_of_a_host(self) -> None:
        for trait in ('CUSTOM_VGPU_HOST', 'CUSTOM_VGPU_SERIES_Q'):
            gpu = dataclasses.replace(T4, host_traits=frozenset({trait}))
            asks = flavors.parse(
                'f', {'resources1:VGPU': '1', f'trait:{trait}': 'required'}
            )
            self.assertEqual((), diagnose(gpu, made=(BOTH, asks)))

    def test_a_trait_that_no_host_has_beside_vgpus_of_groups(self) -> None:
        nvlink = {'resources1:VGPU': '1', 'trait:CUSTOM_NVLINK': 'required'}
        (found,) = self.findings(nvlink)
        self.assertEqual('flavor-unservable', found.code)
        self.assertEqual(
            ['flavor f: trait:CUSTOM_NVLINK=required'],
            [str(seen) for seen in found.evidence],
        )
        # A host has it, but not the GPU.
        with_it = dataclasses.replace(
            A40, host_traits=frozenset({'CUSTOM_NVLINK'})
        )
        asks = flavors.parse('f', {**nvlink, f'trait1:{IS_T4}': 'required'})
        (found,) = diagnose(T4, with_it, made=(BOTH, asks))
        self.assertEqual('flavor-unservable', found.code)

    def test_a_trait_that_a_host_must_not_have(self) -> None:
        gold = dataclasses.replace(T4, host_traits=frozenset({'CUSTOM_GOLD'}))
        asks = flavors.parse(
            'f', {'resources1:VGPU': '1', 'trait:CUSTOM_GOLD': 'forbidden'}
        )
        (found,) = diagnose(gold, made=(BOTH, asks))
        self.assertEqual('flavor-unservable', found.code)
        self.assertEqual((), diagnose(gold, A40, made=(BOTH, asks)))

    def test_what_no_host_has(self) -> None:
        for extra_specs in (
            {
                'resources:VGPU': '1',
                'trait:CUSTOM_VGPU_TYPE_L40S_24Q': 'required',
            },
            {'resources:CUSTOM_L40S_24Q': '1'},
            {'resources:CUSTOM_VGPU_LARGE': '1'},
            {'resources1:VGPU': '1', 'trait1:CUSTOM_FAST': 'required'},
        ):
            self.assertEqual(['flavor-unservable'], self.find(extra_specs))

    def test_more_than_one_gpu_has(self) -> None:
        (found,) = self.findings({'resources:VGPU': '9'})
        self.assertEqual('flavor-too-large', found.code)
        self.assertEqual(
            'Flavor f asks for 9 VGPU of one GPU. GPUs that fit have at most '
            '8.',
            found.text,
        )

    def test_groups_without_a_policy(self) -> None:
        specs = {'resources1:VGPU': '1', 'resources2:VGPU': '1'}
        self.assertEqual(['flavor-without-policy'], self.find(specs))
        specs['group_policy'] = 'sometimes'
        self.assertEqual(['flavor-without-policy'], self.find(specs))
        self.assertEqual([], self.find(specs | {'group_policy': 'none'}))
        # Placement asks for it only for vGPUs or other resources of groups.
        specs = {'resources:VGPU': '1', 'resources2:VGPU': '1'}
        self.assertEqual([], self.find(specs))

    def test_more_than_one_host_has(self) -> None:
        specs = {'resources1:VGPU': '1', 'resources2:VGPU': '1'}
        specs['group_policy'] = 'isolate'
        (found,) = self.findings(specs)
        self.assertEqual('flavor-exceeds-hosts', found.code)
        self.assertEqual(
            'flavor f: group_policy=isolate', str(found.evidence[0])
        )
        other = clouds.gpu('compute1 85', 8)
        made = (BOTH, flavors.parse('f', specs))
        self.assertEqual((), diagnose(T4, other, A40, made=made))

    def test_markup_and_control_characters_of_names(self) -> None:
        made = (BOTH, flavors.parse('<b>x</b>', {'resource:VGPU': '1'}))
        (found,) = diagnose(T4, A40, made=made)
        self.assertIn('of flavor <b>x</b> is misspelled', found.text)

    def test_control_characters_of_extra_specs_are_escaped(self) -> None:
        (found,) = self.findings({'resources:VGPU': '\x1b[2J'})
        self.assertEqual(r'resources:VGPU=\x1b[2J', found.evidence[0].value)


class TestProviders(testtools.TestCase):
    def test_a_cloud_without_problems(self) -> None:
        self.assertEqual((), diagnose(T4, A40))

    def test_a_host_that_nova_does_not_have(self) -> None:
        (found,) = diagnose(T4, A40, nodes=frozenset({'compute1'}))
        self.assertEqual(
            ('host-unknown', 'compute2', 'compute2_pci_0000_41_00_0: used: 1'),
            (found.code, found.subject, str(found.evidence[0])),
        )
        # Before anything is deleted.
        self.assertLess(
            found.cure.index('nova-manage cell_v2 discover_hosts'),
            found.cure.index('delete'),
        )
        self.assertIn('not mapped to a cell', found.text)

    def test_gpus_without_our_traits(self) -> None:
        bare = [
            clouds.gpu(f'compute1 {bus}', traits=()) for bus in range(10, 15)
        ]
        (found,) = diagnose(T4, *bare)
        self.assertEqual(
            [('warning', 'traits-missing', 'compute1')], codes((found,))
        )
        self.assertEqual('and more: 2', str(found.evidence[-1]))

    def test_a_gpu_with_traits_of_two_types(self) -> None:
        gpu = clouds.gpu('compute1 84', traits=(*clouds.T4, *clouds.A40))
        self.assertEqual(
            [('error', 'several-types', gpu.name)], codes(diagnose(gpu))
        )

    def test_a_fenced_gpu(self) -> None:
        gpu = clouds.gpu('compute1 84', 1, 1, 7)
        self.assertEqual(
            [('warning', 'gpu-fenced', gpu.name)], codes(diagnose(T4, gpu))
        )

    def test_a_provider_that_offers_nothing(self) -> None:
        gpu = dataclasses.replace(clouds.gpu('compute1 85'), stocks=())
        self.assertEqual(
            [('warning', 'provider-empty', gpu.name)],
            codes(diagnose(T4, gpu)),
        )

    def test_a_class_that_only_servers_still_have(self) -> None:
        gpu = dataclasses.replace(
            T4,
            stocks=(
                fleet.Stock('CUSTOM_T4_2Q', 2, 2, 0),
                fleet.Stock('VGPU', 6, 0, 0),
            ),
        )
        asks = flavors.parse('own', {'resources:CUSTOM_T4_2Q': '1'})
        self.assertEqual(
            [('note', 'class-leftover', gpu.name)],
            codes(diagnose(gpu, made=(BOTH, asks))),
        )

    def test_a_full_gpu_that_has_changed_its_class(self) -> None:
        """It reserves what servers use of the former one, as published."""
        asks = flavors.parse('own', {'resources:CUSTOM_A40_8Q': '1'})
        for former in (
            fleet.Stock('VGPU', 1, 1, 0),
            fleet.Stock('VGPU', 1, 1, 3),
        ):
            gpu = dataclasses.replace(
                A40, stocks=(fleet.Stock('CUSTOM_A40_8Q', 3, 3, 1), former)
            )
            self.assertEqual((), diagnose(gpu, made=(asks,)))

    def test_gpus_that_were_not_examined(self) -> None:
        unread = [clouds.gpu(f'compute1 {bus}', 1, 1) for bus in (10, 11)]
        (found,) = diagnose(T4, *unread)
        self.assertEqual(
            [('warning', 'gpus-not-examined', '2 GPUs')], codes((found,))
        )
        self.assertIn('At least 2 GPUs', found.text)
        self.assertEqual(
            [gpu.name for gpu in unread], [e.source for e in found.evidence]
        )

    def test_gpus_of_a_type_with_different_traits(self) -> None:
        other = clouds.gpu(
            'compute2 84', traits=(*clouds.T4, 'CUSTOM_GPU_ARCH_TURING')
        )
        (found,) = diagnose(T4, clouds.gpu('compute1 85'), other)
        self.assertEqual(
            [('warning', 'traits-differ', 'T4-2Q')], codes((found,))
        )
        self.assertEqual(
            (values.Evidence(other.name, 'has CUSTOM_GPU_ARCH_TURING'),),
            found.evidence,
        )

    def test_an_operators_traits_may_differ(self) -> None:
        other = clouds.gpu('compute2 84', traits=(*clouds.T4, 'CUSTOM_GOLD'))
        self.assertEqual((), diagnose(T4, other))

    def test_a_type_with_two_classes(self) -> None:
        asks = flavors.parse('own', {'resources:CUSTOM_A40_8Q': '1'})
        self.assertEqual(
            [('warning', 'classes-differ', 'A40-8Q')],
            codes(diagnose(A40, OWN, made=(BOTH, asks))),
        )

    def test_a_type_that_no_flavor_asks_for(self) -> None:
        asks = flavors.parse(
            't4', {'resources:VGPU': '1', f'trait:{IS_T4}': 'required'}
        )
        (found,) = diagnose(T4, A40, made=(asks,))
        self.assertEqual(
            [('warning', 'type-unreachable', 'A40-8Q')], codes((found,))
        )
        self.assertEqual(
            'Create one: "openstack vgpu flavor create NAME --type A40-8Q '
            '--resource-class VGPU --vcpus NUMBER --ram MIB --disk GIB".',
            found.cure,
        )

    def test_a_fenced_type_needs_no_flavor(self) -> None:
        """No new server could get a vGPU of it."""
        for gpu in (
            clouds.gpu('compute2 41', 1, 1, 5, clouds.A40),
            clouds.gpu('compute2 41', 0, 0, 6, clouds.A40),
        ):
            self.assertEqual(
                [('warning', 'gpu-fenced', gpu.name)],
                codes(diagnose(gpu, made=())),
            )

    def test_the_worst_comes_first(self) -> None:
        bad = flavors.parse('f', {'resource:VGPU': '1'})
        found = diagnose(T4, A40, made=(bad,))
        self.assertEqual(
            ['error', 'warning', 'warning'], [f.severity.value for f in found]
        )


class TestLimits(testtools.TestCase):
    def find(
        self, *limits: examination.Limit, gpus: tuple[fleet.GPU, ...] = (T4,)
    ) -> list[tuple[str, str, str]]:
        asks = flavors.parse('own', {'resources:CUSTOM_A40_8Q': '1'})
        made = (BOTH, asks) if OWN in gpus else (BOTH,)
        return [
            found
            for found in codes(diagnose(*gpus, made=made, limits=limits))
            if found[1].startswith('limit')
        ]

    def limit(
        self,
        name: str,
        service: str = 'nova',
        region: str | None = 'RegionOne',
    ) -> examination.Limit:
        return examination.Limit(name, 10, service, region)

    def test_limits_without_problems(self) -> None:
        self.assertEqual(
            [],
            self.find(
                self.limit('class:VGPU'),
                self.limit('servers'),
                # About something else.
                self.limit('class:VCPU'),
                self.limit('class:CUSTOM_FPGA'),
                self.limit('volumes', 'cinder', None),
            ),
        )
        self.assertEqual([], self.find())

    def test_a_limit_for_another_service(self) -> None:
        self.assertEqual(
            [
                ('warning', 'limit-of-other-service', 'class:VGPU'),
                ('note', 'limit-missing', 'VGPU'),
            ],
            self.find(self.limit('class:VGPU', 'cinder')),
        )

    def test_a_limit_for_another_region(self) -> None:
        for region in (None, 'RegionTwo'):
            self.assertEqual(
                ('warning', 'limit-of-other-region', 'class:VGPU'),
                self.find(self.limit('class:VGPU', region=region))[0],
            )

    def test_limits_of_another_region_of_nova(self) -> None:
        """They are for GPUs that were not read."""
        regions = frozenset({'RegionOne', 'RegionTwo'})
        for name in ('class:VGPU', 'class:CUSTOM_A40_8Q'):
            limit = self.limit(name, region='RegionTwo')
            self.assertEqual(
                [('note', 'limit-missing', 'VGPU')],
                codes(diagnose(T4, limits=(limit,), regions=regions)),
            )
        # The region is not known: it may be any of them.
        self.assertEqual(
            (),
            diagnose(
                T4,
                limits=(self.limit('class:VGPU', region='RegionTwo'),),
                regions=regions,
                region=None,
            ),
        )

    def test_the_region_to_register_a_limit_for(self) -> None:
        found = diagnose(
            T4,
            limits=(self.limit('class:VGPU', region=None),),
            regions=frozenset({'RegionOne', 'RegionTwo'}),
        )
        self.assertEqual(
            "Register it with the region of Nova's endpoint: RegionOne.",
            found[0].cure,
        )

    def test_a_limit_for_a_class_that_no_gpu_has(self) -> None:
        self.assertEqual(
            [('warning', 'limit-without-class', 'class:CUSTOM_T4_2Q')],
            self.find(
                self.limit('class:CUSTOM_T4_2Q'), self.limit('class:VGPU')
            ),
        )

    def test_a_limit_for_several_types(self) -> None:
        self.assertEqual(
            [('warning', 'limit-shared', 'class:VGPU')],
            self.find(self.limit('class:VGPU'), gpus=(T4, A40)),
        )

    def test_a_limit_that_another_class_of_the_type_does_not_have(
        self,
    ) -> None:
        self.assertEqual(
            [('warning', 'limit-bypassed', 'VGPU')],
            self.find(self.limit('class:CUSTOM_A40_8Q'), gpus=(A40, OWN)),
        )

    def test_a_class_without_a_limit_beside_one_with(self) -> None:
        self.assertEqual(
            [('note', 'limit-missing', 'VGPU')],
            self.find(self.limit('class:CUSTOM_A40_8Q'), gpus=(T4, OWN)),
        )


class TestWholeGPUs(testtools.TestCase):
    TWO = (clouds.whole('compute1 C1'), clouds.whole('compute1 C2', 0, 0, 1))

    def find(self, **extra_specs: str) -> tuple[values.Finding, ...]:
        specs = {key.replace('__', ':'): n for key, n in extra_specs.items()}
        asks = flavors.parse('f', specs)
        return diagnose(T4, made=(BOTH, asks), whole=self.TWO)

    def test_flavors_without_problems(self) -> None:
        for alias in ('gpu-A40:1', 'gpu-A40:2', 'nic:1', 'gpu-A40:1,nic:1'):
            self.assertEqual((), self.find(pci_passthrough__alias=alias))
        # The alias may lead to the class.
        self.assertEqual(
            (),
            self.find(
                resources__CUSTOM_GPU_A40='1', pci_passthrough__alias='mine:1'
            ),
        )

    def test_a_resource_class_without_an_alias(self) -> None:
        (found,) = self.find(resources__CUSTOM_GPU_A40='2')
        self.assertEqual(
            [('error', 'flavor-without-device', 'f')], codes((found,))
        )
        self.assertEqual(
            'Set "pci_passthrough:alias" to "gpu-A40:2", and remove '
            '"resources:CUSTOM_GPU_A40".',
            found.cure,
        )

    def test_more_than_a_host_has(self) -> None:
        for alias in (
            'gpu-A40:3',
            'gpu-L4:1',
            'gpu-A40:1,gpu-L4:1',
        ):
            (found,) = self.find(pci_passthrough__alias=alias)
            self.assertEqual(
                [('error', 'flavor-unservable', 'f')], codes((found,)), alias
            )
            self.assertEqual(
                (
                    values.Evidence(
                        'flavor f', f'pci_passthrough:alias={alias}'
                    ),
                ),
                found.evidence,
            )


class TestFlavorsAlone(testtools.TestCase):
    """What is known of flavors by GPUs and flavors alone."""

    def test_the_same_as_among_all_findings(self) -> None:
        made = (
            BOTH,
            flavors.parse('lost', {'resources:VGPU': '9'}),
            flavors.parse('whole', {'pci_passthrough:alias': 'gpu-A40:2'}),
            flavors.parse('wrong', {'resource:VGPU': '1'}),
        )
        gpus = (T4, A40, clouds.whole('compute1 C1'))
        examined = examination.of_gpus(gpus, made)
        alone = diagnosis.diagnose_flavors(examined)
        self.assertEqual(
            ['wrong', 'lost', 'whole'], [found.subject for found in alone]
        )
        everything = diagnosis.diagnose(examined)
        self.assertLess(set(alone), set(everything))
