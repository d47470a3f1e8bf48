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

"""The hosts of a cloud with 100 GPUs, each with a running nova-compute."""

import dataclasses

from nova_vgpu import values
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests import hosts

#: The address of the first GPU of a host; that of the next is one bus later.
FIRST_BUS = 0x41
GPUS = 5


@dataclasses.dataclass(frozen=True)
class Host:
    """A host with GPUs of one model, which serve one vGPU type."""

    name: str
    board: boards.Board
    type: str

    @property
    def gpus(self) -> tuple[simulation.GPU, ...]:
        return tuple(
            hosts.gpu(
                f'{FIRST_BUS + slot:02x}:00.0',
                self.board,
                vfs=self.board.total_vfs,
            )
            for slot in range(GPUS)
        )

    @property
    def declaration(self) -> values.Declaration:
        declared = values.DeclaredType(self.type, f'vgpu_{self.type}')
        return values.Declaration((declared,))


_MODELS = (
    (boards.T4, 'T4-2Q'),
    (boards.A40, 'A40-8Q'),
    (boards.L40S, 'L40S-24Q'),
    (boards.A10, 'A10-4Q'),
)


def make_hosts(*names: str) -> tuple[Host, ...]:
    return tuple(
        Host(name, *_MODELS[number % len(_MODELS)])
        for number, name in enumerate(names)
    )


LONG = 'compute-with-a-long-name.rack-17.site-north.research.cloud.example.com'
HOSTS = make_hosts(
    *(f'compute{number}' for number in range(1, 20)),
    LONG,
)
#: Those with which 10 GPUs are seen, before the others start.
FIRST = HOSTS[:2]
#: Hosts whose last GPU loses its virtual functions when they are started.
BROKEN = (HOSTS[5], HOSTS[9])
