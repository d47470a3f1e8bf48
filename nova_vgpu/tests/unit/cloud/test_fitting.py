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

from collections.abc import Iterable
import functools
import itertools
import random
import typing

import testtools

from nova_vgpu.cloud.orders import fitting

Resources = dict[str, dict[str, int]]


def answer(hosts: Iterable[tuple[Resources, list[Resources]]]) -> typing.Any:
    """Placement's answer: what providers of hosts have left, and the ways."""
    found: typing.Any = {'allocation_requests': [], 'provider_summaries': {}}
    for number, (free, ways) in enumerate(hosts):
        for provider, resources in free.items():
            found['provider_summaries'][f'{provider}{number}'] = {
                'root_provider_uuid': f'host{number}',
                'resources': {
                    name: {'capacity': left + 3, 'used': 3}
                    for name, left in resources.items()
                },
            }
        found['allocation_requests'] += [
            {
                'allocations': {
                    f'{provider}{number}': {'resources': resources}
                    for provider, resources in way.items()
                }
            }
            for way in ways
        ]
    return found


def count(*hosts: tuple[Resources, list[Resources]]) -> int:
    return fitting.count_servers(fitting.parse_candidates(answer(hosts)))


def gpus(*left: int) -> Resources:
    return {f'gpu{n}-': {'VGPU': free} for n, free in enumerate(left)}


def choose(number: int, of: Resources, is_isolated: bool) -> list[Resources]:
    """The ways for groups of one vGPU each, as Placement makes them."""
    tuples: Iterable[tuple[str, ...]] = (
        itertools.permutations(of, number)
        if is_isolated
        else itertools.product(of, repeat=number)
    )
    ways = []
    for chosen in tuples:
        way: Resources = {}
        for gpu in chosen:
            amounts = way.setdefault(gpu, {'VGPU': 0})
            amounts['VGPU'] += 1
        if all(way[gpu]['VGPU'] <= of[gpu]['VGPU'] for gpu in way):
            ways.append(way)
    return ways


@functools.cache
def place_all(left: tuple[int, ...], ways: frozenset[tuple[int, ...]]) -> int:
    """The most servers, by trying everything."""
    rests = (
        tuple(n - taken for n, taken in zip(left, way, strict=True))
        for way in ways
    )
    return max(
        (1 + place_all(rest, ways) for rest in rests if min(rest) >= 0),
        default=0,
    )


class TestCounting(testtools.TestCase):
    def test_one_group(self) -> None:
        ways: list[Resources] = [
            {'node': {'MEMORY_MB': 4}, gpu: {'VGPU': 2}} for gpu in gpus(5, 3)
        ]
        for memory, expected in ((100, 3), (8, 2), (3, 0), (0, 0)):
            free = {'node': {'MEMORY_MB': memory}} | gpus(5, 3)
            self.assertEqual(expected, count((free, ways)), str(memory))

    def test_hosts_add_up(self) -> None:
        host = gpus(2), choose(1, gpus(2), True)
        self.assertEqual(6, count(host, host, host))
        self.assertEqual(0, count())

    def test_a_pool_that_hosts_share_is_used_once(self) -> None:
        found = answer([(gpus(4), []), (gpus(4), [])])
        disk = {'capacity': 50, 'used': 0}
        found['provider_summaries']['pool'] = {
            'root_provider_uuid': 'pool',
            'resources': {'DISK_GB': disk},
        }
        for n in range(2):
            found['allocation_requests'].append(
                {
                    'allocations': {
                        f'gpu0-{n}': {'resources': {'VGPU': 1}},
                        'pool': {'resources': {'DISK_GB': 10}},
                    }
                }
            )
        candidates = fitting.parse_candidates(found)
        self.assertEqual(5, fitting.count_servers(candidates))
        disk['capacity'] = 1000
        candidates = fitting.parse_candidates(found)
        self.assertEqual(8, fitting.count_servers(candidates))

    def test_servers_with_several_devices(self) -> None:
        def host(memory: int, *left: int) -> tuple[Resources, list[Resources]]:
            node = {'node': {'MEMORY_MB': memory}}
            ways: list[Resources] = [
                {'node': {'MEMORY_MB': 4}, gpu: {'VGPU': 1}}
                for gpu, free in gpus(*left).items()
                if free['VGPU']
            ]
            return node | gpus(*left), ways

        # The memory of the first is enough for two servers.
        found = fitting.parse_candidates(
            answer([host(8, 1, 0, 1, 1), host(100, 1, 1)])
        )
        for devices, expected in ((1, 2 + 2), (2, 1 + 1), (3, 1 + 0), (4, 0)):
            pooled = fitting.pool(found, {'VGPU': devices})
            self.assertEqual(
                expected, fitting.count_servers(pooled), str(devices)
            )
        self.assertEqual(found, fitting.pool(found, {}))

    def test_no_other_way_would_place_more(self) -> None:
        """GPUs at random, and groups that are alike."""
        chance = random.Random(7)
        for _ in range(150):
            number = chance.choice((1, 2, 3))
            free = gpus(*(chance.randint(0, 3) for _ in range(4)))
            is_isolated = chance.random() < 0.5
            ways = choose(number, free, is_isolated)
            taken = frozenset(
                tuple(way.get(gpu, {'VGPU': 0})['VGPU'] for gpu in free)
                for way in ways
            )
            left = tuple(free[gpu]['VGPU'] for gpu in free)
            best = place_all(left, taken)
            self.assertEqual(
                best, count((free, ways)), str((number, is_isolated, free))
            )
