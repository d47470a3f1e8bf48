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

"""An order of nodes: what is asked for, with what the cloud has for it.

Reads flavors from Nova, the image from Glance and, unless that is not wanted,
GPUs and room from Placement.
"""

from collections.abc import Iterable
from collections.abc import Iterator
import dataclasses

from nova_vgpu import exception
from nova_vgpu.cloud import reader
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.nodes import node_gpus
from nova_vgpu.cloud.nodes import node_request
from nova_vgpu.cloud.nodes import reservations
from nova_vgpu.cloud.nodes import room
from nova_vgpu.cloud.orders import flavor_order
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.cloud.orders import image_store

_FIRMWARE = {image_store.FIRMWARE: 'uefi', image_store.MACHINE: 'q35'}


@dataclasses.dataclass(frozen=True, slots=True)
class NodeKind:
    """Nodes that are alike: their flavor, and the GPUs that it brings."""

    flavor: flavors.Flavor
    gpus: node_gpus.NodeGPUs

    @property
    def page_size(self) -> str | None:
        specs = dict(self.flavor.extra_specs)
        return specs.get(flavor_order.PAGE_SIZE)


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterOrder:
    """Nodes that can be rendered; ``is_checked`` is whether they fit now."""

    request: node_request.ClusterRequest
    workers: NodeKind
    image: image_store.Image
    control_plane: NodeKind | None = None
    is_checked: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """An order, and what an engineer should know of it."""

    order: ClusterOrder
    warnings: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Sought:
    """Servers of one flavor, that a request asks for."""

    choice: node_gpus.FlavorChoice
    image: str | None
    servers: int
    most: int
    root_volume_gib: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """What the cloud has for them."""

    kind: NodeKind
    image: image_store.Image
    warnings: tuple[str, ...] = ()


class Reading:
    """What is read for one request; everything wrong is collected."""

    def __init__(self, cloud: reader.Cloud, is_checked: bool) -> None:
        self._cloud = cloud
        self._listed = cloud.list_flavors()
        self._gpus: tuple[fleet.GPU, ...] = ()
        if is_checked:
            try:
                self._gpus = cloud.list_gpus()
            except exception.PlacementForbidden as error:
                raise exception.PlacementForbidden(
                    f'{error} {room.UNCHECKED}'
                ) from error
        self.problems: list[str] = []

    def find_workers(self, choice: node_gpus.FlavorChoice) -> NodeKind | None:
        try:
            flavor = node_gpus.choose_flavor(self._listed, self._gpus, choice)
        except exception.NotInCloud as error:
            self.problems.append(str(error))
            return None
        gpus = node_gpus.find(flavor, self._gpus)
        self.problems += node_gpus.find_problems(flavor, gpus, self._gpus)
        return NodeKind(flavor, gpus)

    def find_control_plane(self, wanted: str) -> NodeKind | None:
        try:
            flavor = node_gpus.find_flavor(self._listed, wanted)
        except exception.NotInCloud as error:
            self.problems.append(f'--control-plane-flavor: {error}')
            return None
        gpus = node_gpus.find(flavor, self._gpus)
        if gpus.count:
            self.problems += node_gpus.find_problems(flavor, gpus, self._gpus)
        return NodeKind(flavor, gpus)

    def find_image(self, wanted: str) -> image_store.Image | None:
        store = image_store.ImageStore(self._cloud.connection)
        try:
            return store.find(wanted)
        except exception.NotInCloud as error:
            self.problems.append(str(error))
            return None


def read_order(
    cloud: reader.Cloud,
    request: node_request.ClusterRequest,
    is_checked: bool = True,
) -> Outcome:
    """Complete a request with what the cloud has for it.

    :param is_checked: whether Placement is asked if the nodes fit.
    :raises NodesRefused: with everything that is missing, invalid or absent.
    """
    problems = list(node_request.find_problems(request))
    if list(node_request.find_choice_problems(request.choice)):
        raise exception.NodesRefused(problems)
    reading = Reading(cloud, is_checked)
    workers = reading.find_workers(request.choice)
    control = None
    if request.control_plane.flavor:
        control = reading.find_control_plane(request.control_plane.flavor)
    image = reading.find_image(request.image) if request.image else None
    problems += reading.problems
    kinds = [kind for kind in (workers, control) if kind is not None]
    problems += _find_size_problems(request, kinds)
    for kind in kinds:
        if kind.gpus.count:
            problems += node_request.find_driver_problems(
                request.driver, kind.gpus
            )
    if problems or workers is None or image is None:
        # Workers and control plane may lack the same.
        raise exception.NodesRefused(dict.fromkeys(problems))
    order = ClusterOrder(request, workers, image, control, is_checked)
    found = room.check(cloud, _list_wanted(order)) if is_checked else None
    if found is not None and found.problems:
        raise exception.NodesRefused(found.problems)
    warnings = found.warnings if found is not None else ()
    return Outcome(order, (*warnings, *find_warnings(order)))


def read_servers(
    cloud: reader.Cloud,
    sought: Sought,
    known_problems: Iterable[str],
    is_checked: bool = True,
) -> Found:
    """Find the flavor and the image, and whether the servers fit.

    :param known_problems: what is wrong with the request itself.
    :raises NodesRefused: with that, and with everything that is absent.
    """
    problems = list(known_problems)
    if list(node_request.find_choice_problems(sought.choice)):
        raise exception.NodesRefused(problems)
    reading = Reading(cloud, is_checked)
    kind = reading.find_workers(sought.choice)
    image = reading.find_image(sought.image) if sought.image else None
    problems += reading.problems
    if kind is not None:
        problems += find_disk_problems(kind.flavor, sought.root_volume_gib)
    if problems or kind is None or image is None:
        raise exception.NodesRefused(problems)
    warnings: tuple[str, ...] = ()
    if is_checked:
        is_volume = sought.root_volume_gib is not None
        wanted = room.Wanted(
            kind.flavor, sought.servers, sought.most, is_volume
        )
        warnings = room.require(cloud, wanted)
    told = find_check_warnings(image, is_checked)
    return Found(kind, image, (*warnings, *told))


def find_warnings(order: ClusterOrder) -> Iterator[str]:
    """What an engineer should know of an order that is possible."""
    yield from find_check_warnings(order.image, order.is_checked)


def find_check_warnings(
    image: image_store.Image, is_checked: bool
) -> Iterator[str]:
    """What is missing in an image, and that nothing else was checked."""
    yield from find_firmware_warnings(image)
    if not is_checked:
        yield '--no-fit-check: it was not checked whether the nodes fit.'


def find_firmware_warnings(image: image_store.Image) -> Iterator[str]:
    """What an image lacks for guests of GPUs with much memory."""
    lacking = image_store.plan_properties(image, _FIRMWARE)
    if lacking:
        wanted = ' and '.join(f'{k}={v}' for k, v in lacking.items())
        yield (
            f'Image {image.name} does not have {wanted}: GPUs with much '
            'memory need that, and Nova takes it from the image. If its '
            f'system boots with UEFI: openstack vgpu image set {image.id}'
        )


def _find_size_problems(
    request: node_request.ClusterRequest, kinds: list[NodeKind]
) -> Iterator[str]:
    for kind in kinds:
        flavor = kind.flavor
        reserved = reservations.reserve(flavor.size)
        if reserved.pods_mib < reservations.LEAST_MIB:
            yield (
                f'Flavor {flavor.name} has {flavor.size.ram_mib} MiB of '
                f'memory, of which {max(reserved.pods_mib, 0)} are left for '
                f'pods: at least {reservations.LEAST_MIB} are needed.'
            )
        yield from find_disk_problems(flavor, request.root_volume_gib)


def find_disk_problems(
    flavor: flavors.Flavor, root_volume_gib: int | None
) -> Iterator[str]:
    """Why a server with a flavor has nothing to boot from."""
    if not flavor.size.disk_gib and root_volume_gib is None:
        yield (
            f'Flavor {flavor.name} has no root disk: give the size of a '
            'volume to boot from with --root-volume.'
        )


def describe_kind(kind: NodeKind) -> str:
    """What a comment says of nodes."""
    if not kind.gpus.count:
        return f'flavor {kind.flavor.name}, no GPU'
    pages = f' in pages "{kind.page_size}"' if kind.page_size else ''
    return (
        f'flavor {kind.flavor.name}, {kind.gpus}; all memory is pinned on '
        f'the host{pages}'
    )


def describe_check(
    image: image_store.Image, is_checked: bool
) -> Iterator[str]:
    """What a comment says of the image, and of the room for nodes."""
    found = image.properties
    firmware, machine = found[image_store.FIRMWARE], found[image_store.MACHINE]
    yield (
        f'Image {image.name}: firmware {firmware or "not set"}, '
        f'machine type {machine or "not set"}'
    )
    if is_checked:
        yield 'Placement had room for these nodes when this was rendered.'
    else:
        yield 'NOT CHECKED: whether these nodes fit (--no-fit-check).'


def _list_wanted(order: ClusterOrder) -> Iterator[room.Wanted]:
    request = order.request
    is_volume = request.root_volume_gib is not None
    yield room.Wanted(
        order.workers.flavor,
        request.nodes,
        request.most_nodes or request.nodes,
        is_volume,
    )
    if order.control_plane is not None:
        nodes = request.control_plane.nodes
        flavor = order.control_plane.flavor
        yield room.Wanted(flavor, nodes, nodes, is_volume)
