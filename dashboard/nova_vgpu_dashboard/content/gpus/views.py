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

"""The pages of the panel: all GPUs, and one of them."""

import functools
import typing
import uuid

from django import http
from django import shortcuts
from django.utils.translation import gettext_lazy as _
from horizon import messages
from horizon import tables
from horizon import views
from horizon.utils import functions

from nova_vgpu import exception
from nova_vgpu.cloud import reader
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.gpus import selection
from nova_vgpu_dashboard import connection
from nova_vgpu_dashboard import listing
from nova_vgpu_dashboard import picture
from nova_vgpu_dashboard import projects
from nova_vgpu_dashboard.content.gpus import choosers
from nova_vgpu_dashboard.content.gpus import nova_conf
from nova_vgpu_dashboard.content.gpus import rows
from nova_vgpu_dashboard.content.gpus import tables as gpu_tables


class IndexView(tables.DataTableView):
    table_class = gpu_tables.GPUsTable
    template_name = 'nova_vgpu_dashboard/gpus/index.html'
    page_title = _('GPUs')

    failure: str | None = None

    @functools.cached_property
    def gpus(self) -> tuple[fleet.GPU, ...]:
        try:
            return connection.connect(self.request).list_gpus()
        except exception.NovaVGPUError as error:
            self.failure = str(error)
            return ()

    @functools.cached_property
    def page(self) -> listing.Page[fleet.GPU]:
        return listing.turn_to(
            rows.RULES.parse(self.request.GET),
            self.gpus,
            rows.RULES,
            # From a cookie, which can have any number.
            max(functions.get_page_size(self.request), 1),
        )

    def get_data(self) -> tuple[fleet.GPU, ...]:
        return self.page.entries

    def get_context_data(self, **kwargs: typing.Any) -> dict[str, typing.Any]:
        context: dict[str, typing.Any] = super().get_context_data(**kwargs)
        gpus, place = self.gpus, self.page.place
        return context | {
            'failure': self.failure,
            'page': self.page,
            'fleet': picture.Group('', '', gpus),
            'groups': picture.make_groups(gpus),
            'host': place.filter_of('host'),
            'choosers': choosers.list_choosers(gpus, place),
        }


class DetailView(views.HorizonTemplateView):
    template_name = 'nova_vgpu_dashboard/gpus/detail.html'
    page_title = _('GPU {{ gpu.address }} on {{ gpu.host }}')

    def get(
        self,
        request: http.HttpRequest,
        *_args: typing.Any,
        gpu: uuid.UUID,
    ) -> http.HttpResponseBase:
        try:
            context = self.read(connection.connect(request), str(gpu))
        except exception.NovaVGPUError as error:
            messages.error(request, str(error))
            return shortcuts.redirect('horizon:admin:gpus:index')
        return self.render_to_response(self.get_context_data(**context))

    def read(self, cloud: reader.Cloud, wanted: str) -> dict[str, typing.Any]:
        """What the page shows.

        :raises NovaVGPUError: if a service does not answer, or Placement has
            no such GPU.
        """
        gpu = cloud.read_inventory(
            selection.find_gpu(cloud.list_gpus(), wanted)
        )
        consumers = cloud.list_consumers(gpu)
        return {
            'gpu': gpu,
            'consumers': projects.name_projects(cloud, consumers),
            'state': gpu_tables.STATES[gpu.state],
            'traits': sorted(gpu.traits),
            'lines': nova_conf.write(gpu),
            'url': gpu_tables.find_url(gpu),
        }
