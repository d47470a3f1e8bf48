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

"""100 servers on ten hosts: what the documentation says of packing."""

import collections
import pathlib

from nova_vgpu.tests.functional.compute import scheduling

ROOT = pathlib.Path(__file__).parents[4]
SHOWN = ROOT / 'doc' / 'source' / 'examples' / 'scheduling.txt'
HOSTS = 10
GPUS = 2
VGPUS = 8
SERVERS = 100
OURS = (scheduling.NOVAS, scheduling.WEIGHER)
#: What was configured, by the words of the documentation.
RUNS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "Nova's weighers alone": ((scheduling.NOVAS,), {}),
    'pack': (OURS, {}),
    'spread': (
        OURS,
        {'vgpu_host_order': 'spread', 'vgpu_gpu_order': 'spread'},
    ),
}
HEAD = ('Configured', 'Hosts unused', 'GPUs unused', 'One GPU', 'Two GPUs')


class FiguresTest(scheduling.SchedulerTestBase):
    def setUp(self) -> None:
        super().setUp()
        for n in range(HOSTS):
            layout = ((scheduling.A40_8Q, VGPUS),) * GPUS
            self.start_host(f'host{n}', layout)

    def fill(self, name: str) -> tuple[int, ...]:
        """Order 100 servers, one after the other; what is left."""
        weighers, options = RUNS[name]
        self.start_scheduler(*weighers, **options)
        for _ in range(SERVERS):
            self.order()
        used = [self.used(f'host{n}', GPUS) for n in range(HOSTS)]
        self.assertEqual(SERVERS, sum(map(sum, used)))
        return (
            sum(not any(of_host) for of_host in used),
            sum(not of_gpu for of_host in used for of_gpu in of_host),
            self.count_orders(1),
            self.count_orders(GPUS),
        )

    def count_orders(self, gpus: int) -> int:
        """How many servers with all vGPUs of so many GPUs Placement has.

        They are counted by the GPUs or hosts of its candidates: each can
        serve one.
        """
        groups = [f'resources{n}=VGPU:{VGPUS}' for n in range(gpus)]
        query = '&'.join([*groups, 'group_policy=isolate', 'limit=1000'])
        found = self.ask('GET', f'/allocation_candidates?{query}')
        parents = {
            uuid: summary['parent_provider_uuid']
            for uuid, summary in found['provider_summaries'].items()
        }
        taken = [each['allocations'] for each in found['allocation_requests']]
        of_gpus = {uuid for uuids in taken for uuid in uuids}
        if gpus == 1:
            return len(of_gpus)
        return len(collections.Counter(parents[uuid] for uuid in of_gpus))

    def assert_shown(self, name: str, *figures: int) -> None:
        """The figures, here and in the documentation."""
        self.assertEqual(figures, self.fill(name))
        line = make_line(name, *figures)
        self.assertIn(line, SHOWN.read_text().splitlines())

    def test_nova_alone_uses_all_hosts(self) -> None:
        self.assert_shown("Nova's weighers alone", 0, 0, 0, 0)

    def test_packing_leaves_as_many_as_possible(self) -> None:
        self.assert_shown('pack', 3, 7, 7, 3)

    def test_spreading_leaves_nothing(self) -> None:
        self.assert_shown('spread', 0, 0, 0, 0)

    def test_nothing_else_is_shown(self) -> None:
        head, *lines = SHOWN.read_text().splitlines()
        self.assertEqual(make_line(*HEAD), head)
        self.assertEqual(
            list(RUNS), [line[: len(make_line(''))].strip() for line in lines]
        )


def make_line(name: str, *figures: object) -> str:
    return f'{name:24}' + ''.join(f'{figure!s:>13}' for figure in figures)
