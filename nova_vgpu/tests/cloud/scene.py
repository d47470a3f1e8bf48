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

"""What the cloud of the tests has: hosts, GPUs and servers."""

import dataclasses
import datetime
import uuid

CELL = 'ce110000-0000-4000-8000-000000000001'


def uuid_of(name: str) -> str:
    """The same UUID each time."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


@dataclasses.dataclass(frozen=True)
class Server:
    """A server, and the GPU that it has, or has a vGPU of.

    ``ended`` is when it was deleted.
    """

    name: str
    host: str
    gpu: str
    project: str = 'research'
    flavor: str = 'desktop'
    ended: datetime.datetime | None = None

    @property
    def uuid(self) -> str:
        return uuid_of(self.name)


HOSTS = ('compute1', 'compute2', 'compute3')
SERVERS = (
    Server('desktop-1', 'compute1', 'pci_0000_84_00_0'),
    Server('desktop-2', 'compute1', 'pci_0000_84_00_0'),
    Server('train-1', 'compute2', 'pci_0001_c8_00_0', flavor='train'),
    Server('train-2', 'compute2', 'pci_0001_c8_00_0', flavor='train'),
    Server('render-1', 'compute3', 'pci_0000_41_00_0', 'studio', 'any-gpu'),
    Server('simulate-1', 'compute2', '0000:C1:00.0', flavor='simulate'),
)
#: All servers were started then.
LAUNCHED = datetime.datetime(2024, 2, 1, tzinfo=datetime.UTC)
#: Some were deleted ten days later; the flavor of the last one was, too.
_ENDED = LAUNCHED + datetime.timedelta(days=10)
FORMER_SERVERS = (
    Server('batch-1', 'compute2', '', 'studio', 'train', _ENDED),
    Server('trial-1', 'compute1', '', 'studio', 'any-gpu', _ENDED),
    Server('office-1', 'compute1', '', 'studio', 'plain', _ENDED),
    Server('old-1', 'compute1', '', 'research', 'retired', _ENDED),
)

#: A server on its way from one host to another: its old allocation is that of
#: the migration, which is not a server.
MIGRATION = uuid_of('migration')


@dataclasses.dataclass(frozen=True)
class GPU:
    """A GPU's provider; ``used`` are consumers."""

    host: str
    device: str
    model: str
    type: str
    framebuffer: str
    total: int
    resource_class: str = 'VGPU'
    reserved: int = 0
    used: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f'{self.host}_{self.device}'

    @property
    def uuid(self) -> str:
        return uuid_of(self.name)

    @property
    def traits(self) -> tuple[str, ...]:
        return (
            f'CUSTOM_GPU_MODEL_{self.model}',
            'CUSTOM_GPU_VENDOR_NVIDIA',
            f'CUSTOM_VGPU_FRAMEBUFFER_{self.framebuffer}',
            'CUSTOM_VGPU_SERIES_Q',
            f'CUSTOM_VGPU_TYPE_{self.type}',
            'OWNER_NOVA',
        )

    @property
    def consumers(self) -> tuple[str, ...]:
        return self.used + tuple(
            server.uuid
            for server in SERVERS
            if (server.host, server.gpu) == (self.host, self.device)
        )


GPUS = (
    GPU('compute1', 'pci_0000_84_00_0', 'T4', 'T4_2Q', '2G', 8),
    GPU(
        *('compute1', 'pci_0000_85_00_0', 'T4', 'T4_2Q', '2G', 8),
        used=(MIGRATION,),
    ),
    GPU('compute2', 'pci_0000_41_00_0', 'A40', 'A40_8Q', '8G', 6),
    GPU(
        *('compute2', 'pci_0001_c8_00_0', 'L40S', 'L40S_24Q', '24G', 2),
        resource_class='CUSTOM_L40S_24Q',
    ),
    # It left the configuration, but a server still uses it.
    GPU(
        *('compute3', 'pci_0000_41_00_0', 'A40', 'A40_8Q', '8G', 6),
        reserved=5,
    ),
)


@dataclasses.dataclass(frozen=True)
class WholeGPU(GPU):
    """A GPU that is passed through, as Nova's PCI tracker reports it."""

    @property
    def traits(self) -> tuple[str, ...]:
        return (
            'COMPUTE_MANAGED_PCI_DEVICE',
            f'CUSTOM_GPU_MODEL_{self.model}',
            'CUSTOM_GPU_VENDOR_NVIDIA',
            'OWNER_NOVA',
        )


def whole(host: str, device: str, model: str) -> WholeGPU:
    return WholeGPU(host, device, model, '', '', 1, f'CUSTOM_GPU_{model}')


WHOLE_GPUS = (
    whole('compute1', '0000:C1:00.0', 'A40'),
    whole('compute2', '0000:C1:00.0', 'A40'),
    whole('compute2', '0000:C2:00.0', 'A40'),
    whole('compute2', '0000:C3:00.0', 'A40'),
)
#: All of its memory is in use.
FULL_HOST = 'compute3'
MEMORY = 524288

FLAVORS = {
    'any-gpu': {'resources:VGPU': '1'},
    'desktop': {
        'resources:VGPU': '1',
        'trait:CUSTOM_VGPU_TYPE_T4_2Q': 'required',
    },
    'plain': {},
    'render-2': {
        'resources1:VGPU': '1',
        'trait1:CUSTOM_VGPU_TYPE_A40_8Q': 'required',
        'resources2:VGPU': '1',
        'trait2:CUSTOM_VGPU_TYPE_A40_8Q': 'required',
        'group_policy': 'isolate',
    },
    'simulate': {'pci_passthrough:alias': 'gpu-A40:1'},
    'simulate-2': {'pci_passthrough:alias': 'gpu-A40:2'},
    'train': {'resources:CUSTOM_L40S_24Q': '1'},
}
AGGREGATES = {'workstations': ('compute1', 'compute3')}
