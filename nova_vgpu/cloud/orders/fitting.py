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

"""How many more servers of a flavor fit, by Placement's candidates.

A candidate is one way to serve the request: which providers give how much of
which resource class. Servers are placed one after another, each by a candidate
that still fits, with what is left of the providers. Of several the one whose
providers have the most left is taken, so that vGPUs of different GPUs come
from those that have the most: no other choice would place more servers of a
flavor whose groups are alike.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import typing

# How much of a resource class, of a provider.
Demand = tuple[str, str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Candidates:
    """Placement's answer: ways to serve a request, and what providers have.

    ``ways`` are the distinct ones by the trees that they are in. ``free`` has
    what is left of a resource class of a provider.
    """

    ways: Mapping[frozenset[str], frozenset[frozenset[Demand]]]
    free: Mapping[tuple[str, str], int]


def parse_candidates(answer: typing.Any) -> Candidates:
    """Placement's JSON as values."""
    summaries = answer['provider_summaries']
    ways: dict[frozenset[str], set[frozenset[Demand]]] = {}
    for request in answer['allocation_requests']:
        allocations = request['allocations']
        roots = frozenset(
            summaries[provider]['root_provider_uuid']
            for provider in allocations
        )
        # The same resources in another order of the groups are the same way.
        way = frozenset(
            (provider, name, amount)
            for provider, given in allocations.items()
            for name, amount in given['resources'].items()
        )
        ways.setdefault(roots, set()).add(way)
    return Candidates(
        {roots: frozenset(found) for roots, found in ways.items()},
        {
            (provider, name): held['capacity'] - held['used']
            for provider, summary in summaries.items()
            for name, held in summary['resources'].items()
        },
    )


def pool(candidates: Candidates, devices: Mapping[str, int]) -> Candidates:
    """Let a server have several devices where Placement was asked for one.

    :param devices: how many of each resource class. A device of these classes
        has one of it and serves one server, so it does not matter which ones a
        server gets: the first of a tree stands for all that it has.
    """
    free = dict(candidates.free)
    ways = {}
    for roots, found in candidates.ways.items():
        first: dict[str, str] = {}
        for name in devices:
            there = {p for way in found for p, of, _ in way if of == name}
            first[name] = min(there)
            free[first[name], name] = sum(
                candidates.free[provider, name] for provider in there
            )
        ways[roots] = frozenset(
            frozenset(
                (first.get(name, provider), name, devices.get(name, amount))
                for provider, name, amount in way
            )
            for way in found
        )
    return Candidates(ways, free)


def count_servers(candidates: Candidates) -> int:
    """How many servers can be placed one after another."""
    left = dict(candidates.free)
    return sum(_place(ways, left) for ways in candidates.ways.values())


def _place(
    ways: Iterable[frozenset[Demand]], left: dict[tuple[str, str], int]
) -> int:
    """Place servers in one tree; takes what they need from what is left."""
    placed = 0
    fitting = [way for way in ways if _count_more(way, left)]
    while fitting:
        best = max(
            fitting,
            key=lambda way: sum(
                left[provider, name] // amount
                for provider, name, amount in way
            ),
        )
        for provider, name, amount in best:
            left[provider, name] -= amount
        placed += 1
        fitting = [way for way in fitting if _count_more(way, left)]
    return placed


def _count_more(
    way: frozenset[Demand], left: Mapping[tuple[str, str], int]
) -> int:
    return min(
        left.get((provider, name), 0) // amount
        for provider, name, amount in way
    )
