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

"""The agent on a simulated machine: what happens between two rounds."""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import dataclasses
import errno
import pathlib
import typing

import fixtures
import testtools

from nova_vgpu import configuration
from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import locks
from nova_vgpu.host import state
from nova_vgpu.host import systemd
from nova_vgpu.host.type_backends import nvidia
from nova_vgpu.lifecycle import agent
from nova_vgpu.lifecycle import exporter
from nova_vgpu.lifecycle import host_access
from nova_vgpu.lifecycle import journal
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import machine
from nova_vgpu.tests import hosts

A40 = '0000:41:00.0'
L40S = '0000:c8:00.0'
L40S_12A = 'nvidia-1163'
CONFIGURATION = """
[devices]
enabled_vgpu_types = A40-8Q, L40S-24Q
[vgpu_A40-8Q]
device_addresses = 41:00.0
[vgpu_L40S-24Q]
device_addresses = c8:00.0
"""
ENABLE = f'GPU {A40}: enable the 32 VFs of GPU {A40}'

Happening = Callable[[], object]


def parse(text: str) -> values.PciAddress:
    return values.PciAddress.parse(text)


class Script(agent.Waiter):
    """Instead of a wait, the next thing happens; after the last, the end."""

    def __init__(self, happenings: Iterator[Happening]) -> None:
        super().__init__(systemd.Notifier({}))
        self._happenings = happenings

    def wait(self, seconds: float) -> bool:
        happening = next(self._happenings, self.stop)
        happening()
        self.require_going_on()
        return False


class AgentTestCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.config = self.directory / 'nova.conf'
        self.config.write_text(CONFIGURATION)
        (self.directory / 'locks').mkdir()  # which Nova makes
        self.machine = machine.Machine(
            hosts.gpu('41:00.0', boards.A40),
            hosts.gpu('c8:00.0', boards.L40S, vfs=4, vendor_vfio=True),
        )
        self.is_libvirt_up = True
        self.said: list[str] = []
        self.samples: dict[tuple[str, ...], float] = {}
        self.access = host_access.HostAccess(
            tree=self.machine.kernel.files,
            connect=self.connect,
            state=state.StateDirectory(str(self.directory / 'state')),
            locks=str(self.directory / 'locks'),
            run=self.machine.tools.run,
            sleep=self.machine.kernel.clock.sleep,
            now=self.machine.kernel.clock.now,
        )

    @contextlib.contextmanager
    def connect(self) -> Iterator[typing.Any]:
        if not self.is_libvirt_up:
            raise exception.HostUnreadable('libvirt does not answer')
        yield self.machine.libvirt

    def prepare(self) -> tuple[host_access.HostAccess, values.Configuration]:
        loaded = configuration.load(
            [str(self.config)], [], self.access.state.path
        )
        return self.access, loaded

    def show(
        self, report: values.DriftReport | None, counted: agent.Tally
    ) -> None:
        self.samples = {
            (sample.name, *sample.labels.values()): sample.value
            for family in exporter.make_families(report, counted)
            for sample in family.samples
        }

    def live(self, *happenings: Happening, enforce: bool = False) -> None:
        """Run an agent; this happens between its rounds."""
        self.follow(Script(iter(happenings)), enforce)

    def follow(self, script: Script, enforce: bool) -> None:
        with script:
            agent.Agent(
                self.prepare,
                agent.Settings(30.0, enforce),
                script,
                systemd.Notifier({}),
                self.said.append,
                self.show,
            ).run()

    def count(self, name: str, *labels: str) -> float | None:
        return self.samples.get((f'nova_vgpu_{name}', *labels))

    def hear(self) -> list[str]:
        """What was said since this was last asked."""
        said, self.said[:] = list(self.said), []
        return said

    def enable(self, address: str = A40) -> None:
        self.machine.tools.run(['/x/sriov-manage', '-e', address], 1)

    def disable(self, address: str = A40) -> None:
        self.machine.tools.run(['/x/sriov-manage', '-d', address], 1)

    def vfs(self, address: str = A40) -> int:
        return self.machine.kernel.count_vfs(parse(address))


class TestDrift(AgentTestCase):
    def test_it_is_said_once_when_it_comes_and_once_when_it_goes(self) -> None:
        self.enable()
        self.live(
            lambda: self.assertEqual([], self.hear()),
            self.disable,
            lambda: self.assertIn(f'drift: {ENABLE}', self.hear()),
            lambda: self.assertEqual([], self.hear()),
            self.enable,
            lambda: self.assertIn(f'resolved: drift: {ENABLE}', self.hear()),
            lambda: self.assertEqual([], self.hear()),
        )
        self.assertEqual(['stopped'], self.said)

    def test_nothing_is_changed_without_enforce(self) -> None:
        before = self.machine.snapshot()
        self.live(lambda: None)
        self.assertEqual(before, self.machine.snapshot())
        self.assertFalse((self.directory / 'state').exists())

    def test_vgpus_to_be_made_ahead_are_said_once(self) -> None:
        self.enable()
        self.config.write_text(
            CONFIGURATION.replace(
                '[devices]', '[devices]\nvgpu_creation = ahead'
            )
        )
        self.live(
            lambda: self.assertEqual(8, len(self.hear())),
            lambda: self.assertEqual([], self.hear()),
        )

    def test_a_new_configuration_is_read_while_it_runs(self) -> None:
        self.enable()
        self.live(
            lambda: self.config.write_text(
                CONFIGURATION.replace('A40-8Q', 'A40-12Q')
            ),
            lambda: self.assertEqual(
                4, self.count('capacity', A40, 'A40-12Q', 'VGPU')
            ),
        )


class TestRepair(AgentTestCase):
    def test_idle_drift_is_repaired_and_all_of_it_is_said(self) -> None:
        self.live(enforce=True)
        self.assertEqual(32, self.vfs())
        said = self.hear()
        self.assertIn(f'done: {ENABLE}', said)
        self.assertIn(f'resolved: drift: {ENABLE}', said)
        self.assertEqual(0, self.count('drift_steps', A40))
        self.assertIsNotNone(self.count('last_apply_timestamp_seconds'))

    def test_what_a_guest_has_stays(self) -> None:
        self.config.write_text(CONFIGURATION.replace('L40S-24Q', 'L40S-12Q'))
        kernel = self.machine.kernel
        has_server, idle = kernel.get(parse(L40S)).vf_addresses[:2]
        for function in (has_server, idle):
            backend = nvidia.NvidiaTypes(kernel.files)
            backend.set_type(str(function), L40S_12A)
        server = self.machine.libvirt.define_guest(
            'instance-1', functions={str(has_server): 'NVIDIA L40S-12A'}
        )
        self.machine.libvirt.start_guest('instance-1')
        self.live(enforce=True)
        (left,) = kernel.get(parse(L40S)).pinned()
        self.assertEqual(0, left.vf)
        (refused,) = [line for line in self.said if line[:7] == 'refused']
        self.assertIn(server, refused)
        self.assertEqual(1, self.count('refused', L40S))
        self.assertEqual(0, self.count('drift_steps', L40S))
        self.assertEqual(1, self.count('used', L40S, 'L40S-12A'))

    def test_what_does_not_work_is_tried_ever_less_often(self) -> None:
        self.machine.tools.behaviour.missing.add('sriov-manage')
        kernel = self.machine.kernel
        kernel.fail('sriov_numvfs', errno.EIO, times=1000)
        tries: list[float | None] = []

        def go_on() -> None:
            tries.append(self.count('repair_steps_total', 'failed'))
            kernel.clock.sleep(30)

        self.live(*[go_on] * 16, enforce=True)
        # After 0, 30, 90, 210 and 450 seconds.
        self.assertEqual([1, 2, 2, 3, 3, 3, 3, 4], tries[:8])
        self.assertEqual(5, tries[15])
        failures = [line for line in self.said if line[:7] == 'failed:']
        self.assertEqual(1, len(failures), str(failures))

    def test_a_new_configuration_is_tried_at_once(self) -> None:
        self.machine.tools.behaviour.missing.add('sriov-manage')
        self.machine.kernel.fail('sriov_numvfs', errno.EIO)
        self.live(
            lambda: self.assertEqual(0, self.vfs()),
            lambda: self.config.write_text(CONFIGURATION + '#\n'),
            lambda: self.assertEqual(0, self.vfs()),
            lambda: self.config.write_text(
                CONFIGURATION.replace('A40-8Q', 'A40-12Q')
            ),
            lambda: self.assertEqual(32, self.vfs()),
            enforce=True,
        )

    def test_it_does_not_stand_in_line_behind_another_command(self) -> None:
        with contextlib.ExitStack() as stack:
            stack.enter_context(
                locks.hold_apply(self.access.state.path, 1, self.fail)
            )
            self.live(
                lambda: self.assertEqual(0, self.vfs()),
                lambda: self.assertEqual(0, self.count('last_round_success')),
                stack.close,
                lambda: self.assertEqual(32, self.vfs()),
                enforce=True,
            )
        busy = [line for line in self.said if 'Another command' in line]
        self.assertEqual(
            ['failed', 'resolved'], [line.partition(':')[0] for line in busy]
        )


class TestFailures(AgentTestCase):
    def test_libvirt_goes_and_comes_back(self) -> None:
        def set_libvirt(is_up: bool) -> None:
            self.is_libvirt_up = is_up

        failure = 'failed: libvirt does not answer'
        self.enable()
        self.live(
            lambda: set_libvirt(False),
            lambda: self.assertEqual([failure], self.hear()),
            lambda: self.assertEqual([], self.hear()),
            lambda: self.assertEqual(0, self.count('last_round_success')),
            lambda: self.assertIsNone(self.count('gpus', 'serving')),
            lambda: set_libvirt(True),
            lambda: self.assertEqual([f'resolved: {failure}'], self.hear()),
            lambda: self.assertEqual(2, self.count('gpus', 'serving')),
        )
        self.assertEqual(5, self.count('round_failures_total'))
        self.assertEqual(9, self.count('rounds_total'))
        self.assertEqual(1, self.count('last_round_success'))

    def test_files_that_cannot_be_read(self) -> None:
        text = self.config.read_text()
        self.enable()
        self.live(
            self.config.unlink,
            lambda: self.assertIn(str(self.config), self.hear()[0]),
            lambda: self.assertEqual([], self.hear()),
            lambda: self.config.write_text(text),
            lambda: self.assertEqual(1, len(self.hear())),
        )
        self.assertEqual(1, self.count('last_round_success'))

    def test_a_mistake_in_the_configuration_is_a_problem(self) -> None:
        self.config.write_text(CONFIGURATION.replace('41:00', '99:00'))
        self.live(enforce=True)
        self.assertEqual(1, self.count('problems', 'fatal', 'not-on-host'))
        self.assertIn('99:00.0', self.said[0])
        self.assertEqual(0, self.vfs())
        self.assertEqual(1, self.count('last_round_success'))

    def test_a_broken_journal_hides_nothing_else(self) -> None:
        self.access.state.replace(journal.FILE, 'mess\nmess\n')
        self.live()
        self.assertIsNone(self.count('last_apply_timestamp_seconds'))
        self.assertEqual(1, self.count('last_round_success'))

    def test_a_gpu_that_is_gone_has_no_series(self) -> None:
        self.config.write_text('[devices]\nenabled_vgpu_types = A40-8Q\n')
        self.enable()

        def has_series(address: str) -> bool:
            return any(address in labels for labels in self.samples)

        self.live(
            lambda: self.assertTrue(has_series(A40)),
            lambda: self.machine.kernel.unplug(parse(A40)),
            lambda: self.assertFalse(has_series(A40)),
            lambda: self.assertTrue(has_series(L40S)),
        )


class TestStop(AgentTestCase):
    def test_the_step_at_hand_is_ended_and_no_other_begun(self) -> None:
        """Two GPUs need VFs; the word comes in the middle of the first."""
        self.disable(L40S)
        script = Script(iter(()))
        run = self.machine.tools.run

        def run_and_stop(
            argv: typing.Any, seconds: float, keep: typing.Any = ()
        ) -> typing.Any:
            script.stop()
            return run(argv, seconds, keep)

        self.access = dataclasses.replace(self.access, run=run_and_stop)
        self.follow(script, enforce=True)
        self.assertEqual((32, 0), (self.vfs(), self.vfs(L40S)))
        self.assertEqual([f'done: {ENABLE}', 'stopped'], self.said[-2:])
        log = journal.Journal(self.access.state).read()
        self.assertTrue(log.is_open)

    def test_what_it_left_is_done_by_the_next_apply(self) -> None:
        self.test_the_step_at_hand_is_ended_and_no_other_begun()
        self.access = dataclasses.replace(
            self.access, run=self.machine.tools.run
        )
        self.live(enforce=True)
        self.assertNotEqual(0, self.vfs(L40S))
        log = journal.Journal(self.access.state).read()
        self.assertFalse(log.is_open)

    def test_it_does_not_wait_for_types_that_do_not_come(self) -> None:
        self.machine.kernel.delays.types = 10000.0
        script = Script(iter(()))
        clock = self.machine.kernel.clock

        def sleep(seconds: float) -> None:
            clock.sleep(seconds)
            if clock.now() > 5:
                script.stop()

        self.access = dataclasses.replace(self.access, sleep=sleep)
        self.follow(script, enforce=True)
        self.assertLess(clock.now(), 10)
        self.assertEqual('stopped', self.said[-1])
