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

"""nova-compute above a driver that gave ids to other types."""

import dataclasses
import json
import pathlib

from nova_vgpu import exception
from nova_vgpu.compute import planner
from nova_vgpu.sandbox import stores
from nova_vgpu.tests.functional.compute import test_servers
from nova_vgpu.tests.functional.compute import test_vendor_vfio

T4 = test_servers.T4
OTHER_T4 = test_servers.OTHER_T4
CHANGED = 'nvidia-231 was GRID T4-2Q on this host before and is'


class TypeIdsTest(test_servers.OurTestBase):
    def setUp(self) -> None:
        super().setUp()
        directory = pathlib.Path(planner.Planner.state_path)
        self.memory = directory / 'types.json'

    def remember(self, **names: str) -> None:
        types = {key.replace('_', '-'): name for key, name in names.items()}
        self.memory.write_text(json.dumps({'format': 1, 'types': types}))

    def test_an_id_that_means_another_type_stops_the_service(self) -> None:
        self.remember(nvidia_233='GRID T4-2Q')
        text = self.memory.read_text()
        self.declare('nvidia-233')
        for _ in range(2):
            error = self.assertRaises(
                exception.InvalidLibvirtGPUConfig,
                self.start_host,
                'host1',
                test_servers.t4(),
            )
            for word in (
                'enabled_mdev_types',
                'nvidia-233',
                'GRID T4-2Q',
                'GRID T4-8Q',
            ):
                self.assertIn(word, str(error))
        self.assertEqual(text, self.memory.read_text())

    def test_a_function_of_the_vendors_framework(self) -> None:
        self.remember(nvidia_1155='NVIDIA L40S-4Q')
        self.declare('nvidia-1155')
        error = self.assertRaises(
            exception.InvalidLibvirtGPUConfig,
            self.start_host,
            'host1',
            test_vendor_vfio.l40s(),
        )
        self.assertIn('NVIDIA L40S-4Q', str(error))
        self.assertIn('NVIDIA L40S-24Q', str(error))

    def test_a_name_is_served(self) -> None:
        self.remember(nvidia_233='GRID T4-2Q')
        self.declare('T4-2Q')
        self.start_host('host1', test_servers.t4())
        self.assertEqual(8, self.total(T4))

    def test_nothing_is_written_by_nova_compute(self) -> None:
        self.declare('nvidia-233')
        self.start_host('host1', test_servers.t4())
        self.assertEqual(2, self.total(T4))
        self.assertFalse(self.memory.exists())

    def test_a_damaged_memory_is_told_and_stops_nothing(self) -> None:
        self.memory.write_text('{')
        self.declare('nvidia-233')
        self.start_host('host1', test_servers.t4())
        self._run_periodics()
        self.assertEqual(2, self.total(T4))
        self.assertEqual(
            1, self.stdlog.logger.output.count('[type-memory-lost]')
        )
        self.assertEqual('{', self.memory.read_text())

    def test_a_driver_that_is_replaced_below_nova_compute(self) -> None:
        """The GPU offers nothing; others, and the service, go on."""
        self.declare('nvidia-231', 'T4-8Q')
        self.list_addresses('T4-8Q', '85:00.0')
        cards = (test_servers.t4(), test_servers.t4('85:00.0'))
        self.start_host('host1', *cards)
        self.assertEqual([8, 2], [self.total(gpu) for gpu in (T4, OTHER_T4)])
        self.simulated['host1'].gpus[:] = [
            dataclasses.replace(card, board=stores.renumber(card.board))
            for card in cards
        ]
        for _ in range(2):
            self._run_periodics(raise_on_error=True)
            self.require_fence(T4)
            self.assertEqual(2, self.total(OTHER_T4))
        self.assertEqual(1, self.stdlog.logger.output.count(CHANGED))
        server = self.boot()
        self.assertEqual([OTHER_T4], self.mdevs_of(server))
        self.simulated['host1'].gpus[:] = cards
        self._run_periodics(raise_on_error=True)
        self.assertEqual(8, self.total(T4))
