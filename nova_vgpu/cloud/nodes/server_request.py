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

"""Servers with GPUs as an engineer asks for them, without Cluster API."""

from collections.abc import Iterator
import dataclasses
import re

from nova_vgpu.cloud import names
from nova_vgpu.cloud.nodes import node_gpus
from nova_vgpu.cloud.nodes import node_request
from nova_vgpu.cloud.nodes import option_checks

#: A number is added to it.
LONGEST_NAME = 58


@dataclasses.dataclass(frozen=True, slots=True)
class ServersRequest:
    """Servers that are alike, and their names without a number."""

    choice: node_gpus.FlavorChoice
    name: str | None = None
    image: str | None = None
    network: str | None = None
    servers: int = 1
    key_name: str | None = None
    availability_zone: str | None = None
    root_volume_gib: int | None = None


_NAME = re.compile(r'[a-z]([-a-z0-9]*[a-z0-9])?')


def find_problems(request: ServersRequest) -> Iterator[str]:
    """What is missing or invalid, whatever the flavor is."""
    yield from node_request.find_choice_problems(request.choice)
    yield from option_checks.find_missing(
        ('--name', request.name, 'the name of the servers, without a number'),
        ('--image', request.image, 'the image of the servers in Glance'),
        ('--network', request.network, 'the network of the servers'),
    )
    name = request.name
    if name and (not _NAME.fullmatch(name) or len(name) > LONGEST_NAME):
        yield (
            f'--name {names.printable(name)} is not valid: a-z, 0-9 and '
            f'hyphens, at most {LONGEST_NAME} characters. An example: gpu.'
        )
    yield from option_checks.find_text_problems(
        ('--network', request.network or None),
        ('--key-name', request.key_name),
        ('--availability-zone', request.availability_zone),
    )
    yield from option_checks.find_number_problems(
        ('--nodes', request.servers, 1),
        ('--root-volume', request.root_volume_gib, 1),
    )
