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

"""The other GPUs of a GPU's host, and which of them it reaches directly.

Placement knows no distances. But an operator can give the devices of an island
its trait, as ``nova-vgpu topology`` prints it
(:mod:`nova_vgpu.topology.islands`): GPUs of one host with the same trait reach
each other without the processor.
"""

from collections.abc import Iterable
import dataclasses

from nova_vgpu import values
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.knowledge import traits

_PREFIXES = {
    f'{traits.custom(kind.name, "ISLAND")}_': kind
    for kind in values.IslandKind
}


@dataclasses.dataclass(frozen=True, slots=True)
class Neighbour:
    """Another GPU of the host; ``islands`` are those that both are in."""

    gpu: fleet.GPU
    islands: tuple[str, ...] = ()


def list_islands(found: Iterable[str]) -> tuple[str, ...]:
    """The islands that traits name, such as "NVLink 0", in their order."""
    return tuple(
        f'{kind.value} {trait.removeprefix(prefix)}'
        for prefix, kind in _PREFIXES.items()
        for trait in sorted(found)
        if trait.startswith(prefix)
    )


def list_neighbours(
    gpu: fleet.GPU, gpus: Iterable[fleet.GPU]
) -> tuple[Neighbour, ...]:
    """The neighbours: those that share islands first, then by address."""
    found = [
        Neighbour(other, list_islands(gpu.traits & other.traits))
        for other in gpus
        if other.host == gpu.host and other.uuid != gpu.uuid
    ]
    return tuple(sorted(found, key=lambda n: (-len(n.islands), n.gpu.address)))
