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

"""What drives the lab, without a guest: a shell stands in for it."""

import json
import pathlib
import socket
import subprocess
import tempfile
import threading
import typing
from unittest import mock

import fixtures
import testtools

from lab import agent
from lab import cache
from lab import stages


class Guest(fixtures.Fixture):
    """Answers as the guest agent does; programs are run on this machine."""

    def _setUp(self) -> None:
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.path = directory / 'agent.sock'
        self.output = directory / 'output'
        self.output.touch()
        #: It appears when it is waited for.
        self._port = directory / 'port'
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(self.path))
        self._server.listen()
        self.addCleanup(self._server.close)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        self.agent = agent.Agent(self.path, self.output)
        self.addCleanup(self._thread.join, 10)
        self.addCleanup(self.agent.close)

    def _serve(self) -> None:
        connection, _ = self._server.accept()
        with connection, connection.makefile('rb') as requests:
            for line in requests:
                request = json.loads(line.lstrip(b'\xff'))
                answer = self._answer(request['execute'], request['arguments'])
                if answer is None:
                    return
                reply = json.dumps({'return': answer}).encode() + b'\n'
                connection.sendall(reply)

    def _answer(self, what: str, arguments: typing.Any) -> typing.Any:
        if what == 'guest-sync':
            return arguments['id']
        if what == 'guest-exec-status':
            return {'exited': True}
        *options, name, program = arguments['arg'][:4]
        if program == 'hang up':
            return None
        make_port = f'ln -sf {self.output} {self._port}'
        script = options[1].replace(agent.AWAIT_OUTPUT, make_port)
        script = script.replace(f'> {agent.OUTPUT}', f'>> {self._port}')
        argv = ['/bin/sh', options[0], script, name, *arguments['arg'][3:]]
        subprocess.run(argv)
        return {'pid': 1}


class TestAgent(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.guest = self.useFixture(Guest())
        self.agent = self.guest.agent
        self.agent.wait(10, lambda: True)
        self.shown: list[str] = []

    def run_there(self, script: str) -> int:
        argv = ['/bin/sh', '-c', script]
        return self.agent.run(argv, 10, self.shown.append)

    def test_a_program_prints_and_ends(self) -> None:
        self.assertEqual(
            3, self.run_there('echo one; echo; echo two >&2; exit 3')
        )
        self.assertEqual(['one\n', '\n', 'two\n'], self.shown)
        self.shown.clear()
        self.assertEqual(0, self.run_there('echo three'))
        self.assertEqual(['three\n'], self.shown)

    def test_its_end_is_not_mistaken(self) -> None:
        self.assertEqual(4, self.run_there(r'printf "\0005\n1\n6"; exit 4'))
        self.assertEqual(['\x005\n', '1\n', '6\n'], self.shown)

    def test_nor_is_it_if_its_own_command_is_printed(self) -> None:
        script = r'tr "\000" " " < /proc/$PPID/cmdline; echo; exit 4'
        self.assertEqual(4, self.run_there(script))
        self.assertIn(' $?; }', ''.join(self.shown))

    def test_a_program_that_ends_without_a_word(self) -> None:
        with mock.patch.multiple(agent, _LOOK_SECONDS=0, _ANSWER_SECONDS=0.1):
            # It takes its shell along.
            error = self.assertRaises(
                agent.Unreachable, self.run_there, 'kill -9 $PPID'
            )
        self.assertIn('did not say how', str(error))

    def test_a_guest_that_goes_away(self) -> None:
        self.assertRaises(
            agent.Unreachable,
            self.agent.run,
            ['hang up'],
            10,
            self.shown.append,
        )
        error = self.assertRaises(
            agent.Unreachable, self.agent.wait, 10, lambda: False
        )
        self.assertEqual('The guest ended.', str(error))

    def test_a_guest_that_is_not_there(self) -> None:
        nobody = agent.Agent(pathlib.Path('/nonexistent'), self.guest.output)
        error = self.assertRaises(
            agent.Unreachable, nobody.wait, 0.01, lambda: True
        )
        self.assertIn('does not answer', str(error))


class TestStages(testtools.TestCase):
    def build(self, path: str, packages: tuple[str, ...], fail: str) -> str:
        """The stages that were made, until one failed."""
        made: list[str] = []

        def make(name: str) -> typing.Any:
            def body(*_: object) -> None:
                if name == fail:
                    raise cache.BuildFailed(name)
                made.append(name)

            return body

        bodies: dict[str, typing.Any] = {
            '_make_rootfs': make('debian'),
            '_install_python': make('python'),
            '_build_modules': make('module'),
            '_build_nvml': make('nvml'),
            '_make_disk': make('disk'),
            '_make_seed': make('seed'),
        }
        with mock.patch.multiple(stages, PACKAGES=packages, **bodies):
            try:
                stages.build(
                    cache.Cache(pathlib.Path(path)), str, lambda _: None
                )
            except cache.BuildFailed as error:
                made.append(f'not {error}')
        return ' '.join(made)

    def test_what_follows_a_stage_is_made_with_it(self) -> None:
        with tempfile.TemporaryDirectory() as path:
            every = 'debian python module nvml disk seed'
            self.assertEqual(every, self.build(path, ('a',), ''))
            self.assertEqual('', self.build(path, ('a',), ''))
            self.assertEqual(
                'debian not python', self.build(path, ('b',), 'python')
            )
            # What is of the first one is there no more.
            self.assertEqual(every, self.build(path, ('a',), ''))

    def test_packages_have_names(self) -> None:
        for name in stages.PACKAGES:
            self.assertGreater(len(name), 1, stages.PACKAGES)
