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
"""The tables of vGPU types and of whole GPUs, and the links to the form."""

import typing
import urllib.parse

from django import http
from django import urls
from django.template import loader
from django.utils import http as http_text
from django.utils.translation import gettext_lazy as _
from horizon import tables

from nova_vgpu.cloud.gpus import types
from nova_vgpu_dashboard import tables as our_tables
from nova_vgpu_dashboard.content.vgpu_types import rows

#: The rule of Nova's policy for those who create flavors.
MAY_CREATE = (('compute', 'os_compute_api:os-flavor-manage:create'),)
#: So many flavors of a type are shown at once.
_SHOWN = 8


def find_gpus_url(usage: types.TypeUsage) -> str | None:
    """The list of GPUs that serve the type."""
    if len(usage.facts.types) != 1:
        return None
    return _link_gpus(type=usage.facts.types[0])


def find_model_url(usage: types.TypeUsage) -> str:
    """The list of GPUs of the model."""
    return _link_gpus(model=usage.facts.model or '')


def _link_gpus(**filters: str) -> str:
    query = http_text.urlencode(filters)
    return f'{urls.reverse("horizon:admin:gpus:index")}?{query}'


def find_flavor_url(flavor_id: str) -> str:
    """The row of a flavor in Horizon's list: it has no page of its own."""
    row = urllib.parse.quote(flavor_id, safe='')
    return f'{urls.reverse("horizon:admin:flavors:index")}#flavors__row__{row}'


class CreateFlavor(tables.LinkAction):
    """The link above the table."""

    name = 'create_flavor'
    verbose_name = _('Create Flavor')
    url = 'horizon:admin:vgpu_types:create_flavor'
    icon = 'plus'
    policy_rules = MAY_CREATE


class ShowUsage(tables.LinkAction):
    """The link to what projects have used."""

    name = 'show_usage'
    verbose_name = _('Usage of Projects')
    url = 'horizon:admin:vgpu_types:usage'
    icon = 'bar-chart'


class OrderFlavor(CreateFlavor):
    """The link in the row of a model or type."""

    name = 'order_flavor'

    def get_link_url(self, datum: types.TypeUsage) -> str:
        query = http_text.urlencode({'type': identify(datum)})
        return f'{urls.reverse(self.url)}?{query}'


class OrderTypeFlavor(OrderFlavor):
    """Not for a type that is unknown: a flavor cannot ask for it."""

    def allowed(
        self,
        request: http.HttpRequest,
        datum: types.TypeUsage | None = None,
    ) -> bool:
        return datum is None or len(datum.facts.types) == 1


def identify(usage: types.TypeUsage) -> str:
    """A text for the type with its resource class.

    Whole GPUs have no type: the resource class of a model is its own.
    """
    return f'{", ".join(usage.facts.types)}/{usage.resource_class}'


def _in_gib(usage: types.TypeUsage) -> typing.Any:
    size = usage.facts.framebuffer_mib
    if size is None:
        return None
    gib, rest = divmod(size, 1024)
    if rest:
        return _('%(size)d MiB') % {'size': size}
    return _('%(size)d GiB') % {'size': gib}


def _render_usage(usage: types.TypeUsage) -> str:
    return our_tables.render_usage(usage.used, usage.reserved, usage.total)


class FlavorsColumn(tables.Column):
    """The flavors that can get a type, as links to Horizon's list."""

    def get_raw_data(self, datum: types.TypeUsage) -> str | None:
        if not datum.flavors:
            return None
        ids = self.table.flavor_ids
        links = [(name, find_flavor_url(ids[name])) for name in datum.flavors]
        text: str = loader.render_to_string(
            'nova_vgpu_dashboard/vgpu_types/_flavors.html',
            {'shown': links[:_SHOWN], 'more': links[_SHOWN:]},
        )
        return text


def _flavors_column() -> FlavorsColumn:
    return FlavorsColumn(
        'flavors',
        verbose_name=_('Flavors'),
        sortable=False,
        empty_value=_('None'),
        **_LONG,
    )


class _UsageTable(our_tables.OrderedTable):
    """A table of types or models.

    ``flavor_ids`` are by the names of flavors; the view sets them.
    """

    rules = rows.RULES
    flavor_ids: typing.Mapping[str, str]

    def get_object_id(self, datum: types.TypeUsage) -> str:
        return identify(datum)

    def get_object_display(self, datum: types.TypeUsage) -> str:
        return identify(datum)


def _column(
    get: typing.Any, title: typing.Any, **options: typing.Any
) -> tables.Column:
    return tables.Column(get, verbose_name=title, sortable=False, **options)


_LONG = {'classes': (our_tables.LONG,)}


class VGPUTypesTable(_UsageTable):
    name = _column(
        'name',
        _('vGPU Type'),
        link=find_gpus_url,
        empty_value=_('Unknown'),
        **_LONG,
    )
    model = _column(lambda usage: usage.facts.model, _('Model'), **_LONG)
    framebuffer = _column(_in_gib, _('Frame Buffer'))
    series = _column(lambda usage: usage.facts.series, _('Series'))
    resource_class = _column('resource_class', _('Resource Class'), **_LONG)
    gpus = _column('gpus', _('GPUs'))
    hosts = _column('hosts', _('Hosts'))
    usage = _column(_render_usage, _('vGPUs Used'))
    free = _column('free', _('Free'))
    largest = _column('largest', _('Most Free on a Host'))
    flavors = _flavors_column()

    class Meta:
        name = 'vgpu_types'
        verbose_name = _('vGPU Types')
        template = 'nova_vgpu_dashboard/_table.html'
        footer = False
        table_actions = (ShowUsage, CreateFlavor)
        row_actions = (OrderTypeFlavor,)
        multi_select = False


class WholeGPUsTable(_UsageTable):
    """Models that servers get as whole GPUs, by PCI passthrough."""

    model = _column(
        lambda usage: usage.facts.model,
        _('Model'),
        link=find_model_url,
        **_LONG,
    )
    resource_class = _column('resource_class', _('Resource Class'), **_LONG)
    hosts = _column('hosts', _('Hosts'))
    usage = _column(_render_usage, _('GPUs Used'))
    free = _column('free', _('Free'))
    largest = _column('largest', _('Most Free on a Host'))
    flavors = _flavors_column()

    class Meta:
        name = 'whole_gpus'
        verbose_name = _('Whole GPUs')
        hidden_title = False
        template = 'nova_vgpu_dashboard/_table.html'
        footer = False
        row_actions = (OrderFlavor,)
        multi_select = False
