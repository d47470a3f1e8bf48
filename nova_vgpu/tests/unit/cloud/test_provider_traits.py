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

from nova_vgpu.cloud.gpus import provider_traits
from nova_vgpu.knowledge import capabilities
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts

BOARDS = (boards.T4, boards.A40, boards.A10, boards.L40S)


class TestFacts(testtools.TestCase):
    def test_traits_tell_what_they_were_made_of(self) -> None:
        for board in BOARDS:
            gpu = hosts.make_gpu(hosts.gpu('84:00.0', board))
            for board_type in board.types:
                made = hosts.make_type(board_type)
                facts = provider_traits.read(
                    frozenset(capabilities.traits_of(gpu, made))
                )
                name = capabilities.parse_type_name(made.name or '')
                assert name is not None
                self.assertEqual(
                    provider_traits.Facts(
                        (name.short,),
                        name.model,
                        name.series,
                        name.framebuffer_mib,
                    ),
                    facts,
                )

    def test_less_is_known_of_other_traits(self) -> None:
        for found, expected in (
            ((), provider_traits.Facts()),
            (
                ('CUSTOM_VGPU_TYPE_ACME_RAY', 'CUSTOM_GPU_MODEL_RAY'),
                provider_traits.Facts(('ACME_RAY',), 'RAY'),
            ),
            (
                ('CUSTOM_VGPU_TYPE_B', 'CUSTOM_VGPU_TYPE_A'),
                provider_traits.Facts(('A', 'B')),
            ),
            (
                ('CUSTOM_VGPU_FRAMEBUFFER_512M',),
                provider_traits.Facts(framebuffer_mib=512),
            ),
            (('CUSTOM_VGPU_FRAMEBUFFER_BIG',), provider_traits.Facts()),
            # A whole GPU.
            (
                ('CUSTOM_GPU_MODEL_RTX6000_ADA',),
                provider_traits.Facts(model='RTX6000-Ada'),
            ),
            (
                ('CUSTOM_GPU_MODEL_A', 'CUSTOM_GPU_MODEL_B'),
                provider_traits.Facts(),
            ),
        ):
            self.assertEqual(
                expected, provider_traits.read(frozenset(found)), str(found)
            )

    def test_a_model_in_any_spelling(self) -> None:
        found = {'CUSTOM_GPU_MODEL_RTX_6000_ADA'}
        for model, expected in (
            ('RTX 6000 Ada', True),
            ('rtx_6000_ada', True),
            ('RTX-6000-ADA', True),
            ('RTX 6000', False),
            ('', False),
        ):
            self.assertEqual(
                expected, provider_traits.is_model(found, model), model
            )
