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

"""A host whose sysfs is damaged, one file, link or directory after the other.

A small host with a GPU of every kind is written as a tree. Each thing in the
tree is then put out of order in every way there is, and the host is read:
nothing may be raised, the GPUs that have no part in it are read as before, and
what cannot be read is among the faults, by its path.
"""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import dataclasses
import errno
import os
import pathlib
import shutil
import typing

import fixtures
import testtools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import sysfs
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import tree
from nova_vgpu.tests import plans

PCI = 'bus/pci/devices'
MDEV_BUS = 'class/mdev_bus'
MTTY = 'mtty_mtty'

# What a sound host has in any case. The rest may be missing, and is no fault.
REQUIRED = frozenset(
    {'vendor', 'device', 'class', 'available_instances', 'mdev_type'}
    | {'creatable_vgpu_types', 'current_vgpu_type', 'subsystem'}
)
FREE_TEXT = frozenset({'name', 'description'})
NUMBERS = frozenset({'available_instances', 'current_vgpu_type'})
LINKS = frozenset({'driver', 'mdev_type', 'subsystem'})


@dataclasses.dataclass(frozen=True)
class Damage:
    """What is put in the place of something.

    ``sense`` are the names of those things of which it is as good a value as
    any, ``gone`` tells that there is nothing any more.
    """

    description: str
    put: Callable[[pathlib.Path], object]
    sense: frozenset[str] = frozenset()
    gone: bool = False


DAMAGES = (
    Damage('missing', lambda path: None, gone=True),
    Damage(
        'empty',
        lambda path: path.write_text(''),
        FREE_TEXT | {'creatable_vgpu_types'},
    ),
    Damage('binary', lambda path: path.write_bytes(bytes(range(256)))),
    Damage('NUL bytes', lambda path: path.write_bytes(b'0x10de\0\0')),
    Damage('huge', lambda path: path.write_bytes(b'7' * 2**20)),
    Damage('negative', lambda path: path.write_text('-1\n'), FREE_TEXT),
    Damage('5000 digits', lambda path: path.write_text('9' * 5000), FREE_TEXT),
    Damage(
        'a large number',
        lambda path: path.write_text('999999999\n'),
        FREE_TEXT | NUMBERS,
    ),
    Damage(
        'digits of Unicode', lambda path: path.write_text('٣\n'), FREE_TEXT
    ),
    Damage('a directory', lambda path: path.mkdir()),
    Damage(
        'a dangling link',
        lambda path: path.symlink_to('../no/way'),
        LINKS,
        gone=True,
    ),
    Damage('a circle', lambda path: path.symlink_to(path.name), LINKS),
    Damage('a FIFO', lambda path: os.mkfifo(path)),
    # It can be opened, and every read is an error.
    Damage('broken', lambda path: path.symlink_to('/proc/self/mem'), LINKS),
)
ERRORS = (errno.EACCES, errno.EIO, errno.ENOENT, errno.ENODEV, errno.ENXIO)
GONE = frozenset({errno.ENOENT, errno.ENODEV, errno.ENXIO})


def small_host() -> simulation.SimulatedHost:
    """One GPU of every kind, with few types and functions."""
    parse = values.PciAddress.parse

    def few(board: boards.Board) -> boards.Board:
        return dataclasses.replace(board, types=board.types[:2])

    return simulation.SimulatedHost(
        (
            simulation.GPU(parse('0000:00:02.0'), few(boards.HD_530)),
            simulation.GPU(
                parse('0000:41:00.0'),
                few(boards.A40),
                vfs=2,
                created=(simulation.Created('nvidia-555', vf=1),),
            ),
            simulation.GPU(
                parse('0000:84:00.0'),
                few(boards.T4),
                created=(simulation.Created('nvidia-222'),),
            ),
            simulation.GPU(parse('0000:e1:00.0'), boards.NETWORK_CARD),
            simulation.GPU(
                parse('0001:c8:00.0'),
                few(boards.L40S),
                vfs=2,
                vendor_vfio=True,
                created=(simulation.Created('nvidia-1145', vf=0),),
            ),
        ),
        mtty=True,
    )


class TestDamagedSysfs(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        # A reader that waits for a FIFO would wait for ever.
        self.useFixture(fixtures.Timeout(300, gentle=True))
        temporary = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.aside = temporary / 'aside'
        self.root = temporary / 'sys'
        tree.write_tree(small_host(), self.root)
        self.sound = sysfs.read_host(files.Files(str(self.root)))
        self.assertEqual((), self.sound.faults)
        self.assertEqual(5, len(self.sound.gpus))
        self.everything = sorted(self.root.rglob('*'))
        #: Where the links lead by which devices are found.
        self.real = {
            str(link): os.path.realpath(link)
            for directory in (PCI, MDEV_BUS)
            for link in (self.root / directory).iterdir()
        }

    def test_whatever_is_put_in_the_place_of_anything(self) -> None:
        wrong = [
            f'{path.relative_to(self.root)} {damage.description}: {finding}'
            for path in self.everything
            for damage in DAMAGES
            for finding in self.read_with(path, damage)
        ]
        self.assertEqual([], wrong)

    def test_whatever_cannot_be_opened_or_vanishes_when_it_was_listed(
        self,
    ) -> None:
        wrong = [
            f'{path.relative_to(self.root)} {os.strerror(number)}: {finding}'
            for path in self.everything
            for number in ERRORS
            for finding in self.read_failing(path, number)
        ]
        self.assertEqual([], wrong)

    def test_whatever_else_there_is_on_the_bus(self) -> None:
        for description, name, shown in (
            ('no address', b'lost+found', 'lost+found'),
            ('no bytes of UTF-8', b'84:00.\xff', r'84:00.\xff'),
            ('digits of Unicode', '٨٤:00.0'.encode(), '٨٤:00.0'),
        ):
            strange = self.root / PCI / os.fsdecode(name)
            strange.mkdir()
            host = sysfs.read_host(files.Files(str(self.root)))
            self.assertEqual(self.sound.gpus, host.gpus, description)
            (fault,) = host.faults
            self.assertEqual(shown, fault.device, description)
            self.assertEqual(f'{self.root / PCI}/{shown}', fault.source)
            strange.rmdir()

    def test_functions_of_a_gpu_that_cannot_be_read_are_the_hardwares_fault(
        self,
    ) -> None:
        for gpu in self.sound.gpus:
            if gpu.vfs:
                vendor = self.root / PCI / str(gpu) / 'vendor'
                vendor.write_text('garbage')
                host = sysfs.read_host(files.Files(str(self.root)))
                functions = {gpu.name, *(vf.name for vf in gpu.vfs)}
                told = {fault.device for fault in host.faults}
                self.assertEqual(set(), functions - told)
                listed = tuple(str(vf.address) for vf in gpu.vfs)
                declared = values.DeclaredType('x', 'vgpu_x', listed)
                plan = plans.make_plan(values.Declaration((declared,)), host)
                self.assertEqual((), plan.problems_of(values.Severity.FATAL))

    def read_with(self, path: pathlib.Path, damage: Damage) -> list[str]:
        path.rename(self.aside)
        try:
            damage.put(path)
            sense = path.name in damage.sense
            emptied = self.aside.is_dir() and path.is_dir()
            return list(self.check(path, damage.gone or emptied, sense))
        finally:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
            self.aside.rename(path)

    def read_failing(self, path: pathlib.Path, number: int) -> list[str]:
        """The listing still has it, but each attempt at it fails."""

        def failing(
            function: Callable[..., typing.Any],
        ) -> Callable[..., typing.Any]:
            def wrapper(at: str, *args: typing.Any) -> typing.Any:
                if any(is_within(name, path) for name in self.names_of(at)):
                    raise OSError(number, os.strerror(number), at)
                return function(at, *args)

            return wrapper

        with contextlib.ExitStack() as patches:
            for name in ('open', 'listdir', 'readlink'):
                patches.enter_context(
                    fixtures.MonkeyPatch(
                        f'os.{name}', failing(getattr(os, name))
                    )
                )
            return list(self.check(path, number in GONE))

    def check(
        self, path: pathlib.Path, gone: bool, sense: bool = False
    ) -> Iterator[str]:
        """What is wrong with a reading while something is out of order."""
        try:
            host = sysfs.read_host(files.Files(str(self.root)))
        except exception.HostUnreadable as error:
            if not is_within(str(self.root / PCI), path):
                yield f'HostUnreadable: {error}'
            return
        owners = {gpu.name for gpu in self.sound.gpus if self.owns(gpu, path)}
        before = {g.name: g for g in self.sound.gpus if g.name not in owners}
        after = {g.name: g for g in host.gpus if g.name not in owners}
        if MTTY in owners:  # it is called after what its link leads to
            after = {name: g for name, g in after.items() if g.address}
        if before != after:
            yield 'another GPU is not read as before'
        if host.other_functions - self.sound.other_functions:
            yield 'a part of a GPU is taken for another card'
        optional = gone and (
            path.name not in REQUIRED or path == self.root / 'class'
        )
        if host.gpus == self.sound.gpus or optional or sense:
            return
        if not any(self.is_about(fault, path) for fault in host.faults):
            yield f'not among the faults: {list(map(str, host.faults))}'

    def owns(self, gpu: values.PhysicalGPU, path: pathlib.Path) -> bool:
        """Whether something is part of a GPU, or the other way round."""
        functions = [str(gpu.address), *(str(vf.address) for vf in gpu.vfs)]
        directories = [self.root / PCI / name for name in functions]
        if gpu.address is None:
            directories = [self.root / MDEV_BUS / 'mtty']
        return any(
            is_within(str(path), pathlib.Path(name)) or is_within(name, path)
            for directory in directories
            for name in self.names_of(str(directory))
        )

    def is_about(self, fault: values.ReadFault, path: pathlib.Path) -> bool:
        names = self.names_of(fault.source)
        return any(is_within(name, path) for name in names) or (
            path.name in fault.reason
        )

    def names_of(self, path: str) -> list[str]:
        """A path as it was opened, and where that leads in the sound tree."""
        return [path] + [
            path.replace(link, real, 1)
            for link, real in self.real.items()
            if is_within(path, pathlib.Path(link))
        ]


def is_within(path: str, directory: pathlib.Path) -> bool:
    return f'{path}/'.startswith(f'{directory}/')
