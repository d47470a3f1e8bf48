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


"""The life of a host on a simulated machine, on all three frameworks."""

import dataclasses
import threading

import fixtures
import libvirt
import testtools

from nova_vgpu import values
from nova_vgpu.host import locks
from nova_vgpu.host.type_backends import nvidia
from nova_vgpu.lifecycle import apply
from nova_vgpu.lifecycle import drift
from nova_vgpu.lifecycle import step_runner
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import libvirt_host
from nova_vgpu.tests import hosts
from nova_vgpu.tests import live

#: A board with a type that is backed by MIG.
A100 = boards.Board(
    vendor=0x10DE,
    device=0x20F1,
    subsystem=(0x10DE, 0x145F),
    driver='nvidia',
    types=(
        boards.BoardType(
            'nvidia-476',
            'NVIDIA A100-3-20C',
            20480,
            2,
            'num_heads=1, framebuffer=20480M, max_instance=2',
            476,
        ),
    ),
    total_vfs=2,
)
MIG_BACKED = """
[devices]
enabled_vgpu_types = A100-3-20C
vgpu_creation = ahead
[vgpu_A100-3-20C]
device_addresses = 0000:41:00.0
max_instances = 1
"""

AHEAD = live.ALL_THREE.replace('[devices]', '[devices]\nvgpu_creation = ahead')


OTHER_TYPES = (
    live.ALL_THREE.replace('T4-4Q', 'T4-8Q')
    .replace('A10-12Q', 'A10-8Q')
    .replace('L40S-24Q', 'L40S-12Q')
)


class TestBareHost(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.host = self.useFixture(live.LiveHost(*live.bare_gpus()))

    def test_it_comes_to_the_declared_state(self) -> None:
        before = self.host.describe()
        outcome = self.host.apply(live.ALL_THREE)
        self.assertEqual([], outcome.failures)
        self.assertEqual((), outcome.problems)
        after = self.host.describe()
        self.assertEqual(4, after[f'{live.A10} VFs'])
        self.assertEqual(5, after[f'{live.L40S} VFs'])
        self.assertEqual([], self.host.apply(live.ALL_THREE).done)
        self.host.restore()
        self.assertEqual(before, self.host.describe())
        self.assertIsNone(self.host.restore())

    def test_vgpus_are_made_ahead_where_that_is_declared(self) -> None:
        before = self.host.describe()
        outcome = self.host.apply(AHEAD)
        self.assertEqual([], outcome.failures)
        self.assertEqual(
            ['GRID T4-4Q'] * 4, list(self.host.vgpus(live.T4).values())
        )
        self.assertEqual(
            ['NVIDIA A10-12Q'] * 2, list(self.host.vgpus(live.A10).values())
        )
        self.assertEqual(
            ['NVIDIA L40S-24Q'] * 2, list(self.host.vgpus(live.L40S).values())
        )
        self.assertEqual([], self.host.apply(AHEAD).done)
        self.host.restore()
        self.assertEqual(before, self.host.describe())

    def test_they_come_back_after_a_reboot(self) -> None:
        self.host.machine.libvirt.autostarts = False  # as on Debian 13
        self.host.apply(AHEAD)
        before = self.host.describe()
        self.host.machine.kernel.reboot()
        self.host.apply(AHEAD)
        self.assertEqual(before, self.host.describe())

    def test_they_come_back_after_a_driver_upgrade(self) -> None:
        self.host.machine.libvirt.autostarts = False
        self.host.apply(AHEAD)
        before = self.host.describe()
        self.host.machine.kernel.reboot(upgrade=True)
        self.host.apply(AHEAD)
        self.assertEqual(before, self.host.describe())


class TestServers(testtools.TestCase):
    """What servers have stays, or comes back."""

    def setUp(self) -> None:
        super().setUp()
        self.host = self.useFixture(live.LiveHost(*live.bare_gpus()))
        self.libvirt = self.host.machine.libvirt
        self.libvirt.autostarts = False
        self.host.apply(live.ALL_THREE)

    def boot_all(self) -> None:
        """A server on every framework, as nova-compute would do it."""
        for name, parent, type_name in (
            ('web', live.T4, 'GRID T4-4Q'),
            ('db', '0000:41:00.5', 'NVIDIA A10-12Q'),
        ):
            uuid = self.host.create_mdev(parent, type_name)
            self.libvirt.define_guest(name, mdevs={uuid: type_name})
            self.libvirt.start_guest(name)
        self.host.set_type('0000:c1:00.5', 'NVIDIA L40S-24Q')
        self.libvirt.define_guest(
            'ai', functions={'0000:c1:00.5': 'NVIDIA L40S-24Q'}
        )
        self.libvirt.start_guest('ai')

    def start_all(self) -> None:
        for name in ('web', 'db', 'ai'):
            self.libvirt.start_guest(name)

    def test_nothing_is_done_to_them(self) -> None:
        self.boot_all()
        before = self.host.describe()
        self.assertEqual([], self.host.apply(live.ALL_THREE).done)
        self.assertEqual(before, self.host.describe())

    def test_they_start_after_a_reboot(self) -> None:
        self.boot_all()
        before = self.host.describe()
        self.host.machine.kernel.reboot()
        outcome = self.host.apply(live.ALL_THREE)
        self.assertEqual([], outcome.failures)
        self.assertEqual(before, self.host.describe())
        self.start_all()

    def test_they_start_after_a_driver_upgrade(self) -> None:
        self.boot_all()
        before = self.host.describe()
        self.host.machine.kernel.reboot(upgrade=True)
        outcome = self.host.apply(live.ALL_THREE)
        self.assertEqual([], outcome.failures)
        self.assertEqual(before, self.host.describe())
        self.start_all()

    def test_a_function_gets_its_type_back_if_it_was_set_to_another(
        self,
    ) -> None:
        """While its server does not run, as nova-compute does it."""
        self.boot_all()
        before = self.host.describe()
        self.libvirt.stop_guest('ai')
        self.host.clear_type('0000:c1:00.5')
        self.host.set_type('0000:c1:00.5', 'NVIDIA L40S-12Q')
        outcome = self.host.apply(live.ALL_THREE)
        self.assertEqual(
            [
                'clear VF 0000:c1:00.5, which is NVIDIA L40S-12Q',
                'set VF 0000:c1:00.5 to NVIDIA L40S-24Q',
            ],
            [str(step) for step in outcome.done],
        )
        self.assertEqual(before, self.host.describe())
        self.libvirt.start_guest('ai')

    def test_another_type_is_refused_while_they_are_there(self) -> None:
        self.boot_all()
        before = self.host.describe()
        outcome = self.host.apply(OTHER_TYPES)
        self.assertEqual(before, self.host.describe())
        said = '\n'.join(map(str, outcome.refusals))
        for name in ('web', 'db', 'ai'):
            self.assertIn(f'({name}, which runs)', said)

    def test_another_type_beside_them_after_a_reboot(self) -> None:
        """What servers have and what is served then differ in size."""
        self.boot_all()
        other = live.ALL_THREE.replace('L40S-24Q', 'L40S-12Q')
        self.host.machine.kernel.reboot()
        outcome = self.host.apply(other)
        self.assertEqual([], outcome.failures)
        self.assertIn('ai', str(outcome.refusals))
        self.assertEqual(
            {'pci_0000_c1_00_5': 'NVIDIA L40S-24Q'},
            self.host.vgpus(live.L40S),
        )
        self.assertTrue(self.host.describe()[f'{live.L40S} mixed'])
        self.host.set_type('0000:c1:00.4', 'NVIDIA L40S-12Q')
        self.start_all()

    def test_the_mode_of_a_gpu_that_mixes_sizes_already(self) -> None:
        self.boot_all()
        other = live.ALL_THREE.replace('L40S-24Q', 'L40S-12Q')
        self.host.machine.kernel.reboot()
        gpu = values.PciAddress.parse(live.L40S)
        for vfs, mixed, expected in (
            # Enabling them turns it off.
            (0, True, 1),
            (0, False, 1),
            (0, None, 1),
            (5, True, 0),
            (5, False, 1),
            (5, None, 1),
        ):
            self.host.machine.kernel.update(gpu, vfs=vfs, types_ready=True)
            self.host.machine.kernel.settle()
            modes = ((gpu, values.GPUModes(heterogeneous=mixed)),)
            access = self.host.make_host_access(
                read_modes=lambda _host, modes=modes: values.ModesRead(modes)
            )
            draft = apply.plan(access, self.host.load(other), live.Recorder())
            found = [
                step
                for step in draft.steps
                if isinstance(step, values.SetHeterogeneous)
            ]
            self.assertEqual(expected, len(found), f'{vfs} VFs, {mixed}')

    def test_idle_vgpus_of_another_type_go(self) -> None:
        self.boot_all()
        for name in ('web', 'db', 'ai'):
            self.libvirt.stop_guest(name)
            self.libvirt.undefine_guest(name)
        before = self.host.describe()
        outcome = self.host.apply(OTHER_TYPES)
        self.assertEqual([], outcome.failures)
        for gpu in (live.T4, live.A10, live.L40S):
            self.assertEqual({}, self.host.vgpus(gpu))
        self.host.restore()
        self.assertEqual(before, self.host.describe())

    def test_restore_leaves_what_they_have(self) -> None:
        self.boot_all()
        before = self.host.describe()
        outcome = self.host.restore()
        assert outcome is not None
        self.assertEqual(before, self.host.describe())
        said = '\n'.join(map(str, outcome.refusals))
        self.assertIn('db', said)
        self.assertIn('ai', said)


class TestMig(testtools.TestCase):
    """Types that are backed by MIG, on a GPU whose mode is known or not."""

    def apply(
        self,
        mig: values.GPUMode | None,
        instances: bool,
        told: tuple[values.MigType, ...] | None = None,
    ) -> step_runner.Outcome:
        card = dataclasses.replace(
            hosts.gpu('0000:41:00.0', A100), instances=instances
        )
        self.host = self.useFixture(live.LiveHost(card))
        modes = ((card.address, values.GPUModes(mig=mig, mig_types=told)),)
        self.access = self.host.make_host_access(
            read_modes=lambda _host: values.ModesRead(modes)
        )
        self.configuration = values.Configuration(live.declare(MIG_BACKED))
        return apply.apply(self.access, self.configuration, live.Recorder())

    def test_the_mode_is_off(self) -> None:
        outcome = self.apply(values.GPUMode(False, False), instances=False)
        (problem,) = outcome.problems
        self.assertEqual('mig-off', problem.code)
        told = (
            values.GuestDriver(
                values.PciAddress.parse('0000:41:00.0'), 'server', 'vgpu'
            ),
        )
        access = dataclasses.replace(
            self.access, read_guest_drivers=lambda _host: told
        )
        seen = drift.report(access, self.configuration, self.fail)
        self.assertEqual(told, seen.guest_drivers)
        self.assertIn(problem, seen.plan.problems)
        self.assertEqual((), seen.steps)
        self.assertIn('-mig 1', problem.cure)
        self.assertEqual({}, self.host.vgpus('0000:41:00.0'))

    def test_there_are_no_instances(self) -> None:
        outcome = self.apply(None, instances=False)
        (failure,) = outcome.failures
        self.assertIn('Input/output error', str(failure))
        self.assertIn('nvidia-smi mig -lgi', str(failure))

    def test_nvml_tells_that_there_are_no_instances(self) -> None:
        """Nothing is tried, and nothing fails."""
        told = values.MigType(
            *('nvidia-476', 'NVIDIA A100-3-20C', 9, '3g.20gb', 0, 1)
        )
        outcome = self.apply(values.GPUMode(True, True), False, (told,))
        self.assertEqual([], outcome.failures)
        (problem,) = outcome.problems
        self.assertEqual('no-gpu-instance', problem.code)
        self.assertEqual({}, self.host.vgpus('0000:41:00.0'))

    def test_a_server_whose_instance_is_gone(self) -> None:
        """As after a reboot: its mdev is not created in vain."""
        self.apply(None, instances=True)
        (uuid,) = self.host.vgpus('0000:41:00.0')
        machine = self.host.machine
        machine.libvirt.define_guest('ai', mdevs={uuid: 'NVIDIA A100-3-20C'})
        machine.kernel.reboot()
        gpu = values.PciAddress.parse('0000:41:00.0')
        machine.kernel.update(gpu, instances=False)
        none = values.MigType(
            *('nvidia-476', 'NVIDIA A100-3-20C', 9, '3g.20gb', 0, 1)
        )
        for types, failures in ((None, 1), ((none,), 0)):
            outcome = self.apply_again(values.GPUModes(mig_types=types))
            self.assertEqual(failures, len(outcome.failures), str(types))

    def apply_again(self, modes: values.GPUModes) -> step_runner.Outcome:
        """Now that NVML tells this."""
        read = values.ModesRead(
            ((values.PciAddress.parse('0000:41:00.0'), modes),)
        )
        access = dataclasses.replace(
            self.access, read_modes=lambda _host: read
        )
        return apply.apply(access, self.configuration, live.Recorder())

    def test_all_is_there(self) -> None:
        outcome = self.apply(values.GPUMode(True, True), instances=True)
        self.assertEqual([], outcome.failures)
        self.assertEqual((), outcome.problems)
        self.assertEqual(1, len(self.host.vgpus('0000:41:00.0')))


class TestPlacesOfVirtualFunctions(testtools.TestCase):
    def test_a_host_that_does_not_tell_them_before_they_are_there(
        self,
    ) -> None:
        """Some hardware shows no offset while no VFs are enabled."""
        board = dataclasses.replace(live.SMALL_L40S, vf_offset=2)
        card = hosts.gpu(live.L40S, board, vendor_vfio=True)
        host = self.useFixture(live.LiveHost(card))
        declared = (
            '[devices]\nenabled_vgpu_types = L40S-24Q\n'
            f'[vgpu_L40S-24Q]\ndevice_addresses = {live.L40S}\n'
        )
        host.machine.libvirt.define_guest(
            'ai', functions={'0000:c1:00.3': 'NVIDIA L40S-24Q'}
        )

        class Forgetful(type(host.machine.kernel.files)):  # type: ignore[misc] # it is a value here
            def read(self, *parts: str) -> str:
                found: str = super().read(*parts)
                if parts[-1] != 'sriov_offset':
                    return found
                number = super().read(*parts[:-1], 'sriov_numvfs')
                return '0' if number == '0' else found

        access = host.make_host_access(tree=Forgetful(host.machine.kernel))
        configuration = values.Configuration(live.declare(declared))
        outcome = apply.apply(access, configuration, live.Recorder())
        self.assertEqual([], outcome.failures)
        host.machine.libvirt.start_guest('ai')


class TestPassthrough(testtools.TestCase):
    """A host whose functions Nova gives out as PCI devices."""

    def setUp(self) -> None:
        super().setUp()
        self.host = self.useFixture(live.LiveHost(*live.bare_gpus()))
        libvirt = self.host.machine.libvirt
        self.host.apply(AHEAD)
        libvirt.define_guest('ai', functions={'0000:c1:00.5': None})
        libvirt.guests['ai'].notes = False
        libvirt.start_guest('ai')

    def test_a_server_starts_after_a_reboot(self) -> None:
        self.host.machine.kernel.reboot()
        self.assertEqual([], self.host.apply(AHEAD).failures)
        self.host.machine.libvirt.start_guest('ai')
        self.assertEqual(2, len(self.host.vgpus(live.L40S)))

    def test_a_function_that_is_none_of_ours_is_left_alone(self) -> None:
        """As it is given to a server, it may be for something else."""
        self.host.machine.kernel.reboot()
        self.host.apply(live.ALL_THREE)
        self.assertEqual({}, self.host.vgpus(live.L40S))


class TestMisfortune(testtools.TestCase):
    """What a reviewer came up with; each cost somebody a vGPU once."""

    def setUp(self) -> None:
        super().setUp()
        self.host = self.useFixture(live.LiveHost(*live.bare_gpus()))
        self.machine = self.host.machine
        self.libvirt = self.machine.libvirt
        self.libvirt.autostarts = False
        self.host.apply(live.ALL_THREE)

    def test_a_gpu_that_cannot_mix_gives_servers_theirs(self) -> None:
        self.host.boot('web', live.T4, 'GRID T4-4Q')
        self.machine.tools.behaviour.missing = {'nvidia-smi'}
        self.machine.kernel.reboot()
        outcome = self.host.apply(live.ALL_THREE.replace('T4-4Q', 'T4-8Q'))
        (failure,) = outcome.failures
        self.assertIn('different sizes', str(failure))
        self.libvirt.start_guest('web')

    def test_sizes_mix_although_libvirt_starts_a_vgpu_first(self) -> None:
        """It does so when the VFs appear, and the mode is set after that."""
        self.libvirt.autostarts = True
        self.host.boot('web', '0000:41:00.5', 'NVIDIA A10-12Q')
        self.machine.kernel.reboot()
        outcome = self.host.apply(live.ALL_THREE.replace('A10-12Q', 'A10-6Q'))
        self.assertEqual([], outcome.failures)
        self.assertTrue(self.host.describe()[f'{live.A10} mixed'])
        self.libvirt.start_guest('web')

    def test_the_mode_is_not_changed_while_a_vgpu_stays(self) -> None:
        self.host.boot('web', live.T4, 'GRID T4-4Q')
        lost = self.host.create_mdev(live.T4, 'GRID T4-4Q')
        self.libvirt.define_guest('db', mdevs={lost: 'GRID T4-4Q'})
        idle = self.host.create_mdev(live.T4, 'GRID T4-4Q')
        for uuid in (lost, idle):
            self.host.stop_mdev(uuid)
        outcome = self.host.apply(live.ALL_THREE.replace('T4-4Q', 'T4-8Q'))
        self.assertEqual([], outcome.failures)
        self.libvirt.start_guest('db')

    def test_killed_between_the_old_definition_and_the_new(self) -> None:
        """After a driver upgrade; nothing but the memory has it then."""
        self.host.boot('db', '0000:41:00.5', 'NVIDIA A10-12Q')
        self.host.apply(live.ALL_THREE)
        self.machine.kernel.reboot(upgrade=True)
        (uuid,) = self.libvirt.guests['db'].mdevs
        self.host.undefine_mdev(uuid)
        self.assertEqual([], self.host.apply(live.ALL_THREE).failures)
        self.libvirt.start_guest('db')

    def test_an_mdev_that_was_never_defined_comes_back(self) -> None:
        uuid = self.host.create_mdev(
            '0000:41:00.5', 'NVIDIA A10-12Q', values.MdevState.TRANSIENT
        )
        self.libvirt.define_guest('db', mdevs={uuid: None})
        self.host.apply(live.ALL_THREE)
        self.machine.kernel.reboot()
        self.assertEqual([], self.host.apply(live.ALL_THREE).failures)
        self.libvirt.start_guest('db')

    def test_a_restore_that_was_refused_can_be_gone_on_with(self) -> None:
        self.host.boot('ai', '0000:c1:00.5', 'NVIDIA L40S-24Q')
        for _ in range(2):
            outcome = self.host.restore()
            assert outcome is not None
            self.assertIn('ai', str(outcome.refusals))
        self.libvirt.stop_guest('ai')
        self.libvirt.undefine_guest('ai')
        self.host.clear_type('0000:c1:00.5')
        self.host.restore()
        self.assertEqual(0, self.host.describe()[f'{live.L40S} VFs'])
        self.assertIsNone(self.host.restore())

    def test_a_definition_that_was_removed_is_back_after_restore(self) -> None:
        uuid = self.host.create_mdev(live.T4, 'GRID T4-4Q')
        self.host.stop_mdev(uuid)
        before = self.host.describe()
        self.host.apply(live.ALL_THREE.replace('T4-4Q', 'T4-8Q'))
        self.assertNotEqual(before, self.host.describe())
        self.host.restore()
        self.assertEqual(before, self.host.describe())

    def test_restore_to_functions_off_and_mdevs_defined(self) -> None:
        """As a reboot leaves a host."""
        self.host.create_mdev('0000:41:00.5', 'NVIDIA A10-12Q')
        self.machine.kernel.reboot()
        self.libvirt.listAllDevices()
        before = self.host.describe()
        self.host.apply(live.ALL_THREE)
        outcome = self.host.restore()
        assert outcome is not None
        self.assertEqual([], outcome.refusals)
        self.assertEqual(before, self.host.describe())

    def test_restore_after_a_reboot(self) -> None:
        self.host.apply(AHEAD)
        self.machine.kernel.reboot()
        outcome = self.host.restore()
        assert outcome is not None
        self.assertEqual([], outcome.failures)

    def test_restore_stops_at_what_is_refused(self) -> None:
        """The mode of a GPU is not changed back below a server."""
        self.host.boot('ai', '0000:c1:00.5', 'NVIDIA L40S-24Q')
        self.machine.kernel.reboot()
        self.host.apply(live.ALL_THREE.replace('L40S-24Q', 'L40S-12Q'))
        self.assertTrue(self.host.describe()[f'{live.L40S} mixed'])
        outcome = self.host.restore()
        assert outcome is not None
        self.assertEqual([], outcome.failures)
        self.assertIn('ai', str(outcome.refusals))

    def test_libvirt_fails_for_one_gpu(self) -> None:
        """And is there again for the others."""
        self.machine.kernel.reboot()
        self.machine.kernel.delays.types = 3.0
        fails = iter([True, True])
        listed = self.libvirt.list_devices

        def hiccup(flags: int) -> list[str]:
            if next(fails, False):
                raise libvirt_host.make_error(
                    'Cannot recv data: Connection reset by peer',
                    libvirt.VIR_ERR_SYSTEM_ERROR,
                )
            return listed(flags)

        clock = self.machine.kernel.clock
        sleep = clock.sleep

        def sleeping(seconds: float) -> None:
            sleep(seconds)
            self.libvirt.list_devices = hiccup  # type: ignore[method-assign] # for a moment

        access = self.host.make_host_access(sleep=sleeping)
        configuration = values.Configuration(live.declare(live.ALL_THREE))
        outcome = apply.apply(access, configuration, live.Recorder())
        self.assertEqual([], outcome.failures)
        self.assertEqual(5, self.host.describe()[f'{live.L40S} VFs'])

    def test_servers_that_start_keep_one_gpu_waiting_only(self) -> None:
        self.host.create_mdev(live.T4, 'GRID T4-4Q')
        self.machine.kernel.reboot()
        self.host.apply(live.ALL_THREE)
        self.host.restore()
        other = live.ALL_THREE.replace('T4-4Q', 'T4-8Q')
        access = self.host.make_host_access(timeout=0.05)
        with locks.hold_claims(access.locks, 1, exclusive=False):
            outcome = apply.apply(
                access,
                values.Configuration(live.declare(other)),
                live.Recorder(),
            )
        (failure,) = outcome.failures
        self.assertEqual(live.T4, failure.step.gpu)
        self.assertEqual(5, self.host.describe()[f'{live.L40S} VFs'])

    def test_a_write_that_hangs_in_the_kernel(self) -> None:
        """It costs its GPU, and the locks are free afterwards."""
        self.host.apply(live.ALL_THREE)
        stuck = threading.Event()
        self.addCleanup(stuck.set)
        self.useFixture(
            fixtures.MockPatchObject(
                nvidia.NvidiaTypes,
                'set_type',
                lambda *_args: stuck.wait(60),
            )
        )
        access = self.host.make_host_access(timeout=0.2)
        outcome = apply.apply(
            access, values.Configuration(live.declare(AHEAD)), live.Recorder()
        )
        self.assertEqual({live.L40S}, {f.step.gpu for f in outcome.failures})
        self.assertIn('timed out', str(outcome.failures[0]))
        self.assertIn(live.T4, {step.gpu for step in outcome.done})
        with locks.hold_creation(access.locks, 0):
            pass

    def test_locks_that_are_not_shared_are_told(self) -> None:
        access = self.host.make_host_access(list_unshared=lambda: (4711,))
        reporter = live.Recorder()
        apply.apply(
            access,
            values.Configuration(live.declare(live.ALL_THREE)),
            reporter,
        )
        (told,) = (text for text in reporter.warnings if 'locks' in text)
        for word in ('process 4711', access.locks, 'lock_path'):
            self.assertIn(word, told)

    def test_files_full_of_zeros_do_not_stop_it(self) -> None:
        """As a power cut leaves them."""
        self.machine.kernel.reboot()
        for name in ('journal', 'vgpus.json'):
            (self.host.path / 'state' / name).write_bytes(b'\0' * 512)
        outcome = self.host.apply(live.ALL_THREE)
        self.assertEqual([], outcome.failures)
        self.assertEqual(5, self.host.describe()[f'{live.L40S} VFs'])

    def test_a_gpu_that_a_server_has_as_a_whole(self) -> None:
        self.machine.kernel.reboot()
        self.libvirt.define_guest('whole', functions={live.A10: None})
        outcome = self.host.apply(live.ALL_THREE)
        (refusal,) = outcome.refusals
        self.assertIn('whole', str(refusal))
        self.assertEqual(0, self.host.describe()[f'{live.A10} VFs'])

    def test_a_gpu_that_is_set_aside_for_another_driver(self) -> None:
        self.machine.kernel.reboot()
        address = values.PciAddress.parse(live.A10)
        self.machine.kernel.update(address, driver=None)
        self.machine.kernel.set_override(address, 'vfio-pci')
        outcome = self.host.apply(live.ALL_THREE)
        (failure,) = outcome.failures
        self.assertIn('driver_override is vfio-pci', str(failure))
        self.assertIsNone(self.host.describe()[f'{live.A10} driver'])

    def test_a_gpu_on_the_stub_below_a_running_server(self) -> None:
        self.host.boot('ai', '0000:c1:00.5', 'NVIDIA L40S-24Q')
        address = values.PciAddress.parse(live.L40S)
        self.machine.kernel.update(
            address, driver='pci-pf-stub', types_ready=False
        )
        outcome = self.host.apply(live.ALL_THREE)
        self.assertIn('ai', str(outcome.refusals))
        self.assertEqual(
            'pci-pf-stub', self.host.describe()[f'{live.L40S} driver']
        )

    def test_an_mdev_that_libvirt_does_not_show(self) -> None:
        uuid = self.host.create_mdev(live.T4, 'GRID T4-4Q')
        mdevs = self.libvirt.mdevs.devices
        (name,) = (n for n, m in mdevs.items() if m.uuid == uuid)
        hidden = mdevs.pop(name)
        self.libvirt.mdevs.see = lambda *_args: None  # type: ignore[method-assign] # it looks no more
        outcome = self.host.apply(live.ALL_THREE.replace('T4-4Q', 'T4-8Q'))
        (failure,) = outcome.failures
        self.assertIn('libvirt does not show it', str(failure))
        self.assertEqual(uuid, hidden.uuid)
