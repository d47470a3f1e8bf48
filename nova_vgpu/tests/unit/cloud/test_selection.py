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
from nova_vgpu.cloud.gpus import selection
from nova_vgpu.tests.unit.cloud import clouds

GPUS = (
    clouds.gpu('c1.example.org 84'),
    clouds.gpu('c1.example.org 41', traits=clouds.A40),
    clouds.gpu('c2 84'),
)


class TestSelection(testtools.TestCase):
    def test_filters(self) -> None:
        for filters, expected in (
            ({}, [0, 1, 2]),
            ({'host': 'c1'}, [0, 1]),
            ({'host': 'c1.example.org'}, [0, 1]),
            ({'model': 't4'}, [0, 2]),
            ({'model': 'A40', 'host': 'c2'}, []),
            ({'members': {'c2', 'c9'}}, [2]),
            ({'members': ()}, []),
            ({'members': {'c2'}, 'host': 'c1'}, []),
        ):
            found = selection.select_gpus(GPUS, **filters)
            self.assertEqual(
                [GPUS[n] for n in expected], list(found), str(filters)
            )

    def test_what_no_gpu_has_is_refused(self) -> None:
        for filters, expected in (
            (
                {'host': 'c'},
                'Placement has no GPU of host c. Hosts with GPUs: '
                'c1.example.org, c2.',
            ),
            (
                {'model': 'A\n16'},
                r'Placement has no GPU of model A\n16. Models with GPUs: A40, '
                'T4.',
            ),
        ):
            error = self.assertRaises(
                exception.NotInCloud, selection.select_gpus, GPUS, **filters
            )
            self.assertEqual(expected, str(error))

    def test_a_long_list_is_cut(self) -> None:
        many = [clouds.gpu(f'c{n:02} 84') for n in range(12)]
        error = self.assertRaises(
            exception.NotInCloud, selection.select_gpus, many, 'no'
        )
        self.assertIn('c00, c01', str(error))
        self.assertTrue(str(error).endswith('c09 and 2 more.'), error)

    def test_one_gpu_by_each_of_its_names(self) -> None:
        for wanted, host, expected in (
            ('uuid of c2 84', None, 2),
            ('c2_pci_0000_84_00_0', None, 2),
            ('41:00.0', None, 1),
            ('pci_0000_41_00_0', None, 1),
            ('0000:84:00.0', 'c2', 2),
            ('84:0.0', 'c1', 0),
        ):
            found = selection.find_gpu(GPUS, wanted, host)
            self.assertEqual(GPUS[expected], found, wanted)

    def test_a_divided_gpu_has_a_provider_for_each_type(self) -> None:
        shares = [
            dataclasses.replace(
                GPUS[0], device=f'{GPUS[0].device}_{name}', uuid=name
            )
            for name in ('T4-2Q', 'T4-2B')
        ]
        error = self.assertRaises(
            exception.NotInCloud, selection.find_gpu, shares, '84:00.0'
        )
        self.assertIn(
            'is divided and has 2 providers: '
            'c1.example.org_pci_0000_84_00_0_T4-2B, '
            'c1.example.org_pci_0000_84_00_0_T4-2Q',
            str(error),
        )
        self.assertEqual(
            shares[1],
            selection.find_gpu(shares, shares[1].name),
        )

    def test_no_gpu_or_several_are_refused(self) -> None:
        for wanted, host, expected in (
            ('84:00.0', None, 'More than one host has a GPU 84:00.0: c1'),
            ('99:00.0', None, 'no provider of a GPU 99:00.0. '),
            ('x\x07', 'c2', r'no provider of a GPU x\x07 on host c2'),
        ):
            error = self.assertRaises(
                exception.NotInCloud, selection.find_gpu, GPUS, wanted, host
            )
            self.assertIn(expected, str(error))
