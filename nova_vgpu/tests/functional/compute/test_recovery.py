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


"""Servers that come back: after a restart of nova-compute, of the host."""

import dataclasses
import math
import types
import typing

import fixtures
from nova import context
from nova import objects

from nova_vgpu.compute import reconciler
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import hardware
from nova_vgpu.sandbox import stores
from nova_vgpu.tests import hosts
from nova_vgpu.tests.functional.compute import test_servers

T4 = 'pci_0000_84_00_0'
A40 = 'pci_0000_41_00_0'


def a40(vfs: int = 4) -> typing.Any:
    return hosts.gpu('41:00.0', boards.A40, vfs=vfs)


class MdevsAfterRebootTest(test_servers.OurTestBase):
    """The host is rebooted; how much of the mdevs is left differs."""

    def setUp(self) -> None:
        super().setUp()
        self.flags(resume_guests_state_on_host_boot=True)
        self.declare('A40-24Q')
        self.start_host('host1', a40())

    def mdev_of(self, server: typing.Any) -> str:
        driver = self.computes['host1'].driver
        assigned = driver._get_all_assigned_mediated_devices()
        (uuid,) = (u for u, owner in assigned.items() if owner == server['id'])
        return str(uuid)

    def is_running(self, server: typing.Any) -> bool:
        domain = self.connection().lookupByUUIDString(server['id'])
        return bool(domain.isActive())

    def boot_two(self) -> tuple[list[typing.Any], list[str]]:
        """One that runs and one that is off; and their vGPUs."""
        servers = [self.boot(), self.boot()]
        self._stop_server(servers[1])
        return servers, [self.mdev_of(server) for server in servers]

    def assert_back(self, servers: list[typing.Any], own: list[str]) -> None:
        self.assertTrue(self.is_running(servers[0]))
        self._start_server(servers[1])
        self.assertEqual(own, [self.mdev_of(server) for server in servers])
        self.assertEqual({'VGPU': 2}, self.usages())

    def usages(self) -> typing.Any:
        return self._get_provider_usages(self.provider(A40))

    def test_libvirt_started_them(self) -> None:
        servers, own = self.boot_two()
        self.reboot_machine('host1')
        self.assert_back(servers, own)

    def test_libvirt_did_not_start_them(self) -> None:
        servers, own = self.boot_two()
        self.reboot_machine('host1', autostart=False)
        self.assert_back(servers, own)

    def test_they_were_not_even_defined(self) -> None:
        """As on a host where mdevctl is missing."""
        servers, own = self.boot_two()
        self.connection().mdev_info.devices.clear()
        self.reboot_machine('host1')
        self.assert_back(servers, own)
        self.boot(expected_state='ERROR')  # the GPU is full

    def test_they_start_when_their_functions_come_late(self) -> None:
        servers, own = self.boot_two()
        self.connection().reboot(False)
        self.restart_host('host1', a40(vfs=0))
        self.assertFalse(self.is_running(servers[0]))
        self.assertIn('; will try again: ', self.stdlog.logger.output)
        self.simulated['host1'].gpus[:] = [a40()]
        self._run_periodics()
        self.assertEqual(2, self.total(A40))
        self._reboot_server(servers[0], hard=True)
        self.assert_back(servers, own)

    def test_their_functions_are_kept_for_them(self) -> None:
        """A function whose mdev does not start is not given to another."""
        first = self.boot()
        (function,) = self.vgpus_of(first)
        driver = self.computes['host1'].driver
        (mdev,) = self.connection().mdev_info.devices.values()
        self._stop_server(first)
        mdev.destroy()
        self.assertIn(function, driver.vgpus.usage.read().names)
        second = self.boot()
        self.assertNotEqual([function], self.vgpus_of(second))
        self._start_server(first)
        self.assertEqual([function], self.vgpus_of(first))


class RenumberedTest(MdevsAfterRebootTest):
    """The driver was upgraded as well: definitions start as other types.

    No command of this project is run before nova-compute starts.
    """

    def upgrade(self, name: str, autostart: bool = True) -> None:
        """Reboot with another driver; nova-compute is to be restarted."""
        connection = self.connection(name)
        connection.reboot(autostart=False)
        board = stores.renumber(boards.A40)
        card = dataclasses.replace(a40(), board=board)
        self.simulated[name].gpus[:] = [card]
        if autostart:
            connection.mdev_info.start_those_on()

    def reboot_machine(self, name: str, autostart: bool = True) -> typing.Any:
        self.upgrade(name, autostart)
        return self.restart_host(name)

    def assert_back(self, servers: list[typing.Any], own: list[str]) -> None:
        super().assert_back(servers, own)
        self.assertEqual(['NVIDIA A40-24Q'] * 2, self.types_of(own))

    def types_of(self, uuids: list[str]) -> list[str | None]:
        (card,) = self.simulated['host1'].gpus
        names = {t.id: t.name for t in card.board.types}
        types = {c.uuid: names[c.type_id] for c in card.pinned()}
        return [types.get(uuid) for uuid in uuids]

    def test_one_that_runs_with_another_type(self) -> None:
        """Something started it before; what it was given stays noted."""
        servers, own = self.boot_two()
        self.upgrade('host1')
        self.guest_of(servers[0]).create()
        self.restart_host('host1')
        self.assertEqual(['NVIDIA A40-16Q'], self.types_of(own[:1]))
        self.attempt(servers[0], 'reboot', type='HARD')
        self.assertEqual(['NVIDIA A40-16Q'], self.types_of(own[:1]))
        self.assertTrue(self.is_running(servers[0]))
        said = self.stdlog.logger.output
        self.assertIn('the server was built with NVIDIA A40-24Q', said)
        self.assertIn('"nova-vgpu apply"', said)
        self._stop_server(servers[0])
        self._start_server(servers[0])
        self.assertEqual(['NVIDIA A40-24Q'], self.types_of(own[:1]))

    def forget_late(self, seconds: float) -> None:
        """Let libvirt show an mdev that is gone, until that has passed."""
        mdevs = self.connection().mdev_info
        forget, time = mdevs.forget, hardware.Clock(mdevs.lock)
        late: dict[typing.Any, float] = {}

        def forget_later(mdev: typing.Any) -> None:
            if not mdev.active and not mdev.persistent:
                mdev.active = True  # as far as libvirt knows
                late.setdefault(mdev, time.now() + seconds)

        def sleep(pause: float) -> None:
            time.sleep(pause)
            for mdev in [m for m, end in late.items() if end <= time.now()]:
                del late[mdev]
                mdev.active = False
                forget(mdev)

        fake = types.SimpleNamespace(monotonic=time.now, sleep=sleep)
        self.useFixture(
            fixtures.MockPatchObject(mdevs, 'forget', forget_later)
        )
        self.useFixture(fixtures.MockPatchObject(reconciler, 'time', fake))

    def test_libvirt_is_late(self) -> None:
        servers, own = self.boot_two()
        self.upgrade('host1')
        self.forget_late(seconds=3)
        self.restart_host('host1')
        self.assert_back(servers, own)
        self.assertNotIn('Could not remove', self.stdlog.logger.output)

    def test_libvirt_never_notices(self) -> None:
        servers, _ = self.boot_two()
        self.upgrade('host1')
        self.forget_late(seconds=math.inf)
        self.restart_host('host1')
        self.assertFalse(self.is_running(servers[0]))
        said = self.stdlog.logger.output
        self.assertIn('libvirt still shows it', said)
        self.assertIn('libvirt does not create it again on GPU', said)


class LostGuestTest(test_servers.OurTestBase):
    """libvirt forgot the guest: its vGPUs come from the allocations."""

    def lose(self, server: typing.Any) -> None:
        instance = objects.Instance.get_by_uuid(
            context.get_admin_context(), server['id']
        )
        host = self.computes['host1'].driver._host
        host.get_guest(instance).delete_configuration()

    def test_however_the_flavor_asks_for_them(self) -> None:
        self.declare('T4-8Q', 'L40S-24Q')
        self.list_addresses('L40S-24Q', '41:00.0')
        self.flags(mdev_class='CUSTOM_BIG', group='mdev_L40S-24Q')
        self.start_host(
            'host1',
            hosts.gpu('84:00.0', boards.T4),
            hosts.gpu('41:00.0', boards.L40S, vfs=4, vendor_vfio=True),
        )
        for case, wishes, count in (
            ('plain', {'resources:VGPU': '1'}, 1),
            ('numbered', {'resources1:VGPU': '1'}, 1),
            ('a class of its own', {'resources:CUSTOM_BIG': '1'}, 1),
            (
                'both',
                {
                    'resources1:VGPU': '1',
                    'resources2:CUSTOM_BIG': '1',
                    'group_policy': 'none',
                },
                2,
            ),
        ):
            flavor = self._create_flavor(extra_spec=wishes)
            server = self.boot(flavor_id=flavor)
            self.assertEqual(count, len(self.vgpus_of(server)), case)
            self.lose(server)
            self._reboot_server(server, hard=True)
            self.assertEqual(count, len(self.vgpus_of(server)), case)
            self._delete_server(server)
