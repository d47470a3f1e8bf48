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


import contextlib
import fcntl
import os
import pathlib
import stat
import threading

import fixtures
import testtools

from nova_vgpu import exception
from nova_vgpu.host import files
from nova_vgpu.host import locks


class LockTestCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.path = root / 'locks'
        self.path.mkdir()
        self.waited: list[str] = []

    def hold_apply(self) -> contextlib.AbstractContextManager[int]:
        return locks.hold_apply(str(self.path), 0.05, self.waited.append)

    def run_elsewhere(
        self, lock: contextlib.AbstractContextManager[object]
    ) -> bool:
        """Whether another process gets a lock."""
        child = os.fork()
        if not child:
            try:
                with lock:
                    os._exit(0)
            except exception.BusyError:
                os._exit(1)
            finally:
                os._exit(2)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        self.assertIn(code, (0, 1))
        return code == 0


class TestApply(LockTestCase):
    def test_one_at_a_time(self) -> None:
        with self.hold_apply():
            self.assertRaises(exception.BusyError, self.hold_apply().__enter__)
        with self.hold_apply():
            pass

    def test_who_waits_is_told_for_whom(self) -> None:
        with self.hold_apply():
            self.assertRaises(exception.BusyError, self.hold_apply().__enter__)
        self.assertEqual(
            [
                f'waiting for process {os.getpid()}, '
                'which is changing this host'
            ],
            self.waited,
        )

    def test_a_killed_process_does_not_hold_it(self) -> None:
        child = os.fork()
        if not child:
            self.hold_apply().__enter__()
            os._exit(0)
        os.waitpid(child, 0)
        with self.hold_apply():
            pass


class TestCreation(LockTestCase):
    def test_it_excludes_what_nova_compute_locks(self) -> None:
        """oslo.concurrency takes a lock of the process on the same file."""
        with open(self.path / locks.CREATION, 'a') as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            hold = locks.hold_creation(str(self.path), 0.05)
            self.assertFalse(self.run_elsewhere(hold))
        hold = locks.hold_creation(str(self.path), 0.05)
        self.assertTrue(self.run_elsewhere(hold))


class TestClaims(LockTestCase):
    def hold(self, exclusive: bool) -> contextlib.AbstractContextManager[None]:
        return locks.hold_claims(str(self.path), 0.05, exclusive)

    def test_servers_do_not_keep_each_other_waiting(self) -> None:
        with self.hold(exclusive=False):
            self.assertTrue(self.run_elsewhere(self.hold(exclusive=False)))

    def test_a_server_keeps_commands_waiting_and_they_it(self) -> None:
        for one, other in ((False, True), (True, False), (True, True)):
            with self.hold(one):
                self.assertFalse(self.run_elsewhere(self.hold(other)))


class TestFiles(LockTestCase):
    def test_they_belong_to_the_owner_of_the_directory(self) -> None:
        if os.geteuid() == 0:
            os.chown(self.path, 12345, 54321)
        with locks.hold_claims(str(self.path), 1, exclusive=True):
            found = os.stat(self.path / locks.CLAIMS)
            owner = os.stat(self.path)
        self.assertEqual(
            (owner.st_uid, owner.st_gid), (found.st_uid, found.st_gid)
        )
        self.assertEqual(0o644, stat.S_IMODE(found.st_mode))
        self.assertEqual([locks.CLAIMS], os.listdir(self.path))

    def test_who_may_make_them_may_open_them(self) -> None:
        """root made them first; nova-compute is in the group, or another."""
        for mode, expected in ((0o2775, 0o664), (0o1777, 0o666)):
            os.chmod(self.path, mode)
            for left in (False, True):
                path = self.path / locks.CREATION
                if left:  # by an older release
                    path.touch()
                    path.chmod(0o644)
                with locks.hold_creation(str(self.path), 1):
                    found = stat.S_IMODE(path.stat().st_mode)
                # Only root repairs what others made.
                if not left or os.geteuid() == 0:
                    self.assertEqual(expected, found, f'{mode:o}, {left}')
                path.unlink()

    def test_what_is_not_a_lock_is_not_given_away(self) -> None:
        """The owner of the directory put it there."""
        os.chmod(self.path, 0o777)  # noqa: S103 - as wide as it can be
        for content, is_linked in (('theirs', False), ('', True)):
            other = self.path.parent / 'other'
            other.write_text(content)
            other.chmod(0o600)
            path = self.path / locks.CREATION
            if is_linked:
                os.link(other, path)
            else:
                other.rename(path)
            with locks.hold_creation(str(self.path), 1):
                found = stat.S_IMODE(path.stat().st_mode)
            self.assertEqual(0o600, found, content)
            path.unlink()

    def test_nova_compute_makes_its_directory(self) -> None:
        directory = self.path / 'tmp' / 'locks'
        locks.ensure_directory(str(directory))
        with locks.hold_creation(str(directory), 1):
            pass
        error = self.assertRaises(
            exception.StateUnusable,
            locks.ensure_directory,
            str(directory / locks.CREATION / 'below'),
        )
        self.assertIn('[oslo_concurrency]lock_path', str(error))

    def test_not_through_a_link(self) -> None:
        elsewhere = self.path.parent / 'elsewhere'
        for target in ('absent', 'present'):
            (self.path / locks.CREATION).symlink_to(elsewhere)
            error = self.assertRaises(
                exception.StateUnusable,
                locks.hold_creation(str(self.path), 1).__enter__,
            )
            self.assertIn(locks.CREATION, str(error), target)
            (self.path / locks.CREATION).unlink()
            elsewhere.write_text('theirs')
        self.assertEqual('theirs', elsewhere.read_text())

    def test_many_threads_at_once(self) -> None:
        """Also the first time, when there is no file yet."""
        ready, failures = threading.Barrier(8), list[Exception]()

        def work() -> None:
            ready.wait(30)
            for turn in range(20):
                path = self.path / str(turn)
                path.mkdir(exist_ok=True)
                try:
                    with locks.hold_claims(str(path), 30, exclusive=False):
                        pass
                except exception.StateUnusable as error:
                    failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([], failures)

    def test_a_directory_of_others_is_not_made(self) -> None:
        """It would belong to root then, and Nova could not use it."""
        self.path.rmdir()
        error = self.assertRaises(
            exception.StateUnusable,
            locks.hold_claims(str(self.path), 1, exclusive=True).__enter__,
        )
        self.assertIn(str(self.path), str(error))
        self.assertFalse(self.path.exists())

    def test_a_directory_that_cannot_be_made(self) -> None:
        self.path.rmdir()
        self.path.write_text('a file')
        error = self.assertRaises(
            exception.StateUnusable,
            locks.hold_apply(str(self.path), 1, print).__enter__,
        )
        self.assertIn(str(self.path), str(error))
        self.assertIn('--state-dir', str(error))


class TestSharing(LockTestCase):
    """nova-compute may be in a container, and its locks with it."""

    def setUp(self) -> None:
        super().setUp()
        self.proc = self.path.parent / 'proc'
        self.container = self.path.parent / 'container'
        (self.container / 'var/locks').mkdir(parents=True)

    def run_process(self, pid: int, name: str, root: pathlib.Path) -> None:
        process = self.proc / str(pid)
        process.mkdir(parents=True)
        (process / 'comm').write_text(f'{name}\n')
        (process / 'root').symlink_to(root)

    def list_unshared(self, path: str | None = '/var/locks') -> list[int]:
        found = locks.list_unshared(
            files.Files(str(self.proc)), path, str(self.path)
        )
        return sorted(found)

    def test_other_directories_are_found(self) -> None:
        self.assertEqual([], self.list_unshared())  # without /proc
        self.run_process(1, 'systemd', pathlib.Path('/'))
        self.run_process(20, 'nova-compute', self.container)
        self.run_process(21, 'nova-vgpu-compu', self.container)
        (self.proc / '22').mkdir()  # it ends
        (self.proc / 'sys').mkdir()
        self.assertEqual([20, 21], self.list_unshared())
        self.assertEqual([20, 21], self.list_unshared('/not/there'))
        self.assertEqual([20, 21], self.list_unshared(None))

    def test_the_same_directory_is_recognised(self) -> None:
        self.run_process(20, 'nova-compute', pathlib.Path('/'))
        self.run_process(21, 'nova-compute', self.path.parent)
        self.assertEqual([21], self.list_unshared(str(self.path)))
        self.assertEqual([20], self.list_unshared('/locks'))
