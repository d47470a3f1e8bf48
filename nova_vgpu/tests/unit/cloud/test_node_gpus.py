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

import testtools

from nova_vgpu import exception
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.nodes import node_gpus
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.tests.unit.cloud import clouds

GPUS = (
    clouds.gpu('compute1 84'),
    clouds.gpu('compute2 41', 6, traits=clouds.A40),
    clouds.gpu('compute3 41', 6, traits=clouds.T4, resource_class='CUSTOM_X'),
)


def make(name: str, specs: dict[str, str], id: str = '') -> flavors.Flavor:
    return flavors.parse(name, specs, id=id)


def of_type(name: str, trait: str, count: int = 1) -> flavors.Flavor:
    return make(
        name,
        {
            'resources:VGPU': str(count),
            f'trait:CUSTOM_VGPU_TYPE_{trait}': 'required',
        },
    )


A40 = of_type('gpu-a40', 'A40_8Q')
TWO = of_type('gpu-a40-2', 'A40_8Q', 2)
T4 = of_type('gpu-t4', 'T4_2Q')
OTHER_T4 = of_type('other-t4', 'T4_2Q')
WHOLE = make('whole', {'pci_passthrough:alias': 'gpu-A40:2'})
BOTH = make(
    'both', {'resources:VGPU': '1', 'pci_passthrough:alias': 'gpu-A40:1'}
)
PLAIN = make('plain', {}, 'id-of-plain')
LISTED = (A40, TWO, T4, OTHER_T4, WHOLE, BOTH, PLAIN)


class TestNodeGPUs(testtools.TestCase):
    def test_what_a_flavor_brings(self) -> None:
        for flavor, expected in (
            (A40, node_gpus.NodeGPUs(1, 'A40-8Q')),
            (TWO, node_gpus.NodeGPUs(2, 'A40-8Q')),
            (WHOLE, node_gpus.NodeGPUs(2, 'A40', True)),
            (BOTH, node_gpus.NodeGPUs(2)),
            (PLAIN, node_gpus.NodeGPUs(0)),
            (
                make('any', {'resources:VGPU': '3'}),
                node_gpus.NodeGPUs(3),
            ),
            (
                make('own', {'resources:CUSTOM_X': '1'}),
                node_gpus.NodeGPUs(1, 'T4-2Q'),
            ),
            (
                make(
                    'two-of-two',
                    {
                        'resources1:VGPU': '1',
                        'trait1:CUSTOM_VGPU_TYPE_A40_8Q': 'required',
                        'resources2:VGPU': '1',
                        'trait2:CUSTOM_VGPU_TYPE_T4_2Q': 'required',
                        'group_policy': 'none',
                    },
                ),
                node_gpus.NodeGPUs(2),
            ),
        ):
            self.assertEqual(expected, node_gpus.find(flavor, GPUS))

    def test_without_placement_a_flavor_says_itself_what_it_brings(
        self,
    ) -> None:
        for flavor in (A40, TWO, WHOLE, PLAIN):
            self.assertEqual(
                node_gpus.find(flavor, GPUS), node_gpus.find(flavor, ())
            )

    def test_words(self) -> None:
        for gpus, words in (
            (node_gpus.NodeGPUs(1, 'A40-8Q'), '1 vGPU A40-8Q'),
            (node_gpus.NodeGPUs(2, 'A40', True), '2 GPUs A40'),
            (node_gpus.NodeGPUs(2), '2 vGPUs'),
        ):
            self.assertEqual(words, str(gpus))


class TestChoice(testtools.TestCase):
    def choose(self, gpus: bool = True, **words: str | int) -> str:
        choice = node_gpus.FlavorChoice(**words)  # type: ignore[arg-type]
        found = node_gpus.choose_flavor(LISTED, GPUS if gpus else (), choice)
        return found.name

    def test_a_flavor_is_found_by_what_it_brings(self) -> None:
        for gpus in (True, False):
            for words, name in (
                ({'flavor': 'plain'}, 'plain'),
                ({'flavor': 'id-of-plain'}, 'plain'),
                ({'type': 'nvidia a40-8q'}, 'gpu-a40'),
                ({'type': 'A40-8Q', 'count': 2}, 'gpu-a40-2'),
                ({'passthrough': 'nvidia a40', 'count': 2}, 'whole'),
            ):
                self.assertEqual(name, self.choose(gpus, **words), str(words))

    def test_a_name_with_a_space_that_a_terminal_may_not_print(self) -> None:
        """Nova accepts any space in a name."""
        wanted = 'gpu\u3000a40'
        flavor = flavors.parse(r'gpu\u3000a40', {}, raw_name=wanted)
        for text in (wanted, r'gpu\u3000a40'):
            self.assertIs(flavor, node_gpus.find_flavor((A40, flavor), text))
        self.assertEqual('gpu-a40', A40.nova_name)
        self.assertEqual(
            PLAIN,
            flavors.parse('plain', {}, id=PLAIN.id, raw_name='plain'),
        )
        self.assertEqual(wanted, flavor.nova_name)

    def test_no_flavor_or_several(self) -> None:
        for words, text in (
            ({'flavor': 'a\x1b[2J'}, r'no flavor a\x1b[2J that'),
            ({'type': 'A40-8Q', 'count': 3}, 'exactly 3 vGPUs A40-8Q'),
            ({'type': 'A40-9Q'}, 'Did you mean A40-8Q?'),
            ({'type': 'T4-2Q'}, 'brings 1 vGPU T4-2Q: gpu-t4, other-t4.'),
            ({'passthrough': 'A40'}, 'exactly 1 GPU A40'),
            ({'passthrough': 'a\x1b'}, r'Model a\x1b is not known'),
        ):
            error = self.assertRaises(
                exception.NotInCloud, self.choose, True, **words
            )
            self.assertIn(text, str(error))

    def test_an_unknown_type_without_placement(self) -> None:
        error = self.assertRaises(
            exception.NotInCloud, self.choose, False, type='xyz'
        )
        self.assertIn('Type xyz is not known', str(error))


class TestProblems(testtools.TestCase):
    def find(
        self,
        flavor: flavors.Flavor,
        gpus: tuple[fleet.GPU, ...] | None = GPUS,
    ) -> str:
        """What is wrong; without GPUs, Placement was not asked."""
        found = node_gpus.find(flavor, gpus or ())
        return '\n'.join(node_gpus.find_problems(flavor, found, gpus))

    def test_gpus_that_a_flavor_does_not_name(self) -> None:
        """They may well be there: that is not known."""
        own = make('own', {'resources:CUSTOM_X': '1'})
        alias = make('alias', {'pci_passthrough:alias': 'a100:1'})
        unknown = 'It is not known which GPUs flavor'
        for flavor, gpus, words in (
            (own, None, f'{unknown} own brings: it asks for CUSTOM_X.'),
            (own, None, 'Leave out --no-fit-check, so that Placement'),
            (own, GPUS, ''),
            (make('x', {'resources:CUSTOM_FPGA': '1'}), GPUS, 'neither'),
            (alias, None, f'{unknown} alias brings: it asks for a100:1.'),
            (alias, GPUS, f'{unknown} alias brings: it asks for a100:1.'),
            (alias, GPUS, '"nova-vgpu config generate --passthrough"'),
            (PLAIN, None, 'brings neither vGPUs nor whole GPUs'),
        ):
            found = self.find(flavor, gpus)
            self.assertIn(words, found)
            self.assertEqual(not words, not found)
            if unknown in words:
                self.assertNotIn('neither', found)

    def test_flavors_for_cuda(self) -> None:
        for flavor in (
            A40,
            TWO,
            WHOLE,
            BOTH,
            make('any', {'resources:VGPU': '1'}),
        ):
            self.assertEqual('', self.find(flavor), flavor.name)

    def test_flavors_that_do_not_bring_cuda(self) -> None:
        for flavor, words in (
            (PLAIN, 'brings neither vGPUs nor whole GPUs'),
            (of_type('b', 'T4_2B'), 'T4-2B, which do not offer CUDA'),
            (of_type('m10', 'M10_2Q'), 'M10-2Q, which do not offer CUDA'),
            (
                make('amd', {'pci_passthrough:alias': 'gpu-1002-740f:1'}),
                'brings GPUs of AMD',
            ),
        ):
            self.assertIn(words, self.find(flavor))
