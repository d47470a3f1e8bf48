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

"""When nova-compute asks NVML, and what it takes from it."""

from collections.abc import Sequence
import dataclasses
import pathlib

import fixtures
import testtools

from nova_vgpu import values
from nova_vgpu.compute import log
from nova_vgpu.compute import modes
from nova_vgpu.host import files
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests import hosts

A100 = hosts.gpu('c1:00.0', boards.A100D, vfs=16)
ON = values.GPUMode(True, True)


def known(instances: int) -> values.ModesRead:
    of_type = values.MigType(
        'nvidia-699', 'A100D-1-10C', 19, '1g.10gb', instances, 1
    )
    return values.ModesRead(
        ((A100.address, values.GPUModes(mig=ON, mig_types=(of_type,))),)
    )


class KnownModesTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.proc = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.answer: values.ModesRead | OSError = known(3)
        self.asked: list[list[values.PciAddress]] = []
        self.time = 0.0
        self.modes = modes.KnownModes(self.read, log.FailureLog())
        self.modes.proc = files.Files(str(self.proc))
        self.modes.now = lambda: self.time

    def read(self, gpus: Sequence[values.PciAddress]) -> values.ModesRead:
        self.asked.append(list(gpus))
        if isinstance(self.answer, OSError):
            raise self.answer
        return self.answer

    def refresh(self, *cards: simulation.GPU) -> int:
        """How often NVML was asked."""
        before = len(self.asked)
        self.modes.refresh(hosts.make_host(*(cards or (A100,))))
        return len(self.asked) - before

    def create_instance(self, number: int) -> None:
        (self.proc / f'driver/nvidia/capabilities/gpu0/mig/gi{number}').mkdir(
            parents=True
        )

    def test_again_when_the_driver_shows_other_instances(self) -> None:
        self.create_instance(1)
        for other in ('mig', 'gpu1'):  # and what has no instances
            (self.proc / 'driver/nvidia/capabilities' / other).mkdir()
        self.assertEqual([1, 0], [self.refresh(), self.refresh()])
        self.assertEqual([A100.address], self.asked[0])
        self.create_instance(2)
        self.assertEqual([1, 0], [self.refresh(), self.refresh()])

    def test_again_when_a_gpu_offers_other_types(self) -> None:
        """Not every driver may show GPU instances in /proc."""
        self.refresh()
        self.assertEqual(
            [1, 0],
            [
                self.refresh(dataclasses.replace(A100, types_ready=ready))
                for ready in (False, False)
            ],
        )

    def test_again_when_there_are_other_gpus(self) -> None:
        self.refresh()
        other = hosts.gpu('c2:00.0', boards.A100D)
        self.assertEqual(1, self.refresh(A100, other))

    def test_again_after_a_while(self) -> None:
        self.assertEqual([1, 0], [self.refresh(), self.refresh()])
        self.time = 599.0
        self.assertEqual(0, self.refresh())
        self.time = 601.0
        self.assertEqual([1, 0], [self.refresh(), self.refresh()])

    def test_what_has_not_changed_is_the_same_object(self) -> None:
        self.refresh()
        before = self.modes.latest
        self.assertEqual(known(3), before)
        for instances, changes in ((3, False), (2, True)):
            self.answer = known(instances)
            self.time += 1000.0
            self.refresh()
            self.assertEqual(changes, self.modes.latest is not before)

    def test_what_was_known_stays_if_nvml_fails(self) -> None:
        for answer, said in (
            (values.ModesRead(unknown_because='NVML hangs'), 'NVML hangs'),
            (OSError(1, 'no helper'), 'no helper'),
        ):
            self.answer = known(3)
            self.time += 1000.0
            self.refresh()
            self.answer = answer
            self.time += 1000.0
            # Asked each time until it works again, and said once.
            self.assertEqual([1, 1], [self.refresh(), self.refresh()])
            self.assertEqual(known(3), self.modes.latest)
            self.assertEqual(1, self.log.output.count(said), said)

    def test_without_gpus_of_the_driver_nothing_is_asked(self) -> None:
        for card in (
            hosts.gpu('00:02.0', boards.HD_530),
            hosts.gpu('c1:00.0', boards.A100D, driver='vfio-pci'),
        ):
            self.assertEqual(0, self.refresh(card))
