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

import os_traits
import testtools

from nova_vgpu.knowledge.vendors import _nvidia_catalogue as catalogue

ARCHITECTURES = {
    'Maxwell': {5},
    'Pascal': {6},
    'Volta': {7},
    'Turing': {7},
    'Ampere': {8},
    'Ada': {8},
    'Hopper': {9},
    'Blackwell': {10, 12},
}


class TestModels(testtools.TestCase):
    def test_every_token_is_unique(self) -> None:
        tokens = [model.token.casefold() for model in catalogue.MODELS]
        self.assertEqual(sorted(set(tokens)), sorted(tokens))

    def test_no_two_models_share_a_pci_id(self) -> None:
        ids = [pair for model in catalogue.MODELS for pair in model.pci_ids]
        self.assertEqual(len(set(ids)), len(ids))

    def test_every_model_is_sound(self) -> None:
        for model in catalogue.MODELS:
            majors = ARCHITECTURES[model.architecture]
            self.assertIn(model.compute_capability[0], majors, model.token)
            self.assertIn(model.mig_slices, (0, 2, 4, 7), model.token)
            # The largest type always takes the GPU whole.
            whole = catalogue.max_per_gpu(
                model,
                framebuffer_mib=model.memory_gib * 1024,
                slices=model.mig_slices or None,
                series='C',
                suffix='',
            )
            self.assertEqual(1, whole, model.token)
            self.assertLessEqual(
                model.max_vgpus, model.memory_gib * 2, model.token
            )

    def test_by_token(self) -> None:
        for description, token, expected in (
            ('as it is written', 'A40', 'A40'),
            ('in small letters', 'rtx6000-ada', 'RTX6000-Ada'),
            ('in capitals', 'RTX6000-ADA', 'RTX6000-Ada'),
            ('the tools short word', 'DC', 'DC'),
            ('the driver: RTX Pro', 'RTX Pro 6000 Blackwell DC', 'DC'),
            ('the driver: 6000D', 'RTX 6000D', '6000D'),
            ('a longer token', 'A100DX', 'A100DX'),
            (
                'another board with DC',
                'RTX PRO 4500 Blackwell DC',
                'RTX Pro 4500 Blackwell DC',
            ),
            ('a board without vGPUs', 'GTX1080', None),
            ('nothing', '', None),
        ):
            found = catalogue.model_by_token(token)
            self.assertEqual(
                expected, found.token if found else None, description
            )

    def test_by_pci(self) -> None:
        for description, device, subsystem, expected in (
            ('a device id of its own', 0x2235, 0x145A, 'A40'),
            ('a virtual function', 0x2235, 0x0000, 'A40'),
            ('no subsystem read', 0x2235, None, 'A40'),
            ('shared with A16', 0x25B6, 0x157E, 'A2'),
            ('shared with A2', 0x25B6, 0x14A9, 'A16'),
            ('shared, and not told', 0x25B6, None, None),
            ('shared, and unknown', 0x25B6, 0x0000, None),
            ('shared, 48 GB', 0x1E30, 0x129E, 'RTX8000'),
            ('shared, 24 GB', 0x1E30, 0x12BA, 'RTX6000'),
            ('passive, 48 GB', 0x1E78, 0x13D8, 'RTX8000P'),
            ('passive, 24 GB', 0x1E78, 0x13D9, 'RTX6000P'),
            ('PCIe', 0x2331, 0x1626, 'H100'),
            ('SXM', 0x2330, 0x16C1, 'H100XM'),
            ('H200 NVL', 0x233B, 0x1996, 'H200'),
            ('H200 SXM', 0x2335, 0x18BE, 'H200X'),
            ('B200', 0x2901, 0x1999, 'B200X'),
            ('B300', 0x3182, 0x20E6, 'B300X'),
            ('RTX PRO 4500 SE', 0x2C3A, None, 'RTX Pro 4500 Blackwell DC'),
            ('a device without vGPUs', 0x1B80, 0x1234, None),
        ):
            found = catalogue.model_by_pci(device, subsystem)
            self.assertEqual(
                expected, found.token if found else None, description
            )


class TestMaxPerGpu(testtools.TestCase):
    def _max(
        self,
        token: str,
        slices: int | None,
        mib: int,
        series: str,
        suffix: str,
    ) -> int | None:
        model = catalogue.model_by_token(token)
        assert model is not None, token
        return catalogue.max_per_gpu(
            model,
            framebuffer_mib=mib,
            slices=slices,
            series=series,
            suffix=suffix,
        )

    def test_time_sliced(self) -> None:
        for description, token, gib, series, expected in (
            ('as many as fit', 'T4', 1, 'Q', 16),
            ('no more than 32 on 48 GB', 'A40', 1, 'Q', 32),
            ('B like Q', 'A40', 1, 'B', 32),
            ('fewer than the limit', 'A40', 2, 'B', 24),
            ('A like Q', 'L40S', 16, 'A', 3),
            ('half a GPU', 'L40S', 24, 'Q', 2),
            ('a whole GPU', 'L40S', 48, 'Q', 1),
            ('24 GB', 'A10', 4, 'Q', 6),
            ('24 GB, the smallest', 'A10', 1, 'Q', 24),
            ('one of four GPUs', 'A16', 1, 'Q', 16),
            ('one of two GPUs', 'M60', 2, 'Q', 4),
            ('12 GB', 'P100C', 1, 'B', 12),
            ('32 GB', 'V100DX', 1, 'Q', 32),
            ('compute', 'A100', 4, 'C', 10),
            ('a rest stays free', 'H100L', 15, 'C', 6),
            ('limited to 32', 'H200', 4, 'C', 32),
            ('one less than fits', 'H200X', 8, 'C', 16),
            ('a neighbour of that', 'H200X', 7, 'C', 20),
            ('limited for C only', 'RTX8000P', 4, 'C', 8),
            ('not so for Q', 'RTX8000P', 4, 'Q', 12),
            ('MIG GPU, time-sliced', 'DC', 3, 'Q', 32),
            ('48 would fit', 'DC', 2, 'B', 32),
            ('32 GB, MIG', 'RTX Pro 4500 Blackwell DC', 16, 'Q', 2),
            ('32 GB, MIG, smaller', 'RTX Pro 4500 Blackwell DC', 8, 'C', 4),
            ('32 GB, MIG, whole', 'RTX Pro 4500 Blackwell DC', 32, 'C', 1),
            ('whole GPUs only', 'B300X', 269, 'C', 1),
            ('whole GPUs only', 'B200X', 180, 'C', 1),
        ):
            found = self._max(token, None, gib * 1024, series, '')
            self.assertEqual(expected, found, f'{token}: {description}')

    def test_half_a_gigabyte(self) -> None:
        self.assertEqual(16, self._max('M10', None, 512, 'B', ''))

    def test_mig_backed(self) -> None:
        for description, token, slices, gib, suffix, expected in (
            ('by compute slices', 'A100', 1, 5, '', 7),
            ('by memory slices', 'A100', 1, 10, '', 4),
            ('two slices', 'A100', 2, 10, '', 3),
            ('three slices, half the memory', 'A100', 3, 20, '', 2),
            ('four slices, half the memory', 'A100', 4, 20, '', 1),
            ('all slices', 'A100', 7, 40, '', 1),
            ('with media extensions', 'A100', 1, 5, 'ME', 1),
            ('four slices in all', 'A30', 1, 6, '', 4),
            ('half of four', 'A30', 2, 12, '', 2),
            ('half, with media extensions', 'A30', 2, 12, 'ME', 1),
            ('rounded up', 'H200', 1, 18, '', 7),
            ('rounded down', 'B300X', 2, 67, '', 3),
            ('two slices in all', '6000D', 1, 42, '', 2),
            ('graphics named', '6000D', 1, 42, 'GFX', 2),
            ('an instance each', 'DC', 1, 24, '', 4),
            ('without media', 'DC', 1, 24, 'NOME', 4),
            ('all the media', 'DC', 2, 48, 'MEALL', 1),
            ('many in an instance', 'DC', 1, 2, '', 48),
            ('three in each of two', 'DC', 2, 16, '', 6),
            ('three in one', 'DC', 4, 32, 'GFX', 3),
            ('half of 32 GB', 'RTX Pro 4500 Blackwell DC', 1, 16, '', 2),
            ('32 GB shared', 'RTX Pro 4500 Blackwell DC', 2, 8, '', 4),
            ('32 GB whole', 'RTX Pro 4500 Blackwell DC', 2, 32, '', 1),
        ):
            found = self._max(token, slices, gib * 1024, 'C', suffix)
            self.assertEqual(expected, found, f'{token}: {description}')

    def test_no_number_without_a_rule(self) -> None:
        for description, token, slices, gib, series, suffix in (
            ('types for gaming', 'A40', None, 12, '', ''),
            ('no such series', 'A40', None, 12, 'X', ''),
            ('no size', 'A40', None, 0, 'Q', ''),
            ('larger than the GPU', 'A40', None, 64, 'Q', ''),
            ('a MIG suffix without MIG', 'A100', None, 5, 'C', 'ME'),
            ('a GPU without MIG', 'A40', 1, 6, 'C', ''),
            ('five slices do not exist', 'A100', 5, 20, 'C', ''),
            ('more slices than it has', 'A30', 7, 24, 'C', ''),
            ('a size no instance has', 'A100', 1, 20, 'C', ''),
            ('instances not time-sliced', 'A100', 2, 5, 'C', ''),
            ('a suffix never heard of', 'A100', 1, 5, 'C', 'XX'),
            ('a size of the RTX Pro 4500', 'DC', 1, 16, 'C', ''),
            ('another', 'DC', 2, 8, 'Q', ''),
            ('media shared in an instance', 'DC', 1, 8, 'Q', 'MEALL'),
        ):
            found = self._max(token, slices, gib * 1024, series, suffix)
            self.assertIsNone(found, f'{token}: {description}')


class TestApis(testtools.TestCase):
    def test_os_traits_knows_every_api(self) -> None:
        known = set(os_traits.get_traits('HW_GPU_API'))
        for series, apis in catalogue.SERIES_APIS.items():
            self.assertEqual(set(), set(apis) - known, series)
            self.assertEqual(len(set(apis)), len(apis), series)

    def test_graphics_by_series(self) -> None:
        for series, expected in (
            ('Q', True),
            ('B', True),
            ('A', True),
            ('C', False),
        ):
            apis = catalogue.SERIES_APIS[series]
            self.assertEqual(expected, 'HW_GPU_API_VULKAN' in apis, series)

    def test_cuda(self) -> None:
        for description, token, series, gib, expected in (
            ('any Q type', 'A40', 'Q', 1, True),
            ('any C type', 'A100', 'C', 4, True),
            ('no B type', 'A40', 'B', 2, False),
            ('no A type', 'A40', 'A', 48, False),
            ('no letter', 'A40', '', 12, False),
            ('Pascal like the later ones', 'P40', 'Q', 1, True),
            ('Maxwell, the whole GPU', 'M60', 'Q', 8, True),
            ('Maxwell, a part of it', 'M60', 'Q', 4, False),
            ('Maxwell, an application', 'M10', 'A', 8, False),
        ):
            model = catalogue.model_by_token(token)
            assert model is not None, token
            found = catalogue.offers_cuda(model, series, gib * 1024)
            self.assertEqual(expected, found, description)
