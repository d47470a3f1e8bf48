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

"""How many vGPUs a GPU can really serve."""

import dataclasses

import testtools

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import capacity
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans

NO_MODES = values.GPUModes()
MANY_VFS = dataclasses.replace(boards.A40, total_vfs=48)


def vfio(*created: str, vfs: int = 32) -> simulation.GPU:
    return hosts.gpu(
        'c8:00.0', boards.L40S, *created, vfs=vfs, vendor_vfio=True
    )


def plan(
    card: simulation.GPU,
    short: str,
    max_instances: int | None = None,
    vfs: tuple[int, ...] | None = None,
) -> values.Capacity:
    """The capacity of a card for a type, on some of its VFs or on all."""
    gpu = hosts.make_gpu(card)
    (of_type,) = (t for t in gpu.types if capabilities.short_name(t) == short)
    functions = frozenset(
        (gpu.name, *(vf.name for vf in gpu.vfs))
        if vfs is None
        else (gpu.vfs[index].name for index in vfs)
    )
    return capacity.plan_capacity(
        gpu, of_type, functions, max_instances, {}, NO_MODES
    )


class TestCapacity(testtools.TestCase):
    def test_what_bounds_it(self) -> None:
        t4 = hosts.gpu('84:00.0', boards.T4)
        a40 = hosts.gpu('41:00.0', boards.A40, vfs=32)
        for case, found, expected in (
            ('a T4', plan(t4, 'T4-2Q'), (8, 'driver')),
            ('a T4, one for all', plan(t4, 'T4-16Q'), (1, 'driver')),
            ('a T4 and a cap', plan(t4, 'T4-2Q', 3), (3, 'max_instances')),
            ('a cap that is no cap', plan(t4, 'T4-2Q', 99), (8, 'driver')),
            ('32 VFs take 6', plan(a40, 'A40-8Q'), (6, 'type maximum')),
            ('32 VFs take 32', plan(a40, 'A40-1Q'), (32, 'VFs')),
            (
                '48 VFs take 32, not 48',
                plan(hosts.gpu('41:00.0', MANY_VFS, vfs=48), 'A40-1Q'),
                (32, 'type maximum'),
            ),
            (
                '4 VFs take 4, not 32',
                plan(hosts.gpu('41:00.0', boards.A40, vfs=4), 'A40-1Q'),
                (4, 'VFs'),
            ),
            (
                'two VFs are listed',
                plan(a40, 'A40-1Q', vfs=(0, 5)),
                (2, 'VFs'),
            ),
            (
                'more VFs are listed than it takes',
                plan(a40, 'A40-24Q', vfs=(0, 1, 2)),
                (2, 'type maximum'),
            ),
            (
                'vendor VFIO, by the catalogue',
                plan(vfio(), 'L40S-24Q'),
                (2, 'type maximum'),
            ),
            (
                'vendor VFIO, few VFs',
                plan(vfio(vfs=1), 'L40S-24Q'),
                (1, 'VFs'),
            ),
            (
                'Intel',
                plan(
                    hosts.gpu('00:02.0', boards.HD_530),
                    'i915-GVTg_V5_4',
                ),
                (4, 'driver'),
            ),
        ):
            self.assertEqual(expected, (found.total, found.bound), case)

    def test_what_exists_and_what_there_is_room_for(self) -> None:
        t4 = hosts.gpu('84:00.0', boards.T4, 'nvidia-231', 'nvidia-231')
        a40 = hosts.gpu(
            '41:00.0', boards.A40, 'nvidia-562', 'nvidia-562', vfs=32
        )
        l40s = vfio('nvidia-1155')
        for case, found, expected in (
            # total, existing, room
            ('a T4 with 2 of 8', plan(t4, 'T4-2Q'), (8, 2, 6)),
            ('a T4 with 2 and a cap of 5', plan(t4, 'T4-2Q', 5), (5, 2, 6)),
            ('a cap below what exists', plan(t4, 'T4-2Q', 1), (2, 2, 6)),
            ('an A40 with 2 of 6', plan(a40, 'A40-8Q'), (6, 2, 30)),
            (
                'an A40 whose listed VFs are free',
                plan(a40, 'A40-8Q', vfs=(2, 3)),
                (2, 0, 2),
            ),
            (
                'an A40 whose other VFs use up the most',
                plan(a40, 'A40-8Q', vfs=(0, *range(2, 32))),
                (5, 1, 30),
            ),
            ('an L40S with 1 of 2', plan(l40s, 'L40S-24Q'), (2, 1, 31)),
        ):
            self.assertEqual(
                expected, (found.total, found.existing, found.room), case
            )

    def test_another_series_of_the_same_size_takes_places(self) -> None:
        t4 = hosts.gpu('84:00.0', boards.T4, 'nvidia-319')  # T4-4C
        a40 = hosts.gpu(
            '41:00.0', boards.A40, 'nvidia-581', 'nvidia-581', vfs=32
        )  # A40-4C
        for case, found, expected in (
            ('on a T4', plan(t4, 'T4-4Q'), 3),
            ('on an A40', plan(a40, 'A40-4Q'), 10),
        ):
            self.assertEqual(expected, found.total, case)
            self.assertEqual(0, found.existing, case)

    def test_another_size_leaves_no_room(self) -> None:
        t4 = hosts.gpu('84:00.0', boards.T4, 'nvidia-231')
        self.assertEqual(0, plan(t4, 'T4-4Q').total)
        a40 = hosts.gpu('41:00.0', boards.A40, 'nvidia-562', vfs=32)
        self.assertEqual(0, plan(a40, 'A40-4Q').total)

    def test_sizes_that_are_mixed_count_by_memory(self) -> None:
        # A GPU that mixes sizes: 4Q is still on offer beside one 8Q.
        small = values.VGPUType(
            'nvidia-1', 'NVIDIA A40-4Q', values.TypeFacts(4096, 12)
        )
        large = values.VGPUType(
            'nvidia-2', 'NVIDIA A40-8Q', values.TypeFacts(8192, 6)
        )
        vfs = tuple(
            values.VirtualFunction(
                values.PciAddress.parse(f'41:{slot:02x}.{function}'),
                offers=(values.Offer(small, 1), values.Offer(large, 1)),
            )
            for slot in range(1, 4)
            for function in range(8)
        )
        busy = dataclasses.replace(
            vfs[0],
            offers=(),
            vgpus=(values.VGPU(vfs[0].name, 'nvidia-2', 'a'),),
        )
        gpu = values.PhysicalGPU(
            'pci_0000_41_00_0',
            ids=values.PciIds(0x10DE, 0x2235),
            vfs=(busy, *vfs[1:]),
        )
        functions = frozenset(vf.name for vf in gpu.vfs)
        found = capacity.plan_capacity(
            gpu, small, functions, None, {}, NO_MODES
        )
        self.assertEqual((10, 'type maximum'), (found.total, found.bound))
        found = capacity.plan_capacity(
            gpu, large, functions, None, {}, NO_MODES
        )
        self.assertEqual((6, 1), (found.total, found.existing))

    def test_what_is_off_the_lists_still_takes_its_place(self) -> None:
        # Mixed sizes: 24Q and 16Q leave 8 of 48 GB, and no list has them.
        eight = values.VGPUType('nvidia-1152', 'NVIDIA L40S-8Q')
        vfs = [
            values.VirtualFunction(
                values.PciAddress.parse(f'c8:00.{4 + index}'),
                'nvidia',
                (values.Offer(eight, 1),) if index > 1 else (),
                vendor_vfio=True,
            )
            for index in range(4)
        ]
        for index, type_id in enumerate(('nvidia-1155', 'nvidia-1154')):
            vgpu = values.VGPU(vfs[index].name, type_id)
            vfs[index] = dataclasses.replace(vfs[index], vgpus=(vgpu,))
        gpu = values.PhysicalGPU(
            'pci_0000_c8_00_0',
            values.PciAddress.parse('c8:00.0'),
            values.PciIds(0x10DE, 0x26B9),
            vfs=tuple(vfs),
        )
        names = {
            'nvidia-1155': 'NVIDIA L40S-24Q',
            'nvidia-1154': 'NVIDIA L40S-16Q',
        }
        found = capacity.plan_capacity(
            gpu, eight, gpu.functions, None, names, NO_MODES
        )
        self.assertEqual(1, found.total)

    def test_never_less_than_what_exists(self) -> None:
        # 3 x 4 GB and 2 x 6 GB fill an A10 that mixes sizes; a free A10
        # names the types.
        mixed = hosts.make_gpu(
            hosts.gpu(
                'd8:00.0',
                boards.A10,
                *['nvidia-593'] * 3,
                *['nvidia-594'] * 2,
                vfs=32,
                vendor_vfio=True,
            )
        )
        full = dataclasses.replace(
            mixed,
            vfs=tuple(dataclasses.replace(vf, offers=()) for vf in mixed.vfs),
        )
        free = hosts.make_gpu(
            hosts.gpu('3b:00.0', boards.A10, vfs=32, vendor_vfio=True)
        )
        host = values.Host((free, full))
        for name, expected in (('A10-4Q', 3), ('A10-6Q', 2)):
            declared = values.DeclaredType(name, name, ('d8:00.0', '3b:00.0'))
            found = plans.make_plan(values.Declaration((declared,)), host)
            self.assertEqual((), found.problems, name)
            counted = found.assignments[1].capacity
            assert counted is not None
            self.assertEqual(
                (expected, 'existing vGPUs'),
                (counted.total, counted.bound),
                name,
            )

    def test_never_more_than_what_the_functions_take(self) -> None:
        # The catalogue knows 2, one VF is enabled.
        found = plan(vfio(vfs=1), 'L40S-24Q', 5)
        self.assertEqual(1, found.total)


class TestMIG(testtools.TestCase):
    """GPU instances draw on the slices of one GPU."""

    def plan(
        self, device: int, wanted: str, *held: str
    ) -> tuple[int, int, str]:
        """Total, existing and bound on 16 VFs; the free ones offer a type."""
        ids = {name: f'nvidia-{n}' for n, name in enumerate((wanted, *held))}
        own = values.VGPUType(ids[wanted], f'NVIDIA {wanted}')
        vfs = []
        for index in range(16):
            address = values.PciAddress.parse(f'c1:0{index // 8}.{index % 8}')
            vgpus = tuple(
                values.VGPU(address.node_device_name, ids[name])
                for name in held[index : index + 1]
            )
            offers = () if vgpus else (values.Offer(own, 1),)
            vfs.append(values.VirtualFunction(address, None, offers, vgpus))
        gpu = values.PhysicalGPU(
            'pci_0000_c2_00_0',
            values.PciAddress.parse('c2:00.0'),
            values.PciIds(0x10DE, device),
            vfs=tuple(vfs),
        )
        names = {ids[name]: f'NVIDIA {name}' for name in ids}
        found = capacity.plan_capacity(
            gpu, own, gpu.functions, None, names, NO_MODES
        )
        return found.total, found.existing, found.bound

    def test_other_instances_take_slices_not_places(self) -> None:
        blackwell = 'RTX Pro 6000 Blackwell DC'
        for case, device, wanted, held, expected in (
            ('empty', 0x20B5, 'A100D-2-20C', [], 3),
            ('one slice taken', 0x20B5, 'A100D-2-20C', ['A100D-1-10C'], 3),
            (
                'two slices taken',
                0x20B5,
                'A100D-2-20C',
                ['A100D-1-10C', 'A100D-1-10C'],
                2,
            ),
            ('too little is left', 0x20B5, 'A100D-7-80C', ['A100D-1-10C'], 0),
            (
                'two in each instance',
                0x2BB5,
                f'{blackwell}-1-12Q',
                [f'{blackwell}-1-24Q'],
                6,
            ),
            (
                'three share one instance',
                0x2BB5,
                f'{blackwell}-1-24Q',
                [f'{blackwell}-1-8Q'] * 3,
                3,
            ),
            (
                'another series in the same instance',
                0x2BB5,
                f'{blackwell}-1-12Q',
                [f'{blackwell}-1-12A'],
                7,
            ),
            ('a model never heard of', 0xFFFF, 'Z9-2-20C', ['Z9-1-10C'], 1),
        ):
            total, existing, _ = self.plan(device, wanted, *held)
            self.assertEqual((expected, 0), (total, existing), case)


class TestUnknownModel(testtools.TestCase):
    """Neither the driver nor the catalogue tells a maximum."""

    def plan(
        self, shown: tuple[int, ...], *created: int, names: dict[str, str]
    ) -> values.Capacity:
        """The capacity for 4 GB on 16 VFs, of which the free show types."""
        four = values.VGPUType('nvidia-4', 'NVIDIA Z9000-4Q')
        vfs = []
        for index in range(16):
            address = values.PciAddress.parse(f'c1:0{index // 8}.{index % 8}')
            held = created[index : index + 1]
            vfs.append(
                values.VirtualFunction(
                    address,
                    offers=tuple(
                        values.Offer(
                            values.VGPUType(
                                f'nvidia-{gib}', f'NVIDIA Z9000-{gib}Q'
                            ),
                            1,
                        )
                        for gib in shown
                        if not held
                    ),
                    vgpus=tuple(
                        values.VGPU(address.node_device_name, f'nvidia-{gib}')
                        for gib in held
                    ),
                    vendor_vfio=True,
                )
            )
        gpu = values.PhysicalGPU(
            'pci_0000_c2_00_0',
            values.PciAddress.parse('c2:00.0'),
            values.PciIds(0x10DE, 0xFFFF),
            vfs=tuple(vfs),
        )
        return capacity.plan_capacity(
            gpu, four, gpu.functions, None, names, NO_MODES
        )

    def test_the_largest_type_tells_the_memory(self) -> None:
        names = {f'nvidia-{gib}': f'NVIDIA Z9000-{gib}Q' for gib in (4, 8, 32)}
        for case, found, expected in (
            ('an empty GPU', self.plan((4, 32), names={}), (8, 'memory')),
            (
                'one vGPU; names from elsewhere',
                self.plan((4,), 4, names=names),
                (8, 'memory'),
            ),
            (
                'one of another size',
                self.plan((4, 8), 8, names=names),
                (6, 'memory'),
            ),
            (
                'one vGPU, and no other size is named',
                self.plan((4,), 4, names={}),
                (16, 'VFs'),
            ),
        ):
            self.assertEqual(expected, (found.total, found.bound), case)


class TestFullGPU(testtools.TestCase):
    def test_a_full_card_is_still_counted(self) -> None:
        full = vfio('nvidia-1155', 'nvidia-1155')
        other = hosts.gpu('c9:00.0', boards.L40S, vfs=2, vendor_vfio=True)
        declared = values.DeclaredType(
            'L40S-24Q', 'vgpu_L40S-24Q', ('c8:00.0', 'c9:00.0')
        )
        plan = plans.make_plan(
            values.Declaration((declared,)), hosts.make_host(full, other)
        )
        self.assertEqual((), plan.problems)
        first = plan.assignments[0]
        self.assertEqual('nvidia-1155 (NVIDIA L40S-24Q)', str(first.type))
        assert first.capacity is not None
        self.assertEqual(
            (2, 2, 0),
            (
                first.capacity.total,
                first.capacity.existing,
                first.capacity.room,
            ),
        )

    def test_a_full_card_that_is_alone_is_found_by_the_id(self) -> None:
        full = vfio('nvidia-1155', 'nvidia-1155')
        declared = values.DeclaredType('nvidia-1155', 'x', ('c8:00.0',))
        plan = plans.make_plan(
            values.Declaration((declared,)), hosts.make_host(full)
        )
        (assigned,) = plan.assignments
        assert assigned.capacity is not None
        self.assertEqual(2, assigned.capacity.total)
