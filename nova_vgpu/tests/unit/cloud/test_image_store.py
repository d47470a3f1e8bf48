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

import types
import typing

import testtools

from nova_vgpu import exception
from nova_vgpu.cloud.orders import image_store

BOTH = {'hw_firmware_type': 'uefi', 'hw_machine_type': 'q35'}


class Glance:
    """Has one image, and is asked in UTF-8."""

    def images(self, name: str) -> list[types.SimpleNamespace]:
        found = types.SimpleNamespace(
            id='id', name='ubuntu', properties={}, hw_machine_type=None
        )
        return [found] if name.encode() == b'ubuntu' else []

    def get_image(self, identity: str) -> types.SimpleNamespace:
        (found,) = self.images('ubuntu')
        found.id = identity
        return found


class TestProperties(testtools.TestCase):
    def test_only_what_differs_is_set(self) -> None:
        for firmware, machine, expected in (
            (None, None, BOTH),
            ('bios', 'q35', {'hw_firmware_type': 'uefi'}),
            ('uefi', 'pc', {'hw_machine_type': 'q35'}),
            ('uefi', 'q35', {}),
        ):
            image = image_store.Image('id', 'name', firmware, machine)
            found = image_store.plan_properties(image, BOTH)
            self.assertEqual(expected, found)

    def test_machine_types(self) -> None:
        for text in ('q35', 'pc-q35-rhel9.6.0', 'virt'):
            image_store.require_machine(text)
        for text in ('', 'q35 ', 'q\x1b35', '-q35', 'a' * 65):
            self.assertRaises(
                exception.UsageError, image_store.require_machine, text
            )


class TestFind(testtools.TestCase):
    def find(self, wanted: str) -> image_store.Image:
        connection: typing.Any = types.SimpleNamespace(image=Glance())
        return image_store.ImageStore(connection).find(wanted)

    def test_a_name(self) -> None:
        self.assertEqual('id', self.find('ubuntu').id)

    def test_an_id(self) -> None:
        identity = 'd62197d9-1c32-4592-9ae3-6eb564ff63ea'
        self.assertEqual(identity, self.find(identity.upper()).id)

    def test_a_name_that_is_not_utf_8_is_not_asked_for(self) -> None:
        error = self.assertRaises(exception.NotInCloud, self.find, 'u\udcff')
        self.assertIn(r'Glance has no image u\udcff that', str(error))
