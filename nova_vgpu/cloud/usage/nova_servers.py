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

"""One server as Nova tells it, found by its name or UUID."""

import dataclasses
import re
import typing
import uuid

from nova_vgpu import exception
from nova_vgpu.cloud import names
from nova_vgpu.cloud import services
from nova_vgpu.cloud.orders import flavors

# The first with the flavor as it was when the server got it.
_VERSION = '2.47'
_FORBIDDEN = 403
_NOT_FOUND = 404
_SPECIAL = re.compile(r'[][\\.^$*+?{}|()]')


@dataclasses.dataclass(frozen=True, slots=True)
class NovaServer:
    """A server; ``host`` is its compute node as Placement names it.

    Nova tells the host to administrators only. ``task`` is None if Nova is not
    at work on the server, ``fault`` if it told none. ``flavor`` has no groups
    if ``has_extra_specs`` is False: the user may not see them.
    """

    uuid: str
    name: str
    project: str
    status: str
    flavor: flavors.Flavor
    host: str | None = None
    task: str | None = None
    fault: str | None = None
    has_extra_specs: bool = True

    @property
    def is_off_host(self) -> bool:
        """Whether it has left its host, or was never on one."""
        return self.status == 'SHELVED_OFFLOADED' or (
            self.status == 'ERROR' and self.host is None
        )


def find(asked: services.Services, wanted: str) -> NovaServer:
    """The server of a UUID, or of a name, in all projects if permitted.

    :raises CloudError: if Nova refuses or does not answer.
    :raises NotInCloud: if there is none, or more than one of that name.
    """
    found = _find_by_uuid(asked, wanted) or _find_by_name(asked, wanted)
    shown = names.printable(wanted)
    if not found:
        raise exception.NotInCloud(
            f'Nova has no server {shown}, or you may not see it.'
        )
    if len(found) > 1:
        uuids = ', '.join(sorted(each.uuid for each in found))
        raise exception.NotInCloud(
            f'More than one server has the name {shown}. Give the UUID of one '
            f'of them: {uuids}.'
        )
    return found[0]


def _find_by_uuid(asked: services.Services, wanted: str) -> list[NovaServer]:
    try:
        identity = str(uuid.UUID(wanted))
    except ValueError:
        return []
    answer = asked.try_nova(
        'show the server', f'/servers/{identity}', _VERSION, _NOT_FOUND
    )
    return [parse(answer['server'])] if answer else []


def _find_by_name(asked: services.Services, wanted: str) -> list[NovaServer]:
    """All servers of this name; Nova takes it for a regular expression."""
    if not names.is_text(wanted):
        return []
    name = _SPECIAL.sub(lambda match: f'\\{match[0]}', wanted)
    what, path, query = 'list servers', '/servers/detail', f'^{name}$'
    answer = asked.try_nova(
        what, path, _VERSION, _FORBIDDEN, name=query, all_tenants='1'
    )
    if answer is None:
        answer = asked.ask_nova(what, path, _VERSION, name=query)
    # Some databases compare without regard to case.
    return [
        parse(each) for each in answer['servers'] if each['name'] == wanted
    ]


def parse(answer: dict[str, typing.Any]) -> NovaServer:
    """The server of Nova's answer."""
    flavor = answer['flavor']
    host = answer.get('OS-EXT-SRV-ATTR:hypervisor_hostname')
    fault = (answer.get('fault') or {}).get('message')
    return NovaServer(
        answer['id'],
        names.printable(answer['name'] or ''),
        answer['tenant_id'],
        answer['status'],
        flavors.parse(
            names.printable(flavor.get('original_name') or ''),
            flavor.get('extra_specs') or {},
        ),
        names.printable(host) if host else None,
        answer.get('OS-EXT-STS:task_state'),
        names.printable(fault) if fault else None,
        'extra_specs' in flavor,
    )
