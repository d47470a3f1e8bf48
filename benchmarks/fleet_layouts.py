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

"""The two layouts of providers.

Every host has eight A40 with 32 virtual functions each, all of which serve
A40-1Q: the type with which both layouts have the same vGPUs to give. Half of
them are in use, evenly over all GPUs. That is the harder case for one provider
per GPU: none of its GPUs is full, so that each is a candidate.
"""

from collections.abc import Iterator
import dataclasses
import uuid

import os_traits

from benchmarks import report
from nova_vgpu import values
from nova_vgpu.knowledge import traits
from nova_vgpu.plan import mapper
from nova_vgpu.publish import providers
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host
from nova_vgpu.tests import hosts as host_values

#: What one server takes of its host, beside one vGPU.
SERVER = {'VCPU': 4, 'MEMORY_MB': 4096, 'DISK_GB': 20}
#: Total, reserved and allocation ratio, by Nova's defaults for the latter two.
ROOT = {
    'VCPU': (256, 0, 4.0),
    'MEMORY_MB': (2 * 1024 * 1024, 512, 1.0),
    'DISK_GB': (10_000, 0, 1.0),
}

_TYPE = 'A40-1Q'
_SLOTS = tuple(range(0x08, 0x88, 0x10))
_NAMESPACE = uuid.UUID('f1ee7000-0000-5000-8000-000000000000')
#: What Nova says of a compute node with libvirt on x86.
_ROOT_PREFIXES = (
    'COMPUTE_GRAPHICS_MODEL_',
    'COMPUTE_IMAGE_TYPE_',
    'COMPUTE_NET_',
    'COMPUTE_NODE',
    'COMPUTE_STORAGE_BUS_',
    'COMPUTE_VOLUME_',
    'HW_CPU_X86_AVX',
    'HW_CPU_X86_SSE',
)


@dataclasses.dataclass(frozen=True, slots=True)
class Child:
    """A provider below a host's, and how much of it is in use."""

    device: str
    total: int
    used: int
    traits: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """The providers that each host has."""

    name: str
    children: tuple[Child, ...]

    @property
    def per_host(self) -> int:
        return 1 + len(self.children)

    def list_used(self) -> Iterator[int]:
        """The place of its provider, for each vGPU of a host in use."""
        for place, child in enumerate(self.children):
            yield from [place] * child.used


def list_layouts() -> tuple[Layout, Layout]:
    """Nova's own, and that of this project."""
    cards = tuple(
        host.GPU(values.PciAddress(0, slot, 0, 0), boards.A40, vfs=32)
        for slot in _SLOTS
    )
    declared = values.DeclaredType(_TYPE, f'vgpu_{_TYPE}')
    configuration = values.Configuration(values.Declaration((declared,)))
    plan = mapper.make_plan(
        configuration.plan_input(
            host_values.make_host(*cards), values.ModesRead()
        )
    )
    mapper.require_valid(plan)
    ours = tuple(
        Child(
            assigned.gpu.name,
            provider.total,
            provider.total // 2,
            provider.traits,
        )
        for assigned in plan.assignments
        if (provider := providers.make_provider(assigned, '')) is not None
    )
    # The operator of Nova's layout set by hand what the flavor asks for.
    by_hand = (traits.OWNER, required_trait())
    stock = tuple(
        Child(vf.node_device_name, 1, int(place < card.vfs // 2), by_hand)
        for card in cards
        for place, vf in enumerate(card.vf_addresses)
    )
    return Layout(report.STOCK, stock), Layout(report.OURS, ours)


def required_trait() -> str:
    """What the flavor asks for."""
    return traits.custom('VGPU_TYPE', _TYPE)


def node(number: int) -> str:
    """The name of a host."""
    return f'compute-{number:05}'


def root_uuid(number: int) -> str:
    return make_uuid(node(number))


def root_traits() -> tuple[str, ...]:
    """What every compute node has."""
    return (
        traits.OWNER,
        *(
            name
            for prefix in _ROOT_PREFIXES
            for name in os_traits.get_traits(prefix)
        ),
    )


def consumer_uuid(number: int, order: int) -> str:
    """The UUID of one of the servers of a host."""
    return make_uuid(f'{node(number)}/{order}')


def make_uuid(name: str) -> str:
    """The same one in every run."""
    return str(uuid.uuid5(_NAMESPACE, name))
