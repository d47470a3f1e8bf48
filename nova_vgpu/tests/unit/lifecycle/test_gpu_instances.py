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

"""apply creates the GPU instances that the declaration needs."""

import dataclasses
import typing

import testtools

from nova_vgpu import values
from nova_vgpu.lifecycle import apply
from nova_vgpu.lifecycle import drift
from nova_vgpu.lifecycle import step_runner
from nova_vgpu.sandbox import modes
from nova_vgpu.tests import live
from nova_vgpu.tests import migs

GPU = values.PciAddress.parse(migs.ADDRESS)


class GPUInstancesTestCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.boot()

    def boot(self, *instances: str, vfs: int = 0, vfio: bool = True) -> None:
        card = migs.gpu(*instances, vfs=vfs, vendor_vfio=vfio)
        self.host = self.useFixture(live.LiveHost(card))
        self.kernel = self.host.machine.kernel

    def apply(
        self, *options: str, **numbers: int | None
    ) -> step_runner.Outcome:
        return self.host.apply(migs.declare(*options, **numbers))

    def assert_done(self, outcome: step_runner.Outcome, *steps: str) -> None:
        self.assertEqual([], [*outcome.failures, *outcome.refusals])
        self.assertEqual((), outcome.problems)
        done = [str(s).replace(f'GPU {GPU}', 'it') for s in outcome.done]
        self.assertEqual(list(steps), done)

    def instances(self) -> list[str]:
        found = self.kernel.get(GPU).gpu_instances
        self.assertTrue(all(i.is_complete for i in found))
        return sorted(i.profile.name.removeprefix('MIG ') for i in found)

    def change(self, number: int, **state: typing.Any) -> None:
        """Another process does something to an instance."""
        there = self.kernel.get(GPU).gpu_instances
        changed = tuple(
            dataclasses.replace(i, **state) if i.id == number else i
            for i in there
        )
        self.kernel.update(GPU, gpu_instances=changed)
        self.kernel.settle()


class TestCreating(GPUInstancesTestCase):
    def test_after_vfs_and_before_types_large_ones_first(self) -> None:
        numbers = {migs.ONE: 3, migs.TWO: 2}
        self.assert_done(
            self.apply(**numbers),
            'enable the 8 VFs of it',
            'create 2 GPU instances of 2g.20gb on it',
            'create 3 GPU instances of 1g.10gb on it',
            'wait for the vGPU types of it',
        )
        self.assertEqual(['1g.10gb'] * 3 + ['2g.20gb'] * 2, self.instances())
        self.assert_done(self.apply(**numbers))

    def test_without_a_number_as_many_as_the_profile_allows(self) -> None:
        for name, profile, most in (
            (migs.ONE, '1g.10gb', 7),
            (migs.TWO, '2g.20gb', 3),
            (migs.FOUR, '4g.40gb', 1),
        ):
            self.boot()
            self.apply(**{name: None})
            self.assertEqual([profile] * most, self.instances())
            self.assert_done(self.apply(**{name: None}))

    def test_as_many_as_max_instances_or_listed_functions(self) -> None:
        functions = f'{migs.FIRST}, {migs.SECOND}'
        for listed, count in (
            (f'{migs.ADDRESS}\nmax_instances = 3', 3),
            (functions, 2),
            (f'{functions}\nmax_instances = 1', 1),
        ):
            self.boot(vfs=8)
            self.host.apply(
                f'[devices]\nenabled_vgpu_types = {migs.ONE}\n'
                f'[vgpu_{migs.ONE}]\ndevice_addresses = {listed}\n'
            )
            self.assertEqual(['1g.10gb'] * count, self.instances(), listed)

    def test_mdevs(self) -> None:
        self.boot(vfio=False)
        self.apply('vgpu_creation = ahead', **{migs.TWO: 2})
        self.assertEqual(['2g.20gb'] * 2, self.instances())
        self.assertEqual(2, len(self.host.vgpus(migs.ADDRESS)))

    def test_one_of_a_divided_gpu_is_missing(self) -> None:
        """A larger one has to be where idle smaller ones are."""
        self.apply(**{migs.ONE: 3})
        self.assert_done(
            self.apply(**{migs.ONE: 3, migs.FOUR: 1}),
            'remove 3 GPU instances of 1g.10gb from it',
            'create 1 GPU instance of 4g.40gb on it',
            'create 3 GPU instances of 1g.10gb on it',
        )

    def test_the_steps_are_shown_before(self) -> None:
        with self.host.connect() as connection:
            report = drift.read(
                self.host.access,
                connection,
                self.host.load(migs.declare(**{migs.ONE: 1})),
                print,
                self.host.access.new_uuid,
            )
        lines = '\n'.join(drift.list_findings(report))
        self.assertIn('create 1 GPU instance of 1g.10gb', lines)
        dry = apply.plan(
            self.host.access,
            self.host.load(migs.declare(**{migs.ONE: 1})),
            live.Recorder(),
        )
        self.assertEqual(report.steps, dry.steps)
        self.assertEqual([], self.instances())

    def test_a_gpu_on_the_stub_driver_is_bound_first(self) -> None:
        """NVML does not know it before."""
        self.host.machine.tools.behaviour.abandons = 1
        numbers = {migs.ONE: 2}
        self.assertEqual(1, len(self.apply(**numbers).failures))
        self.apply(**numbers)
        self.assertEqual(['1g.10gb'] * 2, self.instances())

    def test_a_reboot_removes_them_and_servers_get_theirs_back(self) -> None:
        """Also one of a type that is not declared any more."""
        self.apply(**{migs.TWO: 1})
        self.host.boot('ai', migs.FIRST, f'GRID {migs.TWO}')
        self.kernel.reboot()
        self.apply(**{migs.ONE: 3})
        self.assertEqual(['1g.10gb'] * 3 + ['2g.20gb'], self.instances())
        self.host.machine.libvirt.start_guest('ai')

    def test_servers_come_before_what_is_declared(self) -> None:
        """Three of the declared type would leave room for one of them."""
        self.apply(**{migs.ONE: 7})
        for server, function in (('a', migs.FIRST), ('b', migs.SECOND)):
            self.host.boot(server, function, f'GRID {migs.ONE}')
        self.kernel.reboot()
        self.assertEqual([], self.apply(**{migs.TWO: None}).failures)
        self.assertEqual(['1g.10gb'] * 2 + ['2g.20gb'] * 2, self.instances())
        self.host.machine.libvirt.start_guest('a')
        self.host.machine.libvirt.start_guest('b')


class TestRemoving(GPUInstancesTestCase):
    def test_idle_ones_that_are_not_needed(self) -> None:
        self.boot('3g.40gb', '1g.10gb+me', '1g.10gb', '1g.10gb', vfs=8)
        self.assert_done(
            self.apply(**{migs.ONE: 1}),
            'remove 1 GPU instance of 3g.40gb from it',
            'remove 1 GPU instance of 1g.10gb from it',
            'remove 1 GPU instance of 1g.10gb+me from it',
        )

    def test_those_that_sriov_manage_would_remove(self) -> None:
        """So that restore knows of them."""
        self.boot('3g.40gb')
        self.assert_done(
            self.apply(**{migs.ONE: 1}),
            'remove 1 GPU instance of 3g.40gb from it',
            'enable the 8 VFs of it',
            'create 1 GPU instance of 1g.10gb on it',
            'wait for the vGPU types of it',
        )
        self.host.restore()
        self.assertEqual(['3g.40gb'], self.instances())
        self.assertEqual(0, self.kernel.get(GPU).vfs)

    def test_one_without_a_compute_instance_is_made_again(self) -> None:
        self.boot('2g.20gb', vfs=8)
        self.change(1, is_complete=False)
        self.apply(**{migs.TWO: 1})
        self.assertEqual(['2g.20gb'], self.instances())

    def test_not_one_that_a_guest_has(self) -> None:
        self.apply(**{migs.TWO: 2})
        self.host.boot('ai', migs.FIRST, f'GRID {migs.TWO}')
        outcome = self.apply(**{migs.ONE: 4})
        self.assertEqual([], outcome.failures)
        self.assertEqual(['1g.10gb'] * 4 + ['2g.20gb'], self.instances())

    def test_not_one_that_a_process_has(self) -> None:
        self.boot('3g.40gb', '3g.40gb', vfs=8)
        self.change(1, has_process=True)
        self.change(2, has_process=True)
        outcome = self.apply(**{migs.TWO: 1})
        self.assertEqual([], [*outcome.failures, *outcome.done])
        (refusal,) = outcome.refusals
        for words in ('1 (3g.40gb), 2 (3g.40gb)', 'in use', 'no room'):
            self.assertIn(words, refusal.message)
        self.assertEqual(['3g.40gb'] * 2, self.instances())

    def test_vfs_stay_off_while_a_process_has_one(self) -> None:
        self.boot('3g.40gb')
        self.change(1, has_process=True)
        outcome = self.apply(**{migs.TWO: 1})
        (refusal,) = outcome.refusals
        self.assertIn('VFs cannot be enabled', refusal.message)
        self.assertEqual(0, self.kernel.get(GPU).vfs)
        self.assertEqual(['3g.40gb'], self.instances())

    def test_not_if_their_use_is_unknown(self) -> None:
        """NVML shows no vGPU of a guest that does not run."""
        self.apply(**{migs.ONE: 7})
        self.host.set_type(migs.FIRST, f'GRID {migs.ONE}')
        self.host.machine.libvirt.define_guest(
            'ai', functions={migs.FIRST: f'GRID {migs.ONE}'}
        )
        outcome = self.apply(**{migs.FOUR: 1, migs.ONE: 1})
        self.assertEqual([], [*outcome.failures, *outcome.done])
        (refusal,) = outcome.refusals
        self.assertIn('perhaps in use', refusal.message)
        self.assertEqual(['1g.10gb'] * 7, self.instances())

    def test_not_those_of_idle_vgpus_of_a_declared_type(self) -> None:
        """But vGPUs that are more than their share go."""
        self.apply('vgpu_creation = ahead', **{migs.ONE: 7})
        outcome = self.apply(**{migs.FOUR: 1, migs.ONE: 1})
        self.assertEqual([], outcome.failures)
        self.assertEqual(6, len(outcome.done))
        self.assertEqual(1, len(self.host.vgpus(migs.ADDRESS)))
        self.assertEqual(['1g.10gb'] * 7, self.instances())
        (refusal,) = outcome.refusals
        self.assertIn('perhaps in use', refusal.message)

    def test_what_was_created_after_the_plan(self) -> None:
        self.boot('2g.20gb', vfs=8)
        step = values.SetGPUInstances(migs.ADDRESS, 14, '2g.20gb', 0, 2)
        asked = apply.ManualSteps((values.GPUSteps(migs.ADDRESS, (step,)),))
        apply.execute(self.host.access, lambda _: asked, live.Recorder())
        self.assertEqual(['2g.20gb'] * 2, self.instances())

    def test_what_began_after_the_plan(self) -> None:
        self.boot('3g.40gb', vfs=8)
        step = values.SetGPUInstances(migs.ADDRESS, 9, '3g.40gb', 1, 0)
        self.change(1, has_process=True)
        asked = apply.ManualSteps((values.GPUSteps(migs.ADDRESS, (step,)),))
        outcome = apply.execute(
            self.host.access, lambda _state: asked, live.Recorder()
        )
        (refusal,) = outcome.refusals
        self.assertIn('1 GPU instances of 3g.40gb', refusal.message)
        self.assertEqual(['3g.40gb'], self.instances())


class TestFailures(GPUInstancesTestCase):
    def test_a_process_has_the_gpu_open_for_a_moment(self) -> None:
        self.host.machine.tools.behaviour.in_use = 3
        self.assertEqual([], self.apply(**{migs.ONE: 1}).failures)
        self.assertEqual(['1g.10gb'], self.instances())

    def test_a_process_has_it_open_and_does_not_end(self) -> None:
        self.boot('1g.10gb', vfs=8)
        self.host.machine.tools.behaviour.in_use = 999
        (failure,) = self.apply(**{migs.ONE: 2}).failures
        self.assertIn('Timed out', str(failure))

    def test_what_is_in_use_is_where_it_would_have_to_be(self) -> None:
        """What fits beside it is created all the same."""
        self.boot('1g.10gb', vfs=8)
        self.change(1, has_process=True)
        outcome = self.apply(**{migs.FOUR: 1, migs.ONE: 3})
        (failure,) = outcome.failures
        self.assertIn('Insufficient Resources', str(failure))
        self.assertIn('nvidia-smi mig -lgipp', str(failure))
        self.assertEqual(['1g.10gb'] * 3, self.instances())

    def test_a_tool_that_does_nothing_hangs_or_is_missing(self) -> None:
        for faults, words in (
            ('idle', 'reported success, but'),
            ('hanging', 'timed out'),
            ('missing', 'no such file'),
        ):
            for number in (3, 1):  # one is created, one is removed
                self.boot('2g.20gb', '2g.20gb', vfs=8)
                behaviour = self.host.machine.tools.behaviour
                getattr(behaviour, faults).add('nvidia-smi')
                (failure,) = self.apply(**{migs.TWO: number}).failures
                self.assertIn(words, str(failure), faults)

    def test_nvml_fails_after_the_plan(self) -> None:
        answers = [modes.read_modes(self.kernel)]
        self.host.access = self.host.make_host_access(
            read_modes=lambda _host: (
                answers.pop() if answers else values.ModesRead()
            )
        )
        (failure, *_) = self.apply(**{migs.ONE: 1}).failures
        self.assertIn('NVML does not tell', str(failure))
        self.assertEqual([], self.instances())


class TestUnknown(GPUInstancesTestCase):
    """Nothing is done that needs what is not known."""

    def plan(self, found: values.GPUModes, **numbers: int | None) -> list[str]:
        access = self.host.make_host_access(
            read_modes=lambda _host: values.ModesRead(((GPU, found),))
        )
        text = migs.declare(**numbers)
        steps = apply.plan(access, self.host.load(text), live.Recorder()).steps
        return [str(s) for s in steps if isinstance(s, values.SetGPUInstances)]

    def test_without_nvml_or_mig_mode_or_a_type_of_mig(self) -> None:
        self.boot('1g.10gb', vfs=8)
        known = modes.read_modes(self.kernel).of(GPU)
        self.assertEqual(2, len(self.plan(known, **{migs.TWO: 1})))
        unknown = dataclasses.replace(known, gpu_instances=None)
        off = values.GPUModes(mig=values.GPUMode(False, False))
        for found, name in (
            (values.GPUModes(), migs.TWO),
            (unknown, migs.TWO),
            (off, migs.TWO),
            (known, 'A100D-20C'),
        ):
            self.assertEqual([], self.plan(found, **{name: 1}))

    def test_mig_mode_is_not_switched(self) -> None:
        card = dataclasses.replace(migs.gpu(), mig_mode=False)
        host = self.useFixture(live.LiveHost(card))
        off = values.GPUModes(mig=values.GPUMode(False, False))
        access = host.make_host_access(
            read_modes=lambda _host: values.ModesRead(((GPU, off),))
        )
        outcome = apply.apply(
            access, host.load(migs.declare(**{migs.ONE: 1})), live.Recorder()
        )
        self.assertIn('mig-off', [p.code for p in outcome.problems])
        self.assertFalse(host.machine.kernel.get(GPU).mig_mode)
