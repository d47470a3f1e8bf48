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

"""What NVML tells of NVLinks."""

import types
import typing
from unittest import mock

import testtools

from nova_vgpu import values
from nova_vgpu.host import nvlinks
from nova_vgpu.tests import fabrics

A, B = (values.PciAddress.parse(text) for text in ('07:00.0', '0f:00.0'))
SWITCH = '0000:c4:00.0'


def make_host(driver: str = 'nvidia') -> values.Host:
    return values.Host(
        tuple(
            values.PhysicalGPU(a.node_device_name, a, driver=driver)
            for a in (A, B)
        )
    )


class TestNVLinks(testtools.TestCase):
    def read(
        self, nvml: types.ModuleType | None, host: values.Host | None = None
    ) -> values.NVLinksRead:
        modules = typing.cast(typing.Any, {'pynvml': nvml})
        with mock.patch.dict('sys.modules', modules):
            return nvlinks.read_nvlinks(host or make_host())

    def test_links_to_a_gpu_and_to_a_switch(self) -> None:
        nvml = fabrics.FabricNVML(
            {
                str(A): (
                    (str(B), fabrics.GPU),
                    (str(B), fabrics.GPU),
                    (SWITCH, fabrics.SWITCH),
                ),
                str(B): ((str(A), fabrics.GPU), (str(A), fabrics.GPU)),
            }
        )
        self.assertEqual(
            (
                values.NVLinks(A, ((B, 2),), 1),
                values.NVLinks(B, ((A, 2),), 0),
            ),
            self.read(nvml).gpus,
        )

    def test_a_link_that_is_down_does_not_count(self) -> None:
        nvml = fabrics.join_directly({(str(A), str(B)): 4})
        nvml.down = {(str(A), 0), (str(A), 3)}
        links = self.read(nvml).of(A)
        self.assertEqual(values.NVLinks(A, ((B, 2),)), links)

    def test_a_switch_that_is_not_visible(self) -> None:
        """As in a virtual machine: nccl issue 1182."""
        ends = (('ffff:ff:ff.f', fabrics.UNKNOWN),) * 3
        links = self.read(fabrics.FabricNVML({str(A): ends})).of(A)
        self.assertEqual(values.NVLinks(A, (), 3), links)

    def test_a_link_to_a_processor_joins_no_gpus(self) -> None:
        ends = (('0004:00:01.0', fabrics.PROCESSOR),)
        links = self.read(fabrics.FabricNVML({str(A): ends})).of(A)
        self.assertEqual(values.NVLinks(A), links)

    def test_a_gpu_without_nvlinks(self) -> None:
        found = self.read(fabrics.FabricNVML({str(A): ()}))
        self.assertEqual(values.NVLinks(A), found.of(A))

    def test_a_gpu_that_nvml_does_not_know(self) -> None:
        found = self.read(fabrics.FabricNVML({str(A): ()}))
        self.assertIsNone(found.of(B))
        self.assertIsNone(found.unknown_because)

    def test_without_nvml_the_reason_is_told(self) -> None:
        self.assertIn('nvidia-ml-py', self.read(None).unknown_because or '')

    def test_gpus_of_other_drivers_are_not_asked_about(self) -> None:
        found = self.read(None, make_host('vfio-pci'))
        self.assertEqual(values.NVLinksRead(), found)

    def test_the_binding_has_what_is_asked(self) -> None:
        import pynvml

        for name in vars(fabrics.FabricNVML):
            if name.startswith('nvml'):
                self.assertTrue(callable(getattr(pynvml, name)), name)
        self.assertEqual(
            (fabrics.GPU, fabrics.PROCESSOR, fabrics.SWITCH, fabrics.UNKNOWN),
            (
                pynvml.NVML_NVLINK_DEVICE_TYPE_GPU,
                pynvml.NVML_NVLINK_DEVICE_TYPE_IBMNPU,
                pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH,
                pynvml.NVML_NVLINK_DEVICE_TYPE_UNKNOWN,
            ),
        )
        self.assertLessEqual(pynvml.NVML_NVLINK_MAX_LINKS, nvlinks._MOST_LINKS)
        self.assertIn('busId', dict(pynvml.nvmlPciInfo_t._fields_))
