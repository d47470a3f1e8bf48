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
"""The table of what projects have used."""

import typing

from django import urls
from django.utils.translation import gettext_lazy as _
from horizon import tables

from nova_vgpu.cloud.orders import demands
from nova_vgpu.cloud.usage import usage
from nova_vgpu_dashboard import tables as our_tables
from nova_vgpu_dashboard.content.vgpu_types import usage_rows


def find_project_url(found: usage.Usage) -> str | None:
    """The page of a project that Keystone knows."""
    if found.project_name == found.project:
        return None
    url: str = urls.reverse(
        'horizon:identity:projects:detail', args=[found.project]
    )
    return url


def _name_type(found: usage.Usage) -> typing.Any:
    if found.kind.name == demands.SEVERAL:
        return _('Several')
    return found.kind.name


def _show_hours(hours: float | None) -> str | None:
    return None if hours is None else f'{hours:.2f}'


class UsageTable(our_tables.OrderedTable):
    rules = usage_rows.RULES

    project = tables.Column(
        'project_name',
        verbose_name=_('Project'),
        sortable=False,
        link=find_project_url,
        classes=(our_tables.LONG,),
    )
    type = tables.Column(
        _name_type,
        verbose_name=_('vGPU Type'),
        sortable=False,
        empty_value=_('Unknown'),
        classes=(our_tables.LONG,),
    )
    vgpus = tables.Column('vgpus', verbose_name=_('vGPUs Now'), sortable=False)
    servers = tables.Column(
        'servers', verbose_name=_('Servers'), sortable=False
    )
    hours = tables.Column(
        lambda found: _show_hours(found.hours),
        verbose_name=_('vGPU Hours'),
        sortable=False,
    )
    gib_hours = tables.Column(
        lambda found: _show_hours(found.gib_hours),
        verbose_name=_('GiB Hours'),
        sortable=False,
        empty_value=_('Unknown'),
    )

    def get_object_id(self, datum: usage.Usage) -> str:
        kind = datum.kind
        return f'{datum.project}/{kind.name}/{kind.framebuffer_mib}'

    def get_object_display(self, datum: usage.Usage) -> str:
        return datum.project_name

    class Meta:
        name = 'vgpu_usage'
        verbose_name = _('Usage of Projects')
        template = 'nova_vgpu_dashboard/_table.html'
        footer = False
        multi_select = False
