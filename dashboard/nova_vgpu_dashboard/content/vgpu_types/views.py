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

"""The pages of the panel: all vGPU types, and the form for a flavor."""

import functools
import typing

from django import http
from django import urls
from django.utils.translation import gettext_lazy as _
from horizon import exceptions
from horizon import forms
from horizon import tables
from openstack_dashboard import policy

from nova_vgpu import exception
from nova_vgpu.cloud.gpus import types
from nova_vgpu_dashboard import connection
from nova_vgpu_dashboard import listing
from nova_vgpu_dashboard.content.vgpu_types import forms as our_forms
from nova_vgpu_dashboard.content.vgpu_types import rows
from nova_vgpu_dashboard.content.vgpu_types import tables as type_tables

INDEX = 'horizon:admin:vgpu_types:index'
#: So many problems are shown.
_FINDINGS = 20


class IndexView(tables.MultiTableView):
    table_classes = (type_tables.VGPUTypesTable, type_tables.WholeGPUsTable)
    template_name = 'nova_vgpu_dashboard/vgpu_types/index.html'
    page_title = _('vGPU Types')

    failure: str | None = None

    @functools.cached_property
    def found(self) -> rows.Found:
        try:
            return rows.read(connection.connect(self.request))
        except exception.NovaVGPUError as error:
            self.failure = str(error)
            return rows.Found()

    @functools.cached_property
    def place(self) -> listing.Place:
        return rows.RULES.parse(self.request.GET)

    def get_vgpu_types_data(self) -> tuple[types.TypeUsage, ...]:
        return listing.put_in_order(self.place, self.found.served, rows.RULES)

    def get_whole_gpus_data(self) -> tuple[types.TypeUsage, ...]:
        return listing.put_in_order(self.place, self.found.models, rows.RULES)

    def get_context_data(self, **kwargs: typing.Any) -> dict[str, typing.Any]:
        context: dict[str, typing.Any] = super().get_context_data(**kwargs)
        found, findings = self.found, self.found.findings
        for table in self.get_tables().values():
            table.flavor_ids = found.flavor_ids
        usages = (*found.served, *found.models)
        return context | {
            'failure': self.failure,
            'has_gpus': bool(usages),
            'models': found.models,
            'place': self.place,
            'searches': [
                (
                    'name',
                    _('Type, model or flavor'),
                    self.place.filter_of('name'),
                )
            ],
            'choosers': rows.list_choosers(usages, self.place),
            'findings': findings,
            'shown_findings': findings[:_FINDINGS],
            'more_findings': len(findings[_FINDINGS:]),
        }


class CreateFlavorView(forms.ModalFormView):
    form_class = our_forms.CreateFlavorForm
    form_id = 'create_vgpu_flavor_form'
    template_name = 'nova_vgpu_dashboard/vgpu_types/create_flavor.html'
    page_title = _('Create vGPU Flavor')
    submit_label = _('Create Flavor')
    submit_url = urls.reverse_lazy('horizon:admin:vgpu_types:create_flavor')
    success_url = urls.reverse_lazy(INDEX)

    def dispatch(
        self,
        request: http.HttpRequest,
        *args: typing.Any,
        **kwargs: typing.Any,
    ) -> http.HttpResponseBase:
        if not policy.check(type_tables.MAY_CREATE, request):
            raise exceptions.NotAuthorized(
                _(
                    'You may not create flavors. Nova requires the role of an '
                    'administrator for that, by default.'
                )
            )
        response: http.HttpResponseBase = super().dispatch(
            request, *args, **kwargs
        )
        return response

    def get_initial(self) -> dict[str, typing.Any]:
        return {'type': self.request.GET.get('type', '')}
