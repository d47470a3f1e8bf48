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

"""The flavors that ask for GPUs, and how many more servers of each fit."""

from collections.abc import Sequence
import dataclasses

from nova_vgpu.cloud import reader
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.orders import fitting
from nova_vgpu.cloud.orders import flavor_query
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.cloud.orders import vgpu_requests
from nova_vgpu.cloud.orders import whole_gpu_order
from nova_vgpu.placement import client


@dataclasses.dataclass(frozen=True, slots=True)
class VGPUFlavor:
    """A flavor that asks for vGPUs, for whole GPUs, or for both.

    ``types`` are those that servers can get, of GPUs whose type is known;
    ``models`` are those of the whole GPUs.
    """

    flavor: flavors.Flavor
    vgpus: int
    types: tuple[str, ...]
    resource_classes: tuple[str, ...]
    models: tuple[str, ...] = ()
    gpus: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Room:
    """How many more servers fit; ``refusal`` says why Placement cannot say."""

    servers: int
    refusal: str | None = None


def list_vgpu_flavors(
    listed: Sequence[flavors.Flavor], gpus: Sequence[fleet.GPU]
) -> tuple[VGPUFlavor, ...]:
    """The flavors that ask for vGPUs or whole GPUs, in the order of names.

    :param gpus: those that serve vGPUs.
    """
    classes = vgpu_requests.list_classes(gpus)
    found = []
    for flavor in sorted(listed, key=lambda flavor: flavor.name):
        asked = vgpu_requests.list_requests(flavor, classes)
        devices = whole_gpu_order.list_devices(flavor)
        if asked or devices:
            found.append(
                VGPUFlavor(
                    flavor,
                    sum(request.vgpus for request in asked),
                    _list_types(flavor, gpus),
                    tuple(
                        sorted(
                            {request.resource_class for request in asked}
                            | {of.resource_class for of in devices}
                        )
                    ),
                    tuple(sorted(of.title for of in devices)),
                    sum(devices.values()),
                )
            )
    return tuple(found)


def select(
    listed: Sequence[VGPUFlavor], gpus: Sequence[fleet.GPU], trait: str
) -> tuple[VGPUFlavor, ...]:
    """Those that can get a vGPU of a GPU with a trait."""
    serving = [gpu for gpu in gpus if trait in gpu.traits]
    return tuple(
        found for found in listed if _find_kinds(found.flavor, serving)
    )


def count_room(
    cloud: reader.Cloud,
    flavor: flavors.Flavor,
    aggregates: Sequence[str] = (),
) -> Room:
    """Ask Placement once.

    :param aggregates: only hosts in one of them count, if any is given.
    :raises PlacementError: if it refuses or does not answer.
    """
    try:
        found = cloud.read_candidates(
            flavor_query.make_query(flavor, aggregates)
        )
    except client.BadRequest as error:
        # Nova gets the same answer, and finds no host.
        return Room(0, str(error))
    devices = {
        of.resource_class: count
        for of, count in whole_gpu_order.list_devices(flavor).items()
    }
    return Room(fitting.count_servers(fitting.pool(found, devices)))


def _list_types(
    flavor: flavors.Flavor, gpus: Sequence[fleet.GPU]
) -> tuple[str, ...]:
    kinds = _find_kinds(flavor, gpus)
    return tuple(sorted({name for gpu in kinds for name in gpu.facts.types}))


def _find_kinds(
    flavor: flavors.Flavor, gpus: Sequence[fleet.GPU]
) -> list[fleet.GPU]:
    """A GPU of each kind that servers can get a vGPU of."""
    return [
        gpu
        for gpu in fleet.list_kinds(gpus)
        if any(flavor.asks_for(gpu, name) for name in gpu.classes)
    ]
