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

"""The page of the panel."""

import functools
import typing

from django.utils.translation import gettext_lazy as _
from horizon import tables

from nova_vgpu import exception
from nova_vgpu_dashboard import connection
from nova_vgpu_dashboard import listing
from nova_vgpu_dashboard.content.vgpu_flavors import rows
from nova_vgpu_dashboard.content.vgpu_flavors import tables as flavor_tables


class IndexView(tables.DataTableView):
    table_class = flavor_tables.VGPUFlavorsTable
    template_name = 'nova_vgpu_dashboard/vgpu_flavors/index.html'
    page_title = _('vGPU Flavors')

    failure: str | None = None

    @functools.cached_property
    def found(self) -> list[rows.Row]:
        try:
            cloud = connection.connect(self.request)
            return rows.make_rows(cloud.list_flavors())
        except exception.NovaVGPUError as error:
            self.failure = str(error)
            return []

    def get_data(self) -> tuple[rows.Row, ...]:
        return listing.put_in_order(
            rows.RULES.parse(self.request.GET), self.found, rows.RULES
        )

    def get_context_data(self, **kwargs: typing.Any) -> dict[str, typing.Any]:
        context: dict[str, typing.Any] = super().get_context_data(**kwargs)
        return context | {'failure': self.failure, 'found': self.found}
