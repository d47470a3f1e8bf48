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

"""The names that vendors give to vGPU types, taken apart."""

import testtools

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.knowledge.vendors import TypeName

GIB = 1024
#: No MIG instance has no slice, or no memory.
IMPOSSIBLE = ('A100-0-5C', 'NVIDIA A100-0-5C', 'A100-00-5C', 'A100-1-0C')
BLACKWELL = 'RTX Pro 6000 Blackwell DC'

NAMES = (
    (
        'an older driver',
        'GRID T4-1Q',
        TypeName('T4', GIB, 'Q', brand='GRID'),
        'T4-1Q',
    ),
    (
        'a newer driver',
        'NVIDIA A40-8Q',
        TypeName('A40', 8 * GIB, 'Q', brand='NVIDIA'),
        'A40-8Q',
    ),
    ('the short form', 'A40-8Q', TypeName('A40', 8 * GIB, 'Q'), 'A40-8Q'),
    (
        'a type that is backed by MIG',
        'NVIDIA A100-2-10C',
        TypeName('A100', 10 * GIB, 'C', slices=2, brand='NVIDIA'),
        'A100-2-10C',
    ),
    (
        'MIG with media extensions',
        'A100-1-5CME',
        TypeName('A100', 5 * GIB, 'C', slices=1, suffix='ME'),
        'A100-1-5CME',
    ),
    (
        'MIG with all media engines',
        'DC-2-48QMEALL',
        TypeName(BLACKWELL, 48 * GIB, 'Q', slices=2, suffix='MEALL'),
        f'{BLACKWELL}-2-48QMEALL',
    ),
    (
        'MIG without media engines',
        'DC-1-24QNOME',
        TypeName(BLACKWELL, 24 * GIB, 'Q', slices=1, suffix='NOME'),
        f'{BLACKWELL}-1-24QNOME',
    ),
    (
        'a hyphen in the model',
        'NVIDIA RTX6000-Ada-8Q',
        TypeName('RTX6000-Ada', 8 * GIB, 'Q', brand='NVIDIA'),
        'RTX6000-Ada-8Q',
    ),
    (
        'blanks in the model',
        'NVIDIA RTX Pro 6000 Blackwell DC-1-24Q',
        TypeName(
            BLACKWELL,
            24 * GIB,
            'Q',
            slices=1,
            brand='NVIDIA',
        ),
        'RTX Pro 6000 Blackwell DC-1-24Q',
    ),
    (
        "a model by the word of NVIDIA's tools",
        '6000D-1-42C',
        TypeName('RTX 6000D', 42 * GIB, 'C', slices=1),
        'RTX 6000D-1-42C',
    ),
    (
        'half a gigabyte is written 0',
        'GRID M10-0B',
        TypeName('M10', 512, 'B', brand='GRID'),
        'M10-0B',
    ),
    (
        'four heads',
        'GRID T4-2B4',
        TypeName('T4', 2 * GIB, 'B', variant='4', brand='GRID'),
        'T4-2B4',
    ),
    (
        'gaming, without a series',
        'NVIDIA A40-12',
        TypeName('A40', 12 * GIB, brand='NVIDIA'),
        'A40-12',
    ),
    (
        'a size of three digits',
        'NVIDIA H200X-141C',
        TypeName('H200X', 141 * GIB, 'C', brand='NVIDIA'),
        'H200X-141C',
    ),
    (
        'a model never heard of',
        'NVIDIA Z9000-4Q',
        TypeName('Z9000', 4 * GIB, 'Q', brand='NVIDIA'),
        'Z9000-4Q',
    ),
    (
        'white space too much',
        '  NVIDIA   A40-8Q ',
        TypeName('A40', 8 * GIB, 'Q', brand='NVIDIA'),
        'A40-8Q',
    ),
    (
        'small letters',
        'nvidia a40-8q',
        TypeName('A40', 8 * GIB, 'Q', brand='NVIDIA'),
        'A40-8Q',
    ),
)


class TestTypeNames(testtools.TestCase):
    def test_names_that_cannot_be(self) -> None:
        for text in IMPOSSIBLE:
            self.assertIsNone(capabilities.parse_type_name(text), text)

    def test_names(self) -> None:
        for description, text, expected, _short in NAMES:
            found = capabilities.parse_type_name(text)
            self.assertEqual(expected, found, description)

    def test_short_names(self) -> None:
        for description, text, _parts, expected in NAMES:
            name = capabilities.parse_type_name(text)
            assert name is not None, description
            self.assertEqual(expected, name.short, description)

    def test_a_short_name_is_a_name_of_the_same_type(self) -> None:
        for description, text, _parts, expected in NAMES:
            name = capabilities.parse_type_name(expected)
            assert name is not None, description
            self.assertEqual(expected, name.short, f'{description}: {text}')

    def test_a_suffix_for_configurations_names_the_same_type(self) -> None:
        for text, plain in (
            ('DC-1-24QGFX', 'DC-1-24Q'),
            ('6000D-1-42CGFX', '6000D-1-42C'),
        ):
            self.assertEqual(
                capabilities.parse_type_name(plain),
                capabilities.parse_type_name(text),
            )

    def test_what_is_no_name(self) -> None:
        for description, text in (
            ('an id', 'nvidia-558'),
            ('an id in capitals', 'NVIDIA-558'),
            ('an id of an older driver', 'grid-12'),
            ('an id of Intel', 'i915-GVTg_V5_4'),
            ('an id of the kernel sample', 'mtty-2-ports'),
            ('nothing', ''),
            ('white space', '  '),
            ('a model alone', 'A40'),
            ('a brand and a model', 'NVIDIA A40'),
            ('no size', 'A40-Q'),
            ('no model', '-8Q'),
            ('a brand for a model', 'NVIDIA -8Q'),
            ('no such series', 'A40-8X'),
            ('no such suffix', 'A100-1-5CXY'),
            ('no series before the suffix', 'A100-1-5ME'),
            ('a size beyond reason', 'A40-12345Q'),
            ('more than a name', 'A40-8Q, A40-4Q'),
            ('two lines', 'A40-8Q\nA40-4Q'),
            ('digits of another script', 'A40-\u0668Q'),
            ('a port', 'Single port serial'),
        ):
            found = capabilities.parse_type_name(text)
            self.assertIsNone(found, description)

    def test_a_long_line_is_refused_at_once(self) -> None:
        # Nested repetition that backtracks would not end within a lifetime.
        for text in ('A-' * 5000, 'A ' * 5000, 'A-A' * 5000 + '-'):
            self.assertIsNone(capabilities.parse_type_name(text))


class TestShortNames(testtools.TestCase):
    def test_what_a_type_is_called(self) -> None:
        for description, vgpu_type, expected in (
            (
                'by the short form of its name',
                values.VGPUType('nvidia-231', 'GRID T4-2Q'),
                'T4-2Q',
            ),
            (
                'by a name of no known form',
                values.VGPUType('mtty-1', 'Single port serial'),
                'Single port serial',
            ),
            (
                'by its id if it has no name',
                values.VGPUType('i915-GVTg_V5_4'),
                'i915-GVTg_V5_4',
            ),
        ):
            found = capabilities.short_name(vgpu_type)
            self.assertEqual(expected, found, description)


class TestVendors(testtools.TestCase):
    def test_whose_type_is_meant(self) -> None:
        for text, expected in (
            ('nvidia-558', 'NVIDIA'),
            ('NVIDIA A40-2Q', 'NVIDIA'),
            ('A40-2Q', 'NVIDIA'),
            ('i915-GVTg_V5_4', 'Intel'),
            ('Single port serial', None),
            ('', None),
        ):
            found = capabilities.vendor_of_type(text)
            self.assertEqual(expected, found.name if found else None, text)
