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

"""What the cloud knows about a live migration, as its decision takes it."""

import collections
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_vgpu import values
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.gpus import whole_gpu_fleet
from nova_vgpu.cloud.hosts import migration_facts
from nova_vgpu.cloud.moves import compute_nodes
from nova_vgpu.cloud.usage import nova_servers
from nova_vgpu.cloud.usage import servers
from nova_vgpu.knowledge import traits

_NVIDIA = f'{traits.VENDOR_PREFIX}NVIDIA'
_MIGRATABLE = 'HW_PCI_LIVE_MIGRATABLE'
#: The status of a server whose guest Nova has stopped for a while.
PAUSED = 'PAUSED'

Nodes = Mapping[str, compute_nodes.ComputeNode]


def make_source(
    host: str,
    held: Sequence[servers.Allocation],
    server: nova_servers.NovaServer,
    answer: migration_facts.Answer,
    nodes: Nodes,
) -> values.MigrationSource:
    """The server's host, and what the server has there.

    :param held: what the server has of the GPUs of this host.
    """
    facts = answer.find(host)
    return values.MigrationSource(
        host,
        tuple(_make_devices(held, facts)),
        _make_software(host, facts, nodes),
        facts.settings,
        server.flavor.policy == 'isolate',
        is_paused=server.status == PAUSED,
    )


def make_target(
    host: str,
    gpus: Iterable[fleet.GPU],
    answer: migration_facts.Answer,
    nodes: Nodes,
) -> values.MigrationTarget:
    """A host with its GPUs.

    :param gpus: those of this host.
    """
    facts = answer.find(host)
    return values.MigrationTarget(
        host,
        tuple(
            _make_place(gpu, stock, facts)
            for gpu in gpus
            for stock in gpu.stocks
        ),
        _make_software(host, facts, nodes),
    )


def _make_software(
    host: str, facts: migration_facts.HostFacts, nodes: Nodes
) -> values.HostSoftware:
    """Nova knows the version of QEMU, too."""
    node = nodes.get(host)
    if facts.software.qemu is not None or node is None:
        return facts.software
    return dataclasses.replace(facts.software, qemu=node.qemu)


def _make_devices(
    held: Sequence[servers.Allocation], facts: migration_facts.HostFacts
) -> Iterator[values.MovingDevice]:
    """One for each provider; what agents tell is about a GPU."""
    numbers: collections.Counter[str] = collections.Counter()
    for each in held:
        numbers[each.gpu.address] += each.vgpus
    told: set[str] = set()
    for each in held:
        address = each.gpu.address
        vgpus = facts.find_vgpus(address)
        if vgpus.vgpus < numbers[address]:
            # Of fewer vGPUs than it has, nothing follows but that one cannot.
            can = False if vgpus.can_migrate is False else None
            vgpus = migration_facts.ServerFacts(can_migrate=can)
        elif address in told:  # shares of one GPU
            vgpus = dataclasses.replace(vgpus, state_bytes=0)
        told.add(address)
        yield _make_device(each, facts.find_gpu(address), vgpus)


def _make_device(
    held: servers.Allocation,
    known: migration_facts.GPUFacts,
    vgpus: migration_facts.ServerFacts,
) -> values.MovingDevice:
    gpu = held.gpu
    vendors = {t for t in gpu.traits if t.startswith(traits.VENDOR_PREFIX)}
    return values.MovingDevice(
        gpu=gpu.address,
        type=gpu.facts.name,
        number=held.vgpus,
        resource_class=held.resource_class,
        framework=known.framework,
        is_nvidia=vendors <= {_NVIDIA},
        ecc=known.ecc,
        can_migrate=_both(known.can_migrate, vgpus.can_migrate),
        versions=vgpus.versions,
        state_bytes=vgpus.state_bytes,
        is_whole=whole_gpu_fleet.is_gpu(gpu),
        may_migrate=_MIGRATABLE in gpu.traits,
    )


def _both(gpu: bool | None, vgpu: bool | None) -> bool | None:
    """What one of them rules out is out; the vGPU itself has to tell."""
    return False if gpu is False else vgpu


def _make_place(
    gpu: fleet.GPU, stock: fleet.Stock, facts: migration_facts.HostFacts
) -> values.MigrationPlace:
    known = facts.find_gpu(gpu.address)
    return values.MigrationPlace(
        gpu.address,
        gpu.facts.name,
        stock.free,
        stock.resource_class,
        known.framework,
        known.ecc,
        known.can_migrate,
        known.versions,
        whole_gpu_fleet.is_gpu(gpu),
        _MIGRATABLE in gpu.traits,
    )
