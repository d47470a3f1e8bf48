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

"""The GPUs in Placement's answer to a request for allocation candidates.

The answer has a summary of every provider of each host that has a candidate:
root, traits, and capacity and usage of each resource class. The names of
providers are not in it. So a provider is a GPU's if it is not the root of its
tree, and has vGPUs (``VGPU``) or the trait of a vGPU type.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import functools
import typing

from nova_vgpu.knowledge import traits
from nova_vgpu.publish import providers

_VGPU = 'VGPU'

#: An allocation candidate, as it comes from Placement by way of Nova.
Candidate = Mapping[str, typing.Any]
#: How many vGPUs of which GPU, by the UUID of its provider.
Taken = Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class GPU:
    """A provider of vGPUs.

    ``host`` is the UUID of the compute node's own provider. ``capacity``
    leaves out what is reserved, so that ``used`` can be more.
    """

    host: str
    type_traits: frozenset[str]
    classes: frozenset[str]
    capacity: int
    used: int

    @property
    def free(self) -> int:
        return max(self.capacity - self.used, 0)

    @property
    def kind(self) -> frozenset[str]:
        """The same for all GPUs that serve the same type."""
        return self.type_traits or self.classes


@dataclasses.dataclass(frozen=True, slots=True)
class KnownGPUs:
    """The GPUs by the UUIDs of their providers.

    ``unreadable`` are providers whose summary is not what Placement's API
    describes.
    """

    gpus: Mapping[str, GPU]
    unreadable: tuple[str, ...] = ()


def read(summaries: Mapping[str, object]) -> KnownGPUs:
    """The GPUs of an answer, whatever is wrong with other providers in it."""
    gpus: dict[str, GPU] = {}
    unreadable = []
    for uuid, summary in summaries.items():
        try:
            gpu = _read_one(uuid, summary)
        except (AttributeError, TypeError, ValueError):
            unreadable.append(str(uuid))
        else:
            if gpu is not None:
                gpus[uuid] = gpu
    return KnownGPUs(gpus, tuple(unreadable))


def find_taken(candidate: Candidate, gpus: Mapping[str, GPU]) -> Taken:
    """The vGPUs of a candidate; none for a server without one."""
    return {
        uuid: sum(allocation['resources'].values())
        for uuid, allocation in candidate['allocations'].items()
        if uuid in gpus
    }


def has_nested(
    candidates: Iterable[Candidate], summaries: Mapping[str, typing.Any]
) -> bool:
    """Whether candidates have something of other providers than hosts.

    Those of servers without a vGPU, and without other devices, have not. It
    takes much less time than to read the summaries.
    """
    return any(
        not _is_root(uuid, summaries.get(uuid))
        for candidate in candidates
        for uuid in candidate['allocations']
    )


def _is_root(uuid: str, summary: object) -> bool:
    return isinstance(summary, dict) and (
        summary.get('root_provider_uuid') == uuid
    )


def _read_one(uuid: str, summary: typing.Any) -> GPU | None:
    """A GPU; None for another provider.

    :raises ValueError: if something in it makes no sense.
    :raises AttributeError: if a part of it is missing or of another type.
    :raises TypeError: likewise.
    """
    root = summary.get('root_provider_uuid')
    if root == uuid:
        return None
    resources = summary.get('resources')
    type_traits, is_others = _read_traits(tuple(summary.get('traits') or ()))
    if is_others or (not type_traits and _VGPU not in resources):
        return None
    if not isinstance(root, str):
        raise ValueError('no root')
    stocks = [
        (_number(stock.get('capacity')), _number(stock.get('used')))
        for stock in resources.values()
    ]
    return GPU(
        root,
        type_traits,
        frozenset(resources),
        sum(capacity for capacity, _ in stocks),
        sum(used for _, used in stocks),
    )


@functools.lru_cache(maxsize=1024)
def _read_traits(found: tuple[str, ...]) -> tuple[frozenset[str], bool]:
    """Those that name a type, and whether the provider is not a GPU's.

    GPUs of one type have the same traits.
    """
    of_types = (t for t in found if t.startswith(traits.TYPE_PREFIX))
    return frozenset(of_types), providers.has_other_owner(found)


def _number(found: object) -> int:
    if not isinstance(found, int) or found < 0:
        raise ValueError(f'{found!r} is not a number of vGPUs')
    return found
