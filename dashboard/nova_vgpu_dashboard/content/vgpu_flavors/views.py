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

"""The page of the panel, and the words that the launch form shows."""

import functools
import typing

from django import http
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views import generic
from horizon import tables

from nova_vgpu import exception
from nova_vgpu.cloud.usage import allowance
from nova_vgpu_dashboard import connection
from nova_vgpu_dashboard import listing
from nova_vgpu_dashboard.content.vgpu_flavors import availability
from nova_vgpu_dashboard.content.vgpu_flavors import rows
from nova_vgpu_dashboard.content.vgpu_flavors import tables as flavor_tables


class IndexView(tables.DataTableView):
    table_class = flavor_tables.VGPUFlavorsTable
    template_name = 'nova_vgpu_dashboard/vgpu_flavors/index.html'
    page_title = _('vGPU Flavors')

    failure: str | None = None

    known = availability.UNKNOWN
    allowances: tuple[allowance.Allowance, ...] = ()

    @functools.cached_property
    def found(self) -> list[rows.Row]:
        try:
            cloud = connection.connect(self.request)
            listed = cloud.list_flavors()
        except exception.NovaVGPUError as error:
            self.failure = str(error)
            return []
        if not rows.make_rows(listed):
            return []
        self.known = availability.read(self.request, cloud)
        self.allowances = tuple(
            self.known.allowances[name]
            for name in sorted(rows.list_classes(listed))
            if name in self.known.allowances
        )
        return rows.make_rows(listed, self.known)

    def get_data(self) -> tuple[rows.Row, ...]:
        return listing.put_in_order(
            rows.RULES.parse(self.request.GET), self.found, rows.RULES
        )

    def get_context_data(self, **kwargs: typing.Any) -> dict[str, typing.Any]:
        context: dict[str, typing.Any] = super().get_context_data(**kwargs)
        return context | {
            'failure': self.failure,
            'found': self.found,
            'known': self.known,
            'allowances': self.allowances,
        }


class WordsView(generic.View):
    """What the flavors of the project bring, for a script.

    ``flavors`` has the words by the ids of flavors, and ``title`` and ``none``
    the other texts, so that the script has none of its own.
    """

    def get(self, request: http.HttpRequest) -> http.JsonResponse:
        try:
            cloud = connection.connect(request)
            found = rows.make_rows(cloud.list_flavors())
        except exception.NovaVGPUError as error:
            return http.JsonResponse({'failure': str(error)}, status=503)
        return http.JsonResponse(
            {
                'title': gettext('vGPUs and GPUs'),
                'none': gettext('None'),
                'flavors': {row.id: row.words for row in found},
            }
        )
