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

from nova_vgpu.cloud.nodes import node_gpus
from nova_vgpu.cloud.nodes import server_request
from nova_vgpu.tests.unit.cloud import server_orders


class TestProblems(testtools.TestCase):
    def find(self, **changes: typing.Any) -> list[str]:
        request = dataclasses.replace(server_orders.REQUEST, **changes)
        return list(server_request.find_problems(request))

    def test_a_good_request_has_none(self) -> None:
        for changes in (
            {},
            {'network': 'my "network"', 'key_name': 'a', 'servers': 20},
            {'root_volume_gib': 1, 'availability_zone': 'gpu'},
        ):
            self.assertEqual([], self.find(**changes))

    def test_everything_that_is_missing_is_named_at_once(self) -> None:
        found = server_request.find_problems(
            server_request.ServersRequest(node_gpus.FlavorChoice())
        )
        self.assertEqual(
            ['Give', '--name', '--image', '--network'],
            [text.split()[0] for text in found],
        )

    def test_what_is_invalid(self) -> None:
        for changes, words in (
            ({'name': 'a b'}, '--name a b is not valid'),
            ({'name': '1a'}, '--name 1a is not valid'),
            ({'name': 'x' * 59}, 'at most 58 characters'),
            ({'network': 'a\x1b'}, r'--network a\x1b is not valid'),
            ({'key_name': ' a'}, '--key-name  a is not valid'),
            ({'availability_zone': ''}, '--availability-zone is empty'),
            ({'servers': 0}, '--nodes 0 is too small'),
            ({'root_volume_gib': 0}, '--root-volume 0 is too small'),
            ({'servers': 2**31}, '--nodes 2147483648 is too large'),
            ({'root_volume_gib': 2**31}, '--root-volume 2147483648 is too'),
        ):
            (found,) = self.find(**changes)
            self.assertIn(words, found)
