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

"""Servers on GPUs that are divided among types of different sizes."""

import collections

from lab.guest.tests import compute
from lab.guest.tests import host
from lab.guest.tests import servers

#: The types of each GPU, with their numbers of vGPUs.
_SHARES = {
    host.A10: {'A10-12Q': 1, 'A10-6Q': 2},
    host.L40S: {'L40S-24Q': 1, 'L40S-12Q': 2},
}
_L40S_IDS = {'L40S-24Q': '1155', 'L40S-12Q': '1153'}


def _declare() -> str:
    types = [name for of_gpu in _SHARES.values() for name in of_gpu]
    lines = [
        '[devices]',
        f'enabled_vgpu_types = {", ".join(types)}',
        'unlisted_gpus = ignore',
    ]
    for gpu, of_gpu in _SHARES.items():
        for name, count in of_gpu.items():
            lines += [f'[vgpu_{name}]', f'device_addresses = {gpu}={count}']
    return '\n'.join(lines) + '\n'


class TestDivided(servers.ServersTest):
    declared = _declare()

    def setUp(self) -> None:
        for gpu in _SHARES:
            self.addCleanup(host.set_knob, gpu, 'heterogeneous', 0)
        super().setUp()

    def test_each_type_is_served_to_the_last_vgpu(self) -> None:
        self.assertEqual(
            {
                f'{host.node_device(gpu)}_{name}': {'VGPU': count}
                for gpu, of_gpu in _SHARES.items()
                for name, count in of_gpu.items()
            },
            self.compute.inventories(),
        )
        self.assertEqual(
            2, sum('different sizes' in step for step in self.applied)
        )
        # The small ones first: the large one has its place nevertheless.
        for gpu, of_gpu in _SHARES.items():
            for name, count in sorted(of_gpu.items(), key=lambda i: -i[1]):
                # Each type has one server that runs.
                for number in range(count):
                    self.boot(gpu, power_on=not number, share=name)
        vgpus = {self.vgpu_of(server.uuid) for server in self.servers}
        self.assertEqual(6, len(vgpus))
        self.assertEqual(_SHARES, self.read_types())
        for gpu, of_gpu in _SHARES.items():
            for name in of_gpu:
                server = compute.make_server(next(self.numbers))
                self.assertFalse(self.compute.claim(server, gpu, name))
        said = self.nova_vgpu('provider', 'diff', '--mode', 'full')
        self.assertIn('Placement agrees', said)
        # Nothing of it is in the way of what is declared.
        self.nova_vgpu('apply')
        self.assertEqual(_SHARES, self.read_types())

    def read_types(self) -> dict[str, dict[str, int]]:
        """How many vGPUs of each type the kernel has, GPU by GPU."""
        on_a10 = collections.Counter(
            host.mdev_type(mdev) for mdev in host.mdevs()
        )
        ids = collections.Counter(
            host.type_of(vf) for vf in host.typed_functions()
        )
        on_l40s = {name: ids.pop(i) for name, i in _L40S_IDS.items()}
        self.assertEqual({}, dict(ids))
        return {host.A10: dict(on_a10), host.L40S: on_l40s}
