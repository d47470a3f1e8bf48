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


"""Killed at every write: of the host, of libvirt, of a tool, of the journal.

An undisturbed run counts the points. Then a process of its own does the same
for each of them and ends there, without a chance to clean up; what it left of
the machine and on the disk is what the next run finds. Between the end of one
write and the beginning of the next nothing changes: where a process would
leave the very state that another one left, it is not killed again.
"""

from collections.abc import Callable
import dataclasses
import hashlib
import os
import pathlib
import pickle
import shutil
import sys
import typing

import testtools

from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import machine as machines
from nova_vgpu.sandbox import modes
from nova_vgpu.tests import hosts
from nova_vgpu.tests import live
from nova_vgpu.tests import migs

_FILE_CALLS = ('write', 'fsync', 'replace', 'link', 'unlink', 'ftruncate')

OTHER_TYPES = f"""
[devices]
enabled_vgpu_types = T4-8Q, A10-12Q, L40S-24Q
vgpu_creation = ahead
[vgpu_T4-8Q]
device_addresses = {live.T4}
[vgpu_A10-12Q]
device_addresses = {live.A10}
[vgpu_L40S-24Q]
device_addresses = {live.L40S}
"""

#: Two types on a GPU: its mode has to be set while it is empty.
DIVIDED = f"""
[devices]
enabled_vgpu_types = A10-8Q, A10-12Q, L40S-24Q, L40S-12Q
unlisted_gpus = ignore
vgpu_creation = ahead
[vgpu_A10-8Q]
device_addresses = {live.A10}=1
[vgpu_A10-12Q]
device_addresses = {live.A10}=1
[vgpu_L40S-24Q]
device_addresses = {live.L40S}=1
[vgpu_L40S-12Q]
device_addresses = 0000:c1:00.4, 0000:c1:00.7
"""


B60 = '0000:03:00.0'
EQUAL = f"""
[devices]
enabled_vgpu_types = B60-1of4
[vgpu_B60-1of4]
device_addresses = {B60}
"""
QUOTAS = f"""
[devices]
enabled_vgpu_types = B60-6G
[vgpu_B60-6G]
device_addresses = {B60}
exec_quantum_ms = 20
"""


class Point(typing.NamedTuple):
    """Where a process can be killed."""

    description: str
    #: What a process that ends here leaves; only found out by the first run.
    state: str


class Killer:
    """Counts points, and ends the process at one of them."""

    def __init__(
        self, machine: machines.Machine, disk: pathlib.Path, at: int | None
    ) -> None:
        self._machine = machine
        self._disk = disk
        self._at = at
        self.points: list[Point] = []
        self._pipe = -1

    def watch(self, pipe: int) -> None:
        """Only in the process that is to be killed."""
        self._pipe = pipe
        self._write = os.write
        self._machine.kernel.observe = self._observe
        for name in _FILE_CALLS:
            setattr(os, name, self._wrap(name))

    def _observe(self, description: str, done: bool) -> None:
        self._pass(f'{"after" if done else "before"} {description}')

    def _wrap(self, name: str) -> Callable[..., typing.Any]:
        real = getattr(os, name)

        def call(*args: typing.Any, **kwargs: typing.Any) -> typing.Any:
            self._pass(f'before {name}')
            if name == 'write' and len(args[1]) > 1:
                half = args[1][: len(args[1]) // 2]
                written = real(args[0], half)
                self._pass('in the middle of write')
                return written + real(args[0], args[1][len(half) :])
            result = real(*args, **kwargs)
            self._pass(f'after {name}')
            return result

        return call

    def _pass(self, point: str) -> None:
        if len(self.points) == self._at:
            self.leave()
        state = self._digest() if self._at is None else ''
        self.points.append(Point(point, state))

    def _digest(self) -> str:
        """The state of the machine and of the disk."""
        digest = hashlib.sha256(pickle.dumps(self._machine.snapshot()))
        for path in sorted(self._disk.rglob('*')):
            content = path.read_bytes() if path.is_file() else b''
            digest.update(repr((str(path), content)).encode())
        return digest.hexdigest()

    def leave(self) -> typing.NoReturn:
        """End here, with what there is of the machine."""
        left = pickle.dumps((self._machine.snapshot(), self.points))
        while left:
            left = left[self._write(self._pipe, left) :]
        os._exit(0)


class CrashTestCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.host = self.useFixture(live.LiveHost(*self.list_gpus()))
        self.machine = self.host.machine
        self.machine.libvirt.autostarts = False
        self.tried = 0
        self.addCleanup(self.say)

    def list_gpus(self) -> tuple[simulation.GPU, ...]:
        """What is in the machine."""
        return live.bare_gpus()

    def say(self) -> None:
        sys.stdout.write(f'{self.id()}: {self.tried} points tried\n')

    # -- processes that are killed ------------------------------------------

    def run_until(
        self, what: Callable[[], object], at: int | None
    ) -> list[Point]:
        """Do something in a process that ends at a point, or at the end."""
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.close(read)
            killer = Killer(self.machine, self.host.path / 'state', at)
            killer.watch(write)
            try:
                what()
            finally:
                killer.leave()
        os.close(write)
        with open(read, 'rb') as pipe:
            left = pipe.read()
        os.waitpid(child, 0)
        # From the process that was started above.
        snapshot, points = pickle.loads(left)  # noqa: S301
        self.machine.load(snapshot)
        return typing.cast('list[Point]', points)

    def save(self) -> Callable[[], None]:
        """The machine and the disk as they are; call it to have them back."""
        snapshot = self.machine.snapshot()
        state, saved = self.host.path / 'state', self.host.path / 'saved'
        shutil.rmtree(saved, ignore_errors=True)
        if state.exists():
            shutil.copytree(state, saved)

        def load() -> None:
            self.machine.load(snapshot)
            shutil.rmtree(state, ignore_errors=True)
            if saved.exists():
                shutil.copytree(saved, state)

        return load

    def kill_everywhere(
        self,
        what: Callable[[], object],
        check: Callable[[str], None],
    ) -> None:
        """Kill it at every point, and see what comes of it."""
        load = self.save()
        points = self.run_until(what, None)
        self.assertNotEqual([], points)
        tried: set[str] = set()
        for at, (point, state) in enumerate(points):
            if state in tried:
                continue
            tried.add(state)
            load()
            self.run_until(what, at)
            before = [before.description for before in points[:at][-3:]]
            check(f'killed at point {at}, {point}, {before}')
        self.tried += len(tried)
        load()

    # -- what is tried ------------------------------------------------------

    def try_apply(self, text: str, **mended: object) -> None:
        """Whatever it is killed at: it gets there, and back.

        :param mended: what is not put back, because it was broken.
        """
        before = self.host.describe() | mended
        load = self.save()
        self.assertEqual([], self.host.apply(text).failures)
        after = self.host.describe()
        used = self.list_used()
        load()

        def check(point: str) -> None:
            outcome = self.host.apply(text)
            self.assertEqual([], outcome.failures, point)
            self.assertEqual(
                sorted(map(str, after.values())),
                sorted(map(str, self.host.describe().values())),
                point,
            )
            self.assertEqual(used, self.list_used(), point)
            self.host.restore()
            self.assertEqual(before, self.host.describe(), point)

        self.kill_everywhere(lambda: self.host.apply(text), check)

    def list_used(self) -> dict[str, object]:
        """What running guests have."""
        described = self.host.describe()
        return {
            name: described.get(name)
            for guest in self.machine.libvirt.guests.values()
            if guest.running
            for name in guest.devices
        }


class TestCrashes(CrashTestCase):
    def test_from_a_bare_host(self) -> None:
        self.try_apply(OTHER_TYPES)

    def test_a_gpu_is_divided(self) -> None:
        self.try_apply(DIVIDED)

    def test_a_gpu_with_idle_vgpus_is_divided(self) -> None:
        self.host.apply(live.ALL_THREE)
        for function in ('0000:41:00.4', '0000:41:00.5'):
            self.host.create_mdev(function, 'NVIDIA A10-12Q')
        kernel = self.machine.kernel
        self.host.access = dataclasses.replace(
            self.host.access, read_modes=lambda _host: modes.read_modes(kernel)
        )
        self.try_apply(DIVIDED)

    def test_a_divided_gpu_becomes_whole_beside_a_server(self) -> None:
        self.host.apply(DIVIDED)
        before = self.host.vgpus(live.A10)
        (uuid,) = (u for u, name in before.items() if name.endswith('12Q'))
        self.machine.libvirt.define_guest('db', mdevs={uuid: 'NVIDIA A10-12Q'})
        self.machine.libvirt.start_guest('db')
        self.try_apply(OTHER_TYPES)

    def test_from_a_gpu_on_the_stub_driver(self) -> None:
        self.machine.tools.behaviour.abandons = 1
        outcome = self.host.apply(OTHER_TYPES, live.A10)
        self.assertEqual(1, len(outcome.failures))
        shutil.rmtree(self.host.path / 'state')
        driver = f'{live.A10} driver'
        self.assertEqual('pci-pf-stub', self.host.describe()[driver])
        self.try_apply(OTHER_TYPES, **{driver: 'nvidia'})

    def test_from_other_types_beside_servers(self) -> None:
        """Idle vGPUs go, those of servers stay."""
        self.host.apply(live.ALL_THREE)
        self.host.set_type('0000:c1:00.4', 'NVIDIA L40S-12Q')
        self.host.set_type('0000:c1:00.5', 'NVIDIA L40S-12Q')
        self.machine.libvirt.define_guest(
            'ai', functions={'0000:c1:00.5': 'NVIDIA L40S-12Q'}
        )
        self.host.create_mdev('0000:41:00.4', 'NVIDIA A10-8Q')
        uuid = self.host.create_mdev('0000:41:00.5', 'NVIDIA A10-8Q')
        self.machine.libvirt.define_guest('db', mdevs={uuid: 'NVIDIA A10-8Q'})
        self.host.create_mdev(live.T4, 'GRID T4-4Q')
        uuid = self.host.create_mdev(live.T4, 'GRID T4-4Q')
        self.machine.libvirt.define_guest('web', mdevs={uuid: 'GRID T4-4Q'})
        for name in ('web', 'db', 'ai'):
            self.machine.libvirt.start_guest(name)
        self.try_apply(OTHER_TYPES)

    def test_the_power_goes_as_well(self) -> None:
        """What servers and the declaration need is there after a reboot."""
        self.host.apply(OTHER_TYPES)
        uuid = next(iter(self.host.vgpus(live.A10)))
        self.machine.libvirt.define_guest('db', mdevs={uuid: 'NVIDIA A10-12Q'})
        after = self.host.describe()
        self.machine.kernel.reboot()

        def check(point: str) -> None:
            self.machine.kernel.reboot()
            self.assertEqual([], self.host.apply(OTHER_TYPES).failures, point)
            self.assertEqual(
                sorted(map(str, after.values())),
                sorted(map(str, self.host.describe().values())),
                point,
            )
            self.machine.libvirt.start_guest('db')

        self.kill_everywhere(lambda: self.host.apply(OTHER_TYPES), check)

    def test_the_driver_was_upgraded(self) -> None:
        """Definitions have ids that mean other types now."""
        self.host.apply(OTHER_TYPES)
        uuid = next(iter(self.host.vgpus(live.A10)))
        self.machine.libvirt.define_guest('db', mdevs={uuid: None})
        self.host.apply(OTHER_TYPES)
        after = self.host.describe()
        self.machine.kernel.reboot(upgrade=True)

        def check(point: str) -> None:
            self.assertEqual([], self.host.apply(OTHER_TYPES).failures, point)
            self.assertEqual(after, self.host.describe(), point)
            self.machine.libvirt.start_guest('db')

        self.kill_everywhere(lambda: self.host.apply(OTHER_TYPES), check)

    def test_definitions_started_as_other_types(self) -> None:
        """Before the first apply after an upgrade of the driver.

        Each comes back with its UUID: those of servers, noted or not, and
        those of nobody.
        """
        self.machine.libvirt.autostarts = True
        self.host.apply(OTHER_TYPES)
        noted = next(iter(self.host.vgpus(live.T4)))
        unknown = next(iter(self.host.vgpus(live.A10)))
        self.machine.libvirt.define_guest('web', mdevs={noted: 'GRID T4-8Q'})
        self.machine.libvirt.define_guest('db', mdevs={unknown: None})
        after = self.host.describe()
        self.machine.kernel.reboot(upgrade=True)
        self.assertNotEqual('GRID T4-8Q', self.host.describe()[noted])

        def check(point: str) -> None:
            outcome = self.host.apply(OTHER_TYPES)
            self.assertEqual([], outcome.failures, point)
            self.assertEqual([], outcome.refusals, point)
            self.assertEqual(after, self.host.describe(), point)
            for name in ('web', 'db'):
                self.machine.libvirt.start_guest(name)

        self.kill_everywhere(lambda: self.host.apply(OTHER_TYPES), check)

    def test_a_mistake_that_nothing_but_a_server_knew_of(self) -> None:
        """Its vGPU was made after the last apply."""
        self.machine.libvirt.autostarts = True
        self.host.apply(live.ALL_THREE)
        self.host.boot('web', live.T4, 'GRID T4-4Q')
        after = self.host.describe()
        self.machine.kernel.reboot(upgrade=True)

        def check(point: str) -> None:
            outcome = self.host.apply(live.ALL_THREE)
            self.assertEqual([], outcome.failures, point)
            self.assertEqual(after, self.host.describe(), point)
            self.machine.libvirt.start_guest('web')

        self.kill_everywhere(lambda: self.host.apply(live.ALL_THREE), check)

    def test_restore_is_killed(self) -> None:
        before = self.host.describe()
        self.host.apply(OTHER_TYPES)

        def check(point: str) -> None:
            self.host.restore()
            self.assertEqual(before, self.host.describe(), point)

        self.kill_everywhere(self.host.restore, check)


class TestProvisioning(CrashTestCase):
    """VFs that the kernel provisions; a server that runs keeps its own."""

    def list_gpus(self) -> tuple[simulation.GPU, ...]:
        return (hosts.gpu(B60, boards.ARC_PRO_B60),)

    def test_from_a_bare_host(self) -> None:
        self.try_apply(QUOTAS)

    def test_from_equal_functions_and_back(self) -> None:
        self.host.apply(EQUAL)
        shutil.rmtree(self.host.path / 'state')
        self.try_apply(QUOTAS)

    def test_scheduling_beside_a_server(self) -> None:
        self.host.apply(EQUAL)
        shutil.rmtree(self.host.path / 'state')
        self.machine.libvirt.define_guest(
            'ai', functions={'0000:03:00.2': 'B60-1of4'}
        )
        self.machine.libvirt.start_guest('ai')
        self.try_apply(f'{EQUAL}exec_quantum_ms = 20\n')


class TestGPUInstances(CrashTestCase):
    """One without a compute instance, as others, does not stay in the way."""

    def list_gpus(self) -> tuple[simulation.GPU, ...]:
        return (migs.gpu('1g.10gb', '2g.20gb'),)

    def test_from_a_bare_host(self) -> None:
        """sriov-manage removes the instances that were there."""
        self.try_apply(migs.declare(**{migs.THREE: 1, migs.ONE: 2}))

    def test_from_others_beside_a_server(self) -> None:
        self.host.apply(migs.declare(**{migs.TWO: 1, migs.ONE: 3}))
        self.host.boot('ai', migs.FIRST, f'GRID {migs.TWO}')
        shutil.rmtree(self.host.path / 'state')
        ahead = 'vgpu_creation = ahead'
        self.try_apply(migs.declare(ahead, **{migs.TWO: 2, migs.ONE: 1}))


class TestMigMode(CrashTestCase):
    """What servers have needs the mode that is declared."""

    divided = migs.declare(
        *(migs.SWITCH, 'vgpu_creation = ahead'),
        **{migs.FOUR: 1, migs.ONE: 2},
    )
    mixed = migs.declare(
        *(migs.SWITCH, 'vgpu_creation = ahead'),
        **{migs.HALF: 1, migs.QUARTER: 1},
    )

    def list_gpus(self) -> tuple[simulation.GPU, ...]:
        return (migs.switchable(),)

    def test_on(self) -> None:
        self.try_apply(migs.declare(migs.SWITCH, **{migs.TWO: 2}))

    def test_off_with_idle_vgpus(self) -> None:
        self.host.apply(self.divided)
        shutil.rmtree(self.host.path / 'state')
        self.try_apply(self.mixed)

    def test_on_with_idle_vgpus_of_several_sizes(self) -> None:
        self.host.apply(self.mixed)
        shutil.rmtree(self.host.path / 'state')
        self.try_apply(self.divided)

    def test_restore_is_killed(self) -> None:
        for first, second in (
            (self.divided, self.mixed),
            (self.mixed, self.divided),
        ):
            self.host.apply(first)
            before = self.host.describe()
            self.host.apply(second)

            def check(point: str, before: dict[str, object] = before) -> None:
                self.host.restore()
                self.assertEqual(before, self.host.describe(), point)

            self.kill_everywhere(self.host.restore, check)


class TestLostMigMode(CrashTestCase):
    def list_gpus(self) -> tuple[simulation.GPU, ...]:
        return (dataclasses.replace(migs.switchable(), mig_is_lost=True),)

    def test_a_server_waits_for_it_after_a_reboot(self) -> None:
        text = migs.declare(migs.SWITCH, **{migs.TWO: 2})
        self.host.apply(text)
        self.host.boot('ai', migs.FIRST, f'GRID {migs.TWO}')
        after = self.host.describe()
        self.machine.kernel.reboot()

        def check(point: str) -> None:
            outcome = self.host.apply(text)
            self.assertEqual([], outcome.failures, point)
            self.assertEqual([], outcome.refusals, point)
            self.assertEqual(after, self.host.describe(), point)
            self.machine.libvirt.start_guest('ai')

        self.kill_everywhere(lambda: self.host.apply(text), check)
