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

"""Nova's compute nodes: whether they are up, and their versions of QEMU."""

import dataclasses

from nova_vgpu import values
from nova_vgpu.cloud import names
from nova_vgpu.cloud import services

# The first with UUIDs of compute nodes, and so with pages.
_VERSION = '2.53'
_MOST = '1000'


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeNode:
    """A compute node; ``qemu`` is None if it runs something else."""

    host: str
    is_up: bool = True
    qemu: values.Version | None = None


def list_nodes(asked: services.Services) -> dict[str, ComputeNode]:
    """All compute nodes by their names, page by page.

    Nova leaves some nodes out of a page after it has counted them, so a page
    can be short, and without a link, and not be the last one.

    :raises CloudError: if Nova refuses or does not answer.
    """
    found: dict[str, ComputeNode] = {}
    query = {'limit': _MOST}
    while True:
        answer = asked.ask_nova(
            'list hypervisors', '/os-hypervisors/detail', _VERSION, **query
        )
        page = answer['hypervisors']
        if not page:
            return found
        for node in page:
            name = names.printable(node['hypervisor_hostname'])
            found[name] = ComputeNode(
                name,
                node.get('state') != 'down',
                _find_qemu(
                    node.get('hypervisor_type'), node.get('hypervisor_version')
                ),
            )
        query['marker'] = page[-1]['id']


def _find_qemu(kind: str | None, version: object) -> values.Version | None:
    """8002002 is 8.2.2, as libvirt encodes it."""
    if kind != 'QEMU' or not isinstance(version, int):
        return None
    major, rest = divmod(version, 1_000_000)
    return (major, *divmod(rest, 1000))
