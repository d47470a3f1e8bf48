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

"""The table of vGPU types."""

import typing

from django import http
from django import urls
from django.utils import http as http_text
from django.utils.translation import gettext_lazy as _
from horizon import tables

from nova_vgpu.cloud.gpus import types
from nova_vgpu_dashboard import tables as our_tables
from nova_vgpu_dashboard.content.vgpu_types import rows

#: The rule of Nova's policy for those who create flavors.
MAY_CREATE = (('compute', 'os_compute_api:os-flavor-manage:create'),)


def find_gpus_url(usage: types.TypeUsage) -> str | None:
    """The list of GPUs that serve the type."""
    if len(usage.facts.types) != 1:
        return None
    query = http_text.urlencode({'type': usage.facts.types[0]})
    return f'{urls.reverse("horizon:admin:gpus:index")}?{query}'


class CreateFlavor(tables.LinkAction):
    """The link above the table."""

    name = 'create_flavor'
    verbose_name = _('Create Flavor')
    url = 'horizon:admin:vgpu_types:create_flavor'
    icon = 'plus'
    policy_rules = MAY_CREATE


class OrderFlavor(CreateFlavor):
    """The link in the row of a type."""

    name = 'order_flavor'

    def allowed(
        self,
        request: http.HttpRequest,
        datum: types.TypeUsage | None = None,
    ) -> bool:
        return datum is None or len(datum.facts.types) == 1

    def get_link_url(self, datum: types.TypeUsage) -> str:
        query = http_text.urlencode({'type': identify(datum)})
        return f'{urls.reverse(self.url)}?{query}'


def identify(usage: types.TypeUsage) -> str:
    """A text for the type with its resource class."""
    return f'{", ".join(usage.facts.types)}/{usage.resource_class}'


def _in_gib(usage: types.TypeUsage) -> typing.Any:
    size = usage.facts.framebuffer_mib
    if size is None:
        return None
    gib, rest = divmod(size, 1024)
    if rest:
        return _('%(size)d MiB') % {'size': size}
    return _('%(size)d GiB') % {'size': gib}


class VGPUTypesTable(our_tables.OrderedTable):
    rules = rows.RULES

    name = tables.Column(
        'name',
        verbose_name=_('vGPU Type'),
        sortable=False,
        link=find_gpus_url,
        empty_value=_('Unknown'),
        classes=(our_tables.LONG,),
    )
    model = tables.Column(
        lambda usage: usage.facts.model,
        verbose_name=_('Model'),
        sortable=False,
        classes=(our_tables.LONG,),
    )
    framebuffer = tables.Column(
        _in_gib, verbose_name=_('Frame Buffer'), sortable=False
    )
    series = tables.Column(
        lambda usage: usage.facts.series,
        verbose_name=_('Series'),
        sortable=False,
    )
    resource_class = tables.Column(
        'resource_class',
        verbose_name=_('Resource Class'),
        sortable=False,
        classes=(our_tables.LONG,),
    )
    gpus = tables.Column('gpus', verbose_name=_('GPUs'), sortable=False)
    hosts = tables.Column('hosts', verbose_name=_('Hosts'), sortable=False)
    usage = tables.Column(
        lambda usage: our_tables.render_usage(
            usage.used, usage.reserved, usage.total
        ),
        verbose_name=_('vGPUs Used'),
        sortable=False,
    )
    free = tables.Column('free', verbose_name=_('Free'), sortable=False)
    largest = tables.Column(
        'largest', verbose_name=_('Most Free on a Host'), sortable=False
    )
    flavors = tables.Column(
        lambda usage: ', '.join(usage.flavors) or None,
        verbose_name=_('Flavors'),
        sortable=False,
        empty_value=_('None'),
        classes=(our_tables.LONG,),
    )

    def get_object_id(self, datum: types.TypeUsage) -> str:
        return identify(datum)

    def get_object_display(self, datum: types.TypeUsage) -> str:
        return identify(datum)

    class Meta:
        name = 'vgpu_types'
        verbose_name = _('vGPU Types')
        template = 'nova_vgpu_dashboard/_table.html'
        footer = False
        table_actions = (CreateFlavor,)
        row_actions = (OrderFlavor,)
        multi_select = False
