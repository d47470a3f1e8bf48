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

"""A host that is read again and again equals one that is read anew."""

from collections.abc import Callable
import dataclasses
import pathlib
import shutil
import typing

import fixtures
import hypothesis
from hypothesis import strategies as st
import testtools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import incremental_reader
from nova_vgpu.host import sysfs
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import kernel
from nova_vgpu.sandbox import stores
from nova_vgpu.sandbox import tree
from nova_vgpu.tests import hosts
from nova_vgpu.tests import live

WANTED = ('T4-4Q', 'A10-12Q', 'L40S-24Q')


def is_wanted(vgpu_type: values.VGPUType) -> bool:
    return (vgpu_type.name or '').endswith(WANTED)


class RecreateInput:
    """A host that things happen to, and somebody who keeps looking."""

    def __init__(self) -> None:
        self.kernel = kernel.Kernel(
            hosts.gpu(live.T4, live.SMALL_T4),
            hosts.gpu(live.A10, live.SMALL_A10, vfs=4),
            hosts.gpu(live.L40S, live.SMALL_L40S, vfs=5, vendor_vfio=True),
            hosts.gpu('0000:e1:00.0', boards.NETWORK_CARD),
        )
        self.files = self.kernel.files
        self.monitor = incremental_reader.IncrementalReader(
            self.files, is_wanted
        )
        #: How often a GPU was read without the others.
        self.alone = 0

    def change(self, address: str, **changes: typing.Any) -> None:
        self.kernel.update(values.PciAddress.parse(address), **changes)
        self.kernel.settle()

    def gpu(self, address: str) -> simulation.GPU:
        return self.kernel.get(values.PciAddress.parse(address))

    def require_equal(self) -> values.Host:
        """Whoever keeps looking sees what is seen at first sight."""
        anew = sysfs.read_host(self.files)
        for gpu in anew.gpus:
            alone = self.monitor.read_gpu(gpu.name)
            if alone is not None:
                self.alone += 1
                assert _plain(alone) == _plain(gpu), (alone, gpu)
        again = self.monitor.read()
        assert again.faults == anew.faults
        assert again.other_functions == anew.other_functions
        assert list(map(_plain, again.gpus)) == list(map(_plain, anew.gpus))
        assert self.monitor.read() == again
        return again


def _plain(gpu: values.PhysicalGPU) -> object:
    """A GPU with what it offers of the types that are wanted."""
    return (
        gpu.types,
        dataclasses.replace(
            gpu,
            offers=_only_wanted(gpu.offers),
            vfs=tuple(
                dataclasses.replace(vf, offers=_only_wanted(vf.offers))
                for vf in gpu.vfs
            ),
            named_types=(),
        ),
    )


def _only_wanted(
    offers: tuple[values.Offer, ...],
) -> tuple[values.Offer, ...]:
    return tuple(offer for offer in offers if is_wanted(offer.type))


# -- what happens -----------------------------------------------------------


def make_vgpu(scene: RecreateInput, address: str, number: int) -> None:
    """On the first place that takes it, of one type or another."""
    gpu = scene.gpu(address)
    board_type = gpu.board.types[number % len(gpu.board.types)]
    for place in range(gpu.vfs) if gpu.board.total_vfs else (None,):
        if gpu.types_ready and gpu.available(board_type, place):
            made = simulation.Created(board_type.id, place)
            scene.change(address, created=(*gpu.pinned(), made))
            return


def remove_vgpu(scene: RecreateInput, address: str, number: int) -> None:
    made = list(scene.gpu(address).pinned())
    if made:
        made.pop(number % len(made))
        scene.change(address, created=tuple(made))


def move_vgpu(scene: RecreateInput, address: str, number: int) -> None:
    """An mdev is made anew elsewhere, with its UUID, between two looks."""
    gpu = scene.gpu(address)
    made = list(gpu.pinned())
    if made and gpu.vfs:
        moved = made.pop(number % len(made))
        free = [vf for vf in range(gpu.vfs) if not gpu.on(vf)]
        place = free[0] if free else moved.vf
        made.append(dataclasses.replace(moved, vf=place))
        scene.change(address, created=tuple(made))


def retype_vgpu(scene: RecreateInput, address: str, number: int) -> None:
    """An mdev is made anew of another type, with its UUID."""
    gpu = scene.gpu(address)
    types = gpu.board.types
    if len(made := gpu.pinned()) == 1:
        other = types[number % len(types)].id
        scene.change(
            address, created=(dataclasses.replace(made[0], type_id=other),)
        )


def exhaust(scene: RecreateInput, address: str, number: int) -> None:
    """The driver has a change of mind about how many of a type it makes."""
    board = scene.gpu(address).board
    types = [
        dataclasses.replace(t, maximum=number % 3) if is_board_type(t) else t
        for t in board.types
    ]
    scene.change(address, board=dataclasses.replace(board, types=tuple(types)))


def is_board_type(board_type: boards.BoardType) -> bool:
    return (board_type.name or '').endswith(WANTED)


def set_vfs(scene: RecreateInput, address: str, number: int) -> None:
    gpu = scene.gpu(address)
    if gpu.board.total_vfs:
        scene.change(
            address, vfs=number % (gpu.board.total_vfs + 1), created=()
        )


def set_types_ready(scene: RecreateInput, address: str, number: int) -> None:
    scene.change(address, types_ready=bool(number % 2), created=())


def set_driver(scene: RecreateInput, address: str, number: int) -> None:
    """Mostly types go with their driver; not always at once."""
    driver = ('default', 'vfio-pci', None)[number % 3]
    ready = driver == 'default' or number > 5
    scene.change(address, driver=driver, types_ready=ready, created=())


def renumber(scene: RecreateInput, address: str, number: int) -> None:
    """Another release of the driver, with other ids."""
    board = stores.renumber(scene.gpu(address).board)
    scene.change(address, board=board, created=())


def change_framework(scene: RecreateInput, address: str, number: int) -> None:
    gpu = scene.gpu(address)
    if gpu.board.total_vfs:
        scene.change(address, vendor_vfio=not gpu.vendor_vfio, created=())


def exchange(scene: RecreateInput, address: str, number: int) -> None:
    """Another GPU in the same slot, or one of another manufacturer."""
    board = (
        live.SMALL_T4,
        live.SMALL_A10,
        live.SMALL_L40S,
        dataclasses.replace(scene.gpu(address).board, subsystem=(1, 2)),
    )[number % 4]
    scene.change(
        address,
        board=board,
        vfs=min(scene.gpu(address).vfs, board.total_vfs),
        created=(),
    )


EVENTS: tuple[Callable[[RecreateInput, str, int], None], ...] = (
    make_vgpu,
    remove_vgpu,
    move_vgpu,
    retype_vgpu,
    exhaust,
    set_vfs,
    set_types_ready,
    set_driver,
    renumber,
    change_framework,
    exchange,
)
_STORIES = st.lists(
    st.tuples(
        # What is most common is to be there most often.
        st.sampled_from((make_vgpu, make_vgpu, remove_vgpu, *EVENTS)),
        st.sampled_from((live.T4, live.A10, live.L40S)),
        st.integers(0, 11),
    ),
    min_size=1,
    max_size=12,
)


class TestEqual(testtools.TestCase):
    @hypothesis.settings(max_examples=300, derandomize=True)
    @hypothesis.given(_STORIES)
    def test_whatever_happens(
        self, story: list[tuple[typing.Any, str, int]]
    ) -> None:
        scene = RecreateInput()
        scene.require_equal()
        for event, address, number in story:
            event(scene, address, number)
            scene.require_equal()

    def test_a_gpu_that_goes_and_comes(self) -> None:
        scene = RecreateInput()
        self.assertEqual(3, len(scene.require_equal().gpus))
        gone = scene.gpu(live.A10)
        scene.kernel.unplug(gone.address)
        self.assertEqual(2, len(scene.require_equal().gpus))
        scene.kernel.plug(gone)
        self.assertEqual(3, len(scene.require_equal().gpus))

    def test_a_parent_of_the_kernels_own_that_comes(self) -> None:
        scene = RecreateInput()
        before = scene.require_equal()
        scene.kernel._mtty = True
        scene.kernel.render()
        self.assertEqual(len(before.gpus) + 1, len(scene.require_equal().gpus))

    def test_types_on_the_gpu_and_functions_without(self) -> None:
        """A T4 whose functions somebody enabled; it shares itself."""
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        tree.write_tree(
            simulation.SimulatedHost(
                (hosts.gpu(live.A10, boards.A10, vfs=2, types_ready=False),)
            ),
            directory,
        )
        gpu = directory / 'bus/pci/devices' / live.A10
        look = incremental_reader.IncrementalReader(
            files.Files(str(directory)), is_wanted
        )
        self.assertEqual((), look.read().gpus[0].offers)
        types = gpu / 'mdev_supported_types/nvidia-596'
        types.mkdir(parents=True)
        (types / 'name').write_text('NVIDIA A10-12Q')
        (types / 'available_instances').write_text('2')
        for _ in range(3):
            (offer,) = look.read().gpus[0].offers
            self.assertEqual(2, offer.available)
        (types / 'available_instances').write_text('1')
        (offer,) = look.read().gpus[0].offers
        self.assertEqual(1, offer.available)

    def test_each_event_is_seen_by_the_next_look(self) -> None:
        """So that none of them is without effect in the stories above."""
        alone = 0
        for event in EVENTS:
            seen = []
            for number in range(3):
                scene = RecreateInput()
                make_vgpu(scene, live.A10, 1)
                before = scene.require_equal()
                event(scene, live.A10, number)
                seen.append(scene.require_equal() != before)
                alone += scene.alone
            self.assertIn(True, seen, event.__name__)
        self.assertGreater(alone, len(EVENTS) * 3 * 2)


class TestOnDisk(testtools.TestCase):
    """With the numbers that a file system gives, as sysfs does.

    Some give a number again that was another file's before.
    """

    def setUp(self) -> None:
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.asked: list[str] = []
        test = self

        class Noting(files.Files):
            def read(self, *parts: str) -> str:
                test.asked.append(parts[-1])
                return super().read(*parts)

        tree.write_tree(
            simulation.SimulatedHost(
                (
                    hosts.gpu(live.T4, boards.T4, 'nvidia-232'),
                    hosts.gpu(live.A10, boards.A10, 'nvidia-596', vfs=8),
                )
            ),
            self.root,
        )
        self.monitor = incremental_reader.IncrementalReader(
            Noting(str(self.root)), is_wanted
        )

    def test_nothing_new_is_the_same_object(self) -> None:
        before = self.monitor.read()
        self.asked.clear()
        self.assertIs(before, self.monitor.read())
        # Of the A10 seven functions are free, of the T4 there is the GPU.
        self.assertEqual(
            ['available_instances'] * 8 + ['sriov_numvfs'], sorted(self.asked)
        )

    def test_what_is_the_same_stays_the_same_object(self) -> None:
        before = self.monitor.read()
        available = self.root / (
            'bus/pci/devices/0000:41:00.7/mdev_supported_types/nvidia-596/'
            'available_instances'
        )
        available.write_text('0\n')
        after = self.monitor.read()
        changed = [
            new.address
            for old, new in zip(
                before.gpus[0].vfs, after.gpus[0].vfs, strict=True
            )
            if old is not new
        ]
        self.assertEqual(['0000:41:00.7'], list(map(str, changed)))
        self.assertIs(before.gpus[1], after.gpus[1])

    def test_one_gpu_is_read_without_the_others(self) -> None:
        host = self.monitor.read()
        self.asked.clear()
        self.assertIs(host.gpus[1], self.monitor.read_gpu(host.gpus[1].name))
        self.assertEqual(['available_instances'], self.asked)

    def test_a_gpu_that_nobody_has_read_is_not_known(self) -> None:
        self.assertIsNone(self.monitor.read_gpu('pci_0000_41_00_0'))

    def test_types_that_are_not_asked_about_are_named_all_the_same(
        self,
    ) -> None:
        gpu = self.monitor.read().gpus[0]
        self.assertEqual(
            [t.id for t in boards.A10.types], [t.id for t in gpu.types]
        )
        self.assertEqual(
            {'nvidia-596'}, {o.type.id for vf in gpu.vfs for o in vf.offers}
        )

    def test_a_fault_is_there_as_long_as_it_is(self) -> None:
        self.monitor.read()
        broken = self.root / (
            'bus/pci/devices/0000:41:00.7/mdev_supported_types/nvidia-596/'
            'available_instances'
        )
        broken.write_text('many\n')
        for _ in range(2):
            (fault,) = self.monitor.read().faults
            self.assertIn("'many'", fault.reason)
            self.assertIsNone(self.monitor.read_gpu('pci_0000_41_00_0'))
        broken.write_text('1\n')
        self.assertEqual((), self.monitor.read().faults)

    def test_types_that_come_late_on_one_function(self) -> None:
        function = self.root / 'bus/pci/devices/0000:41:00.7'
        types = function / 'mdev_supported_types'
        late = types.rename(function.resolve() / 'elsewhere')
        self.assertEqual((), self.monitor.read().gpus[0].vfs[3].offers)
        late.rename(types)
        self.assertEqual(1, len(self.monitor.read().gpus[0].vfs[3].offers))

    def test_types_that_only_one_function_has(self) -> None:
        function = self.root / 'bus/pci/devices/0000:41:00.7'
        types = function / 'mdev_supported_types'
        shutil.copytree(types / 'nvidia-595', types / 'nvidia-9')
        ids = [t.id for t in self.monitor.read().gpus[0].types]
        self.assertIn('nvidia-9', ids)
        shutil.rmtree(types / 'nvidia-9')
        ids = [t.id for t in self.monitor.read().gpus[0].types]
        self.assertNotIn('nvidia-9', ids)

    def test_without_sysfs(self) -> None:
        nowhere = incremental_reader.IncrementalReader(
            files.Files(str(self.root / 'nowhere'))
        )
        self.assertRaises(exception.HostUnreadable, nowhere.read)
