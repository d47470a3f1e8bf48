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

"""The GPUs while one request is scheduled.

A request can be for several servers. Nova asks Placement only once for all of
them, claims a candidate for one server after the other, and weighs the hosts
again before each. A claim is always for the first candidate of a host, so it
is known what has been claimed since: without that, all servers of a request
would be sent to the same GPU.
"""

import collections
from collections.abc import MutableSequence
import dataclasses

from nova_vgpu import values
from nova_vgpu.scheduler import inventory
from nova_vgpu.scheduler import ordering


@dataclasses.dataclass(frozen=True, slots=True)
class _Weighed:
    """A host when it was last weighed: its servers, and what is next."""

    servers: int
    first: inventory.Taken


class Request:
    """Weighs hosts, and sorts their candidates."""

    def __init__(
        self,
        found: inventory.KnownGPUs,
        rules: values.SchedulingRules,
    ) -> None:
        self._gpus = dict(found.gpus)
        self._unreadable = frozenset(found.unreadable)
        self._rules = rules
        self._weighed: dict[str, _Weighed] = {}
        self._of_host: dict[str, list[str]] = collections.defaultdict(list)
        for uuid, gpu in found.gpus.items():
            self._of_host[gpu.host].append(uuid)

    @property
    def found(self) -> inventory.KnownGPUs:
        """The GPUs as they are after what this request has claimed."""
        return inventory.KnownGPUs(self._gpus, tuple(self._unreadable))

    @property
    def is_new(self) -> bool:
        """Whether no host has been weighed."""
        return not self._weighed

    def sort(self, candidates: MutableSequence[inventory.Candidate]) -> None:
        """Put the GPUs first that shall be taken first.

        Candidates that are equal keep their order.
        """
        candidates[:] = sorted(
            candidates,
            key=lambda candidate: ordering.rank(
                inventory.find_taken(candidate, self._gpus),
                self._gpus,
                self._rules,
            ),
        )

    def weigh(
        self,
        host: str,
        servers: int,
        candidates: MutableSequence[inventory.Candidate],
    ) -> float:
        """The weight of a host; its candidates are sorted after a claim.

        :param host: the UUID of its provider.
        :param servers: how many it has, with those of this request.
        """
        if self._is_unknown(candidates[0]):
            return ordering.NEUTRAL
        before = self._weighed.get(host)
        if before is not None and servers > before.servers:
            self._claim(before.first)
            self.sort(candidates)
        first = inventory.find_taken(candidates[0], self._gpus)
        self._weighed[host] = _Weighed(servers, first)
        of_host = [self._gpus[uuid] for uuid in self._of_host.get(host, ())]
        return ordering.weigh(first, self._gpus, of_host, self._rules)

    def _is_unknown(self, candidate: inventory.Candidate) -> bool:
        return not self._unreadable.isdisjoint(candidate['allocations'])

    def _claim(self, taken: inventory.Taken) -> None:
        for uuid, number in taken.items():
            gpu = self._gpus[uuid]
            self._gpus[uuid] = dataclasses.replace(gpu, used=gpu.used + number)
