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

"""The way to Nova's driver, as an operator goes it.

The guests come from libvirt's own test driver, and so do the node devices.
"""

import dataclasses
import pathlib

from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import node_devices
from nova_vgpu.tests import domains
from nova_vgpu.tests.functional import test_provider_commands

NODE = test_provider_commands.NODE
A40 = 'pci_0000_41_00_0'
L40S = 'pci_0001_c8_00_0'
FIRST_VF, THIRD_VF = 'pci_0000_41_00_4', 'pci_0000_41_00_6'
SERVERS = (
    '3c5e8f1a-9d42-4b7e-8c06-1f2a7d9b4e53',
    'a7d1b6c4-52e8-4f39-b0a4-6e8c3d5f7091',
)
MIGRATION = 'e90b2f7d-14a6-4c83-9f5b-d7c2a8e61b30'


def host_with_servers() -> simulation.SimulatedHost:
    """The demonstration's, with two vGPUs on the A40."""
    demo = simulation.demo_host()
    created = tuple(simulation.Created('nvidia-562', vf) for vf in (0, 2))
    card = dataclasses.replace(demo.gpus[0], created=created)
    return dataclasses.replace(demo, gpus=(card, *demo.gpus[1:]))


class HandBackTest(test_provider_commands.ProviderTestCase):
    shown_options = '--libvirt qemu:///system '

    @classmethod
    def simulate(cls) -> simulation.SimulatedHost:
        return host_with_servers()

    def setUp(self) -> None:
        super().setUp()
        simulated = self.simulate()
        card = simulated.gpus[0]
        mdevs = [uuid for vf in (0, 2) for uuid, _ in card.mdevs(vf)]
        guests = [
            domains.write_domain(uuid, f'instance-{number}', mdevs=[mdev])
            for number, (uuid, mdev) in enumerate(
                zip(SERVERS, mdevs, strict=True), 1
            )
        ]
        xml = node_devices.write_node_xml(simulated)
        self.xml = self.directory / 'node.xml'
        self.xml.write_text(
            xml.replace('</node>', f'{"".join(guests)}</node>')
        )
        self.libvirt = [f'--libvirt=test://{self.xml}']
        self.make_our_tree()

    def options(self) -> list[str]:
        return [
            *self.libvirt,
            f'--sysfs-root={self.sysfs}',
            f'--config-file={self.config}',
            f'--config-dir={self.config_dir}',
        ]

    def make_our_tree(self) -> None:
        """What nova-compute with this project's driver made of the host."""
        self.operator.create(NODE)
        for device, total in ((A40, 6), ('pci_0000_84_00_0', 8), (L40S, 2)):
            self.operator.create(f'{NODE}_{device}', NODE)
            self.operator.set_inventory(f'{NODE}_{device}', VGPU=total)
            self.operator.add_traits(f'{NODE}_{device}', 'OWNER_NOVA')
        # As Nova's account does it, traits and all.
        self.run_command('sync')
        self.operator.set_inventory(NODE, VCPU=64)
        for server in SERVERS:
            self.operator.give(
                {NODE: {'VCPU': 2}, f'{NODE}_{A40}': {'VGPU': 1}}, server
            )

    def migrate(self) -> None:
        self.operator.give({f'{NODE}_{A40}': {'VGPU': 1}}, MIGRATION)

    def test_the_examples_are_real(self) -> None:
        self.migrate()
        self.compare('hand-back-refused.console', 'hand-back')
        self.operator.free(MIGRATION)
        self.compare('hand-back.console', 'hand-back')
        self.assertEqual([2, 0], self.codes)

    def test_each_server_holds_its_function_in_the_end(self) -> None:
        self.assertEqual(0, self.run_command('hand-back')[0])
        for server, function in zip(
            SERVERS, (FIRST_VF, THIRD_VF), strict=True
        ):
            self.assertEqual(
                {
                    self.operator.find(NODE): {'VCPU': 2},
                    self.operator.find(f'{NODE}_{function}'): {'VGPU': 1},
                },
                self.operator.allocations(server),
            )
        for device in (A40, L40S):
            self.assertIsNone(self.operator.find(f'{NODE}_{device}'))

    def test_a_dry_run_says_the_same_and_writes_nothing(self) -> None:
        code, said, stderr = self.run_command('hand-back', '--dry-run')
        self.assertEqual((0, []), (code, self.proxy.writes))
        self.assertIn('to make', stderr)
        code, done, _ = self.run_command('hand-back')
        self.assertEqual((0, said), (code, done))
        code, done, stderr = self.run_command('hand-back')
        self.assertEqual((0, '', []), (code, done, self.proxy.writes))
        self.assertIn('Changes made: 0.', stderr)

    def test_nothing_is_changed_unless_all_is_clear(self) -> None:
        self.migrate()
        for words in (('hand-back',), ('hand-back', '--dry-run')):
            code, stdout, stderr = self.run_command(*words)
            self.assertEqual((2, ''), (code, stdout))
            self.assertIn(MIGRATION, stderr)
            self.assertIn('Nothing was changed.', stderr)
            self.assertEqual([], self.proxy.writes)

    def test_a_server_without_mediated_devices_stands_in_the_way(self) -> None:
        self.operator.give({f'{NODE}_{L40S}': {'VGPU': 1}}, MIGRATION)
        code, _, stderr = self.run_command('hand-back')
        self.assertEqual((2, []), (code, self.proxy.writes))
        self.assertIn('0001:c8:00.0', stderr)
        self.assertIn('Move or delete', stderr)

    def test_the_guests_are_asked_for(self) -> None:
        self.libvirt = []
        code, stdout, stderr = self.run_command('hand-back')
        self.assertEqual((2, ''), (code, stdout))
        self.assertIn('--libvirt qemu:///system', stderr)
        self.assertEqual([], self.proxy.seen)

    def test_a_mistake_in_the_configuration_is_refused(self) -> None:
        self.config = str(
            pathlib.Path(self.config).with_name('conflicting.conf')
        )
        code, stdout, stderr = self.run_command('hand-back')
        self.assertEqual((2, ''), (code, stdout))
        self.assertIn('0000:85:00.0', stderr)
        self.assertEqual([], self.proxy.seen)
