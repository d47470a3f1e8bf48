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

"""Flavors that ask for whole GPUs."""

import typing

import testtools

from nova_vgpu import exception
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.orders import flavor_change
from nova_vgpu.cloud.orders import flavor_creation
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.cloud.orders import whole_gpu_order
from nova_vgpu.tests.unit.cloud import clouds

SIZE = flavors.Size(4, 16384, 40)
AMD = (
    'COMPUTE_MANAGED_PCI_DEVICE',
    'CUSTOM_GPU_VENDOR_AMD',
    'OWNER_NOVA',
)
GPUS = (
    clouds.whole('compute1 C1'),
    clouds.whole('compute1 C2', used=1),
    clouds.whole('compute2 C1'),
    clouds.whole(
        'compute2 C2', traits=AMD, resource_class='CUSTOM_PCI_1002_74A1'
    ),
    clouds.gpu('compute2 84'),
)


def request(**changes: typing.Any) -> flavor_creation.FlavorRequest:
    given: dict[str, typing.Any] = {'type': None, 'passthrough': 'A40'}
    return flavor_creation.FlavorRequest('x', size=SIZE, **given | changes)


def refuse(gpus: tuple[fleet.GPU, ...], wanted: str) -> str:
    try:
        whole_gpu_order.find_model(gpus, wanted)
    except exception.NotInCloud as error:
        return str(error)
    raise AssertionError(f'{wanted} was found')


class TestModels(testtools.TestCase):
    def test_a_model_in_any_spelling(self) -> None:
        for wanted in ('A40', 'a40', 'NVIDIA A40', '10de:2235'):
            model = whole_gpu_order.find_model(GPUS, wanted)
            self.assertEqual('A40', model.name)
            self.assertEqual(GPUS[:3], model.gpus, wanted)
        found = whole_gpu_order.find_model(GPUS, '1002:74A1')
        self.assertEqual(GPUS[3:4], found.gpus)

    def test_a_model_that_is_unknown(self) -> None:
        for wanted, words in (
            ('A4000X', 'Model A4000X is not known. Give its name'),
            ('A04', 'Model A04 is not known. Did you mean A40?'),
            ('a\x1b[2J', r'Model a\x1b[2J is not known.'),
            ('rtx6000\x1bada', r'Model rtx6000\x1bada is not known.'),
        ):
            text = refuse(GPUS, wanted)
            self.assertIn(words, text)
            self.assertIn('Models of whole GPUs: 1002:74a1, A40.', text)
        self.assertIn('Models of whole GPUs: none.', refuse((), 'x'))

    def test_a_model_that_no_host_passes_through(self) -> None:
        for wanted, words in (
            ('L40S', 'Placement has no CUSTOM_GPU_L40S. "nova-vgpu config'),
            ('T4', 'GPUs of this model serve vGPUs: T4-2Q. For these, use'),
            ('10de:abcd', 'Placement has no CUSTOM_PCI_10DE_ABCD.'),
            ('10de:25b6', 'PCI ids 10de:25b6 are ambiguous: A2, A16.'),
        ):
            self.assertIn(words, refuse(GPUS, wanted))

    def test_more_than_a_host_has(self) -> None:
        model = whole_gpu_order.find_model(GPUS, 'A40')
        whole_gpu_order.require_possible(model, 2)
        error = self.assertRaises(
            exception.NotInCloud, whole_gpu_order.require_possible, model, 3
        )
        self.assertIn('the most is 2', str(error))

    def test_gpus_that_no_new_server_gets(self) -> None:
        gone = clouds.whole('compute1 C1', capacity=0, used=1, reserved=1)
        model = whole_gpu_order.find_model((gone,), 'A40')
        whole_gpu_order.require_possible(model, 1)
        error = self.assertRaises(
            exception.NotInCloud, whole_gpu_order.require_live, model
        )
        self.assertIn('0000:c1:00.0 on compute1', str(error))
        in_use = clouds.whole('compute1 C2', used=1)
        whole_gpu_order.require_live(
            whole_gpu_order.find_model((gone, in_use), 'A40')
        )


class TestFlavors(testtools.TestCase):
    def make(self, **changes: typing.Any) -> dict[str, str]:
        model = whole_gpu_order.find_model(GPUS, 'A40')
        made = flavor_creation.make_flavor(request(**changes), model)
        return dict(made.extra_specs)

    def test_a_flavor_asks_for_the_alias_of_the_host(self) -> None:
        alias = {'pci_passthrough:alias': 'gpu-A40:2'}
        self.assertEqual(alias, self.make(count=2))
        memory = {'hw:mem_page_size': 'large', 'hw:locked_memory': 'true'}
        self.assertEqual(alias | memory, self.make(count=2, page_size='large'))

    def test_options_that_do_not_go_together(self) -> None:
        flavor_creation.require_valid(request())
        both = 'Give either --type or --passthrough.'
        for changes, expected in (
            ({'type': 'A40-8Q'}, both),
            ({'passthrough': None}, both),
            (
                {'resource_class': 'VGPU'},
                '--resource-class is for vGPUs, not for whole GPUs: leave it '
                'out.',
            ),
        ):
            error = self.assertRaises(
                exception.UsageError,
                flavor_creation.require_valid,
                request(**changes),
            )
            self.assertEqual(expected, str(error))

    def test_many_gpus_of_a_host_are_combined(self) -> None:
        gpus = tuple(clouds.whole(f'compute1 C{n}') for n in range(8))
        model = whole_gpu_order.find_model(gpus, 'A40')
        self.assertEqual(
            (), flavor_creation.find_warnings(request(count=4), model)
        )
        (found,) = flavor_creation.find_warnings(request(count=8), model)
        self.assertIn('up to 16777216 combinations', found)
        self.assertNotIn('--policy', found)

    def test_a_flavor_changes_from_vgpus_to_whole_gpus(self) -> None:
        wanted = flavors.parse('x', self.make())
        before = flavors.parse('x', {'resources:VGPU': '1', 'a:b': 'c'})
        there = flavor_change.plan_change(wanted, before)
        self.assertEqual(
            (('pci_passthrough:alias', 'gpu-A40:1'),), there.to_set
        )
        self.assertEqual(('resources:VGPU',), there.to_remove)
        back = flavor_change.plan_change(before, wanted)
        self.assertEqual(('pci_passthrough:alias',), back.to_remove)

    def test_what_a_flavor_asks_for_is_read(self) -> None:
        for alias, expected in (
            ('gpu-A40:1', {'A40': 1}),
            (' gpu-A40:1, nic:2,gpu-A40:2', {'A40': 3}),
            ('gpu-A40:1,gpu-T4:2', {'A40': 1, 'T4': 2}),
            ('gpu-1002-74a1:4', {'1002:74a1': 4}),
            ('gpu-RTX6000-Ada:1', {'RTX6000-Ada': 1}),
            # Not what is written for these GPUs: they have a model.
            ('gpu-10de-2235:1', {}),
            ('nic:1', {}),
            ('gpu-A40:0', {}),
            ('gpu-A40', {}),
            ('gpu-A40:x,:,', {}),
            ('', {}),
        ):
            flavor = flavors.parse('x', {'pci_passthrough:alias': alias})
            found = whole_gpu_order.list_devices(flavor)
            self.assertEqual(
                expected, {of.title: n for of, n in found.items()}, alias
            )
        self.assertEqual(
            {}, whole_gpu_order.list_devices(flavors.parse('x', {}))
        )
