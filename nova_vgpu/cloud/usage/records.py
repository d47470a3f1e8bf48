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

"""What Placement, Nova and Keystone have written down about servers.

Nova's usage records have the names, projects and flavors of all servers, 1,000
to a page. Its list of servers would take longer, and would ask Neutron about
each of them. Placement knows what servers have of a GPU, by one request for
each GPU that is in use: it has no request for several providers or for several
consumers. In a large cloud that takes longer than everything else.
"""

from collections.abc import Iterator
from collections.abc import Sequence
import datetime
import typing
import urllib.parse

from nova_vgpu.cloud import names
from nova_vgpu.cloud import services
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.usage import projects
from nova_vgpu.cloud.usage import servers

_USAGE = '/os-simple-tenant-usage'
# The first with pages.
_USAGE_VERSION = '2.40'
# What Nova gives out at most, unless it is configured otherwise.
_PAGE = 1000
# The state of a server that has no host, and so no vGPUs.
_OFFLOADED = 'shelved_offloaded'
_MINUTE = datetime.timedelta(minutes=1)
_DAY = datetime.timedelta(days=1)


def list_allocations(
    asked: services.Services, gpus: Sequence[fleet.GPU]
) -> tuple[servers.Allocation, ...]:
    """What consumers have of the GPUs, in the order of these.

    :raises PlacementError: if Placement refuses or does not answer.
    """
    used = [gpu for gpu in gpus if gpu.used]
    answers = asked.ask_placement_each(
        [f'/resource_providers/{gpu.uuid}/allocations' for gpu in used]
    )
    return tuple(
        servers.Allocation(consumer, gpu, resource_class, amount)
        for gpu, answer in zip(used, answers, strict=True)
        if answer is not None
        for consumer, held in answer['allocations'].items()
        for resource_class, amount in held['resources'].items()
    )


def list_projects(
    asked: services.Services,
) -> tuple[projects.Project, ...]:
    """All projects, page by page.

    :raises CloudError: if Keystone refuses or does not answer.
    """
    found: list[projects.Project] = []
    # Without a limit Keystone cuts a long list off, and does not say so.
    query = {'limit': str(_PAGE)}
    while True:
        answer = asked.ask_keystone('list projects', '/projects', **query)
        found += (
            projects.Project(each['id'], names.printable(each['name']))
            for each in answer['projects']
        )
        marker = _read_marker(answer.get('links', {}).get('next'))
        if marker is None:
            return tuple(found)
        query['marker'] = marker


def list_current(
    asked: services.Services,
    now: datetime.datetime,
    project: projects.Project | None = None,
) -> tuple[servers.Record, ...]:
    """The servers that there are now, and have been started.

    The clocks of this machine and of Nova may differ: Nova cuts the period off
    at its own present.
    """
    found = list_records(asked, now - _MINUTE, now + _DAY, project)
    return tuple(record for record in found if record.is_current)


def list_records(
    asked: services.Services,
    start: datetime.datetime,
    end: datetime.datetime,
    project: projects.Project | None = None,
    page: int = _PAGE,
) -> tuple[servers.Record, ...]:
    """The servers of a period, of one project or of all, page by page.

    :param page: the number of servers; Nova may have a lower limit.
    :raises CloudError: if Nova refuses or does not answer.
    """
    found: dict[str, servers.Record] = {}
    path, key = _USAGE, 'tenant_usages'
    if project is not None:
        path, key = f'{_USAGE}/{project.uuid}', 'tenant_usage'
    query = {
        'start': _format(start),
        'end': _format(end),
        'detailed': '1',
        'limit': str(page),
    }
    while True:
        answer = asked.ask_nova(
            'list usage records', path, _USAGE_VERSION, **query
        )
        usages = answer[key] if project is None else [answer[key]]
        for usage in usages:
            for record in _parse(usage):
                found.setdefault(record.uuid, record)
        marker = _find_marker(answer.get(f'{key}_links', ()))
        if marker is None:
            return tuple(found.values())
        query['marker'] = marker


def _format(moment: datetime.datetime) -> str:
    """As Nova expects it, which is UTC."""
    in_utc = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    return in_utc.isoformat(timespec='seconds')


def _parse(usage: typing.Any) -> Iterator[servers.Record]:
    """The servers of a project; of one that has none, Nova tells nothing."""
    for found in usage.get('server_usages', ()):
        yield servers.Record(
            found['instance_id'],
            names.printable(found['name'] or ''),
            found['tenant_id'] or '',
            names.printable(found['flavor']),
            # Less than none if it began after the end, by another clock.
            max(0.0, float(found['hours'])),
            found['ended_at'] is None and found['state'] != _OFFLOADED,
        )


def _find_marker(links: Sequence[typing.Any]) -> str | None:
    """The marker of the next page; None if this is the last one."""
    for link in links:
        if link['rel'] == 'next':
            return _read_marker(link['href'])
    return None


def _read_marker(address: str | None) -> str | None:
    """The marker in the address of the next page, if there is one."""
    if address is None:
        return None
    query = urllib.parse.urlsplit(address).query
    return str(urllib.parse.parse_qs(query)['marker'][0])
