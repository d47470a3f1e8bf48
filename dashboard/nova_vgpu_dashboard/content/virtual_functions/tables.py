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

"""The table of virtual functions."""

import typing
import uuid

from django import urls
from django.template import loader
from django.utils.translation import gettext_lazy as _
from horizon import tables

from nova_vgpu_dashboard import tables as our_tables
from nova_vgpu_dashboard.content.virtual_functions import rows


def render_use(row: rows.Row) -> str:
    text, colour = row.label
    label: str = loader.render_to_string(
        'nova_vgpu_dashboard/_label.html', {'text': text, 'colour': colour}
    )
    return label


def render_command(row: rows.Row) -> str | None:
    if row.command is None:
        return None
    text: str = loader.render_to_string(
        'nova_vgpu_dashboard/agents/_command.html', {'command': row.command}
    )
    return text


def render_types(row: rows.Row) -> str | None:
    """The types, folded if they are many."""
    if not row.available:
        return None
    text: str = loader.render_to_string(
        'nova_vgpu_dashboard/agents/_types.html', {'types': row.available}
    )
    return text


def find_gpu_url(row: rows.Row) -> str | None:
    """The page of the GPU, if Placement knows it."""
    if row.uuid is None:
        return None
    url: str = urls.reverse('horizon:admin:gpus:detail', args=[row.uuid])
    return url


def find_server_url(row: rows.Row) -> str | None:
    """The page of the server; it is named by a host, so it is checked."""
    try:
        server = uuid.UUID(row.server)
    except ValueError:
        return None
    url: str = urls.reverse('horizon:admin:instances:detail', args=[server])
    return url


class VirtualFunctionsTable(our_tables.OrderedTable):
    rules = rows.RULES

    host = tables.Column(
        'host',
        verbose_name=_('Host'),
        sortable=False,
        classes=(our_tables.IDENTIFIER,),
    )
    gpu = tables.Column(
        'gpu', verbose_name=_('Parent GPU'), sortable=False, link=find_gpu_url
    )
    address = tables.Column(
        lambda row: (
            row.address
            if row.function
            else _('%(enabled)d of %(possible)d enabled')
            % {'enabled': row.vfs[0], 'possible': row.vfs[1]}
        ),
        verbose_name=_('Function'),
        sortable=False,
    )
    use = tables.Column(render_use, verbose_name=_('State'), sortable=False)
    type = tables.Column(
        lambda row: row.type or None,
        verbose_name=_('vGPU Type'),
        sortable=False,
        classes=(our_tables.LONG,),
    )
    vgpu = tables.Column(
        lambda row: row.vgpu or None,
        verbose_name=_('Device'),
        sortable=False,
        classes=(our_tables.IDENTIFIER,),
    )
    server = tables.Column(
        lambda row: row.server or None,
        verbose_name=_('Server'),
        sortable=False,
        link=find_server_url,
        classes=(our_tables.IDENTIFIER,),
    )
    available = tables.Column(
        render_types,
        verbose_name=_('Available Types'),
        sortable=False,
        classes=(our_tables.LONG,),
    )
    command = tables.Column(
        render_command,
        verbose_name=_('Command on the Host'),
        sortable=False,
        classes=(our_tables.WIDE,),
    )

    def get_object_id(self, datum: rows.Row) -> str:
        return datum.id

    def get_object_display(self, datum: rows.Row) -> str:
        return f'{datum.host} {datum.address}'

    class Meta:
        name = 'virtual_functions'
        verbose_name = _('Virtual Functions')
        template = 'nova_vgpu_dashboard/_table.html'
        footer = False
        no_data_message: typing.ClassVar[typing.Any] = _(
            'No function matches the filters.'
        )
