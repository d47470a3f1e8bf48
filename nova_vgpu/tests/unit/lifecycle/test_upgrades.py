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

"""Ids of types that mean other types after a reboot.

mdevctl starts definitions by their ids before anything of this project runs:
at once where the GPU itself takes mdevs, and where its functions do, as soon
as they are there.
"""

from collections.abc import Callable
import errno
import json
import typing

import fixtures
import testtools

from nova_vgpu import values
from nova_vgpu.lifecycle import apply
from nova_vgpu.lifecycle import host_access
from nova_vgpu.lifecycle import step_runner
from nova_vgpu.reconcile import manual_steps
from nova_vgpu.tests import live

AHEAD = live.ALL_THREE.replace('[devices]', '[devices]\nvgpu_creation = ahead')
VFS = ('0000:41:00.4', '0000:41:00.5')


class UpgradeTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.host = self.useFixture(live.LiveHost(*live.bare_gpus()))
        self.libvirt = self.host.machine.libvirt
        self.kernel = self.host.machine.kernel
        self.host.apply(live.ALL_THREE)

    def mdev_of(self, name: str) -> str:
        (uuid,) = self.libvirt.guests[name].mdevs
        return uuid

    def kept(self) -> dict[str, dict[str, str]]:
        text = (self.host.path / 'state' / 'vgpus.json').read_text()
        found: dict[str, dict[str, str]] = json.loads(text)['mdevs']
        return found

    def assert_done(self, outcome: step_runner.Outcome) -> None:
        self.assertEqual([], outcome.failures)
        self.assertEqual([], outcome.refusals)
        self.assertEqual((), outcome.problems)


class TestServersThatAreOff(UpgradeTest):
    """As all are when the host has just booted."""

    def boot_two_on_each(self) -> None:
        for order in range(2):
            self.host.boot(f'web-{order}', live.T4, 'GRID T4-4Q')
            self.host.boot(f'db-{order}', VFS[order], 'NVIDIA A10-12Q')

    def test_they_start_with_what_they_had(self) -> None:
        self.boot_two_on_each()
        before = self.host.describe()
        self.kernel.reboot(upgrade=True)
        # One of it fits, as it is now.
        self.assertEqual(
            ['GRID T4-16Q'], list(self.host.vgpus(live.T4).values())
        )
        self.assert_done(self.host.apply(live.ALL_THREE))
        self.assertEqual(before, self.host.describe())
        for name in self.libvirt.guests:
            self.libvirt.start_guest(name)
        self.assertEqual([], self.host.apply(live.ALL_THREE).done)

    def test_and_so_they_do_after_the_next_reboot(self) -> None:
        """Their definitions have the new ids, and start by themselves."""
        self.boot_two_on_each()
        before = self.host.describe()
        self.kernel.reboot(upgrade=True)
        self.host.apply(live.ALL_THREE)
        self.kernel.reboot()
        self.assertEqual(
            ['GRID T4-4Q'] * 2, list(self.host.vgpus(live.T4).values())
        )
        self.assert_done(self.host.apply(live.ALL_THREE))
        self.assertEqual(before, self.host.describe())

    def test_upgrades_with_no_apply_between_them(self) -> None:
        self.boot_two_on_each()
        before = self.host.describe()
        for _ in range(2):
            self.kernel.reboot(upgrade=True)
        self.assert_done(self.host.apply(live.ALL_THREE))
        self.assertEqual(before, self.host.describe())

    def test_what_did_not_start_by_itself_while_libvirt_is_slow(self) -> None:
        """It shows the definition with the old id for a moment."""
        self.boot_two_on_each()
        before = self.host.describe()
        self.libvirt.autostarts = False
        self.libvirt.mdevs.lingering = 0.3
        self.kernel.reboot(upgrade=True)
        self.assert_done(self.host.apply(live.ALL_THREE))
        self.assertEqual(before, self.host.describe())

    def test_a_server_whose_guest_notes_no_type(self) -> None:
        """The memory of the last apply tells."""
        uuid = self.host.create_mdev(live.T4, 'GRID T4-4Q')
        self.libvirt.define_guest('web', mdevs={uuid: None})
        self.host.apply(live.ALL_THREE)
        self.kernel.reboot(upgrade=True)
        self.assert_done(self.host.apply(live.ALL_THREE))
        self.assertEqual({uuid: 'GRID T4-4Q'}, self.host.vgpus(live.T4))

    def test_a_memory_that_an_older_release_wrote(self) -> None:
        """It has no ids."""
        uuid = self.host.create_mdev(live.T4, 'GRID T4-4Q')
        self.libvirt.define_guest('web', mdevs={uuid: None})
        self.host.apply(live.ALL_THREE)
        path = self.host.path / 'state' / 'vgpus.json'
        found = json.loads(path.read_text())
        del found['mdevs'][uuid]['type_id']
        path.write_text(json.dumps(found))
        self.kernel.reboot(upgrade=True)
        self.assert_done(self.host.apply(live.ALL_THREE))
        self.assertEqual({uuid: 'GRID T4-4Q'}, self.host.vgpus(live.T4))

    def test_a_type_that_is_not_the_declared_one_any_more(self) -> None:
        """Also if it looks like the declared one now."""
        self.host.boot('web', live.T4, 'GRID T4-4Q')
        self.kernel.reboot(upgrade=True)
        other = live.ALL_THREE.replace('T4-4Q', 'T4-16Q')
        outcome = self.host.apply(other)
        self.assertEqual([], outcome.failures)
        (refusal,) = outcome.refusals
        self.assertIn('the GPU is to serve GRID T4-16Q', str(refusal))
        uuid = self.mdev_of('web')
        self.assertEqual({uuid: 'GRID T4-4Q'}, self.host.vgpus(live.T4))

    def forget(self, how: Callable[[typing.Any], None]) -> None:
        mdevs = self.libvirt.mdevs
        self.useFixture(fixtures.MockPatchObject(mdevs, 'forget', how))

    def forget_late(self) -> None:
        """Let libvirt notice only after a while that an mdev is gone."""
        forgotten: list[typing.Any] = []
        mdevs, clock = self.libvirt.mdevs, self.kernel.clock
        forget, sleep = mdevs.forget, clock.sleep
        self.forget(forgotten.append)

        def sleeping(seconds: float) -> None:
            sleep(seconds)
            while forgotten:
                forget(forgotten.pop())

        self.host.access = self.host.make_host_access(sleep=sleeping)

    def test_libvirt_is_late(self) -> None:
        self.host.boot('web', live.T4, 'GRID T4-4Q')
        before = self.host.describe()
        self.kernel.reboot(upgrade=True)
        self.forget_late()
        self.assert_done(self.host.apply(live.ALL_THREE))
        self.assertEqual(before, self.host.describe())

    def test_libvirt_never_notices(self) -> None:
        self.host.boot('web', live.T4, 'GRID T4-4Q')
        self.kernel.reboot(upgrade=True)
        self.forget(lambda _mdev: None)
        (failure,) = self.host.apply(live.ALL_THREE).failures
        self.assertIn('libvirt still shows it', str(failure))

    def test_vgpus_of_nobody(self) -> None:
        """Those made ahead keep their UUIDs; the rest goes, as ever."""
        self.host.apply(AHEAD)
        before = self.host.describe()
        self.kernel.reboot(upgrade=True)
        self.assert_done(self.host.apply(AHEAD))
        self.assertEqual(before, self.host.describe())
        self.kernel.reboot(upgrade=True)
        self.assert_done(
            self.host.apply(live.ALL_THREE.replace('T4-4Q', 'T4-8Q'))
        )
        self.assertEqual({}, self.host.vgpus(live.T4))

    def test_vgpus_of_nobody_after_two_runs_that_were_cut_off(self) -> None:
        """They are made ahead, so that others would take their places."""

        class Killed(BaseException):
            pass

        class Removed(live.Recorder):
            def finish(self, step: values.Step, event: str) -> None:
                if isinstance(step, values.SetMdev):
                    raise Killed

        class Begun(live.Recorder):
            def begin(self, step: values.Step) -> None:
                raise Killed

        self.host.apply(AHEAD)
        before = self.host.describe()
        self.kernel.reboot(upgrade=True)
        configuration = self.host.load(AHEAD)
        for recorder in (Removed(), Begun()):
            self.assertRaises(
                Killed, apply.apply, self.host.access, configuration, recorder
            )
        self.assertEqual({}, self.host.vgpus(live.T4))
        self.assert_done(self.host.apply(AHEAD))
        self.assertEqual(before, self.host.describe())


class TestCreationsThatFail(UpgradeTest):
    """What was removed and could not be made again, of nobody."""

    def setUp(self) -> None:
        super().setUp()
        self.uuids = {
            self.host.create_mdev(live.T4, 'GRID T4-8Q') for _ in range(2)
        }
        self.text = live.ALL_THREE.replace('T4-4Q', 'T4-8Q')
        self.host.apply(self.text)
        self.kernel.reboot(upgrade=True)

    def fail_to_create(self) -> None:
        self.kernel.fail('/create', errno.EIO)
        (failure,) = self.host.apply(self.text).failures
        self.assertIn('libvirt refuses', str(failure))
        self.assertEqual({}, self.host.vgpus(live.T4))
        self.kernel.faults.clear()

    def test_the_next_apply_makes_them(self) -> None:
        """Also the one that was not tried after the first had failed."""
        self.fail_to_create()
        self.assert_done(self.host.apply(self.text))
        self.assertEqual(
            dict.fromkeys(self.uuids, 'GRID T4-8Q'), self.host.vgpus(live.T4)
        )
        self.assertEqual([], self.host.apply(self.text).done)

    def test_an_apply_for_another_gpu_comes_between(self) -> None:
        self.fail_to_create()
        self.assert_done(self.host.apply(self.text, live.A10))
        self.assert_done(self.host.apply(self.text))
        self.assertEqual(self.uuids, self.host.vgpus(live.T4).keys())

    def test_others_took_their_places(self) -> None:
        self.fail_to_create()
        for name in ('web', 'db'):
            self.host.boot(name, live.T4, 'GRID T4-8Q')
        self.assert_done(self.host.apply(self.text))
        self.assertEqual(set(), self.uuids & self.kept().keys())

    def test_another_is_on_their_function(self) -> None:
        self.host.apply(self.text)
        uuid = self.host.create_mdev(VFS[0], 'NVIDIA A10-12Q')
        self.host.apply(self.text)
        self.kernel.reboot(upgrade=True)
        kernel = self.kernel

        class Recorder(live.Recorder):
            def finish(self, step: values.Step, event: str) -> None:
                if isinstance(step, values.SetMdev) and step.uuid == uuid:
                    kernel.fail('/create', errno.EIO)

        configuration = self.host.load(self.text)
        outcome = apply.apply(self.host.access, configuration, Recorder())
        self.assertIn(uuid, str(outcome.failures))
        self.kernel.faults.clear()
        self.assertNotIn(uuid, self.host.vgpus(live.A10))
        self.host.boot('web', VFS[0], 'NVIDIA A10-12Q')
        self.assert_done(self.host.apply(self.text))
        self.assertNotIn(uuid, self.kept())

    def test_another_type_is_declared_by_then(self) -> None:
        self.fail_to_create()
        self.assert_done(self.host.apply(live.ALL_THREE))
        self.assert_done(self.host.apply(self.text))
        self.assertEqual({}, self.host.vgpus(live.T4))


class TestServersThatRun(UpgradeTest):
    """Something started them before the first apply."""

    def test_they_are_not_touched(self) -> None:
        self.host.boot('web', live.T4, 'GRID T4-4Q')
        self.host.boot('db', VFS[0], 'NVIDIA A10-12Q')
        self.kernel.reboot(upgrade=True)
        self.libvirt.start_guest('web')
        outcome = self.host.apply(live.ALL_THREE)
        self.assertEqual([], outcome.failures)
        (refusal,) = outcome.refusals
        for said in (
            'of GRID T4-16Q',
            '(web, which runs)',
            'noted as GRID T4-4Q',
            'Shut that server down',
        ):
            self.assertIn(said, str(refusal))
        uuid = self.mdev_of('web')
        self.assertEqual({uuid: 'GRID T4-16Q'}, self.host.vgpus(live.T4))
        self.assertEqual('GRID T4-4Q', self.kept()[uuid]['type'])
        self.libvirt.stop_guest('web')
        self.assert_done(self.host.apply(live.ALL_THREE))
        self.assertEqual({uuid: 'GRID T4-4Q'}, self.host.vgpus(live.T4))

    def test_one_that_starts_just_before_its_vgpu_is_removed(self) -> None:
        self.host.boot('web', live.T4, 'GRID T4-4Q')
        self.kernel.reboot(upgrade=True)
        test = self

        class Recorder(live.Recorder):
            def begin(self, step: values.Step) -> None:
                test.libvirt.start_guest('web')

        configuration = self.host.load(live.ALL_THREE)
        outcome = apply.apply(self.host.access, configuration, Recorder())
        self.assertEqual([], outcome.failures)
        self.assertIn('(web, which runs)', str(outcome.refusals))
        self.assertEqual(
            ['GRID T4-16Q'], list(self.host.vgpus(live.T4).values())
        )

    def test_what_does_not_fit_beside_them_is_left_as_it_is(self) -> None:
        """One size per GPU, and the one that stays is of the wrong one."""
        self.host.boot('db-0', VFS[0], 'NVIDIA A10-12Q')
        self.host.boot('db-1', VFS[1], 'NVIDIA A10-12Q')
        self.kernel.reboot(upgrade=True)
        self.enable_vfs()
        self.libvirt.start_guest('db-0')
        before = self.host.describe()
        outcome = self.host.apply(live.ALL_THREE)
        self.assertEqual([], outcome.failures)
        said = '\n'.join(map(str, outcome.refusals))
        self.assertIn('(db-0, which runs)', said)
        self.assertIn('(db-1, which is shut off)', said)
        self.assertIn('does not fit beside the vGPUs that stay', said)
        self.assertEqual(
            self.host.vgpus(live.A10),
            {u: before[u] for u in map(self.mdev_of, ('db-0', 'db-1'))},
        )

    def enable_vfs(self) -> None:
        def plan(state: host_access.HostState) -> apply.ManualSteps:
            (gpu,) = (g for g in state.host.gpus if str(g) == live.A10)
            return apply.ManualSteps((manual_steps.enable_vfs(gpu),))

        apply.execute(self.host.access, plan, live.Recorder())


class TestWhatIsNotMended(UpgradeTest):
    def test_a_type_that_the_driver_has_no_more(self) -> None:
        uuid = self.host.create_mdev(live.T4, 'GRID T4-4Q')
        self.libvirt.define_guest('web', mdevs={uuid: 'GRID T4-2Q'})
        before = self.host.describe()
        (refusal,) = self.host.apply(live.ALL_THREE).refusals
        self.assertIn('does not offer that type now', str(refusal))
        self.assertEqual(before, self.host.describe())
        self.assertEqual('GRID T4-2Q', self.kept()[uuid]['type'])

    def test_an_mdev_that_was_made_anew_on_purpose(self) -> None:
        """By another id: it is not the driver that changed it."""
        uuid = self.host.create_mdev(live.T4, 'GRID T4-4Q')
        self.host.apply(live.ALL_THREE)
        self.assertEqual('GRID T4-4Q', self.kept()[uuid]['type'])
        self.host.stop_mdev(uuid)
        self.host.undefine_mdev(uuid)
        self.host.access = self.host.make_host_access(new_uuid=lambda: uuid)
        self.host.create_mdev(live.T4, 'GRID T4-8Q')
        other = live.ALL_THREE.replace('T4-4Q', 'T4-8Q')
        self.assertEqual([], self.host.apply(other).done)
        self.assertEqual('GRID T4-8Q', self.kept()[uuid]['type'])

    def test_disabling_by_hand_is_refused_as_before(self) -> None:
        """It would not come back."""
        self.host.boot('web', live.T4, 'GRID T4-4Q')
        self.kernel.reboot(upgrade=True)
        uuid = self.mdev_of('web')

        def plan(state: host_access.HostState) -> apply.ManualSteps:
            step = manual_steps.disable_device(state.host, state.usage, uuid)
            assert step is not None
            return apply.ManualSteps((values.GPUSteps(step.gpu, (step,)),))

        outcome = apply.execute(self.host.access, plan, live.Recorder())
        self.assertIn('(web, which is shut off)', str(outcome.refusals))
        self.assertIn(uuid, self.host.vgpus(live.T4))

    def test_restore_does_not_bring_a_mistake_back(self) -> None:
        """A server has what was mended."""
        self.host.boot('web', live.T4, 'GRID T4-4Q')
        self.kernel.reboot(upgrade=True)
        self.assert_done(self.host.apply(live.ALL_THREE))
        outcome = self.host.restore()
        assert outcome is not None
        self.assertIn('(web, which is shut off)', str(outcome.refusals))
        self.assertEqual(
            ['GRID T4-4Q'], list(self.host.vgpus(live.T4).values())
        )


class TestPlansThatNeverFit(UpgradeTest):
    """A step that does not fit the host is planned anew, but not for ever."""

    def test_a_uuid_on_one_function_and_defined_on_another(self) -> None:
        uuid = self.host.create_mdev(
            VFS[1], 'NVIDIA A10-12Q', values.MdevState.TRANSIENT
        )
        self.define_elsewhere()
        before = self.host.describe()
        outcome = self.host.apply(live.ALL_THREE)
        (failure,) = outcome.failures
        self.assertIn(f'mdev {uuid} is on pci_0000_41_00_5', str(failure))
        self.assertIn('"nova-vgpu device disable"', str(failure))
        self.assertEqual([], outcome.done)
        self.assertEqual(before, self.host.describe())

    def test_of_such_a_step_there_is_nothing_to_take_back(self) -> None:
        self.host.create_mdev(
            VFS[1], 'NVIDIA A10-12Q', values.MdevState.TRANSIENT
        )
        self.define_elsewhere()
        before = self.host.describe()
        self.host.apply(live.ALL_THREE)
        self.assertIsNone(self.host.restore())
        self.assertEqual(before, self.host.describe())

    def define_elsewhere(self) -> None:
        (mdev,) = self.libvirt.mdevs.devices.values()
        parent = values.PciAddress.parse(VFS[0]).node_device_name
        xml = mdev.XMLDesc().replace(mdev.parent(), parent)
        self.libvirt.define_device(xml)


class TestSimulation(UpgradeTest):
    def test_definitions_start_by_their_ids(self) -> None:
        """Where their parents are there, and have room for them."""
        uuid = self.host.create_mdev(live.T4, 'GRID T4-4Q')
        self.host.create_mdev(live.T4, 'GRID T4-4Q')  # no room for it
        self.host.create_mdev(VFS[0], 'NVIDIA A10-12Q')
        self.kernel.reboot(upgrade=True)
        self.assertEqual({uuid: 'GRID T4-16Q'}, self.host.vgpus(live.T4))
        self.assertEqual({}, self.host.vgpus(live.A10))
