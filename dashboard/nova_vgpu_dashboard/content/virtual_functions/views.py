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

"""The page of the panel: all virtual functions."""

import functools
import typing

from django.utils.translation import gettext_lazy as _
from horizon import tables
from horizon.utils import functions

from nova_vgpu import exception
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.hosts import host_agents
from nova_vgpu_dashboard import agents
from nova_vgpu_dashboard import connection
from nova_vgpu_dashboard import listing
from nova_vgpu_dashboard.content.virtual_functions import rows
from nova_vgpu_dashboard.content.virtual_functions import tables as vf_tables


class IndexView(tables.DataTableView):
    table_class = vf_tables.VirtualFunctionsTable
    template_name = 'nova_vgpu_dashboard/virtual_functions/index.html'
    page_title = _('Virtual Functions')

    failure: str | None = None

    @functools.cached_property
    def answer(self) -> host_agents.Answer:
        return agents.read()

    @functools.cached_property
    def gpus(self) -> tuple[fleet.GPU, ...]:
        """Those of Placement, to link them: the page works without."""
        try:
            return connection.connect(self.request).list_gpus()
        except exception.NovaVGPUError as error:
            self.failure = str(error)
            return ()

    @functools.cached_property
    def entries(self) -> list[rows.Row]:
        if not self.answer.agents:
            return []
        return rows.make_rows(self.answer.agents, self.gpus)

    @functools.cached_property
    def page(self) -> listing.Page[rows.Row]:
        return listing.turn_to(
            rows.RULES.parse(self.request.GET),
            self.entries,
            rows.RULES,
            # From a cookie, which can have any number.
            max(functions.get_page_size(self.request), 1),
        )

    def get_data(self) -> tuple[rows.Row, ...]:
        return self.page.entries

    def get_context_data(self, **kwargs: typing.Any) -> dict[str, typing.Any]:
        context: dict[str, typing.Any] = super().get_context_data(**kwargs)
        place = self.page.place
        found = self.answer.agents
        known = {agent.host for agent in found}
        return context | {
            'answer': self.answer,
            'failure': self.failure,
            'page': self.page,
            'found': bool(self.entries),
            'place': place,
            'searches': [('host', _('Host'), place.filter_of('host'))],
            'choosers': rows.list_choosers(self.entries, place),
            'stale': [agent for agent in found if agent.is_stale],
            'failing': [agent for agent in found if agent.is_failing],
            'silent': sorted({gpu.host for gpu in self.gpus} - known),
        }
