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

"""How Ansible reaches the systems of the lab: no SSH, and no network."""

import pathlib
import shutil
import subprocess
import typing

from ansible.plugins import connection
from ansible.utils import display

from lab.cloud_init import systems

DOCUMENTATION = """
name: lab_guest
short_description: Run commands in a system of the lab
description: Each command runs in mounts of its own.
options:
  base:
    description: The directory of the system.
    required: true
    vars: [{name: lab_guest_base}]
  directory:
    description: The directory of its changes.
    required: true
    vars: [{name: lab_guest_directory}]
"""


class Connection(connection.ConnectionBase):  # type: ignore[misc]
    """For one guest."""

    transport = 'lab_guest'
    has_pipelining = True

    @property
    def _guest(self) -> systems.Guest:
        return systems.Guest(
            pathlib.Path(self.get_option('base')),
            pathlib.Path(self.get_option('directory')),
        )

    def _connect(self) -> typing.Self:
        self._connected = True
        return self

    def exec_command(
        self, cmd: str, in_data: bytes | None = None, sudoable: bool = True
    ) -> tuple[int, bytes, bytes]:
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        # With -vvv, tests see every command line.
        display.Display().vvv(f'EXEC {cmd}')
        done = subprocess.run(
            self._guest.make_command('/bin/sh', '-c', cmd),
            input=in_data or b'',
            capture_output=True,
        )
        return done.returncode, done.stdout, done.stderr

    def put_file(self, in_path: str, out_path: str) -> None:
        super().put_file(in_path, out_path)
        path = self._guest.changed / out_path.lstrip('/')
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(in_path, path)

    def fetch_file(self, in_path: str, out_path: str) -> None:
        super().fetch_file(in_path, out_path)
        shutil.copyfile(self._guest.path(in_path.lstrip('/')), out_path)

    def close(self) -> None:
        self._connected = False
