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

"""The lines for whole GPUs, and what is refused."""

import dataclasses
import json

import testtools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.generate import whole_gpu_lines
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests import hosts

T4 = hosts.gpu('84:00.0', boards.T4)
A40 = hosts.gpu('c1:00.0', boards.A40)
PLAIN_A40 = hosts.gpu(
    'c2:00.0', dataclasses.replace(boards.A40, total_vfs=0, types=())
)
UNKNOWN = hosts.gpu(
    'c3:00.0', dataclasses.replace(boards.T4, device=0xABCD, types=())
)


def request(
    *cards: simulation.GPU, by_ids: bool = False
) -> values.PassthroughRequest:
    return values.PassthroughRequest(tuple(map(hosts.make_gpu, cards)), by_ids)


def generate(
    *requests: values.PassthroughRequest,
    types: values.Fragment | None = None,
) -> values.Fragment:
    read = values.IsolationRead(
        tuple(
            (gpu.address, values.GPUIsolation(number))
            for of in requests
            for number, gpu in enumerate(of.gpus)
            if gpu.address
        )
    )
    return whole_gpu_lines.generate(requests, read, values.Plan(), types)


def parse(fragment: values.Fragment, option: str) -> list[dict[str, str]]:
    """The values of an option that are objects."""
    text = '\n'.join(fragment.lines)
    parts = text.split(f'\n{option} = ')[1:]
    return [json.loads(part.partition('}')[0] + '}') for part in parts]


class TestLines(testtools.TestCase):
    def test_a_gpu_by_its_address(self) -> None:
        fragment = generate(request(T4))
        self.assertEqual(
            [
                {
                    'address': '0000:84:00.0',
                    'managed': 'yes',
                    'resource_class': 'CUSTOM_GPU_T4',
                    'traits': 'CUSTOM_GPU_ARCH_TURING,'
                    'CUSTOM_GPU_CUDA_COMPUTE_CAPABILITY_V7_5,'
                    'CUSTOM_GPU_MODEL_T4,CUSTOM_GPU_VENDOR_NVIDIA',
                }
            ],
            parse(fragment, 'device_spec'),
        )
        self.assertEqual(
            [
                {
                    'name': 'gpu-T4',
                    'device_type': 'type-PCI',
                    'resource_class': 'CUSTOM_GPU_T4',
                }
            ],
            parse(fragment, 'alias'),
        )
        for line in (
            '[filter_scheduler]',
            'pci_in_placement = true',
            '[pci]',
            'report_in_placement = true',
        ):
            self.assertIn(line, fragment.lines)

    def test_all_gpus_with_the_same_ids(self) -> None:
        other = dataclasses.replace(T4, address=A40.address)
        fragment = generate(request(T4, other, by_ids=True))
        (spec,) = parse(fragment, 'device_spec')
        self.assertEqual(
            ('10de', '1eb8'), (spec['vendor_id'], spec['product_id'])
        )
        self.assertNotIn('address', spec)
        self.assertEqual('CUSTOM_GPU_T4', spec['resource_class'])

    def test_a_gpu_with_sriov_is_a_physical_function(self) -> None:
        (alias,) = parse(generate(request(A40)), 'alias')
        self.assertEqual('type-PF', alias['device_type'])

    def test_two_gpus_of_a_model_have_one_alias(self) -> None:
        other = dataclasses.replace(T4, address=A40.address)
        fragment = generate(request(T4), request(other))
        self.assertEqual(2, len(parse(fragment, 'device_spec')))
        self.assertEqual(1, len(parse(fragment, 'alias')))

    def test_an_alias_is_for_one_device_type(self) -> None:
        error = self.assertRaises(
            exception.RequestRefusedError,
            generate,
            request(A40),
            request(PLAIN_A40),
        )
        self.assertEqual(1, len(error.reasons))
        for word in ('0000:c1:00.0 is type-PF', '0000:c2:00.0 is type-PCI'):
            self.assertIn(word, error.reasons[0])

    def test_a_model_that_is_not_known(self) -> None:
        (spec,) = parse(generate(request(UNKNOWN)), 'device_spec')
        self.assertEqual('CUSTOM_PCI_10DE_ABCD', spec['resource_class'])
        self.assertEqual('CUSTOM_GPU_VENDOR_NVIDIA', spec['traits'])

    def test_lines_for_types_come_first_and_sections_once(self) -> None:
        declaration = values.Declaration()
        for line, count in (('[devices]', 1), ('[pci]', 1)):
            types = values.Fragment(
                ('# head', line), declaration, warnings=('first',)
            )
            fragment = generate(request(T4), types=types)
            self.assertEqual(('# head', line), fragment.lines[:2])
            self.assertEqual(count, fragment.lines.count('[pci]'))
            self.assertIs(declaration, fragment.declaration)
            self.assertEqual('first', fragment.warnings[0])
            self.assertIn('bound to nvidia', fragment.warnings[1])

    def test_every_reason_of_every_gpu_is_told(self) -> None:
        vfs = hosts.gpu('41:00.0', boards.A40, 'nvidia-562', vfs=4)
        used = hosts.gpu('85:00.0', boards.T4, 'nvidia-231')
        error = self.assertRaises(
            exception.RequestRefusedError,
            generate,
            request(vfs),
            request(used),
        )
        self.assertEqual(3, len(error.reasons))
        for reason in error.reasons:
            self.assertRegex(reason, r'^GPU 0000:(41|85):00.0 cannot be ')

    def test_a_parent_that_is_not_a_pci_device_is_refused(self) -> None:
        mtty = values.PassthroughRequest((values.PhysicalGPU('mtty_mtty'),))
        error = self.assertRaises(
            exception.RequestRefusedError, generate, mtty
        )
        self.assertIn('mtty_mtty', str(error))
