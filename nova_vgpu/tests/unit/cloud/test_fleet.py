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

import dataclasses

import testtools

from nova_vgpu import values
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.tests.unit.cloud import clouds

ROOT = fleet.Listed('r', 'compute1', None, 'r')
VGPU = fleet.Summary((fleet.Stock('VGPU', 8, 1),))
PCI = 'compute1_pci_0000_84_00_0'


class TestProviders(testtools.TestCase):
    def make(
        self,
        name: str = PCI,
        summary: fleet.Summary = VGPU,
        parent: str = 'r',
    ) -> list[str]:
        listed = [ROOT, fleet.Listed('g', name, parent, 'r')]
        return [
            gpu.address
            for gpu in fleet.make_gpus(listed, {'g': summary, 'r': VGPU})
        ]

    def test_what_is_a_gpu(self) -> None:
        typed = fleet.Summary((), frozenset(clouds.T4))
        custom = fleet.Summary((fleet.Stock('CUSTOM_X', 1, 0),))
        of_pci = dataclasses.replace(
            VGPU, traits=frozenset({'COMPUTE_MANAGED_PCI_DEVICE'})
        )
        of_cyborg = dataclasses.replace(
            VGPU, traits=frozenset({'OWNER_CYBORG'})
        )
        for description, found, expected in (
            ("of Nova's driver", self.make(), ['0000:84:00.0']),
            ('without inventory', self.make(PCI, typed), ['0000:84:00.0']),
            ('of a share', self.make(f'{PCI}_T4-2Q'), ['0000:84:00.0']),
            ('with another class', self.make(PCI, custom), []),
            ('of the PCI tracker', self.make(PCI, of_pci), []),
            ('of Cyborg', self.make(PCI, of_cyborg), []),
            ('a PCI device', self.make('compute1_0000:84:00.0'), []),
            ('of another host', self.make('x_pci_0000_84_00_0'), []),
            ('not below the node', self.make(parent='other'), []),
            (
                'not a PCI device',
                self.make(
                    'compute1_mtty',
                    dataclasses.replace(VGPU, traits=frozenset(clouds.T4)),
                ),
                ['mtty'],
            ),
        ):
            self.assertEqual(expected, found, description)

    def test_one_that_was_made_since_the_list_is_left_out(self) -> None:
        self.assertEqual((), fleet.make_gpus([ROOT], {'new': VGPU}))

    def test_names_are_printable(self) -> None:
        root = fleet.Listed('r', 'a\x1b[31m\u202eb', None, 'r')
        child = fleet.Listed('g', f'{root.name}_pci_0000_84_00_0', 'r', 'r')
        (gpu,) = fleet.make_gpus([root, child], {'g': VGPU})
        self.assertEqual(r'a\x1b[31m\u202eb', gpu.host)

    def test_gpus_without_a_summary_are_missing(self) -> None:
        listed = [
            ROOT,
            fleet.Listed('g', PCI, 'r', 'r'),
            fleet.Listed('h', 'compute1_pci_0000_85_00_0', 'r', 'r'),
            fleet.Listed('n', 'compute1_other', 'r', 'r'),
        ]
        (missing,) = fleet.find_missing(listed, {'g': VGPU})
        self.assertEqual('h', missing.uuid)


def with_classes(*found: tuple[int, int, int]) -> fleet.GPU:
    """A GPU with two classes: capacity, used and reserved of each."""
    return dataclasses.replace(
        clouds.gpu('c 84'),
        stocks=tuple(
            fleet.Stock(name, *numbers)
            for name, numbers in zip(
                ('CUSTOM_A40_8Q', 'VGPU'), found, strict=True
            )
        ),
    )


class TestReserved(testtools.TestCase):
    def test_what_a_summary_does_not_tell(self) -> None:
        gpu = clouds.gpu
        twice = dataclasses.replace(
            gpu('c 91'),
            stocks=(fleet.Stock('VGPU', 1, 1), fleet.Stock('CUSTOM_X', 7, 0)),
        )
        for description, gpus, expected in (
            ('nothing in use', [gpu('c 84'), gpu('c 85', 6)], []),
            ('one is full', [gpu('c 84', 8, 8), gpu('c 85')], []),
            ('fenced or full', [gpu('c 84', 1, 1), gpu('c 85')], ['c 84']),
            ('none is free', [gpu('c 84', 8, 8), gpu('c 85', 8, 8)], ['c 84']),
            (
                'one of those is known to be full',
                [gpu('c 84', 8, 8, 0), gpu('c 85', 8, 8)],
                [],
            ),
            (
                'one of those is known to be fenced',
                [gpu('c 84', 1, 1, 7), gpu('c 85', 1, 1)],
                ['c 85'],
            ),
            (
                'another type has more',
                [gpu('c 84', 6, 6, 0, clouds.A40), gpu('c 85', 8, 7)],
                [],
            ),
            ('two classes', [twice], ['c 91']),
        ):
            self.assertEqual(
                [f'uuid of {where}' for where in expected],
                [found.uuid for found in fleet.find_unclear(gpus)],
                description,
            )

    def test_states(self) -> None:
        for gpu, state in (
            (clouds.gpu('c 84', 8, 7), 'free'),
            (clouds.gpu('c 84', 8, 8), 'full'),
            (clouds.gpu('c 84', 8, 8, 0), 'full'),
            (clouds.gpu('c 84', 1, 1, 7), 'fenced'),
            (clouds.gpu('c 84', 0, 0, 8), 'fenced'),
            # More is in use than Placement would give out.
            (clouds.gpu('c 84', 0, 1, 8), 'fenced'),
            # It has changed its class: each reserves what the other uses.
            (with_classes((3, 3, 1), (1, 1, 0)), 'full'),
            (with_classes((3, 3, 1), (1, 1, 3)), 'full'),
            (with_classes((1, 1, 3), (1, 1, 3)), 'fenced'),
            (with_classes((3, 2, 1), (1, 1, 3)), 'free'),
        ):
            self.assertEqual(state, gpu.state.value, str(gpu))

    def test_numbers_of_a_fenced_gpu(self) -> None:
        gpu = clouds.gpu('c 84', 1, 1)
        fields = {'total': 8, 'reserved': 7}
        read = fleet.complete(gpu, [values.Inventory('VGPU', **fields)])
        self.assertEqual(
            (8, 1, 7, 0), (read.total, read.used, read.reserved, read.free)
        )

    def test_one_that_is_read_by_itself_is_the_same(self) -> None:
        fields = {'total': 8, 'reserved': 5}
        held = values.PlacementProvider(
            'g',
            PCI,
            0,
            'r',
            (values.Inventory('VGPU', **fields),),
            (('VGPU', 2),),
            frozenset(clouds.T4),
        )
        self.assertEqual(
            fleet.Summary(
                (fleet.Stock('VGPU', 3, 2, 5),), frozenset(clouds.T4)
            ),
            fleet.summarise(held),
        )
