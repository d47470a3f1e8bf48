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

"""The description that a driver gives of its type."""

import testtools

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities

NVIDIA = (
    'num_heads=4, frl_config=45, framebuffer=1024M, '
    'max_resolution=5120x2880, max_instance=16'
)
INTEL = (
    'low_gm_size: 128MB\nhigh_gm_size: 512MB\nfence: 4\n'
    'resolution: 1920x1200\nweight: 4'
)
NOTHING = values.TypeFacts()


class TestDescription(testtools.TestCase):
    def test_descriptions(self) -> None:
        for case, text, expected in (
            (
                'NVIDIA',
                NVIDIA,
                values.TypeFacts(
                    framebuffer_mib=1024,
                    max_instances=16,
                    heads=4,
                    max_resolution=values.Resolution(5120, 2880),
                ),
            ),
            (
                'NVIDIA on several lines',
                NVIDIA.replace(', ', '\n') + '\n',
                values.TypeFacts(1024, 16, 4, values.Resolution(5120, 2880)),
            ),
            (
                # An aperture is no frame buffer: the driver does not say how
                # much memory a guest gets.
                'Intel',
                INTEL,
                values.TypeFacts(max_resolution=values.Resolution(1920, 1200)),
            ),
            (
                'a part of it',
                'num_heads=1, max_instance=2',
                values.TypeFacts(max_instances=2, heads=1),
            ),
            (
                'blanks around the signs',
                'num_heads = 2 ,framebuffer  =  512M',
                values.TypeFacts(framebuffer_mib=512, heads=2),
            ),
            (
                'words that nobody knows',
                'num_heads=1, colour=green, max_instance=2',
                values.TypeFacts(max_instances=2, heads=1),
            ),
            ('nothing', '', NOTHING),
            ('no pairs', '1 port', NOTHING),
        ):
            found = capabilities.parse_description(text)
            self.assertEqual(expected, found, case)

    def test_a_value_that_makes_no_sense_is_as_good_as_none(self) -> None:
        for case, text in (
            ('a word for a number', 'num_heads=many'),
            ('a negative number', 'num_heads=-1'),
            ('a fraction', 'max_instance=1.5'),
            ('none at all', 'max_instance=0'),
            ('no frame buffer', 'framebuffer=0M'),
            ('no unit', 'framebuffer=1024'),
            ('another unit', 'framebuffer=1G'),
            ('beyond reason', 'max_instance=99999999999999999999'),
            ('one side only', 'max_resolution=5120x'),
            ('a display without height', 'max_resolution=5120x0'),
            ('three sides', 'max_resolution=1x2x3'),
            ('digits of another script', 'max_instance=\u0661\u0666'),
            ('only signs', '=,=:,::=='),
            ('no value', 'num_heads=, max_instance='),
        ):
            found = capabilities.parse_description(text)
            self.assertEqual(NOTHING, found, case)

    def test_one_bad_value_leaves_the_others(self) -> None:
        text = NVIDIA.replace('num_heads=4', 'num_heads=four')
        found = capabilities.parse_description(text)
        self.assertIsNone(found.heads)
        self.assertEqual(16, found.max_instances)
        self.assertEqual(1024, found.framebuffer_mib)
