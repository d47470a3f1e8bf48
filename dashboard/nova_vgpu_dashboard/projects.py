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

"""The names of projects, for people.

Placement knows the ids of projects only. One request to Keystone gets all
names. Without an answer the ids are shown: they are enough to go on.
"""

from collections.abc import Sequence
import dataclasses
import logging
import typing

from nova_vgpu import exception
from nova_vgpu.cloud import names
from nova_vgpu.cloud import reader
from nova_vgpu.cloud import service_errors
from nova_vgpu.cloud.usage import consumers as cloud_consumers

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class NamedConsumer:
    """What has vGPUs of a GPU, and the name of its project if it is known."""

    consumer: cloud_consumers.Consumer
    project_name: str | None = None


def name_projects(
    cloud: reader.Cloud, consumers: Sequence[cloud_consumers.Consumer]
) -> list[NamedConsumer]:
    known = _list_names(cloud) if consumers else {}
    return [
        NamedConsumer(consumer, known.get(consumer.project or ''))
        for consumer in consumers
    ]


def _list_names(cloud: reader.Cloud) -> dict[str, str]:
    try:
        with service_errors.explain('Keystone', 'list projects'):
            # Of version 3; the type has version 2 as well.
            identity: typing.Any = cloud.connection.identity
            return {
                project.id: names.printable(project.name)
                for project in identity.projects()
            }
    except exception.CloudError as error:
        LOG.warning('Projects are shown by their ids: %s', error)
        return {}
