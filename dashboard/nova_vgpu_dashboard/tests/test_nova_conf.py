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

import dataclasses
import unittest

from nova_vgpu_dashboard.content.gpus import nova_conf
from nova_vgpu_dashboard.tests import clouds


class TestLines(unittest.TestCase):
    def test_a_gpu_of_a_type(self) -> None:
        self.assertEqual(
            (
                '[devices]',
                'enabled_vgpu_types = A40-8Q',
                '',
                '[vgpu_A40-8Q]',
                'device_addresses = 0000:41:00.0',
            ),
            nova_conf.write(clouds.gpu('compute1')),
        )

    def test_a_resource_class_of_its_own(self) -> None:
        gpu = clouds.gpu('compute1', resource_class='CUSTOM_A40')
        self.assertEqual(
            'resource_class = CUSTOM_A40', nova_conf.write(gpu)[-1]
        )

    def test_the_share_of_a_divided_gpu(self) -> None:
        gpu = clouds.gpu('compute1', capacity=3, used=1, reserved=1)
        gpu = dataclasses.replace(gpu, device=f'{gpu.device}_A40-8Q')
        self.assertEqual(
            'device_addresses = 0000:41:00.0=4', nova_conf.write(gpu)[-1]
        )

    def test_a_whole_gpu(self) -> None:
        self.assertEqual(
            (
                '[pci]',
                'report_in_placement = true',
                'device_spec = {"address": "0000:c1:00.0",',
                '    "managed": "yes",',
                '    "resource_class": "CUSTOM_GPU_A40",',
                '    "traits": "CUSTOM_GPU_MODEL_A40,CUSTOM_GPU_VENDOR_NVIDIA"'
                '}',
            ),
            nova_conf.write(clouds.whole('compute1')),
        )

    def test_nothing_is_guessed(self) -> None:
        several = (*clouds.A40, 'CUSTOM_VGPU_TYPE_A40_4Q')
        for traits in ((), several):
            gpu = clouds.gpu('compute1', traits=traits)
            self.assertEqual((), nova_conf.write(gpu))
