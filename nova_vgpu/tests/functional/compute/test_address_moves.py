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

"""Addresses of PCI devices that are replaced one by one."""

import itertools

import testtools

from nova_vgpu.compute import address_moves

HERE = [f'0000:41:00.{function}' for function in range(3)]
THERE = [*HERE, '0000:61:00.0', '0000:61:00.1']


def rewrite(devices: list[str], moves: dict[str, str]) -> list[str]:
    """What Nova does: each time the first device that has the address."""
    now = list(devices)
    for old, new in moves.items():
        now[now.index(old)] = new
    return now


class OrderTest(testtools.TestCase):
    def test_every_device_gets_its_own_address(self) -> None:
        for targets in itertools.permutations(THERE, len(HERE)):
            for sources in itertools.permutations(HERE):
                moves = dict(zip(sources, targets, strict=True))
                self.assertEqual(
                    [moves[device] for device in HERE],
                    rewrite(HERE, address_moves.order_moves(moves)),
                    str(moves),
                )

    def test_two_pairs_that_are_exchanged(self) -> None:
        a, b, c, d = THERE[:4]
        moves = {a: b, b: a, c: d, d: c}
        self.assertEqual(
            [b, a, d, c],
            rewrite([a, b, c, d], address_moves.order_moves(moves)),
        )

    def test_what_is_safe_is_left_as_it_is(self) -> None:
        moves = {HERE[0]: HERE[0], HERE[1]: '0000:61:00.0'}
        self.assertEqual(moves, address_moves.order_moves(moves))
