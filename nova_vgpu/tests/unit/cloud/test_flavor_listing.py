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

import testtools

from nova_vgpu.cloud.orders import flavor_listing
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.tests.unit.cloud import clouds

GPUS = (
    clouds.gpu('compute1 84'),
    clouds.gpu('compute1 41', traits=clouds.A40),
    clouds.gpu('compute2 41', traits=clouds.A40, resource_class='CUSTOM_X'),
)
A40_8Q, T4_2Q = 'CUSTOM_VGPU_TYPE_A40_8Q', 'CUSTOM_VGPU_TYPE_T4_2Q'


class TestListing(testtools.TestCase):
    def test_flavors_with_their_vgpus(self) -> None:
        for extra_specs, vgpus, types, classes in (
            ({'resources:VGPU': '1'}, 1, ['A40-8Q', 'T4-2Q'], ['VGPU']),
            ({'resources:CUSTOM_X': '2'}, 2, ['A40-8Q'], ['CUSTOM_X']),
            (
                {
                    'resources1:VGPU': '1',
                    f'trait1:{T4_2Q}': 'required',
                    'resources2:CUSTOM_X': '2',
                },
                *(3, ['A40-8Q', 'T4-2Q'], ['CUSTOM_X', 'VGPU']),
            ),
            # No GPU has it.
            (
                {
                    'resources:CUSTOM_GONE': '1',
                    'trait:CUSTOM_VGPU_TYPE_X_1Q': 'required',
                },
                *(1, [], ['CUSTOM_GONE']),
            ),
        ):
            flavor = flavors.parse('small', extra_specs)
            self.assertEqual(
                (
                    flavor_listing.VGPUFlavor(
                        flavor, vgpus, tuple(types), tuple(classes)
                    ),
                ),
                flavor_listing.list_vgpu_flavors([flavor], GPUS),
                str(extra_specs),
            )

    def test_flavors_with_whole_gpus(self) -> None:
        for extra_specs, vgpus, models, gpus in (
            ({'pci_passthrough:alias': 'gpu-T4:2'}, 0, ['T4'], 2),
            (
                {
                    'pci_passthrough:alias': 'gpu-T4:2,gpu-A40:1',
                    'resources:VGPU': '1',
                },
                *(1, ['A40', 'T4'], 3),
            ),
        ):
            flavor = flavors.parse('small', extra_specs)
            (found,) = flavor_listing.list_vgpu_flavors([flavor], GPUS)
            self.assertEqual(
                (vgpus, models, gpus),
                (found.vgpus, list(found.models), found.gpus),
            )
            self.assertIn('CUSTOM_GPU_T4', found.resource_classes)

    def test_other_flavors_are_left_out(self) -> None:
        for extra_specs in (
            {},
            {'resources:CUSTOM_FPGA': '1'},
            {'resources:VGPU': '0'},
            {'pci_passthrough:alias': 'network-card:1'},
            # A server with it gets no device.
            {'resources:CUSTOM_GPU_A40': '1'},
            {f'trait:{T4_2Q}': 'required'},
        ):
            found = flavor_listing.list_vgpu_flavors(
                [flavors.parse('small', extra_specs)], GPUS
            )
            self.assertEqual((), found, str(extra_specs))

    def test_those_of_a_type(self) -> None:
        listed = flavor_listing.list_vgpu_flavors(
            [
                flavors.parse('x', {'resources:CUSTOM_X': '1'}),
                flavors.parse('any', {'resources:VGPU': '1'}),
            ],
            GPUS,
        )
        for trait, names in ((A40_8Q, ['any', 'x']), (T4_2Q, ['any'])):
            found = flavor_listing.select(listed, GPUS, trait)
            self.assertEqual(names, [each.flavor.name for each in found])
