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

"""What the cloud has for nodes that are asked for.

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
_NO_CONTROL_PLANE = node_request.ControlPlane()


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
class Sought:
    """Nodes that a request asks for, and later up to ``most`` of them.

    ``driver`` is None where it is not asked how the nodes get it.
    """

    choice: node_gpus.FlavorChoice
    image: str | None
    nodes: int
    most: int
    root_volume_gib: int | None = None
    zone: str | None = None
    control_plane: node_request.ControlPlane = _NO_CONTROL_PLANE
    driver: node_request.DriverRequest | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """What the cloud has for them, and what an engineer should know."""

    workers: NodeKind
    image: image_store.Image
    control_plane: NodeKind | None = None
    check: room.Check = room.MADE
    warnings: tuple[str, ...] = ()


class Reading:
    """What is read for one request; everything wrong is collected."""

    def __init__(self, cloud: reader.Cloud, is_checked: bool) -> None:
        self._cloud = cloud
        self._listed = cloud.list_flavors()
        self._is_checked = is_checked
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
        self._refuse(flavor, gpus)
        return NodeKind(flavor, gpus)

    def _refuse(
        self, flavor: flavors.Flavor, gpus: node_gpus.NodeGPUs
    ) -> None:
        known = self._gpus if self._is_checked else None
        self.problems += node_gpus.find_problems(flavor, gpus, known)

    def find_control_plane(self, wanted: str) -> NodeKind | None:
        try:
            flavor = node_gpus.find_flavor(self._listed, wanted)
        except exception.NotInCloud as error:
            self.problems.append(f'--control-plane-flavor: {error}')
            return None
        gpus = node_gpus.find(flavor, self._gpus)
        if gpus.count:
            self._refuse(flavor, gpus)
        return NodeKind(flavor, gpus)

    def find_image(self, wanted: str) -> image_store.Image | None:
        store = image_store.ImageStore(self._cloud.connection)
        try:
            return store.find(wanted)
        except exception.NotInCloud as error:
            self.problems.append(str(error))
            return None


def read(
    cloud: reader.Cloud,
    sought: Sought,
    known_problems: Iterable[str],
    is_checked: bool = True,
) -> Found:
    """Find the flavors and the image, and whether the nodes fit.

    :param known_problems: what is wrong with the request itself.
    :param is_checked: whether Placement is asked if the nodes fit.
    :raises NodesRefused: with that, and with everything that is absent.
    """
    problems = list(known_problems)
    if list(node_request.find_choice_problems(sought.choice)):
        raise exception.NodesRefused(problems)
    reading = Reading(cloud, is_checked)
    workers = reading.find_workers(sought.choice)
    control = None
    if sought.control_plane.flavor:
        control = reading.find_control_plane(sought.control_plane.flavor)
    image = reading.find_image(sought.image) if sought.image else None
    problems += reading.problems
    for kind in (workers, control):
        if kind is not None:
            problems += find_kind_problems(kind, sought)
    if problems or workers is None or image is None:
        # Workers and control plane may lack the same.
        raise exception.NodesRefused(dict.fromkeys(problems))
    told = tuple(find_firmware_warnings(image))
    if not is_checked:
        told += ('--no-fit-check: it was not checked whether the nodes fit.',)
        check = room.Check(is_made=False)
        return Found(workers, image, control, check, told)
    zone = room.find_zone(cloud, sought.zone)
    outcome = room.check(cloud, _list_wanted(sought, workers, control, zone))
    if outcome.problems:
        raise exception.NodesRefused(outcome.problems)
    check = room.Check(unheeded_zone=None if zone else sought.zone)
    told = (*outcome.warnings, *room.find_zone_warnings(check), *told)
    return Found(workers, image, control, check, told)


def find_kind_problems(kind: NodeKind, sought: Sought) -> Iterator[str]:
    """Why nodes of a flavor cannot be what is asked for."""
    flavor = kind.flavor
    reserved = reservations.reserve(flavor.size)
    if reserved.pods_mib < reservations.LEAST_MIB:
        yield (
            f'Flavor {flavor.name} has {flavor.size.ram_mib} MiB of memory, '
            f'of which {max(reserved.pods_mib, 0)} are left for pods: at '
            f'least {reservations.LEAST_MIB} are needed.'
        )
    if not flavor.size.disk_gib and sought.root_volume_gib is None:
        yield (
            f'Flavor {flavor.name} has no root disk: give the size of a '
            'volume to boot from with --root-volume.'
        )
    if sought.driver is not None and kind.gpus.count:
        yield from node_request.find_driver_problems(sought.driver, kind.gpus)


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


def _list_wanted(
    sought: Sought,
    workers: NodeKind,
    control: NodeKind | None,
    zone: room.Zone | None,
) -> Iterator[room.Wanted]:
    """What has to fit; a zone is that of the workers only."""
    is_volume = sought.root_volume_gib is not None
    wanted = room.Wanted(workers.flavor, sought.nodes, sought.most, is_volume)
    yield dataclasses.replace(wanted, zone=zone)
    if control is None:
        return
    if zone is not None and control.flavor == workers.flavor:
        yield wanted
    nodes = sought.control_plane.nodes
    yield room.Wanted(control.flavor, nodes, nodes, is_volume)
