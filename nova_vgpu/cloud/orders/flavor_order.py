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

"""The extra specs of a flavor that asks for vGPUs.

The trait of the type is always required, also with a resource class of its
own: other types may get the same class later. One vGPU, or several of one
GPU, are asked for in the group without a name, where Placement takes all of a
resource class from one provider. For vGPUs of several GPUs each has a group of
its own.

All memory of a server with a vGPU is pinned by the kernel when the vGPU
starts. ``hw:locked_memory`` lets libvirt lock it as well, but Nova accepts it
only together with ``hw:mem_page_size``, which gives the server a NUMA topology
and needs the scheduler's NUMATopologyFilter. So both are set if a page size is
asked for, and none of them otherwise.
"""

import collections
from collections.abc import Iterable
from collections.abc import Iterator
import dataclasses
import enum
import math
import re

from nova_vgpu import exception
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.gpus import type_choice

PAGE_SIZE = 'hw:mem_page_size'
LOCKED_MEMORY = 'hw:locked_memory'
# As nova.api.validation.extra_specs.hw has it.
_PAGE_SIZE = re.compile(
    r'large|small|any|[0-9]+([kKMGT]i?)?(b|bit|B)?', re.ASCII
)


class Policy(enum.Enum):
    """Which GPUs several vGPUs of a server are of."""

    SAME_GPU = 'same-gpu'
    DIFFERENT_GPUS = 'different-gpus'
    ANY = 'any'


DEFAULT_POLICY = Policy.SAME_GPU


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """The vGPUs that a flavor is to ask for."""

    trait: str
    resource_class: str = 'VGPU'
    count: int = 1
    policy: Policy = DEFAULT_POLICY
    page_size: str | None = None

    @property
    def groups(self) -> int:
        """The number of groups, each served by one GPU."""
        return 1 if self.policy is Policy.SAME_GPU else self.count


def make_extra_specs(order: Order) -> dict[str, str]:
    """The extra specs, as Nova takes and validates them."""
    return dict(_make_groups(order)) | make_memory_specs(order.page_size)


def make_memory_specs(page_size: str | None) -> dict[str, str]:
    """The extra specs about memory, if a page size is asked for."""
    if page_size is None:
        return {}
    return {PAGE_SIZE: page_size, LOCKED_MEMORY: 'true'}


def _make_groups(order: Order) -> Iterator[tuple[str, str]]:
    if order.groups == 1:
        yield f'resources:{order.resource_class}', str(order.count)
        yield f'trait:{order.trait}', 'required'
        return
    for number in range(1, order.groups + 1):
        yield f'resources{number}:{order.resource_class}', '1'
        yield f'trait{number}:{order.trait}', 'required'
    is_isolated = order.policy is Policy.DIFFERENT_GPUS
    yield 'group_policy', 'isolate' if is_isolated else 'none'


def is_page_size(text: str) -> bool:
    return _PAGE_SIZE.fullmatch(text) is not None


def require_possible(
    served: type_choice.ServedType, count: int, policy: Policy
) -> None:
    """Check that some host could have so many vGPUs for one server.

    :raises NotInCloud: if none could, not even without any server.
    """
    vgpus: collections.Counter[str] = collections.Counter()
    gpus: collections.Counter[str] = collections.Counter()
    for gpu, stock in served.stocks:
        vgpus[gpu.host] += stock.total
        gpus[gpu.host] += 1 if stock.total else 0
    if policy is Policy.SAME_GPU:
        most = max((stock.total for _, stock in served.stocks), default=0)
        lacking = f'GPU has {count} vGPUs'
    elif policy is Policy.DIFFERENT_GPUS:
        most = max(gpus.values(), default=0)
        lacking = f'host has {count} GPUs with vGPUs'
    else:
        most = max(vgpus.values(), default=0)
        lacking = f'host has {count} vGPUs'
    if count > most:
        raise exception.NotInCloud(
            f'No {lacking} of type {served.name}: the most is {most}. Use a '
            'smaller --count or another --policy.'
        )


def require_live(served: type_choice.ServedType) -> None:
    """Check that a GPU gives out vGPUs of the type, free or in use.

    :raises NotInCloud: if all are fenced.
    """
    if not any(type_choice.is_live(stock) for _, stock in served.stocks):
        gpus = ', '.join(
            f'{gpu.address} on {gpu.host}' for gpu, _ in served.stocks
        )
        raise exception.NotInCloud(
            f'No GPU can serve a new vGPU of type {served.name}: fenced or '
            f'without capacity: {gpus}. "nova-vgpu doctor" on the host says '
            'why.'
        )


def count_combinations(
    stocks: Iterable[tuple[fleet.GPU, fleet.Stock]], count: int, policy: Policy
) -> int:
    """How many allocation candidates Placement makes of a request, at most.

    Each group can be served by each GPU of a host, so they grow quickly with
    the number of groups.
    """
    per_host = collections.Counter(gpu.host for gpu, _ in stocks)
    if policy is Policy.SAME_GPU:
        return per_host.total()
    if policy is Policy.DIFFERENT_GPUS:
        return sum(math.perm(gpus, count) for gpus in per_host.values())
    return sum(gpus**count for gpus in per_host.values())
