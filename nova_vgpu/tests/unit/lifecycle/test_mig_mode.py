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


"""apply switches MIG mode, if nova.conf allows it and nothing uses the GPU."""

import dataclasses
import os
import typing

import testtools

from nova_vgpu import values
from nova_vgpu.host import locks
from nova_vgpu.host import tools
from nova_vgpu.lifecycle import apply
from nova_vgpu.lifecycle import drift
from nova_vgpu.lifecycle import step_runner
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import modes
from nova_vgpu.tests import hosts
from nova_vgpu.tests import live
from nova_vgpu.tests import migs

GPU = values.PciAddress.parse(migs.ADDRESS)
ON = migs.declare(migs.SWITCH, **{migs.TWO: 2})
OFF = migs.declare(migs.SWITCH, **{migs.HALF: None})
UUID = '5ad0a4ae-3b6a-4f6a-9c62-7f3ef8c5a7d1'
SERVER = '(ai, which {}) has it, and MIG mode is only switched while no server'


class MigModeTestCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.boot(migs.switchable())

    def boot(self, *cards: simulation.GPU) -> None:
        self.host = self.useFixture(live.LiveHost(*cards))
        self.kernel = self.host.machine.kernel
        self.libvirt = self.host.machine.libvirt
        self.tools = self.host.machine.tools.behaviour

    def change(self, **state: typing.Any) -> None:
        """Something else than this project changes the GPU."""
        self.kernel.update(GPU, **state)
        self.kernel.settle()

    def is_on(self) -> bool:
        return self.kernel.get(GPU).mig_mode

    def say(self, steps: typing.Iterable[values.Step]) -> list[str]:
        return [str(s).replace(f'GPU {GPU}', 'it') for s in steps]

    def assert_done(self, text: str, *steps: str) -> None:
        outcome = self.host.apply(text)
        self.assertEqual([], [*outcome.failures, *outcome.refusals])
        self.assertEqual((), outcome.problems)
        self.assertEqual(list(steps), self.say(outcome.done))
        self.assertEqual([], self.host.apply(text).done)

    def assert_refused(
        self, text: str, *words: str, goes_on: bool = False
    ) -> None:
        """Nothing is switched, and nothing is done to prepare it.

        :param goes_on: whether the GPU is made ready in the mode that it has.
        """
        before, was_on = self.host.describe(), self.is_on()
        dry = apply.plan(
            self.host.access, self.host.load(text), live.Recorder()
        )
        outcome = self.host.apply(text)
        self.assertEqual([], outcome.failures)
        self.assertEqual(was_on, self.is_on())
        if not goes_on:
            self.assertEqual(before, self.host.describe())
            self.assertEqual([], [*outcome.done, *dry.steps])
        for found in (outcome, dry.outcome):
            refusals = ' '.join(map(str, found.refusals))
            for word in words:
                self.assertIn(word, refusals)


class TestSwitching(MigModeTestCase):
    def test_on_before_vfs_and_instances(self) -> None:
        self.assert_done(
            ON,
            'turn on MIG mode of it',
            'enable the 8 VFs of it',
            'create 2 GPU instances of 2g.20gb on it',
            'wait for the vGPU types of it',
        )

    def test_off_after_instances_and_vfs(self) -> None:
        self.host.apply(ON)
        self.assert_done(
            OFF,
            'remove 2 GPU instances of 2g.20gb from it',
            'disable the 8 VFs of it',
            'turn off MIG mode of it',
            'enable the 8 VFs of it',
            'wait for the vGPU types of it',
        )
        self.assert_done(
            ON,
            'disable the 8 VFs of it',
            'turn on MIG mode of it',
            'enable the 8 VFs of it',
            'create 2 GPU instances of 2g.20gb on it',
            'wait for the vGPU types of it',
        )

    def test_instances_on_a_gpu_without_vfs(self) -> None:
        self.boot(migs.switchable('2g.20gb', mig_mode=True))
        self.assert_done(
            OFF,
            'remove 1 GPU instance of 2g.20gb from it',
            'turn off MIG mode of it',
            'enable the 8 VFs of it',
            'wait for the vGPU types of it',
        )

    def test_idle_vgpus_go_as_they_do_without_a_switch(self) -> None:
        for vfio in (True, False):
            card = dataclasses.replace(migs.switchable(), vendor_vfio=vfio)
            self.boot(card)
            ahead = 'vgpu_creation = ahead'
            numbers = {migs.HALF: 1, migs.QUARTER: 2}
            self.host.apply(migs.declare(ahead, **numbers))
            self.assertEqual(3, len(self.host.vgpus(migs.ADDRESS)))
            self.assertTrue(self.kernel.get(GPU).mixed)
            before = self.host.describe()
            outcome = self.host.apply(ON)
            self.assertEqual([], [*outcome.failures, *outcome.refusals])
            self.assertTrue(self.is_on())
            self.host.restore()
            self.assertEqual(before, self.host.describe())

    def test_restore_takes_it_back(self) -> None:
        before = self.host.describe()
        self.host.apply(ON)
        outcome = self.host.restore()
        assert outcome is not None
        self.assertEqual(
            [
                'remove 2 GPU instances of 2g.20gb from it',
                'disable the 8 VFs of it',
                'turn off MIG mode of it',
            ],
            self.say(outcome.done),
        )
        self.assertEqual(before, self.host.describe())

    def test_restore_leaves_it_while_a_server_runs(self) -> None:
        self.host.apply(ON)
        self.host.boot('ai', migs.FIRST, f'GRID {migs.TWO}')
        outcome = self.host.restore()
        assert outcome is not None
        self.assertEqual(1, len(outcome.refusals))
        self.assertTrue(self.is_on())

    def test_only_with_the_option(self) -> None:
        for text, code, mode in (
            (ON, 'mig-off', True),
            (OFF, 'mig-on', False),
        ):
            without = text.replace('true', 'false')
            dry = apply.plan(
                self.host.access, self.host.load(without), live.Recorder()
            )
            outcome = self.host.apply(without)
            self.assertEqual(not mode, self.is_on())
            for problems in (dry.outcome.problems, outcome.problems):
                cures = {p.code: p.cure for p in problems}
                self.assertIn('[devices]switch_mig_mode = true', cures[code])
            self.host.apply(text)
            self.assertEqual(mode, self.is_on())

    def test_the_steps_are_shown_before(self) -> None:
        expected = ['turn on MIG mode of it']
        with self.host.connect() as connection:
            report = drift.read(
                self.host.access,
                connection,
                self.host.load(ON),
                print,
                self.host.access.new_uuid,
            )
        self.assertEqual(expected, self.say(report.steps))
        dry = apply.plan(self.host.access, self.host.load(ON), live.Recorder())
        self.assertEqual(expected, self.say(dry.steps))
        self.assertEqual((), dry.outcome.problems)
        self.assertFalse(self.is_on())

    def test_a_type_by_its_id(self) -> None:
        self.host.apply(ON.replace(migs.TWO, 'nvidia-700'))
        self.assertTrue(self.is_on())

    def test_a_gpu_on_the_stub_driver_is_bound_first(self) -> None:
        """NVML does not know it before."""
        self.host.apply(ON)
        self.host.apply(OFF)
        self.kernel.reboot()
        self.tools.abandons = 1
        self.assertEqual(1, len(self.host.apply(OFF).failures))
        outcome = self.host.apply(ON)
        self.assertEqual([], outcome.failures)
        self.assertEqual(
            ['bind it to its own driver', 'turn on MIG mode of it'],
            self.say(outcome.done)[:2],
        )
        self.assertTrue(self.is_on())

    def test_other_gpus_stay_as_they_are(self) -> None:
        """One that is in use, and one of another model."""
        second = dataclasses.replace(
            migs.switchable(),
            address=values.PciAddress.parse('0000:61:00.0'),
        )
        other = dataclasses.replace(
            hosts.gpu('0000:81:00.0', migs.RTX_PRO_6000),
            profiles=migs.RTX_PRO_6000_PROFILES,
        )
        self.boot(migs.switchable(), second, other)
        kernel = self.kernel
        for option in ('', 'unlisted_gpus = ignore'):
            self.host.apply(
                f'[devices]\nenabled_vgpu_types = {migs.TWO}\n{option}\n'
                f'{migs.SWITCH}\n[vgpu_{migs.TWO}]\n'
                f'device_addresses = {GPU}, {other.address}\n'
            )
            self.assertTrue(self.is_on())
            self.assertEqual(not option, kernel.get(second.address).mig_mode)
            self.assertFalse(kernel.get(other.address).mig_mode)
            self.host.restore()


class TestReboot(MigModeTestCase):
    """Some GPUs lose the mode with every reboot of the host."""

    def boot_with_server(self, vfio: bool, text: str, name: str) -> None:
        self.boot(
            dataclasses.replace(
                migs.switchable(), vendor_vfio=vfio, mig_is_lost=True
            )
        )
        self.host.apply(text)
        self.host.boot('ai', migs.FIRST, f'GRID {name}')
        self.kernel.reboot()
        self.assertFalse(self.is_on())

    def test_servers_get_their_vgpus_back(self) -> None:
        for vfio in (True, False):
            self.boot_with_server(vfio, ON, migs.TWO)
            outcome = self.host.apply(ON)
            self.assertEqual([], [*outcome.failures, *outcome.refusals])
            self.assertTrue(self.is_on())
            self.libvirt.start_guest('ai')

    def test_servers_that_need_the_mode_of_now_keep_it(self) -> None:
        for vfio in (True, False):
            self.boot_with_server(vfio, OFF, migs.HALF)
            shut_off = SERVER.format('is shut off')
            self.assert_refused(ON, shut_off, goes_on=True)
            self.libvirt.start_guest('ai')

    def test_a_switch_after_vfs_were_enabled(self) -> None:
        """The server would lose its function: another reboot is needed."""
        self.boot_with_server(True, ON, migs.TWO)
        self.host.apply(ON.replace('true', 'false'))
        self.assertEqual(8, self.kernel.get(GPU).vfs)
        self.assert_refused(ON, SERVER.format('is shut off'), 'Reboot the')
        self.kernel.reboot()
        self.host.apply(ON)
        self.libvirt.start_guest('ai')

    def test_a_process_keeps_it_from_all_that_prevents_a_switch(self) -> None:
        self.boot_with_server(True, ON, migs.TWO)
        self.change(has_process=True)
        self.assert_refused(ON, 'processes use it')
        self.change(has_process=False)
        self.host.apply(ON)
        self.libvirt.start_guest('ai')

    def test_also_if_nothing_tells_where_a_vgpu_was(self) -> None:
        """An mdev that libvirt does not define, after a loss of the files."""
        self.libvirt.define_guest('ai', mdevs={UUID: 'GRID A100D-40C'})
        shut_off = SERVER.format('is shut off')
        self.assert_refused(ON, shut_off, goes_on=True)
        self.libvirt.define_guest('ai', mdevs={UUID: None})
        self.assert_refused(ON, shut_off)
        # Of another model.
        self.libvirt.define_guest('ai', mdevs={UUID: 'NVIDIA A40-8Q'})
        self.host.apply(ON)
        self.assertTrue(self.is_on())


class TestInUse(MigModeTestCase):
    def test_a_server_has_a_vgpu(self) -> None:
        for vfio in (True, False):
            for old, new, name in (
                (ON, OFF, migs.TWO),
                (OFF, ON, migs.HALF),
            ):
                self.boot(
                    dataclasses.replace(migs.switchable(), vendor_vfio=vfio)
                )
                self.host.apply(old)
                self.host.boot('ai', migs.FIRST, f'GRID {name}')
                self.assert_refused(new, SERVER.format('runs'))
                self.libvirt.stop_guest('ai')
                self.assert_refused(new, SERVER.format('is shut off'))
                self.libvirt.undefine_guest('ai')
                self.assertEqual([], self.host.apply(new).failures)
                self.assertEqual(new is ON, self.is_on())

    def test_a_server_has_the_function_and_no_vgpu_yet(self) -> None:
        self.host.apply(OFF)
        self.libvirt.define_guest('ai', functions={migs.FIRST: None})
        self.assert_refused(ON, SERVER.format('is shut off'))

    def test_an_operator_made_a_vgpu(self) -> None:
        """Also one that comes back with the next apply only."""
        name = f'GRID {migs.HALF}'
        self.host.apply(OFF)
        step = values.SetType(migs.ADDRESS, migs.FIRST, '', name)
        asked = apply.ManualSteps(
            (values.GPUSteps(migs.ADDRESS, (step,)),), {migs.FIRST: name}
        )
        apply.execute(self.host.access, lambda _: asked, live.Recorder())
        self.kernel.reboot()
        said = f'it has vGPUs: {migs.FIRST}'
        self.assert_refused(ON, said, 'device disable', goes_on=True)

    def test_an_idle_definition_goes_as_it_does_without_a_switch(self) -> None:
        """It is known to be of another type once VFs are there."""
        self.boot(dataclasses.replace(migs.switchable(), vendor_vfio=False))
        self.host.apply(OFF)
        uuid = self.host.create_mdev(migs.FIRST, f'GRID {migs.HALF}')
        self.host.stop_mdev(uuid)
        self.kernel.reboot()
        load = self.host.load(ON)
        dry = apply.plan(self.host.access, load, live.Recorder())
        said = ' '.join(map(str, dry.outcome.refusals))
        self.assertIn(f'it has vGPUs: {uuid}', said)
        outcome = self.host.apply(ON)
        self.assertEqual([], [*outcome.failures, *outcome.refusals])
        self.assertTrue(self.is_on())

    def test_a_process_uses_the_gpu(self) -> None:
        self.host.apply(OFF)
        self.change(has_process=True)
        self.assert_refused(ON, 'processes use it: 1000')

    def test_a_process_uses_a_gpu_instance(self) -> None:
        self.host.apply(ON)
        first, *others = self.kernel.get(GPU).gpu_instances
        used = dataclasses.replace(first, has_process=True)
        self.change(gpu_instances=(used, *others))
        self.assert_refused(OFF, 'processes use it')

    def test_what_is_unknown(self) -> None:
        self.host.apply(ON)
        known = modes.read_modes(self.kernel).of(GPU)
        assert known.gpu_instances is not None
        unsure = tuple(
            dataclasses.replace(i, is_used=None)
            for i in known.gpu_instances.instances
        )
        there = dataclasses.replace(known.gpu_instances, instances=unsure)
        for unknown, words in (
            ({'processes': None}, 'NVML does not tell which processes'),
            ({'gpu_instances': None}, 'NVML does not tell its GPU instances'),
            ({'gpu_instances': there}, 'perhaps in use: 1, 2'),
        ):
            found = dataclasses.replace(known, **unknown)
            read = values.ModesRead(((GPU, found),))
            self.host.access = self.host.make_host_access(
                read_modes=lambda _host, read=read: read
            )
            self.assert_refused(OFF, words)


class TestOutdatedPlan(MigModeTestCase):
    """What began after the plan was made."""

    def switch(self, **others: typing.Any) -> step_runner.Outcome:
        step = values.SetMigMode(migs.ADDRESS, False, True)
        asked = apply.ManualSteps((values.GPUSteps(migs.ADDRESS, (step,)),))
        access = self.host.make_host_access(**others)
        return apply.execute(access, lambda _: asked, live.Recorder())

    def test_a_server(self) -> None:
        self.host.apply(OFF)
        self.host.boot('ai', migs.FIRST, f'GRID {migs.HALF}')
        (refusal,) = self.switch().refusals
        self.assertIn(SERVER.format('runs'), refusal.message)
        self.assertFalse(self.is_on())

    def test_a_server_that_has_the_whole_gpu(self) -> None:
        self.libvirt.define_guest('ai', functions={migs.ADDRESS: None})
        (refusal,) = self.switch().refusals
        self.assertIn('the GPU as a whole', refusal.message)

    def test_a_process(self) -> None:
        self.change(has_process=True)
        (refusal,) = self.switch().refusals
        self.assertIn('processes use it', refusal.message)
        self.assertIsNone(self.kernel.get(GPU).mig_pending)

    def test_vfs(self) -> None:
        self.host.apply(OFF)
        (failure,) = self.switch().failures
        self.assertIn('8 VFs are enabled', str(failure))

    def test_nvml_fails(self) -> None:
        read = values.ModesRead(unknown_because='NVML failed: Unknown Error')
        (failure,) = self.switch(read_modes=lambda _host: read).failures
        self.assertIn('does not tell the MIG mode', str(failure))
        self.assertIn('NVML failed: Unknown Error', str(failure))
        self.assertFalse(self.is_on())

    def test_another_one_switched_it(self) -> None:
        self.change(mig_mode=True)
        self.assertEqual(1, len(self.switch().done))

    def test_the_gpu_is_gone(self) -> None:
        self.kernel.unplug(GPU)
        (failure,) = self.switch().failures
        self.assertIn('not there any more', str(failure))

    def test_it_waits_for_servers_that_are_being_started(self) -> None:
        with locks.hold_claims(self.host.access.locks, 1.0, exclusive=False):
            (failure,) = self.switch(timeout=0.1).failures
        self.assertIn('Run it again', str(failure))
        self.assertFalse(self.is_on())

    def test_the_next_apply_waits_until_the_program_ends(self) -> None:
        """It inherits the lock, should this process be killed."""
        kept: list[bool] = []

        def run(
            argv: typing.Sequence[str],
            seconds: float,
            keep: typing.Sequence[int] = (),
        ) -> tools.Finished:
            (lock,) = keep
            path = f'{self.host.access.state.path}/lock'
            kept.append(os.path.samestat(os.fstat(lock), os.stat(path)))
            return self.host.machine.tools.run(argv, seconds, keep)

        self.assertEqual(1, len(self.switch(run=run).done))
        self.assertEqual([True], kept)


class TestFailures(MigModeTestCase):
    def test_something_has_the_gpu_open_for_a_moment(self) -> None:
        for fault in ('in_use', 'pends'):
            self.boot(migs.switchable())
            setattr(self.tools, fault, 3)
            self.assertEqual([], self.host.apply(ON).failures, fault)
            self.assertTrue(self.is_on())

    def test_something_has_it_open_and_does_not_end(self) -> None:
        self.tools.in_use = 999
        outcome = self.host.apply(ON)
        (failure,) = outcome.failures
        self.assertIn('Timed out', str(failure))
        self.assertIn('has the GPU open', str(failure))
        self.assertEqual((), outcome.problems)

    def test_the_mode_is_pending(self) -> None:
        """It is switched by a reboot, or once that has ended."""
        for reboots in (True, False):
            self.boot(migs.switchable())
            self.tools.pends = 999
            (failure,) = self.host.apply(ON).failures
            self.assertIn('is pending', str(failure))
            self.assertIn('reboot the host', str(failure))
            self.assertEqual(0, self.kernel.get(GPU).vfs)
            self.tools.pends = 0
            if reboots:
                self.kernel.reboot()
                self.assertTrue(self.is_on())
            self.assertEqual([], self.host.apply(ON).failures)
            self.assertTrue(self.is_on())

    def test_restore_of_a_pending_mode(self) -> None:
        self.tools.pends = 999
        self.host.apply(ON)
        self.tools.pends = 0
        self.host.restore()
        self.assertIsNone(self.kernel.get(GPU).mig_pending)
        self.kernel.reboot()
        self.assertFalse(self.is_on())

    def test_a_tool_that_does_nothing_hangs_or_is_missing(self) -> None:
        for faults, words in (
            ('idle', 'reported success, but MIG mode is not on'),
            ('hanging', 'timed out'),
            ('missing', 'no such file'),
        ):
            self.boot(migs.switchable())
            getattr(self.tools, faults).add('nvidia-smi')
            (failure,) = self.host.apply(ON).failures
            self.assertIn(words, str(failure), faults)

    def test_the_gpu_does_not_switch(self) -> None:
        self.change(profiles=())
        told = values.GPUModes(mig=values.GPUMode(False, False), processes=())
        read = values.ModesRead(((GPU, told),))
        self.host.access = self.host.make_host_access(
            read_modes=lambda _host: read
        )
        (failure,) = self.host.apply(ON).failures
        self.assertIn('Not Supported', str(failure))
        self.assertIn('Does the GPU support MIG', str(failure))


class TestUnknownMode(MigModeTestCase):
    def apply(self, text: str, why: str | None = None) -> list[str]:
        read = values.ModesRead(unknown_because=why)
        access = self.host.make_host_access(read_modes=lambda _host: read)
        told = live.Recorder()
        apply.plan(access, self.host.load(text), told)
        planned = [*told.warnings]
        told.warnings.clear()
        apply.apply(access, self.host.load(text), told)
        self.assertEqual(planned, told.warnings)
        self.assertFalse(self.is_on())
        return told.warnings

    def test_it_says_so(self) -> None:
        (warning,) = self.apply(ON, 'nvidia-ml-py is not installed')
        for words in (
            'does not tell the MIG mode',
            'nvidia-ml-py is not installed',
            'it is not switched',
            'Install the extra nvml',
        ):
            self.assertIn(words, warning)

    def test_where_it_makes_no_difference(self) -> None:
        self.assertEqual([], self.apply(ON.replace('true', 'false')))
        self.boot(migs.switchable(), hosts.gpu(live.T4, live.SMALL_T4))
        without = live.ALL_THREE.partition('[vgpu_A10')[0]
        text = without.replace('T4-4Q, A10-12Q, L40S-24Q', 'T4-4Q')
        option = f'[devices]\n{migs.SWITCH}\nunlisted_gpus = ignore'
        text = text.replace('[devices]', option)
        self.assertEqual([], self.apply(text))

    def test_a_time_sliced_type_on_a_gpu_that_has_mig(self) -> None:
        self.boot(
            dataclasses.replace(migs.switchable(), vendor_vfio=False, vfs=8)
        )
        self.assertEqual(1, len(self.apply(OFF)))
