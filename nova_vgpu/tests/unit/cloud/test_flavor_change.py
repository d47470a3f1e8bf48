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

from nova_vgpu import exception
from nova_vgpu.cloud.orders import flavor_change
from nova_vgpu.cloud.orders import flavors

SIZE = flavors.Size(4, 16384, 40)
SPECS = {'resources:VGPU': '1', 'trait:CUSTOM_A': 'required'}
WANTED = flavors.parse('small', SPECS, SIZE)
CREATED, UPDATED, UNCHANGED = flavor_change.Result


class TestPlanChange(testtools.TestCase):
    def test_a_missing_flavor_is_created(self) -> None:
        self.assertEqual(
            flavor_change.Change(CREATED, tuple(SPECS.items())),
            flavor_change.plan_change(WANTED, None),
        )

    def test_extra_specs_of_an_existing_flavor(self) -> None:
        specs = tuple(SPECS.items())
        for description, there, expected in (
            ('the same', SPECS, (UNCHANGED,)),
            ('none yet', {}, (UPDATED, specs)),
            ('some yet', dict(specs[:1]), (UPDATED, specs[1:])),
            (
                'the operator has more',
                SPECS | {'hw:cpu_policy': 'dedicated', 'aggregate:x': 'y'},
                (UNCHANGED,),
            ),
            (
                'another type',
                {'resources:VGPU': '1', 'trait:CUSTOM_B': 'required'},
                (UPDATED, specs[1:], ('trait:CUSTOM_B',)),
            ),
            (
                'two groups',
                {'resources1:VGPU': '1', 'group_policy': 'none'},
                (UPDATED, specs, ('group_policy', 'resources1:VGPU')),
            ),
            (
                'a network card',
                SPECS | {'pci_passthrough:alias': 'nic:1'},
                (UNCHANGED,),
            ),
            (
                'a whole GPU and a network card',
                SPECS | {'pci_passthrough:alias': 'gpu-A40:1 , nic:1'},
                (UPDATED, (('pci_passthrough:alias', 'nic:1'),)),
            ),
            (
                'a whole GPU',
                SPECS | {'pci_passthrough:alias': 'gpu-A40:1'},
                (UPDATED, (), ('pci_passthrough:alias',)),
            ),
            (
                'pages',
                SPECS | {'hw:mem_page_size': 'large'},
                (UPDATED, (), ('hw:mem_page_size',)),
            ),
        ):
            existing = flavors.parse('small', there, SIZE)
            self.assertEqual(
                flavor_change.Change(*expected),
                flavor_change.plan_change(WANTED, existing),
                description,
            )

    def test_other_devices_stay_beside_whole_gpus(self) -> None:
        alias = 'pci_passthrough:alias'
        wanted = flavors.parse('small', {alias: 'gpu-A40:2'}, SIZE)
        for there, expected in (
            ('nic:1,gpu-A40:2', (UNCHANGED,)),
            ('nic:1, gpu-A40:1', (UPDATED, ((alias, 'gpu-A40:2,nic:1'),))),
            ('nic:1', (UPDATED, ((alias, 'gpu-A40:2,nic:1'),))),
        ):
            existing = flavors.parse('small', {alias: there}, SIZE)
            self.assertEqual(
                flavor_change.Change(*expected),
                flavor_change.plan_change(wanted, existing),
                there,
            )

    def test_what_nova_cannot_change_is_named(self) -> None:
        existing = dataclasses.replace(
            WANTED, size=flavors.Size(8, 16384, 40, 1), is_public=False
        )
        error = self.assertRaises(
            exception.FlavorConflict,
            *(flavor_change.plan_change, WANTED, existing),
        )
        self.assertEqual(
            'Flavor small exists and differs: 8 vCPUs instead of 4, 1 GiB of '
            'ephemeral disk instead of 0, it is private. Nova cannot change '
            'that: use another name, or delete the flavor first.',
            str(error),
        )
