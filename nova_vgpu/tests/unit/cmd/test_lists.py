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

"""What the commands show of hosts with less, or other, than GPUs."""

import dataclasses

from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import tree
from nova_vgpu.tests import hosts
from nova_vgpu.tests.unit.cmd import test_commands

NO_GPUS = 'No GPU of a supported vendor was found on this host.'


class TestLists(test_commands.CommandTestCase):
    def write(self, *cards: simulation.GPU) -> None:
        self.sysfs = self.directory / 'other'
        tree.write_tree(simulation.SimulatedHost(cards), self.sysfs)

    def test_a_host_without_gpus_says_so(self) -> None:
        self.write(hosts.gpu('e1:00.0', boards.NETWORK_CARD))
        for command in ('gpu list', 'type list', 'check'):
            answer = self.run_on_host(*command.split())
            self.assertIn(NO_GPUS, answer.stderr, command)
            self.assertNotIn('type list', answer.stdout, command)

    def test_types_are_sorted_by_their_numbers(self) -> None:
        first, second = boards.T4.types[:2]
        board = dataclasses.replace(
            boards.T4,
            types=(
                dataclasses.replace(first, id='nvidia-155'),
                dataclasses.replace(second, id='nvidia-36'),
            ),
        )
        self.write(hosts.gpu('84:00.0', board))
        rows = self.run_on_host('type', 'list', '-f', 'json').json
        self.assertEqual(
            ['nvidia-36', 'nvidia-155'], [row['ID'] for row in rows]
        )

    def test_a_gpu_with_a_vf_profile_is_shown_as_it_is_declared(self) -> None:
        self.write(
            hosts.mi300x('0c:00.0'),
            hosts.mi300x('22:00.0', 1, 'SPX/NPS1'),
            hosts.mi300x('41:00.0'),
        )
        config = self.directory / 'amd.conf'
        config.write_text(
            '[devices]\nenabled_vgpu_types = MI300X-1of8\n'
            '[vgpu_MI300X-1of8]\ndevice_addresses = 0c:00.0, 22:00.0\n'
        )
        options = '--config-file', str(config)
        rows = self.run_on_host(*options, 'gpu', 'list', '-f', 'json').json
        self.assertEqual(
            [
                ('MI300X', 'VF profiles', '8/8', 8, 'ready'),
                ('MI300X', '-', '1/8', 0, 'vfs-differ'),
                ('MI300X', '-', '8/8', 0, 'no-types-ever'),
            ],
            [
                tuple(
                    row[name]
                    for name in ('Model', 'Framework', 'VFs', 'vGPUs', 'State')
                )
                for row in rows
            ],
        )
        shown = self.run_on_host(
            *options, 'gpu', 'show', '22:00.0', '-f', 'json'
        ).json
        self.assertIn('options gim vf_num=8', shown['cure'])

    def test_a_channel_device_is_not_a_gpu(self) -> None:
        self.write(hosts.gpu('84:00.0', boards.T4))
        types = self.sysfs / 'devices/css0/0.0.26ab/mdev_supported_types'
        (types / 'vfio_ccw-io').mkdir(parents=True)
        (types / 'vfio_ccw-io/available_instances').write_text('4\n')
        (types.parent / 'subsystem').symlink_to('../../../bus/css')
        bus = self.sysfs / 'class/mdev_bus'
        (bus / '0.0.26ab').symlink_to('../../devices/css0/0.0.26ab')
        for command in ('gpu list', 'plan --node n'):
            rows = self.run_on_host(*command.split(), '-f', 'json').json
            gpus = [row['GPU'] for row in rows]
            self.assertEqual(['0000:84:00.0'], gpus, command)
        rows = self.run_on_host('type', 'list', '-f', 'json').json
        self.assertIn('css_0_0_26ab', [row['GPU'] for row in rows])
