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

"""The program ``openstack``, without the seconds that its imports take.

One process imports what the program does, and is forked for each command: a
command has a process of its own, with its own environment.
"""

import importlib
import json
import os
import pathlib
import subprocess
import sys
import typing

import fixtures

#: What the program imports before it knows its command, and our commands.
_GROUPS = ('openstack.cli.base', 'openstack.cli.extension')
_OURS = 'openstack.vgpu.v1'


class ClientProcess(fixtures.Fixture):
    """Runs commands; it ends with the fixture."""

    def __init__(self, directory: pathlib.Path) -> None:
        super().__init__()
        self._output = directory / 'client.out'
        self._errors = directory / 'client.err'

    def _setUp(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, '-P', '-m', __name__],
            env={**os.environ, 'PYTHONWARNINGS': 'ignore'},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Ctrl-C is for the parent, which then stops it.
            start_new_session=True,
        )
        self.addCleanup(self._process.communicate)

    def run(
        self, words: list[str], environment: dict[str, str]
    ) -> tuple[int, str, str]:
        """The exit code of a command, and what it printed."""
        files = [str(self._output), str(self._errors)]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([words, environment, files]))
        self._process.stdin.write('\n')
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        return code, self._output.read_text(), self._errors.read_text()


def _main() -> typing.Any:
    stevedore = importlib.import_module('stevedore')
    shell = importlib.import_module('openstackclient.shell')
    for group in (*_GROUPS, _OURS):
        stevedore.ExtensionManager(group)
    for line in sys.stdin:
        words, environment, files = json.loads(line)
        child = os.fork()
        if child == 0:
            _replace_environment(environment, files)
            sys.argv[:] = ['openstack', *words]
            return shell.main()
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    return 0


def _replace_environment(
    environment: dict[str, str], files: list[str]
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, path in enumerate(files, 1):
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        os.dup2(os.open(path, flags), number)


if __name__ == '__main__':
    sys.exit(_main())
