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

"""nova-compute starts on a host that lost a GPU since it last ran."""

import pathlib

from nova_vgpu import exception
from nova_vgpu.compute import planner
from nova_vgpu.host import state_files
from nova_vgpu.tests.functional.compute import test_servers

T4 = test_servers.T4
OTHER_T4 = test_servers.OTHER_T4


class DeadGPUTest(test_servers.OurTestBase):
    """Two T4s, of which that at 85:00.0 fails."""

    def setUp(self) -> None:
        super().setUp()
        self.declare('T4-2Q')
        self.list_addresses('T4-2Q', '84:00.0', '85:00.0')
        self.alive = test_servers.t4()
        self.start_host('host1', self.alive, test_servers.t4('85:00.0'))

    def forget(self) -> None:
        """As if a release before this one had run."""
        path = pathlib.Path(planner.Planner.own_state_path or '')
        (path / state_files.GPUS_FILE).unlink()

    def test_the_service_starts_and_says_so(self) -> None:
        self.restart_host('host1', self.alive)
        self.assertEqual(8, self.total(T4))
        self.require_fence(OTHER_T4)
        said = self.stdlog.logger.output
        self.assertIn(
            '85:00.0 was a GPU of this host, and is missing now', said
        )
        self.assertIn('[gpu-gone]', said)
        self.assertEqual([T4], self.mdevs_of(self.boot()))

        # An address that never was here is a mistake.
        self.list_addresses('T4-2Q', '84:00.0', '85:00.0', '86:00.0')
        error = self.assertRaises(
            exception.InvalidLibvirtGPUConfig, self.restart_host, 'host1'
        )
        self.assertIn('this host has no device 86:00.0', str(error))
        self.assertNotIn('85:00.0', str(error))

    def test_placement_knows_what_was_here(self) -> None:
        flavor = self._create_flavor(
            extra_spec={
                'resources1:VGPU': '1',
                'resources2:VGPU': '1',
                'group_policy': 'isolate',
            }
        )
        self.boot(flavor_id=flavor)
        self.forget()
        self.restart_host('host1', self.alive)
        self.assertEqual(8, self.total(T4))
        self.require_fence(OTHER_T4)
