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

"""Servers, and the vGPUs that they have.

Nova says which servers there are and what flavors they have, and Placement
what has vGPUs of which GPU. A consumer in Placement that Nova has no server of
is one that is being built or moved, or an allocation that was left over.
"""

from collections.abc import Iterable
import dataclasses

from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.orders import demands as cloud_demands
from nova_vgpu.cloud.usage import projects


@dataclasses.dataclass(frozen=True, slots=True)
class Allocation:
    """What a consumer has of one GPU, of one resource class."""

    consumer: str
    gpu: fleet.GPU
    resource_class: str
    vgpus: int


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """A server as Nova's usage records have it.

    ``project`` is an id, ``flavor`` the name that it had when the server got
    it, ``hours`` those within the period that was asked for. ``is_current``
    is whether it was neither deleted nor moved off its host (shelved).
    """

    uuid: str
    name: str
    project: str
    flavor: str
    hours: float = 0.0
    is_current: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class VGPUUser:
    """A server with vGPUs of one type, or of one GPU.

    ``record`` is None if Nova has no such server, ``gpu`` if it was not looked
    up. ``project_name`` is the id if Keystone has no such project.
    """

    uuid: str
    type: str | None
    resource_class: str
    vgpus: int
    record: Record | None = None
    project_name: str | None = None
    gpu: fleet.GPU | None = None

    @property
    def name(self) -> str | None:
        return self.record.name if self.record else None

    @property
    def project(self) -> str | None:
        return self.record.project if self.record else None

    @property
    def flavor(self) -> str | None:
        return self.record.flavor if self.record else None


@dataclasses.dataclass(frozen=True, slots=True)
class Unknown:
    """Servers that may have vGPUs: Nova does not have their flavors."""

    servers: int = 0
    hours: float = 0.0
    flavors: tuple[str, ...] = ()


def list_by_flavor(
    records: Iterable[Record],
    demands: cloud_demands.Demands,
    known: Iterable[projects.Project],
) -> tuple[VGPUUser, ...]:
    """Servers with what their flavors ask for, in the order of names."""
    by_id = projects.names_of(known)
    found = [
        VGPUUser(
            record.uuid,
            demand.kind.name,
            demand.resource_class,
            demand.vgpus,
            record,
            by_id.get(record.project, record.project),
        )
        for record in records
        for demand in demands.get(record.flavor, ())
    ]
    return tuple(sorted(found, key=_order))


def list_by_gpu(
    allocations: Iterable[Allocation],
    records: Iterable[Record],
    known: Iterable[projects.Project],
    project: projects.Project | None = None,
) -> tuple[VGPUUser, ...]:
    """Servers with what they have of each GPU, of one project or of all.

    Those that Nova does not know come last.
    """
    by_uuid = {record.uuid: record for record in records}
    by_id = projects.names_of(known)
    found = []
    for allocation in allocations:
        record = by_uuid.get(allocation.consumer)
        if project is None or (record and record.project == project.uuid):
            found.append(
                VGPUUser(
                    allocation.consumer,
                    allocation.gpu.facts.name,
                    allocation.resource_class,
                    allocation.vgpus,
                    record,
                    by_id.get(record.project, record.project)
                    if record
                    else None,
                    allocation.gpu,
                )
            )
    return tuple(sorted(found, key=_order))


def find_unknown(
    records: Iterable[Record], demands: cloud_demands.Demands
) -> Unknown:
    found = [record for record in records if record.flavor not in demands]
    return Unknown(
        len(found),
        sum(record.hours for record in found),
        tuple(sorted({record.flavor for record in found})),
    )


def _order(user: VGPUUser) -> tuple[bool, str, str, str, str]:
    gpu = user.gpu
    where = (gpu.host, gpu.device) if gpu else (user.type or '', '')
    return user.record is None, user.name or '', user.uuid, *where
