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

"""Reads what projects use of each type, and have used in a period."""

import dataclasses
import datetime

from nova_vgpu import exception
from nova_vgpu.cloud import reader
from nova_vgpu.cloud.orders import demands
from nova_vgpu.cloud.usage import projects
from nova_vgpu.cloud.usage import records
from nova_vgpu.cloud.usage import servers
from nova_vgpu.cloud.usage import usage


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """Usages, and how many servers may have vGPUs as well."""

    usages: tuple[usage.Usage, ...]
    unknown: servers.Unknown
    has_gpus: bool


def read(
    cloud: reader.Cloud,
    start: datetime.datetime,
    end: datetime.datetime,
    now: datetime.datetime,
    project: str | None = None,
) -> Report:
    """The usage of one project, by its name or ID, or of all.

    :raises UsageError: if the period ends before it starts, or is yet to
        come.
    :raises PlacementError: if Placement refuses or does not answer.
    :raises CloudError: if Nova or Keystone do.
    :raises NotInCloud: if Keystone has no such project.
    """
    if start >= now:
        raise exception.UsageError(
            f'The period starts in the future ({start:%Y-%m-%d %H:%M} UTC). '
            'Give an earlier --start.'
        )
    if start >= end:
        raise exception.UsageError(
            f'The period ends ({end:%Y-%m-%d %H:%M}) before it starts '
            f'({start:%Y-%m-%d %H:%M}). Give an earlier --start or a later '
            '--end.'
        )
    gpus = cloud.list_gpus()
    asked_for = demands.find(cloud.list_flavors(), gpus)
    known = records.list_projects(cloud.services)
    wanted = projects.find_wanted(known, project)
    of_period = records.list_records(cloud.services, start, end, wanted)
    if start < now < end:
        current = tuple(record for record in of_period if record.is_current)
    else:
        current = records.list_current(cloud.services, now, wanted)
    return Report(
        usage.add_up(of_period, current, asked_for, known),
        servers.find_unknown(of_period, asked_for),
        bool(gpus),
    )
