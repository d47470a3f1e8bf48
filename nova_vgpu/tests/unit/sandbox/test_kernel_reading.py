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

"""sysfs of a simulated kernel reads like that of a tree on a disk."""

import pathlib
import pickle
import tempfile

import hypothesis
import testtools

from nova_vgpu.host import files
from nova_vgpu.host import sysfs
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import kernel
from nova_vgpu.sandbox import tree
from nova_vgpu.tests import hosts
from nova_vgpu.tests.unit import strategies

PCI = ('bus', 'pci', 'devices')
A40 = '0000:41:00.0'


def boot(simulated: simulation.SimulatedHost) -> kernel.Kernel:
    return kernel.Kernel(*simulated.gpus, mtty=simulated.mtty)


class TestHosts(testtools.TestCase):
    def test_the_host_of_the_demonstration(self) -> None:
        simulated = simulation.demo_host()
        self.assertEqual(
            strategies.read_back(simulated),
            sysfs.read_host(boot(simulated).files),
        )

    @hypothesis.settings(
        derandomize=True,
        database=None,
        max_examples=30,
    )
    @hypothesis.given(strategies.simulated_hosts())
    def test_any_host(self, simulated: simulation.SimulatedHost) -> None:
        self.assertEqual(
            strategies.read_back(simulated),
            sysfs.read_host(boot(simulated).files),
        )

    def test_a_host_after_it_changed_is_read_as_it_is_then(self) -> None:
        its = boot(simulation.demo_host())
        sysfs.read_host(its.files)
        its.files.write('0', *PCI, A40, 'sriov_numvfs')
        now = simulation.SimulatedHost(tuple(its.gpus))
        self.assertEqual(strategies.read_back(now), sysfs.read_host(its.files))
        self.assertNotIn('virtfn0', its.files.list(*PCI, A40))

    def test_only_what_is_asked_for_is_made(self) -> None:
        its = boot(simulation.demo_host())
        its.files.read(*PCI, A40, 'vendor')
        made = [
            name
            for gpu in its._rendered.values()
            for name, function in gpu.functions.items()
            if 'entries' in vars(function)
        ]
        self.assertEqual([A40], made)


class TestAnswers(testtools.TestCase):
    """Each answer of the tree in memory is that of the one on a disk."""

    PATHS = (
        ('a directory', PCI),
        ('a file', (*PCI, A40, 'vendor')),
        ('a link to a device', (*PCI, A40)),
        ('a link between devices', (*PCI, A40, 'virtfn3')),
        ('a link to a driver', (*PCI, A40, 'driver')),
        ('through a link', (*PCI, '0000:41:00.4', 'physfn', 'class')),
        ('an mdev', ('bus', 'mdev', 'devices')),
        ('parents of mdevs', ('class', 'mdev_bus')),
        ('a file that is not there', (*PCI, A40, 'colour')),
        ('a device that is not there', (*PCI, '0000:99:00.0')),
        ('within a file', (*PCI, A40, 'vendor', 'x')),
        ('a way out', (*PCI, '..')),
        ('many names in one', ('bus/pci',)),
        ('nothing', (*PCI, '')),
    )

    #: Of these, more is there than on the disk: what can be written to.
    MORE = frozenset(
        {('a link to a device', 'list')}
        | {('a link to a driver', 'list'), ('a link to a driver', 'read')}
    )

    def setUp(self) -> None:
        super().setUp()
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        simulated = simulation.SimulatedHost(
            (
                hosts.gpu(A40, boards.A40, vfs=4),
                hosts.gpu('0000:85:00.0', boards.T4, 'nvidia-231'),
            )
        )
        tree.write_tree(simulated, pathlib.Path(self.directory.name))
        self.on_disk = files.Files(self.directory.name)
        self.in_memory = boot(simulated).files

    def ask(
        self, tree: files.Files, verb: str, path: tuple[str, ...]
    ) -> object:
        try:
            return getattr(tree, verb)(*path)
        except files.Unreadable as error:
            where = error.path.removeprefix(tree.root)
            return where, error.reason, error.gone

    def test_they_are_the_same(self) -> None:
        for description, path in self.PATHS:
            for verb in ('read', 'list', 'link'):
                if (description, verb) in self.MORE:
                    continue
                self.assertEqual(
                    self.ask(self.on_disk, verb, path),
                    self.ask(self.in_memory, verb, path),
                    f'{verb}: {description}',
                )

    def test_a_file_to_write_to_cannot_be_read(self) -> None:
        unbind = ('bus', 'pci', 'drivers', 'nvidia', 'unbind')
        error = self.assertRaises(
            files.Unreadable, self.in_memory.read, *unbind
        )
        self.assertEqual('permission denied', error.reason)
        self.assertFalse(error.gone)

    def test_an_error_survives_the_way_to_another_process(self) -> None:
        for gone in (True, False):
            error = files.Unreadable('/sys/x', 'is broken', gone)
            copy = pickle.loads(pickle.dumps(error))  # noqa: S301 (our own)
            self.assertEqual(
                ('/sys/x', 'is broken', gone, str(error)),
                (copy.path, copy.reason, copy.gone, str(copy)),
            )


class TestAvailability(testtools.TestCase):
    """How many more vGPUs of a type a GPU says that it takes."""

    #: vGPUs on an A40 by the size of their types, and what is left then of
    #: others; with one size at a time, and with several.
    CASES = (
        ('an empty one', (), {2: 24, 8: 6, 48: 1}, {2: 24, 8: 6, 48: 1}),
        ('with one of 8', (8,), {2: 0, 8: 5, 48: 0}, {2: 20, 8: 5, 48: 0}),
        ('with 24 and 8', (24, 8), None, {2: 8, 8: 2, 24: 0, 48: 0}),
        ('with 24 twice', (24, 24), {2: 0, 24: 0}, {1: 0, 2: 0, 24: 0}),
        ('as many as it takes', (1,) * 32, {1: 0}, {1: 0, 2: 8}),
    )

    def test_as_the_hardware_does(self) -> None:
        by_size = {
            t.framebuffer_mib // 1024: t
            for t in boards.A40.types
            if (t.name or '').endswith('Q')
        }
        for description, sizes, homogeneous, mixed in self.CASES:
            for mode, expected in ((False, homogeneous), (True, mixed)):
                if expected is None:
                    continue
                gpu = simulation.GPU(
                    hosts.gpu(A40, boards.A40).address,
                    boards.A40,
                    vfs=32,
                    created=tuple(
                        simulation.Created(by_size[size].id, vf)
                        for vf, size in enumerate(sizes)
                    ),
                    mixed=mode,
                )
                self.assertEqual(
                    expected,
                    {s: gpu.left(by_size[s]) for s in expected},
                    f'{description}, mixed: {mode}',
                )
