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

"""One request, from all places that say something about a guest.

A place is a mapping by the names of the options of ``[guest]``: the options of
the command, the variables of the Ansible role, what facts say, the sections of
a configuration. What reads files is given: this module decides what is read.
"""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import typing

from nova_vgpu.guest import setup

#: What belongs together is taken from one place: a checksum is that of the
#: source beside it.
TOGETHER = (
    ('driver',),
    ('driver_source', 'driver_sha256', 'driver_version'),
    ('host_driver',),
    ('vgpu_type', 'licence'),
    ('repository', 'repository_key'),
    ('licence_servers', 'licence_token_file'),
    ('container_runtime', 'cdi'),
    # A site says how its clusters get the plugin; facts say what is a node.
    ('gpu_cluster',),
    ('device_plugin',),
)
_TOKEN_FILE = 'licence_token_file'  # noqa: S105 - the name of an option
_KEY = 'repository_key'

Place = Mapping[str, typing.Any]
Problems = tuple[str, ...]
#: Of an option and the path of its file: the content, and what is wrong with
#: it. The content is None if there is no path, and empty if it is unreadable.
Read = Callable[[str, str | None], tuple[bytes | None, Problems]]


def merge(places: Sequence[Place]) -> dict[str, typing.Any]:
    """The values that count, from the first place that has any of a set."""
    return {
        name: places[number].get(name)
        for name, number in find_origins(places).items()
    }


def find_origins(places: Sequence[Place]) -> dict[str, int]:
    """The number of the place that each option is taken from."""
    found = {}
    for names in TOGETHER:
        for number, place in enumerate(places):
            if any(place.get(name) is not None for name in names):
                found.update(dict.fromkeys(names, number))
                break
    return found


def make_request(
    places: Sequence[Place], read: Read
) -> tuple[setup.Request, Problems]:
    """What is asked for, and everything that is wrong with it.

    A token that would not be used is not read.
    """
    found = merge(places)
    token_file = found.pop(_TOKEN_FILE, None)
    key, problems = read('--repository-key', found.pop(_KEY, None))
    servers = found.pop('licence_servers', None) or ()
    request = setup.Request(
        **{name: it for name, it in found.items() if it is not None},
        licence_servers=tuple(servers),
        repository_key=None if key is None else key.decode('ascii', 'replace'),
    )
    if setup.needs_licence(request):
        token, unread = read('--licence-token', token_file)
        request = dataclasses.replace(request, licence_token=token)
        problems += unread
    return request, (*problems, *setup.find_problems(request))
