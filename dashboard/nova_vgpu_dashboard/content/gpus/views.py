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
from nova_vgpu.cloud.gpus import neighbours
from nova_vgpu.cloud.gpus import selection
from nova_vgpu.cloud.gpus import whole_gpu_fleet
from nova_vgpu_dashboard import connection
from nova_vgpu_dashboard import gpu_section
from nova_vgpu_dashboard import listing
from nova_vgpu_dashboard import picture
from nova_vgpu_dashboard import projects
from nova_vgpu_dashboard.content.gpus import choosers
from nova_vgpu_dashboard.content.gpus import nova_conf
from nova_vgpu_dashboard.content.gpus import problems as gpu_problems
from nova_vgpu_dashboard.content.gpus import rows as gpu_rows
from nova_vgpu_dashboard.content.gpus import tables as gpu_tables


class IndexView(tables.DataTableView):
    table_class = gpu_tables.GPUsTable
    template_name = 'nova_vgpu_dashboard/gpus/index.html'
    page_title = _('GPUs')

    failure: str | None = None
    problems = gpu_problems.Problems()

    @functools.cached_property
    def rows(self) -> tuple[gpu_rows.Row, ...]:
        """Every GPU of the cloud, and what is wrong with it."""
        try:
            cloud = connection.connect(self.request)
            gpus = cloud.list_every_gpu()
        except exception.NovaVGPUError as error:
            self.failure = str(error)
            return ()
        self.problems = gpu_problems.read(cloud, gpus)
        return gpu_rows.make_rows(gpus, self.problems)

    @functools.cached_property
    def page(self) -> listing.Page[gpu_rows.Row]:
        return listing.turn_to(
            gpu_rows.RULES.parse(self.request.GET),
            self.rows,
            gpu_rows.RULES,
            # From a cookie, which can have any number.
            max(functions.get_page_size(self.request), 1),
        )

    def get_data(self) -> tuple[gpu_rows.Row, ...]:
        return self.page.entries

    def get_context_data(self, **kwargs: typing.Any) -> dict[str, typing.Any]:
        context: dict[str, typing.Any] = super().get_context_data(**kwargs)
        rows, place = self.rows, self.page.place
        return context | {
            'failure': self.failure,
            'page': self.page,
            'fleet': picture.make_fleet(row.gpu for row in rows),
            'problems': self.problems,
            'place': place,
            'searches': [('host', _('Host'), place.filter_of('host'))],
            'numbers': [
                ('free', _('Free, at least'), place.filter_of('free'))
            ],
            'choosers': choosers.list_choosers(rows, place),
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
        except exception.NotInCloud as error:
            messages.error(request, str(error))
            return shortcuts.redirect('horizon:admin:gpus:index')
        except exception.NovaVGPUError as error:
            context = {'failure': str(error), 'page_title': _('GPU')}
        return self.render_to_response(self.get_context_data(**context))

    def read(self, cloud: reader.Cloud, wanted: str) -> dict[str, typing.Any]:
        """What the page shows.

        :raises NotInCloud: if Placement has no such GPU.
        :raises NovaVGPUError: if it does not answer.
        """
        gpus = cloud.list_every_gpu()
        gpu = cloud.read_inventory(selection.find_gpu(gpus, wanted))
        problems = gpu_problems.read(cloud, gpus)
        row = gpu_rows.Row(gpu, problems.list_of(gpu))
        return {
            **gpu_section.describe(gpu),
            'gpu': gpu,
            'is_whole': whole_gpu_fleet.is_gpu(gpu),
            'role': gpu_tables.ROLES[row.role],
            'state': gpu_tables.STATES[gpu.state],
            'health': gpu_tables.HEALTHS[row.health],
            'findings': row.findings,
            'unknown_because': problems.unknown_because,
            'neighbours': neighbours.list_neighbours(gpu, gpus),
            'traits': sorted(gpu.traits),
            'lines': nova_conf.write(gpu),
            'url': gpu_tables.find_url(gpu),
        } | self.read_consumers(cloud, gpu)

    def read_consumers(
        self, cloud: reader.Cloud, gpu: fleet.GPU
    ) -> dict[str, typing.Any]:
        """The servers; without an answer, why they are unknown."""
        try:
            found = cloud.list_consumers(gpu)
        except exception.NovaVGPUError as error:
            return {'consumers_failure': str(error)}
        return {'consumers': projects.name_projects(cloud, found)}
