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

"""Servers without a vGPU do not notice that this driver is there."""

from collections.abc import Iterator
import contextlib
import subprocess
import sys
import types
import typing

import fixtures
from keystoneauth1 import exceptions as ks_exc
import nova.conf
from nova.scheduler.client import report
import testtools

from nova_vgpu import values
from nova_vgpu.compute import allocator
from nova_vgpu.compute import locking
from nova_vgpu.compute import recovery
from nova_vgpu.host import locks
from nova_vgpu.host import state
from nova_vgpu.tests.functional.compute import test_servers
from nova_vgpu.tests.functional.compute import test_vendor_vfio

CONF = nova.conf.CONF

#: Takes the locks as commands do, and hangs: until it is told to end, or until
#: whoever waits for it without end has shown that.
_HUNG = """
import fcntl, select, sys
creation, claims = (open(path, 'a') for path in sys.argv[1:])
fcntl.lockf(creation, fcntl.LOCK_EX)
fcntl.flock(claims, fcntl.LOCK_EX)
print('held', flush=True)
select.select([sys.stdin], [], [], 60)
"""


@contextlib.contextmanager
def hung_command() -> Iterator[typing.Any]:
    """A command of this project that holds its locks and does not go on."""
    directory = CONF.oslo_concurrency.lock_path
    paths = [f'{directory}/{n}' for n in (locks.CREATION, locks.CLAIMS)]
    with subprocess.Popen(
        [sys.executable, '-c', _HUNG, *paths],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b'held\n'
        yield process
        assert process.stdin is not None
        process.stdin.close()


def fail(*_args: typing.Any, **_kwargs: typing.Any) -> typing.NoReturn:
    raise ks_exc.ConnectFailure('Placement is down')


@contextlib.contextmanager
def placement_down() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for method in ('get', 'put', 'post', 'delete'):
            stack.enter_context(
                fixtures.MockPatchObject(
                    report.SchedulerReportClient, method, fail
                )
            )
        yield


class PlainServersTest(test_vendor_vfio.VendorVFIOTestBase):
    """On a host with GPUs of both kinds."""

    def setUp(self) -> None:
        super().setUp()
        self.flags(resume_guests_state_on_host_boot=True)
        self.useFixture(
            fixtures.MockPatchObject(locking, 'START_SECONDS', 0.1)
        )
        # Nova makes the directory of its locks when it needs it.
        root = self.useFixture(fixtures.TempDir()).path
        self.flags(lock_path=f'{root}/not/there', group='oslo_concurrency')
        self.declare('T4-8Q', 'L40S-24Q')
        self.list_addresses('L40S-24Q', '41:00.0')
        self.start_host('host1', test_servers.t4(), test_vendor_vfio.l40s())
        self.plain = self._create_flavor()

    def go_through(self, server: typing.Any) -> None:
        """What a server goes through that uses nothing of Placement's."""
        self._stop_server(server)
        self._start_server(server)
        self._reboot_server(server, hard=True)
        self._suspend_server(server)
        self._resume_server(server)
        self._rescue_server(server)
        self._unrescue_server(server)

    def test_a_command_hangs_and_placement_is_down(self) -> None:
        with hung_command() as command:
            server = self.boot(flavor_id=self.plain)
            self._run_periodics(raise_on_error=True)
            with placement_down():
                self.go_through(server)
                self.reboot_machine('host1')
                self.assertTrue(self.guest_of(server).isActive())
            self._delete_server(server)
            self.assertIsNone(command.poll())
        self.assertIn(
            f'{locks.CREATION} is held by another process',
            self.stdlog.logger.output,
        )

    def test_none_of_our_locks_is_taken_and_none_of_our_files_read(
        self,
    ) -> None:
        self.stop_reconciling('host1')
        used: list[str] = []

        def spy(owner: typing.Any, name: str) -> None:
            method = getattr(owner, name)

            def use(*args: typing.Any, **kwargs: typing.Any) -> typing.Any:
                used.append(name)
                return method(*args, **kwargs)

            self.useFixture(fixtures.MockPatchObject(owner, name, use))

        spy(locking, '_hold_in_process')
        spy(locks, '_open')
        spy(state.StateDirectory, 'read')
        spy(state.StateDirectory, 'replace')
        server = self.boot(flavor_id=self.plain)
        self.go_through(server)
        self._update_computes()
        self._delete_server(server)
        self.assertEqual([], used)
        self._delete_server(self.boot())
        self.assertEqual({'_hold_in_process', '_open'}, {*used} - {'read'})

    def test_a_lost_vgpu_is_not_given_up_while_placement_is_down(self) -> None:
        server = self.boot()
        self.guest_of(server).undefine()
        with placement_down():
            self.attempt(server, 'reboot', type='HARD')
            self._wait_for_state_change(server, 'ERROR')
        self.assertIn(
            f'did not return the allocations of server {server["id"]}.',
            self.stdlog.logger.output,
        )
        self._reboot_server(server, hard=True)
        self.assertEqual(1, len(self.vgpus_of(server)))


class NothingDeclaredTest(test_servers.OurTestBase):
    def test_no_lock_is_needed(self) -> None:
        root = self.useFixture(fixtures.TempDir()).path
        self.flags(lock_path=f'{root}/not/there', group='oslo_concurrency')
        self.declare()
        self.start_host('host1', test_servers.t4())
        server = self.boot(flavor_id=self._create_flavor())
        self._reboot_server(server, hard=True)
        self._delete_server(server)


class CyborgTest(testtools.TestCase):
    def test_no_lock_is_needed_where_nothing_is_declared(self) -> None:
        given: dict[str, typing.Any] = {
            'planner': types.SimpleNamespace(declaration=values.Declaration()),
            # Without what takes the locks.
            'usage': types.SimpleNamespace(list_of=lambda _server: ['mdev']),
            'devices': None,
            'reconciler': None,
            'failures': None,
        }
        server: typing.Any = types.SimpleNamespace(uuid='server')
        made = allocator.Allocator(**given)
        self.assertEqual(['mdev'], made.reserve_own(server))


class FlavorsTest(testtools.TestCase):
    def test_which_ask_for_a_vgpu(self) -> None:
        for asked, specs in (
            (True, {'resources:VGPU': '1'}),
            (True, {'resources1:VGPU': '1'}),
            (True, {'resources_GPU-2:CUSTOM_A40': ' 2'}),
            (False, {}),
            (False, {'resources:VGPU': '0'}),
            (False, {'resources:CUSTOM_OTHER': '1'}),
            (False, {'trait:VGPU': 'required'}),
            (False, {'resources': 'VGPU'}),
        ):
            found = recovery.asks_for(specs, {'VGPU', 'CUSTOM_A40'})
            self.assertEqual(asked, found, str(specs))
