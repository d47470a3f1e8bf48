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

"""Slips that oslo.config passes over in silence."""

import testtools

from nova_vgpu import values
from nova_vgpu.plan import validation

DEVICES = ('enabled_vgpu_types', 'unlisted_gpus')
TYPES = ('device_addresses', 'resource_class', 'max_instances', 'traits')


def slips(*written: tuple[str, str, int]) -> list[tuple[str, str, str]]:
    """Code, subject and cure of what is found in these options."""
    found = validation.find_slips(
        [
            values.Written('nova.conf', section, name, ('x',) * times)
            for section, name, times in written
        ],
        DEVICES,
        TYPES,
    )
    return [(slip.code, slip.subject, slip.cure) for slip in found]


class TestSlips(testtools.TestCase):
    def test_what_is_right_is_passed_over(self) -> None:
        for case, section, name in (
            ('ours', 'devices', 'enabled_vgpu_types'),
            ("Nova's name for it", 'devices', 'enabled_mdev_types'),
            ('of a type', 'vgpu_T4-2Q', 'device_addresses'),
            ("Nova's section", 'mdev_T4-2Q', 'mdev_class'),
            ('the case of a section', 'VGPU_T4-2Q', 'traits'),
            ("somebody else's", 'libvirt', 'cpu_models'),
            ("Nova's in our section", 'devices', 'something_else'),
            ('a word that others use', 'scheduler', 'traits'),
            ('the sample', 'vgpu_<type>', 'device_address'),
        ):
            self.assertEqual([], slips((section, name, 1)), case)

    def test_what_is_misspelt(self) -> None:
        for case, section, name, cure in (
            (
                'the singular',
                'vgpu_T4-2Q',
                'device_address',
                'Did you mean device_addresses?',
            ),
            (
                'in [devices]',
                'devices',
                'unlisted_gpu',
                'Did you mean unlisted_gpus?',
            ),
            (
                'a list that goes on without an indent',
                'vgpu_A40-8Q',
                '42',
                'Indent the line if it continues the list above it.',
            ),
            (
                'nothing like it',
                'mdev_T4-2Q',
                'colour',
                'The options of a type: device_addresses, resource_class, '
                'max_instances, traits, mdev_class.',
            ),
        ):
            self.assertEqual(
                [('unknown-option', f'[{section}]{name}', cure)],
                slips((section, name, 1)),
                case,
            )

    def test_what_is_in_another_section(self) -> None:
        for section, name, where in (
            ('DEFAULT', 'enabled_vgpu_types', '[devices]'),
            ('device', 'unlisted_gpus', '[devices]'),
            ('libvirt', 'enabled_mdev_types', '[devices]'),
            ('vgpu-T4-2Q', 'device_addresses', 'a section [vgpu_<type>]'),
            ('T4-2Q', 'device_addresses', 'a section [vgpu_<type>]'),
        ):
            self.assertEqual(
                [
                    (
                        'misplaced-option',
                        f'[{section}]{name}',
                        f'Move it to {where}.',
                    )
                ],
                slips((section, name, 1)),
            )

    def test_what_is_said_twice(self) -> None:
        for case, written, subject in (
            (
                'in one file',
                [('vgpu_T4-2Q', 'device_addresses', 2)],
                '[vgpu_T4-2Q]device_addresses',
            ),
            (
                'by both names of the list',
                [
                    ('devices', 'enabled_vgpu_types', 1),
                    ('devices', 'enabled_mdev_types', 1),
                ],
                '[devices]enabled_mdev_types',
            ),
            (
                'by both names of the class',
                [
                    ('vgpu_x', 'mdev_class', 1),
                    ('vgpu_x', 'resource_class', 1),
                ],
                '[vgpu_x]mdev_class',
            ),
        ):
            ((code, found, _),) = slips(*written)
            self.assertEqual(('set-twice', subject), (code, found), case)

    def test_a_driver_that_is_not_there(self) -> None:
        for written in (
            'vpgu.LibvirtVGPUDriver',
            'nova_vgpu.LibvirtVGPUDriver',
            'vgpu.LibvirtVgpuDriver',
        ):
            self.assertEqual(
                [
                    (
                        'unknown-driver',
                        '[DEFAULT]compute_driver',
                        'Did you mean vgpu.LibvirtVGPUDriver?',
                    )
                ],
                self.driver_slips(written),
                written,
            )
        for written in (
            'vgpu.LibvirtVGPUDriver',
            'libvirt.LibvirtDriver',
            'fake.FakeDriver',
        ):
            self.assertEqual([], self.driver_slips(written), written)

    def driver_slips(self, written: str) -> list[tuple[str, str, str]]:
        entry = values.Written(
            'nova.conf', 'DEFAULT', 'compute_driver', (written,)
        )
        found = validation.find_slips([entry], DEVICES, TYPES)
        return [(slip.code, slip.subject, slip.cure) for slip in found]
