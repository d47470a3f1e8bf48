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

"""The table of GPUs."""

import typing

from django import urls
from django.template import loader
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy
from horizon import tables

from nova_vgpu import values
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu_dashboard import tables as our_tables
from nova_vgpu_dashboard.content.gpus import rows

#: What the states are called, and the class of Bootstrap for their colour.
STATES = {
    fleet.State.FREE: (pgettext_lazy('State of a GPU', 'Free'), 'success'),
    fleet.State.FULL: (pgettext_lazy('State of a GPU', 'Full'), 'info'),
    fleet.State.FENCED: (pgettext_lazy('State of a GPU', 'Fenced'), 'danger'),
}
ROLES = {
    values.Role.VGPU: pgettext_lazy('Role of a GPU', 'vGPU'),
    values.Role.PASSTHROUGH: pgettext_lazy('Role of a GPU', 'Passthrough'),
}
HEALTHS = {
    rows.Health.GOOD: (pgettext_lazy('Health of a GPU', 'Good'), 'success'),
    rows.Health.NOTE: (pgettext_lazy('Health of a GPU', 'Note'), 'info'),
    rows.Health.WARNING: (
        pgettext_lazy('Health of a GPU', 'Warning'),
        'warning',
    ),
    rows.Health.ERROR: (pgettext_lazy('Health of a GPU', 'Error'), 'danger'),
    rows.Health.UNKNOWN: (
        pgettext_lazy('Health of a GPU', 'Unknown'),
        'default',
    ),
}


def render_label(label: tuple[typing.Any, str]) -> str:
    text, colour = label
    found: str = loader.render_to_string(
        'nova_vgpu_dashboard/_label.html', {'text': text, 'colour': colour}
    )
    return found


def render_usage(row: rows.Row) -> str:
    gpu = row.gpu
    return our_tables.render_usage(gpu.used, gpu.reserved, gpu.total)


def find_url(gpu: fleet.GPU) -> str:
    url: str = urls.reverse('horizon:admin:gpus:detail', args=[gpu.uuid])
    return url


class GPUsTable(our_tables.OrderedTable):
    rules = rows.RULES

    host = tables.Column(
        lambda row: row.gpu.host,
        verbose_name=_('Host'),
        sortable=False,
        classes=(our_tables.LONG,),
    )
    address = tables.Column(
        lambda row: row.gpu.address,
        verbose_name=_('GPU'),
        sortable=False,
        link=lambda row: find_url(row.gpu),
    )
    model = tables.Column(
        lambda row: row.gpu.facts.model,
        verbose_name=_('Model'),
        sortable=False,
        classes=(our_tables.LONG,),
    )
    role = tables.Column(
        lambda row: ROLES[row.role], verbose_name=_('Role'), sortable=False
    )
    types = tables.Column(
        lambda row: ', '.join(row.gpu.facts.types) or None,
        verbose_name=_('vGPU Types'),
        sortable=False,
        classes=(our_tables.LONG,),
    )
    usage = tables.Column(render_usage, verbose_name=_('Used'), sortable=False)
    free = tables.Column(
        lambda row: row.gpu.free, verbose_name=_('Free'), sortable=False
    )
    state = tables.Column(
        lambda row: render_label(STATES[row.gpu.state]),
        verbose_name=_('State'),
        sortable=False,
    )
    health = tables.Column(
        lambda row: render_label(HEALTHS[row.health]),
        verbose_name=_('Health'),
        sortable=False,
    )

    def get_object_id(self, datum: rows.Row) -> str:
        return datum.gpu.uuid

    def get_object_display(self, datum: rows.Row) -> str:
        return datum.gpu.name

    class Meta:
        name = 'gpus'
        verbose_name = _('GPUs')
        template = 'nova_vgpu_dashboard/_table.html'
        footer = False
        no_data_message: typing.ClassVar[typing.Any] = _(
            'No GPU matches the filters.'
        )
