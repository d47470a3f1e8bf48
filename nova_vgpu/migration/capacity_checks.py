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

"""Whether a host has room for all that a server has of GPUs.

What a server has of one GPU has to be free on one GPU, as Placement gives it
out. Several GPUs of a server may become one, unless its flavor has them apart.
"""

import collections
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses

from nova_vgpu import values
from nova_vgpu.migration import device_checks
from nova_vgpu.migration import reasons


def check(
    source: values.MigrationSource, target: values.MigrationTarget
) -> Iterator[values.MigrationReason]:
    """Of each type, whether enough is free.

    Nothing is said of a type that the host does not serve, or if it is not
    known what is free.
    """
    groups: dict[object, list[values.MovingDevice]] = collections.defaultdict(
        list
    )
    for device in source.devices:
        if device.is_whole or device.type is not None:
            groups[device.type, device.resource_class].append(device)
    for devices in groups.values():
        places = device_checks.find_places(devices[0], target.places)
        free = [place.free for place in places if place.free is not None]
        needed = sorted((d.number for d in devices), reverse=True)
        if len(free) < len(places) or not places:
            continue
        if not _fits(needed, free, source.needs_own_gpus):
            yield _find_full(target, devices, needed, free)


def _fits(needed: Sequence[int], free: Sequence[int], apart: bool) -> bool:
    """Whether each number finds a place, in one of all orders."""
    if not needed:
        return True
    tried = set()
    for index, left in enumerate(free):
        if left < needed[0] or left in tried:
            continue
        tried.add(left)
        others = [*free]
        others[index] = 0 if apart else left - needed[0]
        if _fits(needed[1:], others, apart):
            return True
    return False


def _find_full(
    target: values.MigrationTarget,
    devices: Sequence[values.MovingDevice],
    needed: Sequence[int],
    free: Sequence[int],
) -> values.MigrationReason:
    device = dataclasses.replace(devices[0], number=sum(needed))
    what = (
        f'{device.number} of {device.resource_class}'
        if device.is_whole
        else f'{device.number} vGPUs of type {device.type}'
        if device.number > 1
        else f'1 vGPU of type {device.type}'
    )
    if len(needed) > 1:
        what += f' ({" + ".join(map(str, needed))} on a GPU each)'
    left = ' + '.join(str(number) for number in sorted(free, reverse=True))
    return reasons.prevents(
        reasons.Code.NO_CAPACITY,
        target.host,
        f'{target.host} has no room for {what}: free on its GPUs: {left}.',
        'Move or delete servers there, or choose another host.',
    )
