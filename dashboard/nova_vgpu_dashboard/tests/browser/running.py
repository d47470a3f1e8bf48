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

"""A real small cloud with Horizon, on loopback."""

import socket

import fixtures

from nova_vgpu.tests.cloud import running
from nova_vgpu.tests.cloud import service_process


class RunningHorizon(fixtures.Fixture):
    """Horizon beside the services of a cloud."""

    def __init__(self, cloud: running.RunningCloud) -> None:
        super().__init__()
        self._cloud = cloud

    def _setUp(self) -> None:
        listener = socket.create_server(('127.0.0.1', 0))
        self.url = f'http://127.0.0.1:{listener.getsockname()[1]}'
        module = f'{__name__.rpartition(".")[0]}.horizon_service'
        self.useFixture(
            service_process.ServiceProcess(
                module, self._cloud.path, listener, self._cloud.urls
            )
        )
