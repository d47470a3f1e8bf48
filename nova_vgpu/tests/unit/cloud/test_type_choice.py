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

from nova_vgpu import exception
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.gpus import type_choice
from nova_vgpu.tests.unit.cloud import clouds

T4 = clouds.gpu('compute1 84')
A40 = clouds.gpu('compute1 41', traits=clouds.A40)


def of_blackwell(bus: str, number: int) -> fleet.GPU:
    model = f'RTX_PRO_{number}_BLACKWELL_DC'
    traits = (f'CUSTOM_VGPU_TYPE_{model}_16Q', f'CUSTOM_GPU_MODEL_{model}')
    return clouds.gpu(f'compute1 {bus}', traits=traits)


class TestTypeChoice(testtools.TestCase):
    def test_all_spellings_lead_to_the_type(self) -> None:
        for text in (
            *('A40-8Q', 'a40-8q', 'NVIDIA A40-8Q', 'GRID  A40-8Q', 'A40_8Q'),
            *(' A40-8Q', 'CUSTOM_VGPU_TYPE_A40_8Q', 'A40-8QGFX'),
        ):
            found = type_choice.find_type([T4, A40], text)
            self.assertEqual('A40-8Q', found.name, text)
            self.assertEqual('CUSTOM_VGPU_TYPE_A40_8Q', found.trait)
            self.assertEqual((A40,), found.gpus)

    def refuse(self, gpus: list[fleet.GPU], *wanted: str | None) -> str:
        error = self.assertRaises(
            exception.NotInCloud, type_choice.find_type, gpus, *wanted
        )
        return str(error)

    def test_an_unknown_type_is_answered_with_those_there_are(self) -> None:
        for text, expected in (
            (
                'A40-9Q',
                'Placement has no GPU of type A40-9Q. Did you mean A40-8Q? '
                'Types with GPUs: A40-8Q, T4-2Q.',
            ),
            (
                'nvidia-558',
                'Placement has no GPU of type nvidia-558. Ids of types differ '
                'between hosts and drivers: give the name. Types with GPUs: '
                'A40-8Q, T4-2Q.',
            ),
            (
                'A40\x1b8Q',
                r'Placement has no GPU of type A40\x1b8Q. Did you mean '
                'A40-8Q? '
                'Types with GPUs: A40-8Q, T4-2Q.',
            ),
            (
                '',
                'Placement has no GPU of type . Types with GPUs: A40-8Q, '
                'T4-2Q.',
            ),
        ):
            self.assertEqual(expected, self.refuse([T4, A40], text))

    def test_the_last_word_of_two_models_is_ambiguous(self) -> None:
        gpus = [of_blackwell('41', 6000), of_blackwell('42', 4500)]
        self.assertEqual(
            'Type DC-16Q is ambiguous: RTX Pro 4500 Blackwell DC-16Q, RTX Pro '
            '6000 Blackwell DC-16Q. Give the full name.',
            self.refuse(gpus, 'DC-16Q'),
        )
        found = type_choice.find_type(gpus, 'RTX Pro 4500 Blackwell DC-16Q')
        self.assertEqual(gpus[1:], list(found.gpus))
        self.assertEqual(
            gpus[:1], list(type_choice.find_type(gpus[:1], 'DC-16Q').gpus)
        )

    def test_a_resource_class_is_named_if_there_are_several(self) -> None:
        own = clouds.gpu('compute2 84', resource_class='CUSTOM_T4')
        self.assertEqual(
            'GPUs serve type T4-2Q with several resource classes: CUSTOM_T4, '
            'VGPU. Choose one with --resource-class.',
            self.refuse([T4, own], 'T4-2Q'),
        )
        found = type_choice.find_type([T4, own], 'T4-2Q', 'CUSTOM_T4')
        self.assertEqual([own], [gpu for gpu, _ in found.stocks])
        self.assertEqual(
            'No GPU serves type T4-2Q with resource class CUSTOM_X. Resource '
            'classes: CUSTOM_T4, VGPU.',
            self.refuse([T4, own], 'T4-2Q', 'CUSTOM_X'),
        )

    def test_the_class_of_fenced_gpus_does_not_count(self) -> None:
        fenced = clouds.gpu(
            *('compute2 84', 1, 1, 7), resource_class='CUSTOM_T4'
        )
        found = type_choice.find_type([T4, fenced], 'T4-2Q')
        self.assertEqual('VGPU', found.resource_class)
        found = type_choice.find_type([fenced], 'T4-2Q')
        self.assertEqual('CUSTOM_T4', found.resource_class)
