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
from nova_vgpu.cloud.orders import image_store

BOTH = {'hw_firmware_type': 'uefi', 'hw_machine_type': 'q35'}


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
