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

"""What is known of a model and its types, and on whose word."""

import testtools

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.knowledge import vendors
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts

NOTHING = values.TypeFacts()
T4 = hosts.gpu('84:00.0', boards.T4)


class TestFacts(testtools.TestCase):
    def facts(
        self, name: str, said: values.TypeFacts = NOTHING
    ) -> values.TypeFacts:
        gpu = values.PhysicalGPU('x', ids=values.PciIds(0x10DE, 0x2235))
        return capabilities.facts_of(
            gpu, values.VGPUType('nvidia-1', name, said)
        )

    def test_the_catalogue_fills_what_the_driver_leaves_out(self) -> None:
        self.assertEqual(
            values.TypeFacts(8192, 6), self.facts('NVIDIA A40-8Q')
        )

    def test_the_drivers_word_beats_the_catalogue(self) -> None:
        said = values.TypeFacts(4096, 5, 2, values.Resolution(640, 480))
        self.assertEqual(said, self.facts('NVIDIA A40-8Q', said))

    def test_nothing_is_known_of_a_type_without_a_name(self) -> None:
        self.assertEqual(NOTHING, self.facts(''))

    def test_a_size_but_no_maximum_for_a_model_never_heard_of(self) -> None:
        self.assertEqual(values.TypeFacts(4096), self.facts('Z9000-4Q'))

    def test_a_gpu_of_no_vendor(self) -> None:
        said = values.TypeFacts(max_instances=3)
        found = capabilities.facts_of(
            values.PhysicalGPU('mtty_mtty'),
            values.VGPUType('mtty-1', 'A40-8Q', said),
        )
        self.assertEqual(said, found)


class TestModels(testtools.TestCase):
    def test_what_a_gpu_is_called(self) -> None:
        for case, gpu, expected in (
            ('by its types', hosts.make_gpu(T4), 'T4'),
            (
                'by its ids while it shows no types',
                hosts.make_gpu(hosts.gpu('41:00.0', boards.A40)),
                'A40',
            ),
            (
                'not at all',
                values.PhysicalGPU('x', ids=values.PciIds(0x10DE, 0xFFFF)),
                None,
            ),
            ('no PCI device', values.PhysicalGPU('mtty_mtty'), None),
        ):
            self.assertEqual(expected, capabilities.model_of(gpu), case)

    def test_which_gpus_make_vgpus(self) -> None:
        for case, gpu, expected in (
            ('it offers types', hosts.make_gpu(T4), True),
            (
                'it has VFs to enable',
                hosts.make_gpu(hosts.gpu('41:00.0', boards.A40)),
                True,
            ),
            (
                'it has VFs to enable, and nobody knows it',
                values.PhysicalGPU(
                    'x',
                    ids=values.PciIds(0x10DE, 0xFFFF),
                    sriov=values.Sriov(16),
                ),
                True,
            ),
            (
                'known by its ids, driver missing',
                values.PhysicalGPU('x', ids=values.PciIds(0x10DE, 0x1EB8)),
                True,
            ),
            (
                'a desktop board',
                values.PhysicalGPU('x', ids=values.PciIds(0x10DE, 0x1B80)),
                False,
            ),
            (
                'AMD without VFs',
                hosts.make_gpu(hosts.gpu('41:00.0', boards.INSTINCT_MI210)),
                False,
            ),
            ('nobody knows', values.PhysicalGPU('mtty_mtty'), False),
        ):
            self.assertEqual(expected, capabilities.makes_vgpus(gpu), case)

    def test_a_module_is_all_that_a_vendor_takes(self) -> None:
        found = [vendor.name for vendor in vendors.list_vendors()]
        self.assertEqual(['AMD', 'Intel', 'NVIDIA'], found)
