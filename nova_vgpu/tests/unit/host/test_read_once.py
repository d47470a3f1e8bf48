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

"""A large host is read quickly, because nothing of it is read twice."""

import collections
from collections.abc import Mapping
import dataclasses
import os
import pathlib
import typing

import fixtures
import testtools

from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import sysfs
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import tree
from nova_vgpu.tests.unit.host import test_fuzz

GPUS = 16
VFS = 48
TYPES = 23

LARGE = dataclasses.replace(
    boards.A40, types=boards.A40.types[:TYPES], total_vfs=VFS
)


class CountingFiles(files.Files):
    """Files that remember how often each was asked for, and in which way."""

    asked: typing.ClassVar[collections.Counter[tuple[str, str]]]

    def read(self, *parts: str) -> str:
        self.asked['read', self.path(*parts)] += 1
        return super().read(*parts)

    def list(self, *parts: str) -> tuple[str, ...]:
        self.asked['list', self.path(*parts)] += 1
        return super().list(*parts)

    def list_marked(self, *parts: str) -> Mapping[str, object]:
        self.asked['list', self.path(*parts)] += 1
        return super().list_marked(*parts)

    def link(self, *parts: str) -> str:
        self.asked['link', self.path(*parts)] += 1
        return super().link(*parts)


def write_large_host(root: pathlib.Path) -> None:
    """16 GPUs with 48 functions of 23 types each.

    The types of the first are real; those of the others are links to them, so
    that 17,664 directories need not be written.
    """
    plain = dataclasses.replace(LARGE, types=())
    gpus = [
        simulation.GPU(
            values.PciAddress(0, 0x10 * number, 0, 0),
            plain if number else LARGE,
            vfs=VFS,
        )
        for number in range(GPUS)
    ]
    tree.write_tree(simulation.SimulatedHost(tuple(gpus)), root)
    functions = root / 'bus/pci/devices'
    for gpu in gpus[1:]:
        pairs = zip(gpu.vf_addresses, gpus[0].vf_addresses, strict=True)
        for vf, first in pairs:
            os.symlink(
                functions / str(first) / 'mdev_supported_types',
                functions / str(vf) / 'mdev_supported_types',
            )


class TestReadOnce(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        CountingFiles.asked = collections.Counter()
        self.useFixture(
            fixtures.MonkeyPatch('nova_vgpu.host.files.Files', CountingFiles)
        )

    def read(self) -> values.Host:
        host = sysfs.read_host(files.Files(str(self.root)))
        self.assertEqual((), host.faults)
        return host

    def count(self, verb: str, name: str) -> int:
        """How often files of a name were asked for, all over the host."""
        return sum(
            count
            for (asked, path), count in CountingFiles.asked.items()
            if asked == verb and os.path.basename(path) == name
        )

    def assert_nothing_twice(self) -> None:
        self.assertNotEqual({}, CountingFiles.asked)
        twice = {
            question: count
            for question, count in CountingFiles.asked.items()
            if count > 1
        }
        self.assertEqual({}, twice)

    def test_a_host_with_a_gpu_of_every_kind(self) -> None:
        tree.write_tree(test_fuzz.small_host(), self.root)
        self.assertEqual(5, len(self.read().gpus))
        self.assert_nothing_twice()

    def test_a_host_as_large_as_they_come(self) -> None:
        write_large_host(self.root)
        host = self.read()
        self.assert_nothing_twice()
        self.assertEqual(
            [(VFS, TYPES)] * GPUS,
            [(len(gpu.vfs), len(gpu.types)) for gpu in host.gpus],
        )
        # Every function says how many it takes; a type is the same on all.
        for verb, name, times in (
            ('read', 'available_instances', GPUS * VFS * TYPES),
            ('read', 'name', GPUS * TYPES),
            ('read', 'description', GPUS * TYPES),
            ('read', 'sriov_totalvfs', GPUS),
            ('list', 'mdev_supported_types', GPUS * VFS),
        ):
            self.assertEqual(times, self.count(verb, name), name)
