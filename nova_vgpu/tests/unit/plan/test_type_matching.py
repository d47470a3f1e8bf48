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

"""Which type an operator means."""

import testtools

from nova_vgpu import values
from nova_vgpu.plan import type_matching
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts

GRID = values.VGPUType('nvidia-231', 'GRID T4-2Q')
NVIDIA = values.VGPUType('nvidia-900', 'NVIDIA T4-2Q')
NAMELESS = values.VGPUType('i915-GVTg_V5_4')
SERIAL = values.VGPUType('mtty-1', 'Single port serial')
ADA = values.VGPUType('nvidia-1', 'NVIDIA RTX6000-Ada-8Q')
MIG = values.VGPUType('nvidia-2', 'NVIDIA A100-2-10C')
TIME_SLICED = values.VGPUType('nvidia-3', 'NVIDIA A100-10C')
MEDIA = values.VGPUType('nvidia-4', 'NVIDIA A100-2-10CME')
BLACKWELL = values.VGPUType(
    'nvidia-5', 'NVIDIA RTX Pro 6000 Blackwell DC-1-24Q'
)
UNKNOWN = values.VGPUType('nvidia-6', 'NVIDIA Z9000-4Q')
ALL = (
    UNKNOWN,
    GRID,
    NAMELESS,
    SERIAL,
    ADA,
    MIG,
    TIME_SLICED,
    MEDIA,
    BLACKWELL,
)


class TestMatches(testtools.TestCase):
    def test_a_type_without_a_series_by_its_short_name(self) -> None:
        gaming = values.VGPUType('nvidia-332', 'GRID RTX2070-2')
        for text in ('RTX2070-2', 'rtx2070-2', 'GRID RTX2070-2'):
            found = type_matching.find_matches(text, [gaming])
            self.assertEqual((gaming,), found, text)
        self.assertTrue(
            type_matching.is_same_name('RTX2070-2', gaming.name or '')
        )
        self.assertEqual((), type_matching.find_matches('mtty-2', [gaming]))

    def test_one_type_is_meant(self) -> None:
        for case, declared, expected in (
            ('by its id', 'nvidia-231', GRID),
            ('by its id in capitals', 'NVIDIA-231', GRID),
            ('by its name', 'GRID T4-2Q', GRID),
            ('by its name in small letters', 'grid t4-2q', GRID),
            ('by its name and white space', ' GRID  T4-2Q', GRID),
            ('by its short name', 'T4-2Q', GRID),
            ('by its short name in small letters', 't4-2q', GRID),
            ('by a brand that the driver has changed', 'NVIDIA T4-2Q', GRID),
            ('by the id of a type without a name', 'I915-gvtg_v5_4', NAMELESS),
            ('by a name of no known form', 'single port serial', SERIAL),
            ('with a hyphen in the model', 'RTX6000-Ada-8Q', ADA),
            ('of a model never heard of', 'grid z9000-4q', UNKNOWN),
            ('backed by MIG', 'A100-2-10C', MIG),
            ('not backed by MIG', 'A100-10C', TIME_SLICED),
            ('with a suffix that counts', 'A100-2-10CME', MEDIA),
            ("by the word of NVIDIA's tools", 'DC-1-24Q', BLACKWELL),
            (
                'with a suffix that does not',
                'RTX Pro 6000 Blackwell DC-1-24QGFX',
                BLACKWELL,
            ),
        ):
            found = type_matching.find_matches(declared, ALL)
            self.assertEqual((expected,), found, case)

    def test_the_word_that_two_models_share_is_the_gpus_own(self) -> None:
        for model in ('6000 Blackwell', '4500 Blackwell', '5500 Rubin'):
            name = f'RTX Pro {model} DC-16Q'
            types = (values.VGPUType('nvidia-9', f'NVIDIA {name}'),)
            for declared in ('DC-16Q', 'dc-16q', name):
                found = type_matching.find_matches(declared, types)
                self.assertEqual(types, found, f'{declared}, {name}')
        types = (values.VGPUType('nvidia-9', 'RTX Pro 4500 Blackwell DC-16Q'),)
        for other in ('DC-8Q', 'RTX Pro 6000 Blackwell DC-16Q', 'AC-16Q'):
            self.assertEqual(
                (), type_matching.find_matches(other, types), other
            )

    def test_nothing_is_meant(self) -> None:
        for case, declared in (
            ('another size', 'T4-4Q'),
            ('another series', 'T4-2C'),
            ('another model', 'T40-2Q'),
            ('an id that starts alike', 'nvidia-23'),
            ('a bare number', '231'),
            ('a part of a name', 'GRID'),
            ('a model', 'T4'),
            ('another brand', 'ACME T4-2Q'),
            ('nothing', ''),
            ('white space', '  '),
        ):
            found = type_matching.find_matches(declared, ALL)
            self.assertEqual((), found, case)

    def test_more_than_one_answer_is_no_guess(self) -> None:
        both = (GRID, NVIDIA)
        for case, declared, expected in (
            ('a short name has two', 'T4-2Q', both),
            ('a name has one', 'GRID T4-2Q', (GRID,)),
            ('the other name has one', 'nvidia t4-2q', (NVIDIA,)),
            ('an id has one', 'nvidia-900', (NVIDIA,)),
        ):
            found = type_matching.find_matches(declared, both)
            self.assertEqual(expected, found, case)


class TestTypesOfAGPU(testtools.TestCase):
    def test_a_full_gpu_learns_the_name_from_another(self) -> None:
        full = hosts.make_gpu(
            hosts.gpu(
                '41:00.0',
                boards.L40S,
                'nvidia-1155',
                'nvidia-1155',
                vfs=4,
                vendor_vfio=True,
            )
        )
        other = hosts.make_gpu(
            hosts.gpu('42:00.0', boards.L40S, vfs=4, vendor_vfio=True)
        )
        self.assertEqual((), full.types)
        for case, host, expected in (
            (
                'with another',
                values.Host((full, other)),
                values.VGPUType('nvidia-1155', 'NVIDIA L40S-24Q'),
            ),
            (
                'alone',
                values.Host((full,)),
                values.VGPUType('nvidia-1155'),
            ),
        ):
            names = type_matching.list_type_names(host)
            found = type_matching.list_types(full, names)
            self.assertEqual((expected,), found, case)

    def test_types_on_offer_come_before_those_that_are_gone(self) -> None:
        gpu = values.PhysicalGPU(
            'x',
            offers=(values.Offer(GRID, 1),),
            vgpus=(
                values.VGPU('x', 'nvidia-231', 'a'),
                values.VGPU('x', 'nvidia-7', 'b'),
                values.VGPU('x', 'nvidia-7', 'c'),
            ),
        )
        self.assertEqual(
            (GRID, values.VGPUType('nvidia-7')),
            type_matching.list_types(gpu, {}),
        )

    def test_names_of_the_whole_host(self) -> None:
        host = hosts.make_host(
            hosts.gpu('00:02.0', boards.HD_530),
            hosts.gpu('84:00.0', boards.T4),
            mtty=True,
        )
        names = type_matching.list_type_names(host)
        self.assertEqual('GRID T4-2Q', names['nvidia-231'])
        self.assertEqual('Single port serial', names['mtty-1'])
        self.assertNotIn('i915-GVTg_V5_4', names)
