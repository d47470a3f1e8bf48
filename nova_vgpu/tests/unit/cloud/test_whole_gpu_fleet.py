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

"""Whole GPUs of a cloud among other providers."""

import testtools

from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.gpus import whole_gpu_fleet
from nova_vgpu.tests.unit.cloud import clouds

ROOT = fleet.Listed('r', 'compute1', None, 'r')
TRAITS = frozenset(clouds.WHOLE_A40)


class TestProviders(testtools.TestCase):
    def make(self, name: str, traits: frozenset[str]) -> tuple[fleet.GPU, ...]:
        child = fleet.Listed('g', f'compute1_{name}', 'r', 'r')
        stock = fleet.Stock('CUSTOM_GPU_A40', 1, 0)
        summaries = {'g': fleet.Summary((stock,), traits)}
        return whole_gpu_fleet.make_gpus([ROOT, child], summaries)

    def test_a_gpu_as_nova_names_its_provider(self) -> None:
        (gpu,) = self.make('0000:C1:00.0', TRAITS)
        self.assertEqual('0000:c1:00.0', gpu.address)
        self.assertEqual('A40', gpu.facts.model)
        self.assertEqual('passthrough', whole_gpu_fleet.find_role(gpu).value)

    def test_other_devices_of_nova_are_not_gpus(self) -> None:
        functions = TRAITS | {'CUSTOM_VGPU_TYPE_A40_8Q'}
        pci = {'COMPUTE_MANAGED_PCI_DEVICE', 'OWNER_NOVA'}
        for case, name, traits in (
            ('network card', '0000:C1:00.0', frozenset(pci)),
            ('VFs with a vGPU type', '0000:C1:00.0', functions),
            ('a GPU with vGPUs', 'pci_0000_c1_00_0', TRAITS),
            ('not of Nova', '0000:C1:00.0', TRAITS - pci),
            ('another name', 'agent', TRAITS),
        ):
            self.assertEqual((), self.make(name, traits), case)
        vgpu = clouds.gpu('compute1 84')
        self.assertEqual('vGPU', whole_gpu_fleet.find_role(vgpu).value)

    def test_a_host_where_nothing_is_free_is_missing(self) -> None:
        child = fleet.Listed('g', 'compute1_0000:C1:00.0', 'r', 'r')
        listed = [ROOT, child]
        self.assertEqual((), fleet.find_missing(listed, {}))
        self.assertEqual(
            (child,),
            fleet.find_missing(listed, {}, whole_gpu_fleet.is_device),
        )

    def test_all_gpus_of_a_host_are_in_the_order_of_addresses(self) -> None:
        found = fleet.sort(
            [
                clouds.gpu('compute1 c8'),
                clouds.whole('compute1 C1'),
                clouds.gpu('compute1 41'),
            ]
        )
        self.assertEqual(
            ['0000:41:00.0', '0000:c1:00.0', '0000:c8:00.0'],
            [gpu.address for gpu in found],
        )
