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

"""What a project uses of resource classes, and how much of them it may.

Placement tells every member of a project what the project uses in total, and
Keystone its limits. Nova applies limits that are registered for its service
and for the region of its endpoint, if it is configured for unified limits.
"""

import collections
from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses

from nova_vgpu.cloud import services
from nova_vgpu.cloud.diagnose import examination
from nova_vgpu.cloud.diagnose import examiner

#: What Placement counts beside resource classes.
_CONSUMERS = 'consumer_count'


@dataclasses.dataclass(frozen=True, slots=True)
class Scope:
    """The project, and the service and region that limits have to be for."""

    project: str
    service: str
    region: str


@dataclasses.dataclass(frozen=True, slots=True)
class Allowance:
    """Of one resource class; ``limit`` is None if there is none."""

    resource_class: str
    used: int = 0
    limit: int | None = None

    def is_exceeded_by(self, more: int) -> bool:
        """Whether Nova refuses a server that uses so many more."""
        return self.limit is not None and self.used + more > self.limit


def read_usage(asked: services.Services, project: str) -> dict[str, int]:
    """What a project uses of each resource class.

    :raises PlacementForbidden: if it is another project's, and the account is
        not an administrator's.
    :raises PlacementError: if Placement does not answer.
    """
    answer = asked.ask_placement('/usages', project_id=project)
    found: collections.Counter[str] = collections.Counter()
    for of_type in answer['usages'].values():
        found.update(of_type)
    del found[_CONSUMERS]
    return dict(found)


def read_limits(asked: services.Services, scope: Scope) -> dict[str, int]:
    """The limits of resource classes, by those that have one.

    A limit of the project replaces the default; less than 0 means unlimited.

    :raises CloudError: if Keystone refuses or does not answer.
    """
    found = _select(examiner.list_limits(asked), scope)
    answer = asked.ask_keystone(
        'list limits', '/limits', project_id=scope.project
    )
    own = (
        examination.Limit(
            limit['resource_name'],
            limit['resource_limit'],
            limit['service_id'],
            limit['region_id'],
        )
        for limit in answer['limits']
        # Administrators would get those of all projects.
        if limit['project_id'] == scope.project
    )
    return {
        name: limit
        for name, limit in (found | _select(own, scope)).items()
        if limit >= 0
    }


def combine(
    usage: Mapping[str, int], limits: Mapping[str, int]
) -> dict[str, Allowance]:
    """The allowances by resource classes."""
    return {
        name: Allowance(name, usage.get(name, 0), limits.get(name))
        for name in sorted({*usage, *limits})
    }


def _select(
    limits: Iterable[examination.Limit], scope: Scope
) -> dict[str, int]:
    return {
        limit.resource_class: limit.default
        for limit in limits
        if limit.resource_class is not None
        and (limit.service, limit.region) == (scope.service, scope.region)
    }
