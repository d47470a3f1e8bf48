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

"""A report to Placement reads; what changes the host has its own place."""

import contextlib
import typing
from unittest import mock

import fixtures
from nova import exception as nova_exception
from nova.virt.libvirt import host as libvirt_host
import testtools

from nova_vgpu import exception
from nova_vgpu.compute import hotplug
from nova_vgpu.compute import locking
from nova_vgpu.compute import log
from nova_vgpu.compute import suspension
from nova_vgpu.compute import usage
from nova_vgpu.tests.functional.compute import killing
from nova_vgpu.tests.functional.compute import test_holding
from nova_vgpu.tests.functional.compute import test_servers
from nova_vgpu.tests.functional.compute import test_vendor_vfio

HELD = 'Another thread has held the lock'


@contextlib.contextmanager
def held_lock(*_seconds: float) -> typing.Iterator[None]:
    raise locking.BusyHereError(HELD)
    yield


class ReportTest(test_holding.BothKindsTestBase):
    def test_it_changes_nothing_on_the_host(self) -> None:
        server = self.boot(flavor_id=self.flavors['mdev'])
        self._stop_server(server)
        self.stop_reconciling('host1')
        # One that a server has is not started, and one of no server is set.
        (mdev,) = self.connection().mdev_info.devices.values()
        mdev.destroy()
        l40s_24q = test_vendor_vfio.L40S_24Q
        self.simulated['host1'].set_type('0000:41:00.4', l40s_24q)
        writes = self.useFixture(killing.Writes())
        with writes.recorded() as recorded:
            for _ in range(2):
                self._update_computes()
        self.assertEqual([], recorded)
        with writes.recorded() as recorded:
            self.driver.vgpus.service.reconcile()
        self.assertEqual({'create', 'set_type'}, set(recorded))
        self.assertTrue(mdev.isActive())
        self.assertEqual([], self.types())

    def test_it_wakes_the_thread_that_does(self) -> None:
        self.simulated['host1'].set_type(
            '0000:41:00.4', test_vendor_vfio.L40S_24Q
        )
        thread = self.driver.vgpus.service.thread
        asked = thread._asked
        self._update_computes()
        self.assertTrue(thread.wait(asked + 1, 60))
        self.assertEqual([], self.types())


class ThreadTest(test_servers.OurTestBase):
    def is_running(self) -> bool:
        thread = self.computes['host1'].driver.vgpus.service.thread
        return thread._thread is not None

    def test_it_runs_from_the_start_to_the_end_of_the_service(self) -> None:
        if hasattr(libvirt_host.Host, 'cleanup'):  # not in Nova 31
            self.useFixture(
                fixtures.MockPatchObject(libvirt_host.Host, 'cleanup')
            )
        self.start_host('host1', test_servers.t4())
        self.assertFalse(self.is_running(), 'nothing is declared')
        self.declare('T4-8Q')
        self.restart_host('host1')
        self.assertTrue(self.is_running())
        self.computes['host1'].driver.cleanup_host('host1')
        self.assertFalse(self.is_running())


class NovasExceptionsTest(test_holding.BothKindsTestBase):
    """Nova handles what it knows; it shows the name of anything else."""

    def test_a_fault_says_that_a_lock_is_held(self) -> None:
        server = self.boot(flavor_id=self.flavors['function'])
        own = self.names_of(server)
        busy = fixtures.MockPatchObject(locking, 'hold_allocation', held_lock)
        with busy:
            self.attempt(server, 'suspend')
            self._wait_for_server_parameter(
                server, {'status': 'ACTIVE', 'OS-EXT-STS:task_state': None}
            )
            self.assertTrue(self.guest_of(server).isActive())
        self._stop_server(server)
        with busy:
            self.attempt(server, 'reboot', type='HARD')
            server = self._wait_for_state_change(server, 'ERROR')
        self.assertIn(HELD, server['fault']['message'])
        self._reboot_server(server, hard=True)
        self.assertEqual(own, self.names_of(server))

    def test_a_live_migration_tries_another_host(self) -> None:
        live_migration = self.driver.vgpus.live_migration
        for error in (
            exception.BusyError(HELD),
            exception.HostUnreadable(HELD),
            exception.StateUnusable(HELD),
            nova_exception.ComputeResourcesUnavailable(reason=HELD),
        ):
            with (
                testtools.ExpectedException(
                    nova_exception.MigrationPreCheckError, f'.*{HELD}'
                ),
                live_migration.checking_destination(mock.Mock(), {}),
            ):
                raise error


class Guest:
    """One that has no device, until it is given one."""

    id = 1

    def __init__(self, attaching: typing.Callable[[], None]) -> None:
        self._attaching = attaching

    def get_xml_desc(self, dump_inactive: bool = False) -> str:
        return '<domain><devices/></domain>'

    def attach_device(self, conf: object, live: bool = False) -> None:
        self._attaching()


class ReleasedLateTest(testtools.TestCase):
    def test_a_newer_note_is_not_dropped_with_an_old_one(self) -> None:
        """A second suspend fails while the vGPU of the first is attached."""
        first, second = (
            (hotplug.Device(name, '<hostdev/>', is_vgpu=True),)
            for name in ('first', 'second')
        )
        instance = mock.Mock(uuid='server')
        attached: list[str] = []

        def attach() -> None:
            attached.append('once more')
            if len(attached) == 1:
                late._note_detached(instance, guest, second)

        guest: typing.Any = Guest(attach)
        nova = mock.Mock()
        nova._host.get_guest.return_value = guest
        unused = mock.Mock(side_effect=AssertionError)
        late = suspension.Suspension(
            nova,
            usage.Usage(unused, unused, unused, contextlib.nullcontext),
            unused,
            log.FailureLog(),
        )
        late._note_detached(instance, guest, first)
        late.attach_released_late(0)
        self.assertEqual(
            second, late._detached['server'].devices, 'the newer one is lost'
        )
        late.attach_released_late(0)
        self.assertEqual({}, late._detached)
        self.assertEqual(2, len(attached))
