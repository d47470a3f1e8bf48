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

from nova_vgpu.cloud.orders import flavor_query
from nova_vgpu.cloud.orders import flavors

SIZE = flavors.Size(4, 16384, 40, 10, 1025)
PLAIN = 'DISK_GB:52,MEMORY_MB:16384,VCPU:4'


class TestQuery(testtools.TestCase):
    """A functional test compares with Nova's own translation."""

    def test_what_placement_is_asked(self) -> None:
        for extra_specs, expected in (
            ({}, {'resources': PLAIN}),
            (
                {
                    'resources:VGPU': '2',
                    'trait:CUSTOM_A': 'required',
                    'trait:CUSTOM_B': 'forbidden',
                },
                {
                    'resources': f'{PLAIN},VGPU:2',
                    'required': '!CUSTOM_B,CUSTOM_A',
                },
            ),
            (
                {
                    'resources1:VGPU': '1',
                    'trait1:CUSTOM_A': 'required',
                    'resources_X:CUSTOM_Y': '2',
                    'group_policy': 'isolate',
                },
                {
                    'resources': PLAIN,
                    'resources1': 'VGPU:1',
                    'required1': 'CUSTOM_A',
                    'resources_X': 'CUSTOM_Y:2',
                    'group_policy': 'isolate',
                },
            ),
            (
                {'resources:DISK_GB': '0', 'group_policy': 'wrong'},
                {'resources': 'MEMORY_MB:16384,VCPU:4'},
            ),
            (
                {'pci_passthrough:alias': 'gpu-A40:8,network-card:1'},
                {'resources': PLAIN, 'resources_pci0': 'CUSTOM_GPU_A40:1'},
            ),
            (
                {
                    'pci_passthrough:alias': 'gpu-A40:1',
                    'resources1:VGPU': '1',
                },
                {
                    'resources': PLAIN,
                    'resources1': 'VGPU:1',
                    'resources_pci0': 'CUSTOM_GPU_A40:1',
                    'group_policy': 'none',
                },
            ),
            (
                {'resources:PCPU': '2'},
                {'resources': 'DISK_GB:52,MEMORY_MB:16384,PCPU:2'},
            ),
            (
                {
                    'hw:cpu_policy': 'dedicated',
                    'hw:emulator_threads_policy': 'isolate',
                },
                {'resources': 'DISK_GB:52,MEMORY_MB:16384,PCPU:5'},
            ),
        ):
            flavor = flavors.parse('small', extra_specs, SIZE)
            self.assertEqual(
                {'root_required': '!COMPUTE_STATUS_DISABLED'} | expected,
                flavor_query.make_query(flavor),
                str(extra_specs),
            )
