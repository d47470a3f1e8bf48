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
import typing

import testtools

from nova_vgpu import exception
from nova_vgpu.cloud.gpus import type_choice
from nova_vgpu.cloud.orders import flavor_creation
from nova_vgpu.cloud.orders import flavor_order
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.tests.unit.cloud import clouds

REQUEST = flavor_creation.FlavorRequest(
    'render', 'A40-8Q', flavors.Size(4, 16384, 40)
)


class TestValidation(testtools.TestCase):
    def refuse(self, **changes: typing.Any) -> str:
        error = self.assertRaises(
            exception.UsageError,
            flavor_creation.require_valid,
            dataclasses.replace(REQUEST, **changes),
        )
        return str(error)

    def test_names(self) -> None:
        flavor_creation.require_valid(REQUEST)
        for name in ('<b>GPU</b> & co.', 'vgpu.größe', 'a' * 255):
            flavor_creation.require_valid(
                dataclasses.replace(REQUEST, name=name)
            )
        for name, shown in (
            ('', '"" is not valid'),
            (' ', '" " is not valid'),
            (' a', '" a" is not valid'),
            ('a\x1b[2J', r'"a\x1b[2J" is not valid'),
            ('a\nb', r'"a\nb" is not valid'),
            ('a\u202eb', r'"a\u202eb" is not valid'),
            ('a' * 256, 'longer than 255'),
        ):
            self.assertIn(shown, self.refuse(name=name))

    def test_everything_that_is_wrong_is_said_at_once(self) -> None:
        self.assertEqual(
            '--count 0 is too small: at least 1.\n'
            '--vcpus 0 is too small: at least 1.\n'
            '--ram -1 is too small: at least 1.\n'
            '--swap -1 is too small: at least 0.\n'
            '--page-size huge is not valid: give large, small, any, or a size '
            'as 2MB or 1GB.',
            self.refuse(
                count=0, size=flavors.Size(0, -1, 0, 0, -1), page_size='huge'
            ),
        )


class TestWarnings(testtools.TestCase):
    def test_many_combinations_of_gpus(self) -> None:
        """25 hosts with eight GPUs each: 4096 ways for four vGPUs."""
        served = type_choice.find_type(
            [
                clouds.gpu(f'compute{host} 8{gpu}')
                for host in range(25)
                for gpu in range(8)
            ],
            'T4-2Q',
        )
        for policy, count, warned in (
            (flavor_order.Policy.SAME_GPU, 8, ''),
            (flavor_order.Policy.ANY, 4, '102400 combinations of GPUs'),
            (flavor_order.Policy.ANY, 3, ''),
            (flavor_order.Policy.DIFFERENT_GPUS, 4, ''),
            (flavor_order.Policy.DIFFERENT_GPUS, 5, '168000 combinations'),
        ):
            request = dataclasses.replace(REQUEST, count=count, policy=policy)
            found = flavor_creation.find_warnings(request, served)
            self.assertIn(warned, ' '.join(found))
            self.assertEqual(bool(warned), bool(found))
