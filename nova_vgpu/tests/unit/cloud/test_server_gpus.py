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

import types
import typing

import testtools

from nova_vgpu.cloud.usage import server_gpus
from nova_vgpu.cloud.usage import servers
from nova_vgpu.tests.unit.cloud import clouds

GPUS = (
    clouds.gpu('compute1 84'),
    clouds.gpu('compute1 85'),
    clouds.gpu('compute2 84'),
)


class Cloud:
    """All GPUs, and the allocation of one server."""

    def __init__(self, allocations: dict[str, typing.Any]) -> None:
        self.asked: list[str] = []
        self._answer = {'allocations': allocations}
        self.services = types.SimpleNamespace(ask_placement=self._ask)

    def _ask(self, path: str) -> typing.Any:
        self.asked.append(path)
        return self._answer

    def list_every_gpu(self) -> typing.Any:
        self.asked.append('GPUs')
        return GPUS


class TestGPUsOfAServer(testtools.TestCase):
    def test_only_gpus_count(self) -> None:
        cloud: typing.Any = Cloud(
            {
                'uuid of compute1': {'resources': {'VCPU': 4}},
                GPUS[0].uuid: {'resources': {'VGPU': 2}},
                GPUS[1].uuid: {'resources': {'VGPU': 1}},
            }
        )
        self.assertEqual(
            (
                servers.Allocation('s', GPUS[0], 'VGPU', 2),
                servers.Allocation('s', GPUS[1], 'VGPU', 1),
            ),
            server_gpus.list_allocations(cloud, 's'),
        )

    def test_a_server_without_allocation_takes_one_request(self) -> None:
        cloud: typing.Any = Cloud({})
        self.assertEqual((), server_gpus.list_allocations(cloud, 's'))
        self.assertEqual(['/allocations/s'], cloud.asked)
