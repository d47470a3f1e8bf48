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

"""One simulated machine in several processes, and after one that died."""

import errno
import multiprocessing
from multiprocessing import connection
import os
import pickle
import signal
import typing

import libvirt
import testtools

from nova_vgpu.host import files
from nova_vgpu.host import guests
from nova_vgpu.host import libvirt_nodes
from nova_vgpu.host import sysfs
from nova_vgpu.host import tools
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import libvirt_connection
from nova_vgpu.sandbox import machine
from nova_vgpu.tests import hosts
from nova_vgpu.tests import shared_machine

PCI = ('bus', 'pci', 'devices')
GPU, VF, PARENT = '0000:41:00.0', '0000:41:00.4', 'pci_0000_41_00_4'
UUID = '1aaaaaaa-0000-4000-8000-000000000000'
A40_8Q = 'nvidia-562'
XML = (
    f'<device><parent>{PARENT}</parent><capability type="mdev">'
    f'<type id="{A40_8Q}"/><uuid>{UUID}</uuid></capability></device>'
)
SRIOV_MANAGE = ('/usr/lib/nvidia/sriov-manage', '-e', GPU)

FORK = multiprocessing.get_context('fork')
_PATIENCE = 60.0


def set_up(its: machine.Machine) -> None:
    """What sets up a host from nothing: VFs, an mdev, a guest that runs."""
    its.tools.run(SRIOV_MANAGE, 30.0)
    mdev = its.libvirt.nodeDeviceDefineXML(XML)
    mdev.setAutostart(1)
    mdev.create()
    its.libvirt.define_guest('guest', {UUID: 'NVIDIA A40-8Q'})
    its.libvirt.start_guest('guest')


class TestSnapshot(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.machine = machine.Machine(hosts.gpu(GPU, boards.A40))

    def look(self, its: machine.Machine) -> object:
        """All that can be read of a machine."""
        return (
            libvirt_nodes.read_host(its.libvirt, its.kernel.files),
            sysfs.read_host(its.kernel.files),
            guests.read_guests(its.libvirt),
            its.snapshot(),
        )

    def test_a_machine_is_put_back_whole(self) -> None:
        self.machine.kernel.reboot()
        self.machine.kernel.clock.sleep(10)
        set_up(self.machine)
        self.machine.kernel.clock.sleep(1)
        self.machine.libvirt.lag = 3.0
        self.machine.tools.behaviour.missing.add('nvidia-smi')
        taken = self.machine.snapshot()
        before = self.look(self.machine)
        self.machine.libvirt.stop_guest('guest')
        self.machine.libvirt.autostarts = False
        self.machine.kernel.reboot(upgrade=True)
        other = machine.Machine()
        for its in (self.machine, other):
            its.load(pickle.loads(pickle.dumps(taken)))  # noqa: S301 (ours)
            self.assertEqual(before, self.look(its))
            self.assertTrue(its.kernel.in_use(UUID))

    def test_it_goes_on_after_it_was_put_back(self) -> None:
        set_up(self.machine)
        other = machine.Machine()
        other.load(self.machine.snapshot())
        other.kernel.reboot()
        other.kernel.files.write('4', *PCI, GPU, 'sriov_numvfs')
        gpu = sysfs.read_host(other.kernel.files).gpus[0]
        self.assertEqual(UUID, gpu.vfs[0].vgpus[0].uuid)
        self.assertTrue(self.machine.kernel.in_use(UUID))


class TestKill(testtools.TestCase):
    """A process dies in the middle; what it did to the machine stays."""

    def count(self) -> int:
        seen: list[str] = []
        its = machine.Machine(hosts.gpu(GPU, boards.A40))
        its.kernel.observe = lambda what, _done: seen.append(what)
        set_up(its)
        return len(seen)

    def run_until(self, its: machine.Machine, point: int) -> machine.Snapshot:
        """Set up in another process, which is killed at this point."""
        receiver, sender = FORK.Pipe(duplex=False)
        process = FORK.Process(target=_die_at, args=(its, point, sender))
        process.start()
        sender.close()
        self.addCleanup(process.join)
        if not receiver.poll(_PATIENCE):
            process.kill()
        left: machine.Snapshot = receiver.recv()
        process.join(_PATIENCE)
        self.assertEqual(-signal.SIGKILL, process.exitcode)
        return left

    def test_every_point_leaves_what_was_done_so_far(self) -> None:
        its = machine.Machine(hosts.gpu(GPU, boards.A40))
        fresh = its.snapshot()
        left = []
        for point in range(self.count()):
            its.load(fresh)
            its.load(self.run_until(its, point))
            gpu = sysfs.read_host(its.kernel.files).gpus[0]
            left.append(
                (
                    gpu.driver,
                    len(gpu.vfs),
                    sum(len(vf.vgpus) for vf in gpu.vfs),
                    its.kernel.in_use(UUID),
                )
            )
        self.assertEqual(('nvidia', 0, 0, False), left[0])
        self.assertIn(('pci-pf-stub', 0, 0, False), left)
        self.assertIn(('nvidia', 32, 0, False), left)
        self.assertEqual(('nvidia', 32, 1, True), left[-1])


def _die_at(
    its: machine.Machine, point: int, sender: connection.Connection
) -> None:
    passed = 0

    def count(_what: str, _done: bool) -> None:
        nonlocal passed
        if passed == point:
            sender.send(its.snapshot())
            os.kill(os.getpid(), signal.SIGKILL)
        passed += 1

    its.kernel.observe = count
    set_up(its)


class TestSharing(testtools.TestCase):
    numvfs = (*PCI, GPU, 'sriov_numvfs')

    def setUp(self) -> None:
        super().setUp()
        self.machine = machine.Machine(hosts.gpu(GPU, boards.A40))
        manager: typing.Any = shared_machine.share(self.machine)
        manager.start()
        self.addCleanup(manager.shutdown)
        self.shared = manager
        self.files = shared_machine.SharedFiles(manager.files())
        self.libvirt = libvirt_connection.Connection(manager.libvirt())

    def test_what_one_process_does_is_there_for_another(self) -> None:
        process = FORK.Process(target=self.set_up_elsewhere)
        process.start()
        process.join(_PATIENCE)
        self.assertEqual(0, process.exitcode)
        host = sysfs.read_host(self.files)
        self.assertEqual(UUID, host.gpus[0].vfs[0].vgpus[0].uuid)
        self.assertEqual(
            host, libvirt_nodes.read_host(self.libvirt, self.files)
        )
        (guest,) = guests.read_guests(self.libvirt)
        self.assertTrue(guest.running)
        self.assertEqual(5.0, self.shared.clock().now())

    def set_up_elsewhere(self) -> None:
        run: tools.Run = self.shared.tools().run
        run(SRIOV_MANAGE, 30.0)
        self.shared.clock().sleep(5)
        mdev = self.libvirt.nodeDeviceCreateXML(XML)
        guest = self.shared.libvirt()
        guest.define_guest('guest', {UUID: 'NVIDIA A40-8Q'})
        guest.start_guest('guest')
        if not mdev.isActive():
            raise AssertionError('not active')

    def test_errors_come_through(self) -> None:
        error = self.assertRaises(
            OSError, self.files.write, '99', *self.numvfs
        )
        self.assertEqual(errno.ERANGE, error.errno)
        unreadable = self.assertRaises(
            files.Unreadable, self.files.read, *PCI, GPU, 'colour'
        )
        self.assertTrue(unreadable.gone)
        missing = self.assertRaises(
            libvirt.libvirtError, self.libvirt.nodeDeviceLookupByName, 'x'
        )
        self.assertEqual(
            libvirt.VIR_ERR_NO_NODE_DEVICE, missing.get_error_code()
        )
        run = self.shared.tools().run
        self.assertRaises(tools.MissingError, run, ('/bin/x',), 1.0)

    def test_what_would_block_for_ever_does_not_pass_for_done(self) -> None:
        self.shared.tools().run(SRIOV_MANAGE, 30.0)
        self.libvirt.nodeDeviceCreateXML(XML)
        host = self.shared.libvirt()
        host.define_guest('guest', {UUID: None})
        host.start_guest('guest')
        remove = ('bus', 'mdev', 'devices', UUID, 'remove')
        self.assertRaises(EOFError, self.files.write, '1', *remove)

    def test_its_state_is_taken_out_and_put_back(self) -> None:
        taken = self.shared.machine().snapshot()
        self.files.write('4', *self.numvfs)
        self.machine.load(self.shared.machine().snapshot())
        self.assertEqual(4, self.machine.kernel.gpus[0].vfs)
        self.shared.machine().load(taken)
        self.assertEqual('0', self.files.read(*self.numvfs))
