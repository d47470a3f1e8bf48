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

"""The stand-in for NVML, and a process that calls it by the real binding."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import typing

import fixtures

import nova_vgpu
from nova_vgpu.sandbox import nvml_state
from nova_vgpu.tests.functional import nvml_program

ROOT = pathlib.Path(nova_vgpu.__path__[0]).parent
SOURCE = ROOT / 'lab' / 'fakenvml' / 'fakenvml.c'
LIBRARY = 'libnvidia-ml.so.1'
_SECONDS = 60


class FakeNVML(fixtures.Fixture):
    """The library, built, and its state with these GPUs."""

    def __init__(self, *gpus: nvml_state.GPU) -> None:
        super().__init__()
        self._gpus = gpus

    def _setUp(self) -> None:
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        subprocess.run(
            [
                *('gcc', '-std=gnu11', '-Wall', '-Wextra', '-Werror'),
                *('-shared', '-fPIC', '-fvisibility=hidden', '-pthread'),
                *('-o', str(directory / LIBRARY), str(SOURCE)),
            ],
            check=True,
            timeout=_SECONDS,
        )
        self.state = directory / 'state'
        nvml_state.write_state(self.state, self._gpus)
        self.environment = {
            **os.environ,
            'FAKENVML': str(self.state),
            'LD_LIBRARY_PATH': str(directory),
            'PYTHONPATH': os.pathsep.join(
                [str(ROOT), *filter(None, sys.path)]
            ),
        }

    def run(self, program: str) -> str:
        """The output of a Python program that has the library."""
        finished = subprocess.run(
            [sys.executable, '-c', program],
            env=self.environment,
            stdout=subprocess.PIPE,
            check=True,
            text=True,
            timeout=_SECONDS,
        )
        return finished.stdout.strip()

    def fail(self, *lines: str) -> None:
        """Tell functions to fail or to hang, from one moment to the next."""
        fresh = self.state / 'fail.new'
        fresh.write_text(''.join(f'{line}\n' for line in lines))
        fresh.rename(self.state / 'fail')

    def path(self, gpu: str, name: str) -> pathlib.Path:
        """A file of a GPU."""
        return self.state / 'gpus' / gpu / name


class Caller(fixtures.Fixture):
    """A process that has opened the library."""

    def __init__(self, library: FakeNVML) -> None:
        super().__init__()
        self._library = library

    def _setUp(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, nvml_program.__file__],
            env=self._library.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(self._end)

    def _end(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate(timeout=_SECONDS)

    def ask(self, function: str, *arguments: typing.Any) -> typing.Any:
        """The result of a function of the binding, or its error."""
        self.send(function, *arguments)
        return self.receive()

    def send(self, function: str, *arguments: typing.Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([function, *arguments]) + '\n')
        self._process.stdin.flush()

    def receive(self) -> typing.Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())
