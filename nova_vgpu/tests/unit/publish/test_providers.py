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

"""What Placement would hold, and which providers are those of GPUs."""

import dataclasses

import testtools

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.publish import providers
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans
from nova_vgpu.tests import trees

T4_2Q = 'CUSTOM_VGPU_TYPE_T4_2Q'
HOST = hosts.make_host(
    hosts.gpu('41:00.0', boards.A40, vfs=32),
    hosts.gpu('84:00.0', boards.T4),
    hosts.gpu('85:00.0', boards.T4, 'nvidia-233'),
    hosts.gpu('c1:00.0', boards.A40),
    hosts.gpu('0001:c8:00.0', boards.L40S, vfs=32, vendor_vfio=True),
    mtty=True,
)


def list_providers(
    *types: values.DeclaredType,
) -> dict[str, values.Provider]:
    declaration = values.Declaration(types, values.UnlistedGPUs.IGNORE)
    plan = plans.make_plan(declaration, HOST)
    served = providers.Target(plan, 'compute1.example.org').served
    return {name: provider for name, (_, provider) in served.items()}


class TestProviders(testtools.TestCase):
    def test_one_provider_per_gpu_that_serves(self) -> None:
        found = list_providers(
            values.DeclaredType('A40-8Q', 'x', ('41:00.0', 'c1:00.0')),
            values.DeclaredType('T4-2Q', 'x', ('84:00.0', '85:00.0')),
            values.DeclaredType('L40S-24Q', 'x', ('0001:c8:00.0',)),
            values.DeclaredType('mtty-2', 'x', ('mtty_mtty',)),
        )
        # Not those of the GPU whose VFs are off and of the one that is full.
        self.assertEqual(
            {
                'compute1.example.org_mtty_mtty': 12,
                'compute1.example.org_pci_0000_41_00_0': 6,
                'compute1.example.org_pci_0000_84_00_0': 8,
                'compute1.example.org_pci_0001_c8_00_0': 2,
            },
            {name: provider.total for name, provider in found.items()},
        )
        self.assertEqual(
            {('compute1.example.org', 'VGPU')},
            {(p.parent, p.resource_class) for p in found.values()},
        )

    def test_the_gpu_and_not_its_functions_is_the_provider(self) -> None:
        found = list_providers(
            values.DeclaredType('A40-8Q', 'x', ('41:00.4', '41:00.5'))
        )
        (provider,) = found.values()
        self.assertEqual(
            'compute1.example.org_pci_0000_41_00_0', provider.name
        )
        self.assertEqual(2, provider.total)

    def test_the_operators_class_cap_and_traits(self) -> None:
        found = list_providers(
            values.DeclaredType(
                'T4-2Q',
                'x',
                ('84:00.0',),
                resource_class='CUSTOM_SMALL',
                max_instances=3,
                traits=('HW_CPU_X86_AVX2', 'CUSTOM_RACK_7', 'OWNER_NOVA'),
            )
        )
        (provider,) = found.values()
        self.assertEqual('CUSTOM_SMALL', provider.resource_class)
        self.assertEqual(3, provider.total)
        gpu = next(gpu for gpu in HOST.gpus if str(gpu) == '0000:84:00.0')
        of_type = next(t for t in gpu.types if t.id == 'nvidia-231')
        self.assertEqual(
            tuple(
                sorted(
                    {
                        *capabilities.traits_of(gpu, of_type),
                        'CUSTOM_RACK_7',
                        'HW_CPU_X86_AVX2',
                    }
                )
            ),
            provider.traits,
        )

    def test_nothing_set_makes_no_providers(self) -> None:
        self.assertEqual({}, list_providers())


class TestAwaited(testtools.TestCase):
    def test_what_is_declared_is_awaited_though_it_cannot_serve(self) -> None:
        types = (
            # Full, off, not on the bus, no address, not a PCI device.
            values.DeclaredType('T4-2Q', 'x', ('85:00.0',)),
            values.DeclaredType('A40-8Q', 'x', ('C1:00.0', '99:00.0', 'zz')),
            values.DeclaredType('mtty-2', 'x', ('mtty_mtty',)),
        )
        fault = values.ReadFault('pci_0000_aa_00_0', 'vendor', 'is broken')
        host = dataclasses.replace(HOST, faults=(fault,))
        plan = plans.make_plan(
            values.Declaration(types, values.UnlistedGPUs.IGNORE), host
        )
        target = providers.Target(plan, 'node')
        for device in (
            'pci_0000_85_00_0',
            'pci_0000_c1_00_0',
            'mtty_mtty',
            'pci_0000_aa_00_0',
            'pci_0000_99_00_0',
        ):
            self.assertTrue(target.is_awaited(f'node_{device}'), device)
        for device in ('pci_0000_41_00_0', 'mtty_other', 'zz'):
            self.assertFalse(target.is_awaited(f'node_{device}'), device)


class TestOfGPU(testtools.TestCase):
    """Which providers below a node may be taken out of service."""

    def test_table(self) -> None:
        pci, mdev_parent = 'pci_0000_84_00_0', 'mtty_mtty'
        for case, held, expected in (
            ('of this driver', trees.held(pci, 'OWNER_NOVA', VGPU=8), True),
            ('of Nova 33', trees.held(pci, VGPU=8), True),
            ('in a long PCI domain',
             trees.held('pci_10000_01_00_0', VGPU=8), True),
            ('of a declared class', trees.held(pci, CUSTOM_BIG=1), True),
            ('a class declared before',
             trees.held(pci, T4_2Q, CUSTOM_OLD=1), True),
            ('without inventory', trees.held(pci, T4_2Q), True),
            ('with a class of provider.yaml',
             trees.held(pci, VGPU=8, CUSTOM_LICENCE=9), True),
            ('parent of mdevs', trees.held(mdev_parent, VGPU=8), True),
            ('parent that is gone',
             trees.held('mtty_gone', T4_2Q, VGPU=8), True),
            ('AMD SEV',
             trees.held('amd_sev', 'OWNER_NOVA', MEM_ENCRYPTION_CONTEXT=5),
             False),
            ('a PCI device that Nova tracks',
             trees.held('0000:84:00.0', 'OWNER_NOVA',
                        'COMPUTE_MANAGED_PCI_DEVICE', CUSTOM_BIG=1), False),
            ('the same with the name of a node device',
             trees.held(pci, 'COMPUTE_MANAGED_PCI_DEVICE', VGPU=1), False),
            ("Cyborg's", trees.held('0000:84:00.0', VGPU=8), False),
            ("Cyborg's by its owner",
             trees.held(pci, 'OWNER_CYBORG', VGPU=8), False),
            ('a PCI device of another class',
             trees.held(pci, 'OWNER_NOVA', CUSTOM_FPGA=1), False),
            ('a PCI device that offers nothing', trees.held(pci), False),
            ('a network', trees.held('br_ex', NET_BW_EGR_KILOBIT_PER_SEC=1),
             False),
        ):  # fmt: skip
            self.assertEqual(
                expected,
                providers.is_of_gpu(
                    held, trees.NODE, {'CUSTOM_BIG'}, {mdev_parent}
                ),
                case,
            )

    def test_of_another_node(self) -> None:
        self.assertFalse(
            providers.is_of_gpu(
                trees.held('pci_0000_84_00_0', VGPU=8), 'compute2', ()
            )
        )
