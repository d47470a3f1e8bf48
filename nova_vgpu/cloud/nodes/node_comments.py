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

"""What comments in rendered files say of nodes."""

from collections.abc import Iterator

from nova_vgpu.cloud.nodes import node_reading
from nova_vgpu.cloud.orders import image_store


def describe_kind(kind: node_reading.NodeKind) -> str:
    """What a comment says of nodes."""
    if not kind.gpus.count:
        return f'flavor {kind.flavor.name}, no GPU'
    pages = f' in pages "{kind.page_size}"' if kind.page_size else ''
    return (
        f'flavor {kind.flavor.name}, {kind.gpus}; all memory is pinned on '
        f'the host{pages}'
    )


def describe_check(found: node_reading.Found) -> Iterator[str]:
    """What was looked at: the image, and the room for the nodes."""
    image, workers, control = found.image, found.workers, found.control_plane
    there = image.properties
    firmware, machine = there[image_store.FIRMWARE], there[image_store.MACHINE]
    yield (
        f'Image {image.name}: firmware {firmware or "not set"}, '
        f'machine type {machine or "not set"}'
    )
    if not found.check.is_made:
        yield 'NOT CHECKED: whether these nodes fit (--no-fit-check).'
        return
    nodes = 'these nodes'
    if control is not None and control.flavor != workers.flavor:
        nodes = 'workers and for control plane, each counted alone,'
    yield f'Placement had room for {nodes} when this was rendered.'
    if found.check.unheeded_zone is not None:
        yield (
            'Room was checked in all zones, not in zone '
            f'{found.check.unheeded_zone} alone.'
        )
