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

"""Who has a vGPU while no running guest shows it."""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import io
import threading
import typing

import fixtures
from nova import context
from nova import objects
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.virt.libvirt import guest

from nova_vgpu.compute import locking
from nova_vgpu.host import guests as host_guests
from nova_vgpu.tests.functional.compute import simulated_guests
from nova_vgpu.tests.functional.compute import simulated_mdevs
from nova_vgpu.tests.functional.compute import test_servers
from nova_vgpu.tests.functional.compute import test_vendor_vfio

L40S_24Q = test_vendor_vfio.L40S_24Q

GUEST = """<domain type='kvm'>
  <name>other</name><uuid>7a1c3a52-0b6a-4c8e-9f0e-54d2c4c1c002</uuid>
  <memory>1024</memory><vcpu>1</vcpu><os><type>hvm</type></os><devices/>
</domain>"""


def failing(
    message: str, code: int = fakelibvirt.VIR_ERR_INTERNAL_ERROR
) -> Callable[..., typing.NoReturn]:
    """A call of libvirt that fails."""

    def fail(*_args: object, **_kwargs: object) -> typing.NoReturn:
        raise simulated_mdevs.error(message, code)

    return fail


class BothKindsTestBase(test_vendor_vfio.VendorVFIOTestBase):
    """A host with two mdevs of a T4 and two functions of an L40S."""

    def setUp(self) -> None:
        super().setUp()
        self.declare('T4-8Q', 'L40S-24Q')
        self.list_addresses('L40S-24Q', '41:00.0')
        self.flags(mdev_class='CUSTOM_FUNCTION', group='mdev_L40S-24Q')
        self.start_host('host1', test_servers.t4(), test_vendor_vfio.l40s())
        self.flavors = {
            'mdev': self.flavor,
            'function': self._create_flavor(
                extra_spec={'resources:CUSTOM_FUNCTION': '1'}
            ),
        }

    @property
    def driver(self) -> typing.Any:
        return self.computes['host1'].driver

    def assert_kept(
        self, server: typing.Any, flavor: str, own: list[str], case: str
    ) -> None:
        """Nobody else gets it, and its server finds it again."""
        self._run_periodics()
        other = self.boot(flavor_id=flavor)
        self.assertNotEqual(own, self.names_of(other), case)
        self._reboot_server(server, hard=True)
        self.assertEqual(own, self.names_of(server), case)
        self.assertTrue(self.guest_of(server).isActive(), case)
        self._delete_server(other)

    def assert_active(
        self, server: typing.Any, own: list[str], case: str
    ) -> None:
        """As it was before: it runs, and with its vGPU."""
        now = self.api.get_server(server['id'])
        self.assertEqual(
            ('ACTIVE', None),
            (now['status'], now['OS-EXT-STS:task_state']),
            case,
        )
        its_guest = self.guest_of(server)
        self.assertTrue(its_guest.isActive(), case)
        running_with = map(simulated_guests.key_of, its_guest.hostdevs)
        self.assertEqual(own, sorted(running_with), case)
        self.assertEqual(own, self.names_of(server), case)
        # A live migration takes it from here.
        (alias,) = (hostdev['alias'] for hostdev in its_guest.hostdevs)
        self.assertRegex(alias, 'ua-vgpu-0-(GRID_T4-8Q|NVIDIA_L40S-24Q)')


class ColdSnapshotTest(BothKindsTestBase):
    """A guest whose disk cannot be copied while it runs is suspended."""

    def test_the_server_runs_on_with_its_vgpu(self) -> None:
        self.flags(disable_libvirt_livesnapshot=True, group='workarounds')
        servers = {
            case: self.boot(flavor_id=flavor)
            for case, flavor in self.flavors.items()
        }
        for case, server in servers.items():
            own = self.names_of(server)
            # Nova's fake of the disks writes no file to upload.
            with fixtures.MockPatch(
                'nova.virt.libvirt.utils.file_open',
                lambda *_args: io.BytesIO(),
            ):
                self._snapshot_server(server, case)
                self._wait_for_server_parameter(
                    server, {'OS-EXT-STS:task_state': None}
                )
            self.assert_active(server, own, case)
        # One that is paused cannot release its vGPU.
        server = servers['function']
        self.api.post_server_action(server['id'], {'pause': None})
        self._wait_for_state_change(server, 'PAUSED')
        self.attempt(server, 'createImage', name='paused')
        self._wait_for_server_parameter(
            server, {'OS-EXT-STS:task_state': None}
        )
        self.assertEqual('PAUSED', self.api.get_server(server['id'])['status'])
        self.assertEqual(1, len(self.guest_of(server).hostdevs))
        log = self.stdlog.logger.output
        self.assertIn('a paused guest cannot release its vGPU', log)
        self.assertEqual(2, log.count('Beginning cold snapshot process'))
        self.assertEqual(2, log.count('Snapshot image upload complete'))


class SuspendTest(BothKindsTestBase):
    def test_one_that_fails_leaves_the_server_active_with_its_vgpu(
        self,
    ) -> None:
        for case, flavor in self.flavors.items():
            server = self.boot(flavor_id=flavor)
            own = self.names_of(server)
            with fixtures.MockPatchObject(
                guest.Guest, 'save_memory_state', failing('No space left')
            ):
                self.attempt(server, 'suspend')
            self.assert_active(server, own, case)
            self.assert_kept(server, flavor, own, case)
        self.assertEqual([L40S_24Q], self.types())

    def test_it_waits_until_the_guest_has_let_go(self) -> None:
        for case, flavor in self.flavors.items():
            server = self.boot(flavor_id=flavor)
            own = self.names_of(server)
            self.guest_of(server).looks_until_detached = 2
            self._suspend_server(server)
            self._resume_server(server)
            self.assert_active(server, own, case)

    def test_a_guest_that_does_not_let_go_runs_on_with_its_vgpu(self) -> None:
        """Also if it lets go after all, long after it was asked."""
        self.flags(device_detach_attempts=2, group='libvirt')
        self.flags(device_detach_timeout=1, group='libvirt')
        for case, flavor in self.flavors.items():
            server = self.boot(flavor_id=flavor)
            own = self.names_of(server)
            its_guest = self.guest_of(server)
            its_guest.looks_until_detached = None
            self.attempt(server, 'suspend')
            self.assert_active(server, own, case)
            its_guest.let_go()
            self.assertEqual([], its_guest.hostdevs, case)
            self._run_periodics()
            self.assert_active(server, own, case)

    def test_nova_compute_is_killed_in_the_midst_of_it(self) -> None:
        for case, flavor in self.flavors.items():
            server = self.boot(flavor_id=flavor)
            own = self.names_of(server)
            instance = objects.Instance.get_by_uuid(
                context.get_admin_context(), server['id']
            )
            self.driver._detach_mediated_devices(
                self.driver._host.get_guest(instance)
            )
            self.restart_host('host1')
            self.assert_kept(server, flavor, own, case)
        self.assertEqual([L40S_24Q], self.types())

    def test_one_that_libvirt_refuses_leaves_the_server_as_it_was(
        self,
    ) -> None:
        """Whatever goes wrong with the clean-up after it."""
        refuse = failing(
            'not supported', fakelibvirt.VIR_ERR_CONFIG_UNSUPPORTED
        )
        for case, flavor in self.flavors.items():
            server = self.boot(flavor_id=flavor)
            own = self.names_of(server)
            with (
                fixtures.MockPatchObject(
                    simulated_guests.Guest, 'detachDeviceFlags', refuse
                ),
                fixtures.MockPatchObject(
                    self.connection(), 'listAllDomains', failing('reset')
                ),
            ):
                self.attempt(server, 'suspend')
            now = self.api.get_server(server['id'])
            self.assertEqual(
                ('ACTIVE', None),
                (now['status'], now['OS-EXT-STS:task_state']),
                case,
            )
            self.assertEqual(own, self.names_of(server), case)
        self.assertIn(
            'vGPU reconciliation failed; will try again',
            self.stdlog.logger.output,
        )

    def test_a_server_with_an_mdev_finds_it_again(self) -> None:
        server = self.boot()
        own = self.names_of(server)
        self._suspend_server(server)
        self._run_periodics()
        other = self.boot()
        self.assertNotEqual(own, self.names_of(other))
        self._resume_server(server)
        self.assertEqual(own, self.names_of(server))
        self.assertEqual(1, len(self.vgpus_of(server)))


class DeleteTest(BothKindsTestBase):
    def test_it_works_though_another_guest_cannot_be_read(self) -> None:
        servers = [self.boot(flavor_id=f) for f in self.flavors.values()]
        other = self.connection().defineXML(GUEST)
        with fixtures.MockPatchObject(other, 'XMLDesc', failing('locked')):
            for server in servers:
                self._delete_server(server)
            # It may be that guest's for all one knows.
            self.assertEqual([L40S_24Q], self.types())
        self._run_periodics()
        self.assertEqual([], self.types())


class Held:
    """A thread that stops where it reads who has what."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.there, self.go_on = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=work)

    @property
    def is_current(self) -> bool:
        return threading.current_thread() is self._thread

    def start(self) -> None:
        self._thread.start()
        assert self.there.wait(60)

    def stop_here(self) -> None:
        """Once; the other side must always get there."""
        if self.is_current and not self.there.is_set():
            self.there.set()
            assert self.go_on.wait(60)

    def end(self) -> None:
        self.go_on.set()
        self._thread.join(60)


class RaceTest(BothKindsTestBase):
    """Threads are held up at the worst moment; nothing else is changed."""

    def boot_beside_idle(self) -> typing.Any:
        """A server, and a vGPU of nobody, for which guests are read."""
        server, other = self.boot(), self.boot()
        self._delete_server(other)
        return server

    def choose(self) -> None:
        """What a boot does until its guest is defined."""
        gpu = self.provider(test_servers.T4)
        find = self.driver.vgpus.usage.list_idle

        def note(assigned: typing.Any) -> typing.Any:
            self.found = find(assigned)
            return self.found

        with (
            self.driver.vgpus.usage.pending.during_operation(),
            fixtures.MockPatchObject(
                self.driver.vgpus.usage, 'list_idle', note
            ),
        ):
            self.driver._allocate_mdevs({gpu: {'resources': {'VGPU': 1}}})

    def assert_idle_is_found(self, own: list[str]) -> None:
        (idle,) = self.found
        self.assertNotIn(idle, own)

    @contextlib.contextmanager
    def stopping(
        self, held: Held, after_guests: bool = False
    ) -> Iterator[None]:
        """Stop it before or after it reads the guests.

        It goes on, at the latest, when another one waits for its lock.
        """
        lock = locking.hold_allocation

        def slowed(read: typing.Any) -> typing.Any:
            def slow_read(*args: typing.Any) -> typing.Any:
                if not after_guests:
                    held.stop_here()
                found = read(*args)
                held.stop_here()
                return found

            return fixtures.MockPatchObject(
                host_guests, read.__name__, slow_read
            )

        def noted_lock(*seconds: float) -> typing.Any:
            if held.there.is_set() and not held.is_current:
                held.go_on.set()
            return lock(*seconds)

        with (
            slowed(host_guests.read_guests),
            slowed(host_guests.find_mdevs),
            fixtures.MockPatchObject(locking, 'hold_allocation', noted_lock),
        ):
            yield
            held.end()

    def test_a_boot_as_the_hard_reboot_of_another_begins(self) -> None:
        server = self.boot_beside_idle()
        own = self.names_of(server)
        held = Held(self.choose)
        create = self.driver._create_guest_with_network

        def create_late(*args: typing.Any, **kwargs: typing.Any) -> object:
            held.end()  # the guest is not defined
            return create(*args, **kwargs)

        with (
            self.stopping(held),
            fixtures.MockPatchObject(
                self.driver, '_create_guest_with_network', create_late
            ),
        ):
            held.start()
            self._reboot_server(server, hard=True)
        self.assertEqual(own, self.names_of(server))
        self.assert_idle_is_found(own)

    def test_a_boot_as_the_hard_reboot_of_another_ends(self) -> None:
        server = self.boot_beside_idle()
        own = self.names_of(server)
        held = Held(self.choose)
        create = self.driver._create_guest_with_network

        def create_late(*args: typing.Any, **kwargs: typing.Any) -> object:
            held.start()  # it reads the guests while this one is not defined
            return create(*args, **kwargs)

        with (
            self.stopping(held, after_guests=True),
            fixtures.MockPatchObject(
                self.driver, '_create_guest_with_network', create_late
            ),
        ):
            self._reboot_server(server, hard=True)
        self.assertEqual(own, self.names_of(server))
        self.assert_idle_is_found(own)

    def test_upkeep_as_a_suspend_begins(self) -> None:
        server = self.boot(flavor_id=self.flavors['function'])
        seen: list[list[int]] = []
        save = guest.Guest.save_memory_state
        held = Held(self.driver.vgpus.reconciler.reconcile)

        def look_and_save(its_guest: typing.Any) -> None:
            held.end()
            seen.append(self.types())
            save(its_guest)

        with (
            self.stopping(held),
            fixtures.MockPatchObject(
                guest.Guest, 'save_memory_state', look_and_save
            ),
        ):
            held.start()
            self._suspend_server(server)
        self.assertEqual([[L40S_24Q]], seen)
