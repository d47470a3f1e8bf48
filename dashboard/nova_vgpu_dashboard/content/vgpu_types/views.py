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
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.gpus import types
from nova_vgpu.cloud.orders import flavors
from nova_vgpu_dashboard import connection
from nova_vgpu_dashboard import listing
from nova_vgpu_dashboard.content.vgpu_types import forms as our_forms
from nova_vgpu_dashboard.content.vgpu_types import rows
from nova_vgpu_dashboard.content.vgpu_types import tables as type_tables

INDEX = 'horizon:admin:vgpu_types:index'


class IndexView(tables.DataTableView):
    table_class = type_tables.VGPUTypesTable
    template_name = 'nova_vgpu_dashboard/vgpu_types/index.html'
    page_title = _('vGPU Types')

    failure: str | None = None

    @functools.cached_property
    def found(
        self,
    ) -> tuple[tuple[fleet.GPU, ...], tuple[flavors.Flavor, ...]]:
        """The GPUs and flavors of the cloud."""
        try:
            cloud = connection.connect(self.request)
            return cloud.list_gpus(), cloud.list_flavors()
        except exception.NovaVGPUError as error:
            self.failure = str(error)
            return (), ()

    def get_data(self) -> tuple[types.TypeUsage, ...]:
        return listing.put_in_order(
            rows.RULES.parse(self.request.GET),
            types.list_types(*self.found),
            rows.RULES,
        )

    def get_context_data(self, **kwargs: typing.Any) -> dict[str, typing.Any]:
        context: dict[str, typing.Any] = super().get_context_data(**kwargs)
        gpus, listed = self.found
        return context | {
            'failure': self.failure,
            'gpus': gpus,
            'unserved': rows.find_unserved(listed, gpus),
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
