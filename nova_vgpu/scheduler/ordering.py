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

"""Which GPU of a host, and which host, a server with vGPUs gets.

To pack means to keep free what large orders need. A GPU that is not in use can
serve a server with all of its vGPUs; a host of which no GPU is in use can
serve one with several GPUs. So an order goes to GPUs that are in use; if none
of them has room, to another GPU of a host that is in use; and only then to a
host that is not. Of hosts that are equal in this respect, the one is first of
which the largest share is in use.

To spread means that the largest share is free.
"""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from nova_vgpu import values
from nova_vgpu.scheduler import inventory

#: The weight of a host about which nothing is known, or to which it does not
#: matter.
NEUTRAL = 0.5
#: The weight of a host whose vGPUs were claimed by the same request.
NO_ROOM = 0.0
#: Hosts with room are above that.
_LOWEST = 0.25
#: The parts of the range that are above _LOWEST, for packing.
_STEP = 0.25

GPUs = Mapping[str, inventory.GPU]
#: Compares candidates of one host; the lowest is taken first.
Rank = tuple[bool, int, float]


def rank(
    taken: inventory.Taken, gpus: GPUs, rules: values.SchedulingRules
) -> Rank:
    """The rank of a candidate among those of its host."""
    found = [gpus[uuid] for uuid in taken]
    if not found:
        return (False, 0, 0.0)
    lacks_room = not has_room(taken, gpus)
    share = _share_in_use(found)
    if _find_order(found, rules.gpus) is values.Order.PACK:
        return (lacks_room, _count_unused(found), -share)
    return (lacks_room, 0, share)


def has_room(taken: inventory.Taken, gpus: GPUs) -> bool:
    return all(number <= gpus[uuid].free for uuid, number in taken.items())


def weigh(
    taken: inventory.Taken,
    gpus: GPUs,
    of_host: Sequence[inventory.GPU],
    rules: values.SchedulingRules,
) -> float:
    """The weight of a host, by the first of its candidates.

    :param gpus: those of the candidate, at least.
    :param of_host: all GPUs of the host.
    """
    if not taken:
        return _weigh_plain(of_host, rules)
    if not has_room(taken, gpus):
        return NO_ROOM
    found = [gpus[uuid] for uuid in taken]
    kinds = {gpu.kind for gpu in found}
    share = _share_in_use(gpu for gpu in of_host if gpu.kind in kinds)
    if _find_order(found, rules.hosts) is values.Order.SPREAD:
        return _LOWEST + (1 - _LOWEST) * (1 - share)
    if not any(gpu.used for gpu in of_host):
        return _LOWEST
    level = 1 if _count_unused(found) else 2
    return _LOWEST + _STEP * (level + share)


def _weigh_plain(
    of_host: Sequence[inventory.GPU], rules: values.SchedulingRules
) -> float:
    """The weight for a server without a vGPU."""
    if not rules.plain_servers_avoid_gpus:
        return NEUTRAL
    return _share_in_use(of_host)


def _find_order(
    found: Sequence[inventory.GPU], orders: values.Orders
) -> values.Order:
    """That of the first GPU, if they are of several types."""
    return orders.find(found[0].type_traits, found[0].classes)


def _count_unused(gpus: Iterable[inventory.GPU]) -> int:
    return sum(not gpu.used for gpu in gpus)


def _share_in_use(gpus: Iterable[inventory.GPU]) -> float:
    """From 0 to 1; where there is nothing to use, all of it is in use."""
    found = list(gpus)
    capacity = sum(gpu.capacity for gpu in found)
    if not capacity:
        return 1.0
    return 1 - sum(gpu.free for gpu in found) / capacity
