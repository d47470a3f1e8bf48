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

"""``config generate --passthrough`` and roles as an operator meets them."""

import dataclasses

from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import tree
from nova_vgpu.tests import hosts
from nova_vgpu.tests.unit.cmd import test_commands

A40_OFF = hosts.gpu('c1:00.0', boards.A40)
T4 = hosts.gpu('84:00.0', boards.T4)
NIC = hosts.gpu('e1:00.0', boards.NETWORK_CARD)


class PassthroughTestCase(test_commands.CommandTestCase):
    def write(self, *cards: simulation.GPU) -> None:
        self.sysfs = (
            self.directory / f'sys-{len(list(self.directory.iterdir()))}'
        )
        tree.write_tree(simulation.SimulatedHost(cards), self.sysfs)

    def generate(
        self, *arguments: str, config: bool = False
    ) -> test_commands.Answer:
        return self.run_on_host(
            'config', 'generate', *arguments, config=config
        )

    def refuse(self, *arguments: str, config: bool = False) -> str:
        """What is said of arguments that are refused."""
        answer = self.generate(*arguments, config=config)
        found = answer.code, answer.stdout
        self.assertEqual((2, ''), found, str(arguments))
        return answer.stderr


class TestGenerate(PassthroughTestCase):
    def test_the_output_is_a_configuration_with_these_roles(self) -> None:
        self.write(hosts.gpu('41:00.0', boards.A40, vfs=4), T4, A40_OFF, NIC)
        answer = self.generate(
            *('--passthrough', '84:00.0', '--passthrough', 'c1:00.0'),
            *('--type', 'A40-8Q'),
        )
        self.assertEqual(0, answer.code, answer.stderr)
        self.config.write_text(answer.stdout)
        rows = self.run_on_host('gpu', 'list', '-f', 'json').json
        self.assertEqual(
            {
                '0000:41:00.0': 'vGPU',
                '0000:84:00.0': 'passthrough',
                '0000:c1:00.0': 'passthrough',
            },
            {row['GPU']: row['Role'] for row in rows},
        )
        self.assertEqual(0, self.run_on_host('check', '--strict').code)
        shown = self.run_on_host('gpu', 'show', '84:00.0', '-f', 'json').json
        self.assertEqual('passthrough', shown['role'])

    def test_ids_are_for_all_gpus_that_have_them(self) -> None:
        self.write(T4, hosts.gpu('85:00.0', boards.T4), A40_OFF)
        answer = self.generate('--passthrough', '10DE:1EB8')
        self.assertEqual(0, answer.code, answer.stderr)
        self.assertIn('# 0000:84:00.0, 0000:85:00.0: T4', answer.stdout)
        self.config.write_text(answer.stdout)
        rows = self.run_on_host('gpu', 'list', '-f', 'json').json
        self.assertEqual(
            ['passthrough', 'passthrough', 'unused'],
            [row['Role'] for row in rows],
        )

    def test_a_gpu_in_any_spelling(self) -> None:
        self.write(T4)
        expected = self.generate('--passthrough', '0000:84:00.0').stdout
        self.assertIn('"address": "0000:84:00.0"', expected)
        for spelling in ('84:00.0', ' 00000000:84:00.0', 'pci_0000_84_00_0'):
            answer = self.generate('--passthrough', spelling)
            self.assertEqual(expected, answer.stdout, spelling)

    def test_a_type_for_all_is_for_the_other_gpus(self) -> None:
        self.write(T4, hosts.gpu('85:00.0', boards.T4))
        answer = self.generate('--type', 'T4-2Q', '--passthrough', '84:00.0')
        self.assertEqual(0, answer.code, answer.stderr)
        self.assertIn('device_addresses = 0000:85:00.0\n', answer.stdout)

    def test_beside_functions_that_are_pci_devices(self) -> None:
        self.write(
            T4, hosts.gpu('c8:00.0', boards.L40S, vfs=4, vendor_vfio=True)
        )
        answer = self.generate(
            *('--type', 'L40S-24Q', '--for', 'pci'),
            *('--passthrough', '84:00.0'),
        )
        self.assertEqual(0, answer.code, answer.stderr)
        self.assertEqual(1, answer.stdout.count('\n[pci]\n'))
        self.assertEqual(1, answer.stdout.count('"type-VF"'))
        self.assertEqual(1, answer.stdout.count('"type-PCI"'))

    def test_a_driver_that_has_the_gpu_is_warned_of(self) -> None:
        self.write(T4)
        answer = self.generate('--passthrough', '84:00.0')
        self.assertIn(
            'warning: GPU 0000:84:00.0 is bound to nv', answer.stderr
        )
        self.write(dataclasses.replace(T4, driver='vfio-pci'))
        answer = self.generate('--passthrough', '84:00.0')
        self.assertEqual((0, ''), (answer.code, answer.stderr))


class TestRefusals(PassthroughTestCase):
    """Nothing is written to standard output, and the cure is named."""

    def test_what_the_host_does_not_have(self) -> None:
        for asked, words in (
            ('10de:ffff', ('10de:ffff', '10de:1eb8')),
            ('99:00.0', ('0000:99:00.0 is not on this host',)),
            ('e1:00.0', ('0000:e1:00.0 is not a GPU',)),
            ('8086:1572', ('8086:1572',)),
            ('41:00.4', ('virtual function of GPU 0000:41:00.0',)),
            ('10de:1eb', ("'10de:1eb' is not a PCI address",)),
            ('T4\x1b[31m', ("'T4\\x1b[31m' is not a PCI address",)),
            ('', ("'' is not a PCI address",)),
        ):
            found = self.refuse('--passthrough', asked)
            self.assertNotIn('\x1b', found)
            for word in words:
                self.assertIn(word, found)

    def test_nothing_is_requested(self) -> None:
        for word in ('--type', '--passthrough'):
            self.assertIn(word, self.refuse())

    def test_what_the_host_cannot_pass_through(self) -> None:
        audio = hosts.gpu('84:00.1', boards.GPU_AUDIO)
        shared = dataclasses.replace(
            NIC, slot=simulation.Slot(iommu_group=0x8400)
        )
        display = dataclasses.replace(
            T4,
            board=dataclasses.replace(boards.T4, pci_class=0x030000),
            display=True,
        )
        for cards, words in (
            (
                (dataclasses.replace(T4, iommu=False),),
                ('IOMMU of this host is off', 'intel_iommu=on'),
            ),
            ((T4, audio), ('0000:84:00.1 (audio', 'driverctl set-override')),
            ((T4, shared), ('0000:e1:00.0 (network', 'another slot')),
            ((display,), ('display of this host', 'firmware setup')),
            (
                (hosts.gpu('84:00.0', boards.A40, vfs=4),),
                ('VFs are enabled (4)', 'sriov disable 0000:84:00.0'),
            ),
            (
                (hosts.gpu('84:00.0', boards.T4, 'nvidia-231'),),
                ('it has vGPUs (1)', 'device list'),
            ),
        ):
            self.write(*cards)
            found = self.refuse('--passthrough', '84:00.0')
            for word in ('GPU 0000:84:00.0', *words):
                self.assertIn(word, found)

    def test_a_gpu_that_serves_vgpus(self) -> None:
        self.write(T4, A40_OFF)
        self.assertIn(
            'Remove it from [vgpu_T4-2Q]device_addresses',
            self.refuse('--passthrough', '84:00.0', config=True),
        )
        self.config.write_text('[devices]\nenabled_vgpu_types = T4-2Q\n')
        self.assertIn(
            'unlisted_gpus = ignore',
            self.refuse('--passthrough', '84:00.0', config=True),
        )
        for reader in ('nova-vgpu', 'nova', 'pci'):
            self.assertIn(
                'GPU 0000:84:00.0 is requested for vGPUs (--type) and as a',
                self.refuse(
                    *('--passthrough', '84:00.0', '--for', reader),
                    *('--type', '84:00.0=T4-2Q'),
                ),
            )

    def test_one_bad_gpu_of_several_with_the_ids(self) -> None:
        self.write(T4, hosts.gpu('85:00.0', boards.T4, 'nvidia-231'))
        found = self.refuse('--passthrough', '10de:1eb8')
        self.assertIn('GPU 0000:85:00.0 cannot', found)
        self.assertIn('name each by its address', found)


class TestRoles(PassthroughTestCase):
    def roles(self, *arguments: str) -> dict[str, str]:
        answer = self.run_on_host('gpu', 'list', '-f', 'json', *arguments)
        return {row['GPU']: row['Role'] for row in answer.json}

    def test_a_display(self) -> None:
        self.write(
            dataclasses.replace(
                hosts.gpu('00:02.0', boards.HD_530), display=True
            )
        )
        self.config.write_text('')
        self.assertEqual({'0000:00:02.0': 'display'}, self.roles())

    def test_without_the_configuration_roles_are_unknown(self) -> None:
        answer = self.run_on_host(
            *('gpu', 'list', '-f', 'json'),
            *('--config-file', str(self.directory / 'absent.conf')),
            config=False,
        )
        self.assertEqual(0, answer.code)
        self.assertEqual({'-'}, {row['Role'] for row in answer.json})
        self.assertIn('warning: The roles of GPUs are unknown', answer.stderr)
        self.assertIn('absent.conf', answer.stderr)
