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

"""Whether a host has the GPUs for all that one server asks for.

Each request takes vGPUs of one GPU. With the group policy ``isolate``, groups
with names take different GPUs. What servers use now does not count: a host
that is full today can serve the flavor tomorrow.

The host itself gives the other resources of the group without a name.
"""

from collections.abc import Iterator
from collections.abc import Sequence
from collections.abc import Set
import dataclasses

from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.cloud.orders import vgpu_requests

_ISOLATE = 'isolate'
_Kind = tuple[frozenset[str], frozenset[str], str]


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class _Room:
    """What is left on a GPU; those of GPUs that are alike are equal.

    ``is_taken`` is whether a group with a name has some of it.
    """

    kind: int
    left: int
    is_taken: bool = False


def fits(
    requests: Sequence[vgpu_requests.VGPURequest],
    policy: str | None,
    gpus: Sequence[fleet.GPU],
) -> bool:
    """Whether these GPUs of one host have all that is asked for."""
    is_isolated = policy == _ISOLATE
    named = {request.group.name for request in requests} - {''}
    if is_isolated and len(named) > len(gpus):
        return False  # a search would try all orders of the GPUs
    kinds: dict[_Kind, tuple[int, fleet.GPU]] = {}
    rooms = []
    for gpu in gpus:
        for stock in gpu.stocks:
            kind = gpu.traits, gpu.host_traits, stock.resource_class
            number, _ = kinds.setdefault(kind, (len(kinds), gpu))
            rooms.append(_Room(number, stock.total))
    examples = [(gpu, kind[2]) for kind, (_, gpu) in kinds.items()]
    search = _Search(requests, is_isolated, examples)
    return search.place(0, tuple(sorted(rooms)))


def has_traits(flavor: flavors.Flavor, host_traits: Set[str]) -> bool:
    """Whether a host has the traits that are not about its GPUs.

    Those that the group without a name requires together with vGPUs are
    matched with the GPUs. If it asks for other resources, it is not known what
    else has them: then no trait is taken as missing.
    """
    for group in flavor.groups:
        if group.name:
            continue
        is_of_host = not group.resources
        if is_of_host and not group.required <= host_traits:
            return False
        if not group.forbidden.isdisjoint(host_traits):
            return False
    return True


class _Search:
    """Tries all ways that differ, each of them once."""

    def __init__(
        self,
        requests: Sequence[vgpu_requests.VGPURequest],
        is_isolated: bool,
        kinds: Sequence[tuple[fleet.GPU, str]],
    ) -> None:
        self._requests = requests
        self._is_isolated = is_isolated
        self._kinds = kinds
        self._failed: set[tuple[int, tuple[_Room, ...]]] = set()

    def place(self, number: int, rooms: tuple[_Room, ...]) -> bool:
        """Whether the requests from this number on fit into the rooms."""
        if number == len(self._requests):
            return True
        if (number, rooms) in self._failed:
            return False
        if any(
            self.place(number + 1, left)
            for left in self._try(self._requests[number], rooms)
        ):
            return True
        self._failed.add((number, rooms))
        return False

    def _try(
        self, request: vgpu_requests.VGPURequest, rooms: tuple[_Room, ...]
    ) -> Iterator[tuple[_Room, ...]]:
        """What is left after a request, for each GPU that differs."""
        is_apart = self._is_isolated and bool(request.group.name)
        for room in dict.fromkeys(rooms):
            gpu, resource_class = self._kinds[room.kind]
            if (
                resource_class == request.resource_class
                and request.vgpus <= room.left
                and not (is_apart and room.is_taken)
                and request.is_served_by(gpu)
            ):
                others = list(rooms)
                others.remove(room)
                left = room.left - request.vgpus
                taken = room.is_taken or is_apart
                others.append(_Room(room.kind, left, taken))
                yield tuple(sorted(others))
