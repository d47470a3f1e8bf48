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


import fcntl
import os
import pathlib
import time

import fixtures
import testtools

from nova_vgpu.host import tools


class TestRun(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def script(self, text: str) -> str:
        path = self.root / 'sriov-manage'
        path.write_text(f'#!/bin/sh\n{text}\n')
        path.chmod(0o755)
        return str(path)

    def wait_for(self, path: pathlib.Path) -> str:
        deadline = time.monotonic() + 30
        while not (path.exists() and path.read_text().strip()):
            self.assertLess(time.monotonic(), deadline, f'no {path}')
            time.sleep(0.01)
        return path.read_text().strip()

    def is_alive(self, pid: int) -> bool:
        try:
            status = pathlib.Path(f'/proc/{pid}/stat').read_text()
        except OSError:
            return False
        return status.rpartition(')')[2].split()[0] != 'Z'

    def test_code_and_both_outputs(self) -> None:
        path = self.script('echo "$1"; echo oops >&2; exit 3')
        self.assertEqual(
            tools.Finished(3, '-e; rm -rf $HOME\noops'),
            tools.run([path, '-e; rm -rf $HOME'], 30),
        )

    def test_a_missing_program(self) -> None:
        path = str(self.root / 'nothing')
        error = self.assertRaises(tools.MissingError, tools.run, [path], 30)
        self.assertIn(path, str(error))
        self.assertIn('no such file', str(error))

    def test_a_program_that_may_not_be_run(self) -> None:
        path = self.script('true')
        os.chmod(path, 0o644)
        error = self.assertRaises(tools.MissingError, tools.run, [path], 30)
        self.assertIn('permission denied', str(error))

    def test_a_name_is_not_looked_up(self) -> None:
        error = self.assertRaises(tools.MissingError, tools.run, ['true'], 30)
        self.assertIn('absolute path', str(error))

    def test_the_environment_is_not_passed_on(self) -> None:
        self.useFixture(fixtures.EnvironmentVariable('OS_PASSWORD', 'secret'))
        finished = tools.run([self.script('env')], 30)
        self.assertNotIn('secret', finished.output)

    def test_one_that_hangs_is_killed_with_its_children(self) -> None:
        path = self.script(
            f'sleep 1000 & echo $! > {self.root}/child; trap "" TERM; wait'
        )
        error = self.assertRaises(tools.TimedOut, tools.run, [path], 0.5)
        self.assertIn('timed out after 0.5 s', str(error))
        child = int(self.wait_for(self.root / 'child'))
        deadline = time.monotonic() + 30
        while self.is_alive(child):
            self.assertLess(time.monotonic(), deadline, 'it still runs')
            time.sleep(0.01)

    def test_it_holds_the_lock_after_its_parent_was_killed(self) -> None:
        path = self.script(
            f'echo $$ > {self.root}/pid; read go < {self.root}/go; '
            f'echo said; echo done > {self.root}/done'
        )
        os.mkfifo(self.root / 'go')
        lock = os.open(self.root / 'lock', os.O_CREAT | os.O_RDWR)
        self.addCleanup(os.close, lock)
        parent = os.fork()
        if not parent:
            own = os.open(self.root / 'lock', os.O_RDWR)
            fcntl.flock(own, fcntl.LOCK_EX)
            tools.run([path], 30, keep=[own])
            os._exit(0)
        self.wait_for(self.root / 'pid')
        os.kill(parent, 9)
        os.waitpid(parent, 0)
        self.assertRaises(
            BlockingIOError, fcntl.flock, lock, fcntl.LOCK_EX | fcntl.LOCK_NB
        )
        (self.root / 'go').write_text('go\n')
        # It goes on to its end, and then the lock is free.
        fcntl.flock(lock, fcntl.LOCK_EX)
        self.assertEqual('done', self.wait_for(self.root / 'done'))
