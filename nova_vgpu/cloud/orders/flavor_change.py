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

"""What has to change for a flavor to be as requested.

Nova cannot change the size of a flavor or who sees it, only its extra specs.
Those about Placement and about pages of memory are replaced; the others are
the operator's own and stay.
"""

import dataclasses
import enum

from nova_vgpu import exception
from nova_vgpu.cloud.orders import flavor_order
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.cloud.orders import whole_gpu_order

_MEMORY = (flavor_order.PAGE_SIZE, flavor_order.LOCKED_MEMORY)
_UNITS = {
    'vcpus': '{} vCPUs',
    'ram_mib': '{} MiB of RAM',
    'disk_gib': '{} GiB of disk',
    'ephemeral_gib': '{} GiB of ephemeral disk',
    'swap_mib': '{} MiB of swap',
}


class Result(enum.Enum):
    """What becomes of a flavor."""

    CREATED = 'created'
    UPDATED = 'updated'
    UNCHANGED = 'unchanged'


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """The extra specs to set, and the keys of those to remove."""

    result: Result
    to_set: tuple[tuple[str, str], ...] = ()
    to_remove: tuple[str, ...] = ()


def plan_change(
    wanted: flavors.Flavor, existing: flavors.Flavor | None
) -> Change:
    """The change that makes the flavor as it is wanted.

    :param existing: the flavor of this name, if there is one.
    :raises FlavorConflict: if it differs in what cannot be changed.
    """
    if existing is None:
        return Change(Result.CREATED, wanted.extra_specs)
    _require_same(wanted, existing)
    there = dict(existing.extra_specs)
    keys = dict(wanted.extra_specs)
    devices = whole_gpu_order.replace_devices(
        there.get(flavors.ALIAS, ''), keys.get(flavors.ALIAS, '')
    )
    if devices:
        keys[flavors.ALIAS] = devices
    to_set = tuple(
        (key, value) for key, value in keys.items() if there.get(key) != value
    )
    to_remove = tuple(
        key
        for key in there
        if key not in keys and (flavors.is_request(key) or key in _MEMORY)
    )
    if to_set or to_remove:
        return Change(Result.UPDATED, to_set, to_remove)
    return Change(Result.UNCHANGED)


def _require_same(wanted: flavors.Flavor, existing: flavors.Flavor) -> None:
    found = [
        f'{unit.format(getattr(existing.size, name))} instead of '
        f'{getattr(wanted.size, name)}'
        for name, unit in _UNITS.items()
        if getattr(existing.size, name) != getattr(wanted.size, name)
    ]
    if existing.is_public != wanted.is_public:
        is_public = 'public' if existing.is_public else 'private'
        found.append(f'it is {is_public}')
    if found:
        raise exception.FlavorConflict(
            f'Flavor {wanted.name} exists and differs: {", ".join(found)}. '
            'Nova cannot change that: use another name, or delete the flavor '
            'first.'
        )
