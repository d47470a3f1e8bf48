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

"""What Nova asks Placement for a server with a flavor.

These are the rules of ``nova.scheduler.utils.ResourceRequest`` for what a
flavor alone decides: its size, the resources, traits and groups of its extra
specs, and pinned processors. What an image, a port or a volume adds is not
known here.

For whole GPUs Nova makes a group for each. Placement would combine all GPUs of
a host with each other: eight of eight are 16 million combinations. So one GPU
of each model is asked for here, and ``fitting.pool`` does the rest.
"""

from collections.abc import Sequence
import math

from nova_vgpu.cloud.orders import flavors
from nova_vgpu.cloud.orders import whole_gpu_order

_PROCESSORS = ('VCPU', 'PCPU')
_PINNED = ('hw:cpu_policy', 'dedicated')
_EMULATOR_APART = ('hw:emulator_threads_policy', 'isolate')
# Of compute services that are disabled.
_DISABLED = '!COMPUTE_STATUS_DISABLED'


def make_query(
    flavor: flavors.Flavor, aggregates: Sequence[str] = ()
) -> dict[str, str]:
    """The parameters of a request for allocation candidates.

    :param aggregates: those of an availability zone, by their UUIDs.
    """
    groups = {group.name: group for group in flavor.groups}
    unnamed = groups.pop('', flavors.Group(''))
    amounts = dict(unnamed.amounts)
    given = {name for group in flavor.groups for name, _ in group.amounts}
    if not given.isdisjoint(_PROCESSORS):
        given.update(_PROCESSORS)
    for name, amount in _list_size(flavor):
        if name not in given:
            amounts[name] = amount
    query = {'root_required': _DISABLED}
    if aggregates:
        query['member_of'] = f'in:{",".join(aggregates)}'
    devices = whole_gpu_order.list_devices(flavor)
    policy = flavor.policy
    if policy is None and len(groups) <= 1 < len(groups) + len(devices):
        policy = 'none'  # as Nova does, unless the flavor itself has several
    if policy is not None:
        query['group_policy'] = policy
    query |= _make_group(unnamed, amounts)
    for group in groups.values():
        query |= _make_group(group, dict(group.amounts))
    for number, of in enumerate(devices):
        query[f'resources_pci{number}'] = f'{of.resource_class}:1'
    return query


def _list_size(flavor: flavors.Flavor) -> list[tuple[str, int]]:
    """What Nova makes of a flavor's size; extra specs may replace it."""
    size = flavor.size
    swap = math.ceil(size.swap_mib / 1024)
    disk = size.disk_gib + size.ephemeral_gib + swap
    processors = ('VCPU', size.vcpus)
    if _PINNED in flavor.extra_specs:
        apart = _EMULATOR_APART in flavor.extra_specs
        processors = ('PCPU', size.vcpus + apart)
    return [processors, ('MEMORY_MB', size.ram_mib), ('DISK_GB', disk)]


def _make_group(
    group: flavors.Group, amounts: dict[str, int]
) -> dict[str, str]:
    asked = [f'{name}:{amount}' for name, amount in amounts.items() if amount]
    required = [*group.required, *(f'!{name}' for name in group.forbidden)]
    found = {
        f'resources{group.name}': ','.join(sorted(asked)),
        f'required{group.name}': ','.join(sorted(required)),
    }
    return {key: value for key, value in found.items() if value}
