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

"""Projects: their names for people, their ids for machines."""

from collections.abc import Iterable
from collections.abc import Sequence
import dataclasses

from nova_vgpu import exception
from nova_vgpu.cloud import names


@dataclasses.dataclass(frozen=True, slots=True)
class Project:
    uuid: str
    name: str


def names_of(known: Iterable[Project]) -> dict[str, str]:
    """The names of projects by their ids."""
    return {project.uuid: project.name for project in known}


def find_wanted(
    known: Sequence[Project], wanted: str | None
) -> Project | None:
    """The project of a filter; None if there is none.

    :raises NotInCloud: as :func:`find`.
    """
    return None if wanted is None else find(known, wanted)


def find(known: Sequence[Project], wanted: str) -> Project:
    """The project of an ID or a name.

    :raises NotInCloud: if there is none, or more than one.
    """
    shown = names.printable(wanted)
    found = [project for project in known if project.uuid == wanted] or [
        project for project in known if project.name == shown
    ]
    if len(found) == 1:
        return found[0]
    if not found:
        raise exception.NotInCloud(f'Keystone has no project {shown}.')
    listed = ', '.join(sorted(project.uuid for project in found))
    raise exception.NotInCloud(
        f'More than one project has the name {shown}. Give the ID of one of '
        f'them: {listed}.'
    )
