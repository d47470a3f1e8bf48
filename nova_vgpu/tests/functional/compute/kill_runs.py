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

"""nova-compute is killed at every write that it makes to its host.

Which writes those are is found out by an undisturbed run. Before the first of
them and just after each, a host that nothing happened on so far is brought to
the same point; nova-compute dies there and is started again, and whatever
Nova then makes of the server, the host must be as good as new.
"""

from collections.abc import Iterator
import contextlib
import itertools
import typing

from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests.functional.compute import killing
from nova_vgpu.tests.functional.compute import lean
from nova_vgpu.tests.functional.compute import simulated_guests


class Kills(lean.LeanTestBase):
    """For each framework, below."""

    # Who asks nova-compute for something does not wait for its answer, which
    # never comes from a process that was killed.
    CAST_AS_CALL = False

    # Its writes are not those of the operations that are looked at.
    in_background = False

    gpu: simulation.GPU
    # What Nova's own driver does not give back to a guest that was lost.
    asking = 'resources1:VGPU'
    #: How many vGPUs the GPU takes.
    capacity = 2

    def setUp(self) -> None:
        super().setUp()
        self.writes = self.useFixture(killing.Writes())
        self._numbers = itertools.count(1)

    # -- operations ---------------------------------------------------------

    def boot_on(self, host: str) -> typing.Any:
        return self._wait_for_state_change(
            self.request(host), 'ACTIVE', max_retries=60
        )

    def hard_reboot(self, server: typing.Any) -> None:
        self.api.post_server_action(server['id'], {'reboot': {'type': 'HARD'}})

    # -- the runs -----------------------------------------------------------

    def new_host(self) -> str:
        name = f'host{next(self._numbers)}'
        self.start_host(name, self.gpu)
        return name

    def points(
        self, recorded: list[str], undisturbed: str
    ) -> Iterator[tuple[str, tuple[int, bool]]]:
        """A host for each point, which is stopped when it was tried.

        :param undisturbed: the host that the writes were recorded on. One
            that goes on running takes time from all that follow.
        """
        self.assertNotEqual([], recorded)
        self.computes[undisturbed].stop()
        after_each = ((number, False) for number in range(len(recorded)))
        for point in ((0, True), *after_each):
            host = self.new_host()
            yield host, point
            self.computes[host].stop()

    @contextlib.contextmanager
    def killed(self, host: str, point: tuple[int, bool]) -> Iterator[None]:
        """Let nova-compute die of what is asked for, and start it again."""
        with self.writes.killed_at(*point):
            yield
        self.writes.come_back()
        self.restart_host(host)

    def test_killed_while_it_boots_a_server(self) -> None:
        undisturbed = self.new_host()
        with self.writes.recorded() as recorded:
            self.boot_on(undisturbed)
        for host, point in self.points(recorded, undisturbed):
            with self.killed(host, point):
                server = self.request(host)
            server = self.wait_for_rest(server)
            self.assertIn(server['status'], ('ACTIVE', 'ERROR'), point)
            # Nova reboots no server that it never saw running.
            self._delete_server(server)
            self.assert_as_good_as_new(host, point)

    def test_killed_while_it_deletes_a_server(self) -> None:
        undisturbed = self.new_host()
        server = self.boot_on(undisturbed)
        with self.writes.recorded() as recorded:
            self._delete_server(server)
        for host, point in self.points(recorded, undisturbed):
            server = self.boot_on(host)
            with self.killed(host, point):
                self.api.delete_server(server['id'])
            # nova-compute goes on with it when it starts.
            self._wait_until_deleted(server)
            self.assert_as_good_as_new(host, point)

    def test_killed_while_it_reboots_a_server_hard(self) -> None:
        undisturbed = self.new_host()
        server = self.boot_on(undisturbed)
        with self.writes.recorded() as recorded:
            self._reboot_server(server, hard=True)
        for host, point in self.points(recorded, undisturbed):
            server = self.boot_on(host)
            with self.killed(host, point):
                self.hard_reboot(server)
            self.wait_for_rest(server)
            self._reboot_server(server, hard=True)
            self.assertEqual(1, len(self.vgpus_of(server, host)), point)
            self.assert_as_good_as_new(host, point, server)

    # -- what is to be so ---------------------------------------------------

    def wait_for_rest(self, server: typing.Any) -> typing.Any:
        """The server once nothing is being done to it."""
        return self._wait_for_server_parameter(
            server, {'OS-EXT-STS:task_state': None}, max_retries=60
        )

    def assert_as_good_as_new(
        self, host: str, point: tuple[int, bool], *servers: typing.Any
    ) -> None:
        """The host takes as many servers as ever, and nothing stays."""
        present = list(servers)
        while len(present) < self.capacity:
            present.append(self.boot_on(host))
        self.assert_each_has_its_own(host, present, point)
        for server in present:
            self._delete_server(server)
        self.assertEqual(0, self.held(host), point)
        self.assertEqual({}, self.connection(host)._vms)
        driver = self.computes[host].driver
        self.assertEqual(frozenset(), driver.vgpus.usage.pending.list())

    def assert_each_has_its_own(
        self, host: str, servers: list[typing.Any], point: tuple[int, bool]
    ) -> None:
        functions = [self.vgpus_of(server, host) for server in servers]
        self.assertEqual([1] * self.capacity, list(map(len, functions)), point)
        keys = [
            simulated_guests.key_of(hostdev)
            for guest in self.connection(host)._vms.values()
            for hostdev in guest.configured
        ]
        self.assertEqual(self.capacity, len(keys), point)
        self.assertEqual(self.capacity, len(set(keys)), point)
        self.assertEqual(self.capacity, self.held(host), point)

    def held(self, host: str) -> int:
        """How many vGPUs of the host Placement has given away."""
        provider = self.provider(self.gpu.address.node_device_name, host)
        return int(self._get_provider_usages(provider)['VGPU'])
