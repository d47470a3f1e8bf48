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

import json
import socket
import subprocess
import sys

import fixtures

from nova_vgpu.tests.cloud import running


class RunningHorizon(fixtures.Fixture):
    """Horizon beside the services of a cloud."""

    def __init__(self, cloud: running.RunningCloud) -> None:
        super().__init__()
        self._cloud = cloud

    def _setUp(self) -> None:
        listener = socket.create_server(('127.0.0.1', 0))
        self.url = f'http://127.0.0.1:{listener.getsockname()[1]}'
        module = f'{__name__.rpartition(".")[0]}.horizon_service'
        path = self._cloud.path
        with open(path / 'horizon.log', 'wb') as log, listener:
            process = subprocess.Popen(
                [
                    *(sys.executable, '-P', '-m', module),
                    *(str(path), str(listener.fileno())),
                    json.dumps(self._cloud.urls),
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[listener.fileno()],
                start_new_session=True,
            )
        self.addCleanup(self._stop, process)

    def _stop(self, process: 'subprocess.Popen[bytes]') -> None:
        if process.stdin is not None:
            process.stdin.close()
        process.wait()
