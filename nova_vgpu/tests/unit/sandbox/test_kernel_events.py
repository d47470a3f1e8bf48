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

"""What befalls a simulated host, and what takes its time there."""

import dataclasses
import functools
import math
import pickle
import threading

import testtools

from nova_vgpu import values
from nova_vgpu.host import sysfs
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import kernel
from nova_vgpu.tests import hosts

PCI = ('bus', 'pci', 'devices')
GPU, OTHER = '0000:41:00.0', '0000:84:00.0'
UUID = '1aaaaaaa-0000-4000-8000-000000000000'
ADDRESS = values.PciAddress.parse(GPU)


class EventTest(testtools.TestCase):
    def boot(self, *gpus: simulation.GPU) -> None:
        self.kernel = kernel.Kernel(*gpus)

    def enable(self, number: int = 4) -> None:
        self.kernel.files.write(str(number), *PCI, GPU, 'sriov_numvfs')

    def read_gpu(self) -> values.PhysicalGPU:
        return sysfs.read_host(self.kernel.files).gpus[0]


class TestTime(EventTest):
    def look(self) -> tuple[int, bool]:
        """How many VFs there are, and whether they have types."""
        gpu = self.read_gpu()
        return len(gpu.vfs), any(vf.offers for vf in gpu.vfs)

    def test_vfs_and_their_types_come_in_a_while(self) -> None:
        self.boot(hosts.gpu(GPU, boards.A40))
        self.kernel.delays = kernel.Delays(vfs=2, types=3)
        self.enable()
        seen = []
        for _ in range(6):
            seen.append(self.look())
            self.kernel.clock.sleep(1)
        none, bare, whole = (0, False), (4, False), (4, True)
        self.assertEqual([none, none, bare, bare, bare, whole], seen)
        self.assertEqual(6, self.kernel.clock.now())

    def test_types_that_never_come(self) -> None:
        self.boot(hosts.gpu(GPU, boards.A40))
        self.kernel.delays.types = math.inf
        self.enable()
        self.kernel.clock.sleep(10**6)
        self.assertEqual((4, False), self.look())

    def test_vfs_that_are_disabled_before_they_are_there(self) -> None:
        self.boot(hosts.gpu(GPU, boards.A40))
        self.kernel.delays.vfs = 5
        self.enable()
        self.assertRaises(OSError, self.enable, 3)
        self.enable(4)
        self.enable(0)
        self.kernel.clock.sleep(9)
        self.assertEqual((0, False), self.look())

    def test_the_past_is_remembered(self) -> None:
        self.boot(hosts.gpu(GPU, boards.A40))
        self.kernel.delays.vfs = 2
        self.enable()
        self.kernel.clock.sleep(10)
        vfs = {
            ago: self.kernel.get_gpus(ago)[0].vfs for ago in (0, 7, 8, 9, 99)
        }
        self.assertEqual({0: 4, 7: 4, 8: 4, 9: 0, 99: 0}, vfs)

    def test_what_happens_at_once_was_not_there_before(self) -> None:
        self.boot(hosts.gpu(GPU, boards.A40))
        self.enable()
        vfs = {ago: self.kernel.get_gpus(ago)[0].vfs for ago in (0, 1)}
        self.assertEqual({0: 4, 1: 0}, vfs)

    def test_only_so_much_of_the_past_is_kept(self) -> None:
        self.boot(hosts.gpu(GPU, boards.A40))
        for number in (4, 0) * 20:
            self.enable(number)
            self.kernel.clock.sleep(500)
        self.assertTrue(8 <= len(self.kernel.history) <= 10)
        self.assertEqual(4, self.kernel.get_gpus(1000)[0].vfs)

    def test_nobody_sleeps_backwards(self) -> None:
        self.boot()
        self.kernel.clock.sleep(-1)
        self.assertEqual(0, self.kernel.clock.now())


class TestReboot(EventTest):
    def test_nothing_is_left_of_what_was_set_up(self) -> None:
        self.boot(
            simulation.GPU(
                ADDRESS,
                boards.A40,
                vfs=4,
                mixed=True,
                created=(simulation.Created('nvidia-562', 0, UUID),),
            )
        )
        self.kernel.set_override(ADDRESS, 'pci-pf-stub')
        self.kernel.reboot()
        self.assertEqual([hosts.gpu(GPU, boards.A40)], self.kernel.gpus)
        self.assertEqual(
            '(null)', self.kernel.files.read(*PCI, GPU, 'driver_override')
        )

    def test_what_was_on_its_way_does_not_come(self) -> None:
        self.boot(hosts.gpu(GPU, boards.A40))
        self.kernel.delays.vfs = 5
        self.enable()
        self.kernel.reboot()
        self.kernel.clock.sleep(9)
        self.assertEqual((), self.read_gpu().vfs)

    def test_the_driver_is_that_of_the_machine(self) -> None:
        for at_first, after in (
            ('default', 'nvidia'),
            ('pci-pf-stub', 'nvidia'),
            ('vfio-pci', 'vfio-pci'),
            (None, None),
        ):
            self.boot(hosts.gpu(GPU, boards.A40, driver=at_first))
            self.kernel.update(ADDRESS, driver='pci-pf-stub')
            self.kernel.reboot()
            self.assertEqual(after, self.read_gpu().driver, str(at_first))


class TestDriverUpgrade(EventTest):
    def types(self) -> dict[str, str | None]:
        return {
            offer.type.id: offer.type.name for offer in self.read_gpu().offers
        }

    def test_every_id_means_another_type(self) -> None:
        self.boot(hosts.gpu(OTHER, boards.T4))
        before = self.types()
        self.kernel.upgrade_driver()
        after = self.types()
        self.assertEqual(before.keys(), after.keys())
        self.assertEqual(set(before.values()), set(after.values()))
        self.assertEqual([], [i for i in before if before[i] == after[i]])

    def test_a_driver_in_use_stays(self) -> None:
        self.boot(hosts.gpu(OTHER, boards.T4, 'nvidia-231'))
        self.assertRaises(ValueError, self.kernel.upgrade_driver)
        before = self.types()
        self.kernel.reboot(upgrade=True)
        self.assertNotEqual(before, self.types())

    def test_types_without_a_number_stay(self) -> None:
        self.boot(hosts.gpu('0000:00:02.0', boards.HD_530))
        before = self.types()
        self.kernel.upgrade_driver()
        self.assertEqual(before, self.types())


class TestSlots(EventTest):
    def test_a_gpu_is_pulled_out_and_put_back(self) -> None:
        gpu = hosts.gpu(GPU, boards.A40, vfs=4)
        self.boot(gpu, hosts.gpu(OTHER, boards.T4))
        self.kernel.unplug(ADDRESS)
        self.assertEqual(
            (OTHER,), self.kernel.files.list('bus', 'pci', 'devices')
        )
        self.kernel.plug(gpu)
        self.assertEqual(4, len(self.read_gpu().vfs))

    def test_a_slot_takes_one(self) -> None:
        self.boot(hosts.gpu(GPU, boards.A40))
        gpu = hosts.gpu(GPU, boards.T4)
        self.assertRaises(ValueError, self.kernel.plug, gpu)


class TestObserver(EventTest):
    def test_it_sees_each_change_before_and_after_it(self) -> None:
        self.boot(hosts.gpu(GPU, boards.A40))
        seen: list[tuple[bool, int]] = []
        self.kernel.observe = lambda _what, done: seen.append(
            (done, self.kernel.gpus[0].vfs)
        )
        self.enable()
        self.assertEqual([(False, 0), (True, 4)], seen)

    def test_it_does_not_see_what_was_refused(self) -> None:
        self.boot(hosts.gpu(GPU, boards.A40))
        seen: list[str] = []
        self.kernel.observe = lambda what, _done: seen.append(what)
        self.assertRaises(OSError, self.enable, 99)
        self.kernel.read_only = True
        self.assertRaises(OSError, self.enable)
        self.assertEqual([], seen)

    def test_what_it_raises_before_a_change_prevents_it(self) -> None:
        class Killed(BaseException):
            pass

        def kill(when: bool, _what: str, done: bool) -> None:
            if done is when:
                raise Killed

        for when, vfs in ((False, 0), (True, 4)):
            self.boot(hosts.gpu(GPU, boards.A40))
            self.kernel.observe = functools.partial(kill, when)
            self.assertRaises(Killed, self.enable)
            self.assertEqual(vfs, self.kernel.gpus[0].vfs)


class TestSnapshot(EventTest):
    def test_a_state_is_put_back_whole(self) -> None:
        self.boot(hosts.gpu(GPU, boards.A40))
        self.kernel.delays = kernel.Delays(vfs=2, types=2)
        self.kernel.clock.sleep(7)
        self.kernel.fail('create', 5)
        self.enable()
        taken = self.kernel.snapshot()
        self.kernel.clock.sleep(9)
        self.kernel.reboot()
        other = kernel.Kernel()
        other.load(pickle.loads(pickle.dumps(taken)))  # noqa: S301 (our own)
        for its in (self.kernel, other):
            its.load(taken)
            self.assertEqual(taken, its.snapshot())
            self.assertEqual(7, its.clock.now())
            its.clock.sleep(4)
            (gpu,) = sysfs.read_host(its.files).gpus
            self.assertTrue(gpu.vfs[3].offers)

    def test_it_does_not_change_with_the_kernel(self) -> None:
        self.boot(hosts.gpu(GPU, boards.A40))
        self.kernel.fail('create', 5)
        taken = self.kernel.snapshot()
        self.kernel.faults[0].times = 0
        self.enable()
        self.kernel.load(taken)
        self.assertEqual(0, self.kernel.gpus[0].vfs)
        self.assertEqual(1, self.kernel.faults[0].times)


class TestThreads(EventTest):
    def test_each_vgpu_fits_once(self) -> None:
        self.boot(
            dataclasses.replace(
                hosts.gpu(GPU, boards.L40S, vfs=32), vendor_vfio=True
            )
        )
        refused: list[OSError] = []

        def set_type(function: str) -> None:
            try:
                self.kernel.files.write(
                    '1151', *PCI, function, 'nvidia', 'current_vgpu_type'
                )
            except OSError as error:
                refused.append(error)

        threads = [
            threading.Thread(target=set_type, args=(str(address),))
            for address in self.kernel.gpus[0].vf_addresses
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(8, len(self.kernel.gpus[0].created))
        self.assertEqual(24, len(refused))
