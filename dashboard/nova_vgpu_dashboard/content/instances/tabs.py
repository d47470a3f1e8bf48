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

"""The tab "vGPUs" of an instance.

Nova tells the flavor with a server, as it was when the server got it. So
whether there is a tab costs no request. Placement is asked when the tab is
opened: it tells only administrators which GPUs a server has.
"""

import dataclasses
import functools
import typing

from django import http
from django import urls
from django.utils.translation import gettext_lazy as _
from horizon import tabs

from nova_vgpu import exception
from nova_vgpu.cloud import names
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.cloud.usage import server_gpus
from nova_vgpu.cloud.usage import servers
from nova_vgpu_dashboard import connection
from nova_vgpu_dashboard import panels
from nova_vgpu_dashboard.content.vgpu_flavors import words


def read_flavor(embedded: typing.Mapping[str, typing.Any]) -> flavors.Flavor:
    """The flavor as Nova has it in a server, from microversion 2.47 on."""
    return flavors.parse(
        names.printable(embedded.get('original_name') or ''),
        embedded.get('extra_specs') or {},
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """What the server has of a GPU; ``url`` leads to the page of the GPU."""

    held: servers.Allocation
    url: str | None = None

    @property
    def type(self) -> str:
        """That of the vGPU, or the model of a whole GPU."""
        facts = self.held.gpu.facts
        return facts.name or facts.model or ''


def make_row(held: servers.Allocation, is_admin: bool) -> Row:
    """Only administrators may open the page of a GPU."""
    if is_admin:
        page = urls.reverse('horizon:admin:gpus:detail', args=[held.gpu.uuid])
        return Row(held, page)
    return Row(held)


class VGPUsTab(tabs.Tab):
    name = _('vGPUs')
    slug = 'vgpus'
    template_name = 'nova_vgpu_dashboard/instances/_vgpus.html'
    preload = False

    @functools.cached_property
    def flavor(self) -> flavors.Flavor:
        return read_flavor(self.tab_group.kwargs['instance'].flavor)

    def allowed(self, request: http.HttpRequest) -> bool:
        return words.count(self.flavor) > 0

    def get_context_data(
        self, request: http.HttpRequest, **kwargs: typing.Any
    ) -> dict[str, typing.Any]:
        context = {
            'flavor': self.flavor,
            'words': words.describe(self.flavor),
        }
        try:
            return context | {'rows': self._list_rows(request)}
        except exception.PlacementForbidden:
            return context | {'is_refused': True}
        except exception.NovaVGPUError as error:
            return context | {'failure': str(error)}

    def _list_rows(self, request: http.HttpRequest) -> list[Row]:
        found = server_gpus.list_allocations(
            connection.connect(request), self.tab_group.kwargs['instance'].id
        )
        is_admin = request.user.has_perms(panels.ADMIN_PERMISSIONS)
        return [make_row(held, is_admin) for held in found]
