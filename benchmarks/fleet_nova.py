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

"""What Nova asks of Placement, by Nova's own report client.

The requests go to a real Placement by HTTP on loopback.
"""

from collections.abc import Mapping
import dataclasses
import typing
import uuid

from keystoneauth1 import adapter
from keystoneauth1 import session
from keystoneauth1 import token_endpoint
from nova import context
from nova import objects
from nova.scheduler import utils
from nova.scheduler.client import report
import os_traits
import requests

from benchmarks import fleet_layouts
from benchmarks import fleet_rows
from nova_vgpu.knowledge import traits
from nova_vgpu.sandbox import placement

_CONSUMER = str(uuid.UUID(int=1))


@dataclasses.dataclass(slots=True)
class Traffic:
    """What went over the wire."""

    answers: int = 0
    size: int = 0

    def note(
        self, response: requests.Response, **_options: typing.Any
    ) -> None:
        self.answers += 1
        self.size += len(response.content)

    def copy(self) -> 'Traffic':
        return dataclasses.replace(self)

    def since(self, before: 'Traffic') -> 'Traffic':
        return Traffic(self.answers - before.answers, self.size - before.size)


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    """What Placement answered, in short.

    The whole answer is big enough to slow down whoever keeps it.
    """

    candidates: int
    hosts: int
    first: Mapping[str, typing.Any]


class Nova:
    """The scheduler and one compute service, before one Placement."""

    def __init__(self, url: str) -> None:
        objects.register_all()
        self.traffic = Traffic()
        http = requests.Session()
        http.hooks['response'].append(self.traffic.note)
        self._context = context.get_admin_context()
        self._client = report.SchedulerReportClient(
            adapter.Adapter(
                session.Session(
                    token_endpoint.Token(url, placement.TOKEN), session=http
                ),
                service_type='placement',
                raise_exc=False,
            )
        )
        self._resources = _ask_for_one()
        self.offer = Offer(0, 0, {})

    def ask_for_candidates(self) -> None:
        """What the scheduler does first for every new server.

        The answer is in ``offer``.
        """
        found, _summaries, _version = self._client.get_allocation_candidates(
            self._context, self._resources
        )
        if not found:
            raise RuntimeError('Placement has no candidates.')
        roots = {
            provider
            for each in found
            for provider, given in each['allocations'].items()
            if 'VCPU' in given['resources']
        }
        self.offer = Offer(len(found), len(roots), found[0])

    def claim(self) -> None:
        """What the scheduler does when it has chosen, here the first."""
        response = self._client.put(
            f'/allocations/{_CONSUMER}',
            {
                **self.offer.first,
                'consumer_generation': None,
                'project_id': fleet_rows.PROJECT,
                'user_id': fleet_rows.USER,
            },
            version=report.SAME_SUBTREE_VERSION,
        )
        if response.status_code != requests.codes.no_content:
            raise RuntimeError(f'The claim failed: {response.text}')

    def release(self) -> None:
        """Undo a claim, if there is one."""
        self._client.delete(f'/allocations/{_CONSUMER}')

    def forget(self) -> None:
        """Let the compute service know nothing of its providers.

        So it is at its start, and by default after every five minutes.
        """
        self._client.clear_provider_cache(init=True)

    def update(self, host: int) -> None:
        """What a compute service does every minute, with nothing changed.

        As in ResourceTracker._update_to_placement, without the driver.
        """
        node = fleet_layouts.node(host)
        tree = self._client.get_provider_subtree_and_ensure_root(
            self._context, fleet_layouts.root_uuid(host), name=node
        )
        self._client.get_allocations_for_provider_tree(self._context, node)
        self._client.update_from_provider_tree(self._context, tree)


def _ask_for_one() -> utils.ResourceRequest:
    """By the flavor, and the request filters of Nova that always act."""
    flavor = objects.Flavor(
        vcpus=fleet_layouts.SERVER['VCPU'],
        memory_mb=fleet_layouts.SERVER['MEMORY_MB'],
        root_gb=fleet_layouts.SERVER['DISK_GB'],
        ephemeral_gb=0,
        swap=0,
        extra_specs={
            'resources:VGPU': '1',
            f'trait:{fleet_layouts.required_trait()}': 'required',
        },
    )
    return utils.ResourceRequest.from_request_spec(
        objects.RequestSpec(
            flavor=flavor,
            image=None,
            requested_resources=[],
            request_level_params=objects.RequestLevelParams(
                root_required={traits.OWNER},
                root_forbidden={os_traits.COMPUTE_STATUS_DISABLED},
            ),
        )
    )
