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

"""``[pci]device_spec``, read as Nova reads it."""

from nova_vgpu import values
from nova_vgpu.tests.unit.conf import test_devices

TYPES = """
[devices]
enabled_vgpu_types = T4-2Q
"""
ANY = ('', '', '', '')
REGEX = '{"address": {"bus": "0[1-2]", "function": "1"}}'


class TestDeviceSpecs(test_devices.ConfTestCase):
    def specs(self, text: str) -> tuple[values.PciDeviceSpec, ...]:
        return self.declare(TYPES + text).pci_devices

    def test_each_way_to_name_devices(self) -> None:
        for case, line, expected in (
            ('ids', '{"vendor_id": "10DE"}', (0x10DE, None, ANY, False)),
            (
                'both ids',
                '{"vendor_id": "10de", "product_id": "2bb5"}',
                (0x10DE, 0x2BB5, ANY, False),
            ),
            (
                'one address',
                '{"address": "0001:C8:00.2"}',
                (None, None, ('0001$', 'c8$', '00$', '2$'), True),
            ),
            (
                'wildcards',
                '{"address": "*:0a:00.*"}',
                (None, None, ('', '0a$', '00$', ''), False),
            ),
            (
                'parts left out',
                '{"address": ":a:."}',
                (None, None, ('', '0a$', '', ''), False),
            ),
            (
                'regular expressions',
                REGEX,
                (None, None, ('.*', '0[1-2]', '.*', '1'), False),
            ),
            ('tags alone', '{"managed": "no"}', (None, None, ANY, False)),
        ):
            (spec,) = self.specs(f'[pci]\ndevice_spec = {line}')
            self.assertEqual(
                values.PciDeviceSpec('[pci]device_spec', line, *expected),
                spec,
                case,
            )

    def test_lines_that_nova_refuses_or_that_are_for_network_cards(
        self,
    ) -> None:
        for line in (
            '{',
            '7',
            '[7]',
            '{"vendor_id": 4318}',
            '{"vendor_id": "graphics"}',
            '{"vendor_id": "fffff"}',
            '{"address": "0:0:0:0.0"}',
            '{"address": "00:20.0"}',
            '{"address": {"bus": "["}}',
            '{"address": {"bus": 7}}',
            '{"devname": "eth0"}',
            '$nowhere',
        ):
            specs = self.specs(f'[pci]\ndevice_spec = {line}')
            self.assertEqual((), specs, line)

    def test_the_name_that_was_written(self) -> None:
        specs = self.specs("""
[DEFAULT]
pci_passthrough_whitelist = {"vendor_id": "0001"}
[pci]
passthrough_whitelist = {"vendor_id": "0002"}
device_spec = [{"vendor_id": "0003"}, {"vendor_id": "0004"}]
device_spec = {"vendor_id": "0005"}
""")
        self.assertEqual(
            {
                1: '[DEFAULT]pci_passthrough_whitelist',
                2: '[pci]passthrough_whitelist',
                3: '[pci]device_spec',
                4: '[pci]device_spec',
                5: '[pci]device_spec',
            },
            {spec.vendor_id: spec.option for spec in specs},
        )

    def test_without_types_nothing_competes(self) -> None:
        declaration = self.declare('[pci]\ndevice_spec = {}')
        self.assertEqual(1, len(declaration.pci_devices))
        self.assertEqual((), declaration.competing_pci_devices)

    def test_vgpus_made_ahead_are_for_pci_devices(self) -> None:
        ahead = 'vgpu_creation = ahead\n[pci]\ndevice_spec = {}\n'
        ours = '[DEFAULT]\ncompute_driver = vgpu.LibvirtVGPUDriver\n'
        for text, competing in ((ahead, 0), (ahead + ours, 1)):
            declaration = self.declare(TYPES + text)
            self.assertEqual(1, len(declaration.pci_devices))
            found = declaration.competing_pci_devices
            self.assertEqual(competing, len(found), text)
