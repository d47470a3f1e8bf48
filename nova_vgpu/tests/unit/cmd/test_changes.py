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


"""The commands that change the host, as an operator runs them."""

import errno
import io
import pathlib

import fixtures
import testtools

from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests import hosts
from nova_vgpu.tests import live
from nova_vgpu.tests import migs
from nova_vgpu.tests.unit.cmd import test_commands

CONFIGURATION = live.ALL_THREE
VF = '0000:c1:00.4'


class ChangeTestCase(testtools.TestCase):
    gpus: tuple[simulation.GPU, ...] = live.bare_gpus()

    def setUp(self) -> None:
        super().setUp()
        self.host = self.useFixture(live.LiveHost(*self.gpus))
        self.machine = self.host.machine
        self.useFixture(fixtures.FakeLogger())
        self.useFixture(fixtures.EnvironmentVariable('COLUMNS', '80'))
        self.config = self.host.path / 'nova.conf'
        self.config.write_text(CONFIGURATION)

    def run_it(self, *arguments: str) -> test_commands.Answer:
        stdout, stderr = io.StringIO(), io.StringIO()
        program = live.Program(self.host, stdout=stdout, stderr=stderr)
        options = ['--config-file', str(self.config)]
        options += ['--config-dir', str(self.host.path / 'state')]
        (self.host.path / 'state').mkdir(exist_ok=True)
        with fixtures.MonkeyPatch('sys.stderr', stderr):
            try:
                code = program.run([*options, *arguments])
            except SystemExit as ended:
                code = int(ended.code or 0)
        answer = test_commands.Answer(
            code, stdout.getvalue(), stderr.getvalue()
        )
        self.assertNotIn('Traceback', answer.stdout + answer.stderr)
        return answer

    def assert_refused(
        self, answer: test_commands.Answer, *words: str
    ) -> None:
        """An error, with these words, and nothing was changed."""
        self.assertEqual(2, answer.code, answer.stderr)
        for word in words:
            self.assertIn(word, answer.stderr)


class TestApplyOnAnotherVendor(ChangeTestCase):
    gpus = (hosts.gpu('00:02.0', boards.UHD_770),)

    def test_no_vfs_are_enabled_for_a_type_that_cannot_be(self) -> None:
        for name in ('T4-2Q', 'i915-GVTg_V5_4'):
            self.config.write_text(
                f'[devices]\nenabled_vgpu_types = {name}\n'
                f'[vgpu_{name}]\ndevice_addresses = 00:02.0\n'
            )
            for dry_run in (('--dry-run',), ()):
                answer = self.run_it('apply', *dry_run)
                self.assertEqual(2, answer.code, answer.stderr)
                self.assertIn('GPU 0000:00:02.0', answer.stderr)
        self.assertEqual(0, self.host.describe()['0000:00:02.0 VFs'])


class TestApplyOfMigMode(ChangeTestCase):
    gpus = (migs.switchable(),)

    def test_what_follows_is_not_known_before(self) -> None:
        self.config.write_text(migs.declare(migs.SWITCH, **{migs.TWO: 2}))
        follows = 'Further steps follow when MIG mode has been switched.'
        answer = self.run_it('apply', '--dry-run')
        self.assertEqual(0, answer.code, answer.stderr)
        self.assertIn(follows, answer.stderr)
        answer = self.run_it('apply')
        self.assertEqual(0, answer.code, answer.stderr)
        said = f'turn on MIG mode of GPU {migs.ADDRESS}'
        for line in (f'{said} ...', f'done: {said}'):
            self.assertIn(line, answer.stderr.splitlines())
        answer = self.run_it('apply', '--dry-run')
        self.assertNotIn(follows, answer.stderr)


class TestApply(ChangeTestCase):
    def test_dry_run_shows_the_steps_and_does_nothing(self) -> None:
        before = self.host.describe()
        planned = self.run_it('apply', '--dry-run', '-f', 'json')
        self.assertEqual(0, planned.code, planned.stderr)
        self.assertEqual(before, self.host.describe())
        done = self.run_it('apply', '-f', 'json')
        self.assertEqual(
            sorted(row['Step'] for row in planned.json),
            sorted(row['Step'] for row in done.json),
        )

    def test_it_says_what_it_does_while_it_does_it(self) -> None:
        answer = self.run_it('apply')
        self.assertEqual(0, answer.code, answer.stderr)
        lines = answer.stderr.splitlines()
        self.assertIn(f'enable the 4 VFs of GPU {live.A10} ...', lines)
        self.assertIn(f'done: enable the 4 VFs of GPU {live.A10}', lines)
        self.assertIn('4 done, 0 refused, 0 failed.', lines)
        again = self.run_it('apply')
        self.assertIn('Nothing to do.', again.stderr)

    def test_one_gpu_only(self) -> None:
        self.run_it('apply', '--gpu', '41:00.0')
        described = self.host.describe()
        self.assertEqual(4, described[f'{live.A10} VFs'])
        self.assertEqual(0, described[f'{live.L40S} VFs'])

    def test_restore(self) -> None:
        before = self.host.describe()
        self.run_it('apply')
        answer = self.run_it('restore')
        self.assertEqual(0, answer.code, answer.stderr)
        self.assertEqual(before, self.host.describe())
        self.assertIn('Nothing to do.', self.run_it('restore').stderr)

    def test_what_a_server_has_is_named_and_not_touched(self) -> None:
        self.run_it('apply')
        uuid = self.host.create_mdev('0000:41:00.4', 'NVIDIA A10-12Q')
        server = self.machine.libvirt.define_guest(
            'db', mdevs={uuid: 'NVIDIA A10-12Q'}
        )
        self.machine.libvirt.start_guest('db')
        self.config.write_text(CONFIGURATION.replace('A10-12Q', 'A10-8Q'))
        answer = self.run_it('apply')
        self.assertEqual(3, answer.code, answer.stderr)
        for word in (uuid, server, 'db', 'A10-12Q', live.A10):
            self.assertIn(word, answer.stderr)
        self.assertIn(uuid, self.host.vgpus(live.A10))

    def test_a_broken_card_does_not_hold_up_the_others(self) -> None:
        self.machine.tools.behaviour.missing = {'sriov-manage'}
        self.machine.kernel.fail(f'{live.A10}/sriov_numvfs', errno.EIO)
        answer = self.run_it('apply')
        self.assertEqual(2, answer.code)
        self.assertIn(live.A10, answer.stderr)
        self.assertIn('input/output error', answer.stderr)
        self.assertEqual(5, self.host.describe()[f'{live.L40S} VFs'])

    def test_late_functions_and_types_are_waited_for(self) -> None:
        self.machine.kernel.delays.vfs = 20.0
        self.machine.kernel.delays.types = 30.0
        self.machine.libvirt.lag = 9.0
        answer = self.run_it('apply')
        self.assertEqual(0, answer.code, answer.stderr)
        self.assertGreater(self.machine.kernel.clock.now(), 58.0)
        self.assertLess(self.machine.kernel.clock.now(), 70.0)

    def assert_not_served(self, answer: test_commands.Answer) -> None:
        """It failed for the A10, and the cure is not to do the same."""
        self.assertEqual(2, answer.code, answer.stderr)
        self.assertIn(f'failed: GPU {live.A10}', answer.stderr)
        self.assertNotIn(
            f'done: enable the 4 VFs of GPU {live.A10}', answer.stderr
        )
        self.assertNotIn('nova-vgpu apply', answer.stderr)
        self.assertNotIn('nova-vgpu sriov enable', answer.stderr)

    def test_functions_that_are_not_there_are_not_done(self) -> None:
        self.machine.tools.behaviour.idle = {'sriov-manage'}
        answer = self.run_it('apply')
        self.assert_not_served(answer)
        self.assertIn('the kernel does not show the VFs', answer.stderr)

    def test_functions_that_never_appear_are_not_done(self) -> None:
        self.machine.kernel.delays.vfs = 1000.0
        answer = self.run_it('apply', '--timeout', '60')
        self.assert_not_served(answer)
        self.assertIn('Timed out after 60 s', answer.stderr)

    def test_the_cure_of_what_failed_is_not_to_do_it(self) -> None:
        self.machine.tools.behaviour.hanging = {'sriov-manage'}
        self.assert_not_served(self.run_it('apply', '--timeout', '5'))

    def test_functions_that_stay_are_not_done(self) -> None:
        self.run_it('apply')
        self.machine.tools.behaviour.idle = {'sriov-manage'}
        answer = self.run_it('sriov', 'disable', live.A10)
        self.assert_refused(
            answer, f'could not disable the 4 VFs of GPU {live.A10}'
        )
        self.assertNotIn('done: ', answer.stderr)

    def test_a_type_that_is_not_there_is_not_done(self) -> None:
        self.run_it('apply')
        with fixtures.MonkeyPatch(
            'nova_vgpu.host.type_backends.nvidia.NvidiaTypes.set_type',
            lambda *_: None,
        ):
            answer = self.run_it('device', 'enable', VF, '--type', 'L40S-24Q')
        self.assert_refused(answer, VF, 'does not show it')
        self.assertNotIn('done: ', answer.stderr)

    def test_types_that_never_come(self) -> None:
        self.machine.kernel.delays.types = 1000.0
        answer = self.run_it('apply', '--timeout', '60')
        self.assert_refused(
            answer, live.A10, 'Timed out after 60 s', 'nvidia-vgpu-mgr'
        )


class TestBadInput(ChangeTestCase):
    def test_an_unknown_gpu(self) -> None:
        before = self.host.describe()
        for arguments in (
            ('apply', '--gpu', '0000:99:00.0'),
            ('sriov', 'enable', '0000:99:00.0'),
            ('device', 'enable', '0000:99:00.0', '--type', 'A10-8Q'),
            ('device', 'disable', '0000:99:00.0'),
        ):
            self.assert_refused(self.run_it(*arguments), '0000:99:00.0')
        self.assertEqual(before, self.host.describe())

    def test_what_is_no_address(self) -> None:
        for arguments in (
            ('apply', '--gpu', '../../etc'),
            ('sriov', 'disable', 'nonsense'),
            ('device', 'enable', '/etc/passwd', '--type', 'A10-8Q'),
            ('device', 'disable', '..'),
        ):
            self.assert_refused(self.run_it(*arguments), arguments[2])

    def test_an_unknown_type(self) -> None:
        self.run_it('apply')
        self.config.write_text('[DEFAULT]\n')
        self.assert_refused(
            self.run_it('device', 'enable', VF, '--type', 'L40S-7Q'),
            'L40S-7Q is not available',
            'L40S-24Q',
        )
        self.assert_refused(
            self.run_it('device', 'enable', VF, '--type', 'L4OS-24Q'),
            'Did you mean L40S-24Q?',
        )

    def test_a_type_that_is_not_available_now(self) -> None:
        self.run_it('apply')
        self.config.write_text('[DEFAULT]\n')
        first = self.run_it('device', 'enable', VF, '--type', 'L40S-24Q')
        self.assertEqual(0, first.code, first.stderr)
        before = self.host.describe()
        self.assert_refused(
            self.run_it(
                'device', 'enable', '0000:c1:00.5', '--type', 'L40S-12Q'
            ),
            'L40S-12Q is not available on 0000:c1:00.5 now',
            'It takes: L40S-24Q',
        )
        self.assertEqual(before, self.host.describe())

    def test_one_given_to_a_guest_by_hand_is_there_after_a_reboot(
        self,
    ) -> None:
        self.run_it('apply')
        self.run_it('device', 'enable', VF, '--type', 'L40S-24Q')
        # Nothing in the guest tells that the function is a vGPU.
        libvirt = self.machine.libvirt
        libvirt.define_guest('by-hand', functions={VF: None})
        libvirt.guests['by-hand'].notes = False
        self.machine.kernel.reboot()
        answer = self.run_it('apply')
        self.assertEqual(0, answer.code, answer.stderr)
        (name,) = self.host.vgpus(live.L40S).values()
        self.assertEqual('NVIDIA L40S-24Q', name)

    def test_a_type_that_nova_conf_does_not_declare(self) -> None:
        self.run_it('apply')
        self.assert_refused(
            self.run_it('device', 'enable', VF, '--type', 'L40S-12Q'),
            'serves NVIDIA L40S-24Q by nova.conf',
            '[vgpu_L40S-24Q]device_addresses',
        )

    def test_more_than_a_type_has_of_a_divided_gpu(self) -> None:
        self.config.write_text(
            '[devices]\nenabled_vgpu_types = L40S-12Q, L40S-24Q\n'
            'unlisted_gpus = ignore\n'
            f'[vgpu_L40S-12Q]\ndevice_addresses = {live.L40S}=1\n'
            f'[vgpu_L40S-24Q]\ndevice_addresses = {live.L40S}=1\n'
        )
        self.run_it('apply')
        first = self.run_it('device', 'enable', VF, '--type', 'L40S-12Q')
        self.assertEqual(0, first.code, first.stderr)
        before = self.host.describe()
        self.assert_refused(
            self.run_it('device', 'enable', live.L40S, '--type', 'L40S-12Q'),
            'has 1 vGPUs of L40S-12Q',
            '[vgpu_L40S-12Q]device_addresses',
        )
        self.assertEqual(before, self.host.describe())

    def test_sysfs_is_read_only(self) -> None:
        self.machine.tools.behaviour.missing = {'sriov-manage'}
        self.machine.kernel.read_only = True
        before = self.host.describe()
        self.assert_refused(self.run_it('apply'), 'read-only', 'container')
        self.assertEqual(before, self.host.describe())

    def test_the_vendors_program_is_missing_and_needed(self) -> None:
        self.machine.tools.behaviour.missing = {'sriov-manage'}
        for gpu in self.machine.kernel.gpus:
            self.machine.kernel.update(gpu.address, raw_numvfs=False)
        self.assert_refused(
            self.run_it('sriov', 'enable', live.A10),
            '/usr/lib/nvidia/sriov-manage',
            '--sriov-manage',
        )

    def test_the_vendors_program_hangs(self) -> None:
        self.machine.tools.behaviour.hanging = {'sriov-manage'}
        self.assert_refused(
            self.run_it('apply', '--timeout', '5'),
            'timed out after 5 s and was killed',
        )

    def test_the_gpu_is_held_for_a_while(self) -> None:
        self.machine.tools.behaviour.locked = 5
        answer = self.run_it('sriov', 'enable', live.A10)
        self.assertEqual(0, answer.code, answer.stderr)

    def test_the_gpu_is_held_for_ever(self) -> None:
        self.machine.tools.behaviour.locked = 10**9
        self.assert_refused(
            self.run_it('sriov', 'enable', live.A10), 'has the GPU open'
        )

    def test_the_program_fails_and_leaves_the_gpu_on_the_stub(self) -> None:
        self.machine.tools.behaviour.abandons = 1
        self.assert_refused(
            self.run_it('sriov', 'enable', live.A10), 'Failed to enable VFs'
        )
        driver = f'{live.A10} driver'
        self.assertEqual('pci-pf-stub', self.host.describe()[driver])
        answer = self.run_it('sriov', 'enable', live.A10)
        self.assertEqual(0, answer.code, answer.stderr)
        self.assertIn('to its own driver', answer.stderr)
        self.assertEqual('nvidia', self.host.describe()[driver])

    def test_no_room_for_the_journal(self) -> None:
        before = self.host.describe()

        def full(_descriptor: int, _data: bytes) -> int:
            raise OSError(errno.ENOSPC, 'No space left on device')

        with fixtures.MonkeyPatch('os.write', full):
            answer = self.run_it('apply')
        self.assert_refused(answer, 'journal', 'no space left on device')
        self.assertEqual(before, self.host.describe())
        self.assertEqual(0, self.run_it('apply').code)

    def test_a_corrupt_journal(self) -> None:
        journal = self.host.path / 'state' / 'journal'
        journal.parent.mkdir()
        journal.write_text('{"event": "apply"}\nnonsense\n{"event": "end"}\n')
        self.assert_refused(
            self.run_it('restore'), str(journal), 'broken in line 2'
        )
        self.assertIn('nonsense', journal.read_text())
        answer = self.run_it('apply')
        self.assertEqual(0, answer.code, answer.stderr)
        self.assertIn(f'It is {journal}.corrupt now', answer.stderr)
        aside = pathlib.Path(f'{journal}.corrupt')
        self.assertIn('nonsense', aside.read_text())
        self.assertEqual(0, self.run_it('restore').code)

    def test_two_conflicting_declarations(self) -> None:
        self.config.write_text(
            CONFIGURATION.replace(live.A10, f'{live.A10}, {live.L40S}')
        )
        before = self.host.describe()
        self.assert_refused(
            self.run_it('apply'),
            live.L40S,
            '[vgpu_A10-12Q]device_addresses',
            '[vgpu_L40S-24Q]device_addresses',
        )
        self.assertEqual(before, self.host.describe())

    def test_a_timeout_that_is_none(self) -> None:
        for text in ('0', '-1', 'nan', 'soon'):
            self.assert_refused(self.run_it('apply', f'--timeout={text}'))


class TestSriov(ChangeTestCase):
    def test_enable_and_disable(self) -> None:
        before = self.host.describe()
        answer = self.run_it('sriov', 'enable', '41:00.0', live.L40S)
        self.assertEqual(0, answer.code, answer.stderr)
        described = self.host.describe()
        self.assertEqual(4, described[f'{live.A10} VFs'])
        self.assertEqual(5, described[f'{live.L40S} VFs'])
        answer = self.run_it('sriov', 'disable', live.A10, live.L40S)
        self.assertEqual(0, answer.code, answer.stderr)
        self.assertEqual(before, self.host.describe())

    def test_by_the_kernel_where_there_is_no_program(self) -> None:
        self.machine.tools.behaviour.missing = {'sriov-manage'}
        answer = self.run_it('sriov', 'enable', live.A10)
        self.assertEqual(0, answer.code, answer.stderr)
        self.assertEqual(4, self.host.describe()[f'{live.A10} VFs'])

    def test_a_gpu_without_functions(self) -> None:
        self.assert_refused(
            self.run_it('sriov', 'enable', live.T4), 'no virtual functions'
        )

    def test_disable_is_refused_while_a_vgpu_is_there(self) -> None:
        self.run_it('apply')
        uuid = self.host.create_mdev('0000:41:00.4', 'NVIDIA A10-12Q')
        answer = self.run_it('sriov', 'disable', live.A10)
        self.assertEqual(3, answer.code, answer.stderr)
        self.assertIn(uuid, answer.stderr)
        self.assertEqual(4, self.host.describe()[f'{live.A10} VFs'])

    def test_disable_is_refused_while_one_is_configured(self) -> None:
        self.run_it('apply')
        enabled = self.run_it('device', 'enable', VF, '--type', 'L40S-24Q')
        self.assertEqual(0, enabled.code, enabled.stderr)
        # What it was set to is gone, as after a reset; it is to come back.
        self.machine.kernel.files.write(
            '0', 'bus', 'pci', 'devices', VF, 'nvidia', 'current_vgpu_type'
        )
        answer = self.run_it('sriov', 'disable', live.L40S)
        self.assertEqual(3, answer.code, answer.stderr)
        self.assertIn(VF, answer.stderr)

    def test_disable_is_refused_while_a_server_has_one(self) -> None:
        self.run_it('apply')
        self.host.set_type(VF, 'NVIDIA L40S-24Q')
        server = self.machine.libvirt.define_guest(
            'ai', functions={VF: 'NVIDIA L40S-24Q'}
        )
        answer = self.run_it('sriov', 'disable', live.L40S)
        self.assertEqual(3, answer.code, answer.stderr)
        self.assertIn(server, answer.stderr)
        self.assertIn('ai, which is shut off', answer.stderr)


class TestDevice(ChangeTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.run_it('apply')

    def test_a_function_by_hand(self) -> None:
        self.config.write_text('[DEFAULT]\n')
        answer = self.run_it(
            'device', 'enable', 'C1:00.4', '--type', 'L40S-24Q', '-f', 'json'
        )
        self.assertEqual(0, answer.code, answer.stderr)
        (row,) = answer.json
        self.assertEqual(
            ('configured', 'L40S-24Q', VF),
            (row['State'], row['Type'], row['Device']),
        )
        self.assertEqual(
            ['L40S-12Q', 'L40S-24Q', 'L40S-48Q'], row['Available Before']
        )
        self.assertEqual(['L40S-24Q'], row['Available Now'])
        self.assertIn(
            'no longer has room for: L40S-12Q, L40S-48Q.', answer.stderr
        )
        answer = self.run_it('device', 'disable', VF, '-f', 'json')
        self.assertEqual(0, answer.code, answer.stderr)
        self.assertEqual('free', answer.json[0]['State'])
        self.assertEqual({}, self.host.vgpus(live.L40S))

    def test_an_mdev_by_hand(self) -> None:
        for device, gpu, name in (
            (live.T4, live.T4, 'T4-4Q'),
            (live.A10, live.A10, 'A10-12Q'),
            ('0000:41:00.6', live.A10, 'A10-12Q'),
        ):
            answer = self.run_it(
                'device', 'enable', device, '--type', name, '-f', 'json'
            )
            self.assertEqual(0, answer.code, answer.stderr)
            (row,) = answer.json
            self.assertIn(row['UUID'], self.host.vgpus(gpu))
            self.assertEqual('configured', row['State'])
            answer = self.run_it('device', 'disable', row['UUID'])
            self.assertEqual(0, answer.code, answer.stderr)
            self.assertNotIn(row['UUID'], self.host.vgpus(gpu))

    def test_they_are_there_after_a_reboot(self) -> None:
        self.machine.libvirt.autostarts = False
        self.run_it('device', 'enable', VF, '--type', 'L40S-24Q')
        self.run_it('device', 'enable', live.A10, '--type', 'A10-12Q')
        before = self.host.describe()
        self.machine.kernel.reboot(upgrade=True)
        self.assertEqual(0, self.run_it('apply').code)
        self.assertEqual(before, self.host.describe())
        self.run_it('device', 'disable', VF)
        self.machine.kernel.reboot()
        self.run_it('apply')
        self.assertEqual({}, self.host.vgpus(live.L40S))

    def test_disable_is_refused_if_a_server_has_it(self) -> None:
        self.host.set_type(VF, 'NVIDIA L40S-24Q')
        uuid = self.host.create_mdev(live.T4, 'GRID T4-4Q')
        libvirt = self.machine.libvirt
        for name, guest in (
            (VF, libvirt.define_guest('ai', functions={VF: None})),
            (uuid, libvirt.define_guest('web', mdevs={uuid: None})),
        ):
            answer = self.run_it('device', 'disable', name)
            self.assertEqual(3, answer.code, answer.stderr)
            self.assertIn(guest, answer.stderr)
        self.assertIn(uuid, self.host.vgpus(live.T4))
        self.assertEqual(1, len(self.host.vgpus(live.L40S)))

    def test_one_that_is_disabled_already(self) -> None:
        answer = self.run_it('device', 'disable', VF)
        self.assertEqual(0, answer.code, answer.stderr)
        self.assertIn('Nothing to do.', answer.stderr)

    def test_one_that_the_kernel_refuses_is_not_kept(self) -> None:
        self.machine.kernel.fail('current_vgpu_type', errno.EIO)
        self.assert_refused(
            self.run_it('device', 'enable', VF, '--type', 'L40S-24Q'),
            'input/output error',
        )
        self.run_it('apply')
        self.assertEqual({}, self.host.vgpus(live.L40S))


class TestAvailableTypes(ChangeTestCase):
    """What is left is told as it is now, after every change."""

    def free(self, gpu: str) -> dict[str, int]:
        answer = self.run_it('type', 'list', '--gpu', gpu, '-f', 'json')
        self.assertEqual(0, answer.code, answer.stderr)
        return {row['Name'].split()[-1]: row['Free'] for row in answer.json}

    def enable(self, device: str, name: str) -> None:
        answer = self.run_it('device', 'enable', device, '--type', name)
        self.assertEqual(0, answer.code, answer.stderr)

    def test_by_the_first_and_by_the_last_one(self) -> None:
        self.run_it('apply')
        self.config.write_text('[DEFAULT]\n')
        for gpu, name, before, after, full in (
            (
                live.T4,
                'T4-8Q',
                {'T4-4Q': 4, 'T4-8Q': 2, 'T4-16Q': 1},
                {'T4-4Q': 0, 'T4-8Q': 1, 'T4-16Q': 0},
                {'T4-4Q': 0, 'T4-8Q': 0, 'T4-16Q': 0},
            ),
            (
                live.A10,
                'A10-12Q',
                {'A10-8Q': 3, 'A10-12Q': 2, 'A10-24Q': 1},
                {'A10-8Q': 0, 'A10-12Q': 1, 'A10-24Q': 0},
                {'A10-8Q': 0, 'A10-12Q': 0, 'A10-24Q': 0},
            ),
            (
                live.L40S,
                'L40S-24Q',
                {'L40S-12Q': 4, 'L40S-24Q': 2, 'L40S-48Q': 1},
                {'L40S-24Q': 1},
                {'L40S-24Q': 0},
            ),
        ):
            self.assertEqual(before, self.free(gpu))
            self.enable(gpu, name)
            self.assertEqual(after, self.free(gpu))
            self.enable(gpu, name)
            self.assertEqual(full, self.free(gpu))

    def test_what_others_change(self) -> None:
        self.run_it('apply')
        self.assertEqual(2, self.free(live.L40S)['L40S-24Q'])
        self.host.set_type(VF, 'NVIDIA L40S-24Q')
        self.assertEqual(1, self.free(live.L40S)['L40S-24Q'])
        self.machine.kernel.reboot()
        self.assertEqual({}, self.free(live.L40S))
