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

"""Reads the servers that have vGPUs, by their flavors or by their GPUs."""

import dataclasses
import datetime

from nova_vgpu.cloud import reader
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.gpus import selection
from nova_vgpu.cloud.gpus import type_choice
from nova_vgpu.cloud.orders import demands
from nova_vgpu.cloud.usage import projects
from nova_vgpu.cloud.usage import records
from nova_vgpu.cloud.usage import servers


@dataclasses.dataclass(frozen=True, slots=True)
class Listing:
    """Servers with vGPUs, and how many servers may have some."""

    users: tuple[servers.VGPUUser, ...]
    unknown: servers.Unknown
    has_gpus: bool


def list_by_flavor(
    cloud: reader.Cloud, now: datetime.datetime, project: str | None = None
) -> Listing:
    """Servers with what their flavors ask for.

    :param project: a name or ID.
    :raises PlacementError: if Placement refuses or does not answer.
    :raises CloudError: if Nova or Keystone do.
    :raises NotInCloud: if Keystone has no such project.
    """
    gpus = cloud.list_gpus()
    known = records.list_projects(cloud.services)
    current = records.list_current(
        cloud.services, now, projects.find_wanted(known, project)
    )
    asked_for = demands.find(cloud.list_flavors(), gpus)
    return Listing(
        servers.list_by_flavor(current, asked_for, known),
        servers.find_unknown(current, asked_for),
        bool(gpus),
    )


def list_by_gpu(
    cloud: reader.Cloud,
    now: datetime.datetime,
    project: str | None = None,
    host: str | None = None,
    type_name: str | None = None,
) -> Listing:
    """Servers with what they have of each GPU.

    Placement is asked once for each GPU that is in use.

    :param host: the name of a compute node, with or without its domain.
    :raises NotInCloud: if the cloud has no such project, host or type.
    """
    gpus = cloud.list_gpus()
    known = records.list_projects(cloud.services)
    wanted = projects.find_wanted(known, project)
    selected = _select(gpus, host, type_name) if gpus else ()
    current = records.list_current(cloud.services, now, wanted)
    allocations = records.list_allocations(cloud.services, selected)
    return Listing(
        servers.list_by_gpu(allocations, current, known, wanted),
        servers.Unknown(),
        bool(gpus),
    )


def _select(
    gpus: tuple[fleet.GPU, ...], host: str | None, type_name: str | None
) -> tuple[fleet.GPU, ...]:
    found = selection.select_gpus(gpus, host)
    if type_name is None:
        return found
    trait = type_choice.find_trait(gpus, type_name)
    return tuple(gpu for gpu in found if trait in gpu.traits)
