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


"""What a command says if the disk is full, or if it is interrupted."""

import collections
from collections.abc import Iterator
import contextlib
import errno
import os
import typing

import fixtures

from nova_vgpu import values
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests import hosts
from nova_vgpu.tests import live
from nova_vgpu.tests.unit.cmd import test_changes
from nova_vgpu.tests.unit.cmd import test_commands

AHEAD = f"""
[devices]
enabled_vgpu_types = L40S-24Q
vgpu_creation = ahead
unlisted_gpus = ignore
[vgpu_L40S-24Q]
device_addresses = {live.L40S}
"""
VF = test_changes.VF


@contextlib.contextmanager
def full_disk(file: str, is_out_of_inodes: bool) -> Iterator[None]:
    """No room for a file: it cannot be made, or cannot be written to."""
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    make, write, pwrite = os.open, os.write, os.pwrite

    def is_it(path: str) -> bool:
        return os.path.basename(path).startswith(file)

    def may_open(path: str, flags: int, mode: int = 0o777) -> int:
        if is_out_of_inodes and flags & os.O_CREAT and is_it(path):
            raise full
        return make(path, flags, mode)

    def require_room(descriptor: int) -> None:
        path = os.readlink(f'/proc/self/fd/{descriptor}')
        if not is_out_of_inodes and is_it(path):
            raise full

    def may_write(descriptor: int, data: bytes) -> int:
        require_room(descriptor)
        return write(descriptor, data)

    def may_pwrite(descriptor: int, data: bytes, offset: int) -> int:
        require_room(descriptor)
        return pwrite(descriptor, data, offset)

    with (
        fixtures.MonkeyPatch('os.open', may_open),
        fixtures.MonkeyPatch('os.write', may_write),
        fixtures.MonkeyPatch('os.pwrite', may_pwrite),
    ):
        yield


class CutOffTestCase(test_changes.ChangeTestCase):
    gpus: tuple[simulation.GPU, ...] = (
        hosts.gpu(live.L40S, live.SMALL_L40S, vendor_vfio=True),
    )

    def setUp(self) -> None:
        super().setUp()
        self.config.write_text(AHEAD)


class TestFullDisk(CutOffTestCase):
    def assert_said(
        self, answer: test_commands.Answer, directory: str, file: str
    ) -> None:
        self.assertEqual(2, answer.code, answer.stderr)
        path = self.host.path / directory
        for word in (
            str(path / file),
            'no space left on device',
            f'Free space on its file system: df {path}; df -i {path}',
        ):
            self.assertIn(word, answer.stderr)

    def fill(
        self, directory: str, file: str, is_out_of_inodes: bool, *words: str
    ) -> None:
        """Run a command without room for a file, and then with room."""
        with full_disk(file, is_out_of_inodes):
            answer = self.run_it(*words)
        self.assert_said(answer, directory, file)
        again = self.run_it(*words)
        self.assertEqual(0, again.code, again.stderr)

    def test_files_that_an_apply_writes(self) -> None:
        for file in ('journal', 'vgpus.json', 'types.json'):
            for is_out_of_inodes in (False, True):
                self.fill('state', file, is_out_of_inodes, 'apply')
                self.run_it('restore')
                for path in (self.host.path / 'state').iterdir():
                    self.assertNotEqual('.new', path.suffix)
                    path.unlink()

    def test_the_directory(self) -> None:
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def make(*_args: typing.Any, **_kwargs: typing.Any) -> None:
            raise full

        with fixtures.MonkeyPatch('os.makedirs', make):
            answer = self.run_it('apply')
        self.assertEqual(2, answer.code)
        self.assertIn('no space left on device', answer.stderr)
        self.assertIn(f'df {self.host.path}', answer.stderr)

    def test_locks(self) -> None:
        self.fill('state', 'lock', True, 'apply')
        self.run_it('restore')
        creation, claims = 'nova-vgpu-creation', 'nova-vgpu-claims'
        for path in (self.host.path / 'locks').iterdir():
            path.unlink()
        self.fill('locks', creation, True, 'apply')
        (self.host.path / 'locks' / claims).unlink(missing_ok=True)
        self.fill('locks', claims, True, 'restore')

    def test_the_lock_holds_without_the_number_in_it(self) -> None:
        with full_disk('lock', False):
            answer = self.run_it('apply')
        self.assertEqual(0, answer.code, answer.stderr)

    def test_by_hand(self) -> None:
        self.run_it('apply')
        self.run_it('device', 'disable', VF)
        words = ('device', 'enable', VF, '--type', 'L40S-24Q')
        self.fill('state', 'vgpus.json', False, *words)

    def test_a_restore(self) -> None:
        self.run_it('apply')
        with full_disk('journal', False):
            answer = self.run_it('restore')
        self.assert_said(answer, 'state', 'journal')
        # The host is as it was before; only that is not written down.
        self.assertEqual(0, self.host.describe()[f'{live.L40S} VFs'])
        self.assertEqual(0, self.run_it('restore').code)

    def test_what_was_done_before_is_told(self) -> None:
        finished = collections.Counter[str]()
        write = os.write

        def may_write(descriptor: int, data: bytes) -> int:
            finished.update(['done'] * (b'"done"' in data))
            if finished['done'] > 2:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return write(descriptor, data)

        with fixtures.MonkeyPatch('os.write', may_write):
            answer = self.run_it('apply')
        self.assertEqual(2, answer.code)
        self.assertEqual('', answer.stdout)
        lines = answer.stderr.splitlines()
        self.assertIn('2 done, 0 refused, 0 failed before that.', lines)
        self.assertIn('nova-vgpu restore', lines[-1])


class TestInterrupted(CutOffTestCase):
    def interrupt(self, *words: str) -> test_commands.Answer:
        """Press Ctrl-C while the vendor's program runs."""

        def be_interrupted(*_args: typing.Any) -> typing.Any:
            raise KeyboardInterrupt

        with fixtures.MonkeyPatch(
            'nova_vgpu.sandbox.vendor_tools.VendorTools.run',
            be_interrupted,
        ):
            return self.run_it(*words)

    def test_a_summary_is_left(self) -> None:
        step = f'enable the 5 VFs of GPU {live.L40S}'
        answer = self.interrupt('apply')
        self.assertEqual((130, ''), (answer.code, answer.stdout))
        self.assertEqual(
            [
                f'{step} ...',
                'Interrupted. 0 done, 0 refused, 0 failed before that.',
                f'Started and perhaps incomplete: {step}.',
                'Run it again to continue, or "nova-vgpu restore" to revert '
                'it.',
            ],
            answer.stderr.splitlines(),
        )
        self.assertEqual(0, self.run_it('apply').code)
        self.assertEqual(0, self.run_it('restore').code)

    def test_by_hand_there_is_nothing_to_restore(self) -> None:
        answer = self.interrupt('sriov', 'enable', live.L40S)
        self.assertEqual(130, answer.code)
        self.assertIn('Interrupted. 0 done', answer.stderr)
        self.assertNotIn('restore', answer.stderr)

    def test_before_anything_was_done(self) -> None:
        def be_interrupted() -> typing.Any:
            raise KeyboardInterrupt

        self.host.connect = be_interrupted  # type: ignore[method-assign]
        answer = self.run_it('apply')
        self.assertEqual(130, answer.code)
        self.assertEqual('Interrupted. Nothing was done.\n', answer.stderr)


class TestInterruptedSync(test_commands.CommandTestCase):
    def test_the_changes_made_are_counted(self) -> None:
        def sync(
            _placement: object,
            _target: object,
            report: typing.Callable[[values.Change], None],
        ) -> typing.Any:
            report(values.CreateTrait('CUSTOM_X'))
            raise KeyboardInterrupt

        name = 'nova_vgpu.placement.synchronisation.'
        with (
            fixtures.MonkeyPatch(f'{name}sync', sync),
            fixtures.MonkeyPatch(f'{name}connect', lambda *_: None),
        ):
            answer = self.run_on_host('provider', 'sync', '--node', 'x')
        self.assertEqual(130, answer.code)
        self.assertIn('CUSTOM_X', answer.stdout)
        self.assertIn('Interrupted. Changes made: 1.', answer.stderr)
