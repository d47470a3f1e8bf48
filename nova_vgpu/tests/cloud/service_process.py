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

"""A service of the cloud, in a process of its own.

:mod:`nova_vgpu.tests.cloud.serving` has what runs in it.
"""

import json
import pathlib
import socket
import subprocess
import sys

import fixtures


class ServiceProcess(fixtures.Fixture):
    """It ends with the fixture, and cannot outlive this process.

    :param module: the name of the module that is run.
    :param listener: a socket that listens; it is the service's from then on.
    """

    def __init__(
        self,
        module: str,
        directory: pathlib.Path,
        listener: socket.socket,
        urls: dict[str, str],
    ) -> None:
        super().__init__()
        self._module = module
        self._directory = directory
        self._listener = listener
        self._urls = urls

    def _setUp(self) -> None:
        name = self._module.rpartition('.')[2]
        with (
            open(self._directory / f'{name}.log', 'wb') as log,
            self._listener as listener,
        ):
            process = subprocess.Popen(
                [
                    *(sys.executable, '-P', '-m', self._module),
                    *(str(self._directory), str(listener.fileno())),
                    json.dumps(self._urls),
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[listener.fileno()],
                # Ctrl-C is for the parent, which then stops it.
                start_new_session=True,
            )
        self.addCleanup(_stop, process)


def _stop(process: 'subprocess.Popen[bytes]') -> None:
    if process.stdin is not None:
        process.stdin.close()
    process.wait()
