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

from nova_vgpu.cloud.orders import flavors
from nova_vgpu.cloud.orders import whole_gpu_listing
from nova_vgpu.tests.unit.cloud import clouds

GPUS = (
    clouds.gpu('compute1 41', 6, 1, None, clouds.A40),
    clouds.whole('compute1 C1', 1, 1),
    clouds.whole('compute2 C1'),
    clouds.whole('compute2 C2'),
    clouds.whole('compute3 C1', 0, 0, 1),
)


class TestModels(testtools.TestCase):
    def test_numbers_of_each_model(self) -> None:
        (usage,) = whole_gpu_listing.list_models(GPUS)
        self.assertEqual(
            ('A40', 'CUSTOM_GPU_A40', None),
            (usage.facts.model, usage.resource_class, usage.name),
        )
        self.assertEqual((4, 3), (usage.gpus, usage.hosts))
        self.assertEqual(
            (4, 1, 1, 2),
            (usage.total, usage.used, usage.reserved, usage.free),
        )
        self.assertEqual(2, usage.largest)

    def test_flavors_ask_for_a_model_by_its_alias(self) -> None:
        made = [
            flavors.parse('two', {'pci_passthrough:alias': 'gpu-A40:2'}),
            flavors.parse('one', {'pci_passthrough:alias': 'gpu-A40:1'}),
            flavors.parse('other', {'pci_passthrough:alias': 'gpu-T4:1'}),
            flavors.parse('by-class', {'resources:CUSTOM_GPU_A40': '1'}),
        ]
        (usage,) = whole_gpu_listing.list_models(GPUS, made)
        self.assertEqual(('one', 'two'), usage.flavors)

    def test_a_class_that_flavors_cannot_ask_for_is_left_out(self) -> None:
        for resource_class in ('CUSTOM_MINE', 'CUSTOM_PCI_10DE_2235'):
            found = clouds.whole('compute1 C1', resource_class=resource_class)
            self.assertEqual((), whole_gpu_listing.list_models([found]))
