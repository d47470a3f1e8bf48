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

"""The table of flavors with vGPUs."""

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from horizon import tables

from nova_vgpu_dashboard import tables as our_tables
from nova_vgpu_dashboard.content.vgpu_flavors import rows


def describe_availability(row: rows.Row) -> str | None:
    """None if nothing is known."""
    parts = []
    if row.is_over_limit:
        parts.append(str(_('Limit of the project reached')))
    if row.free is not None:
        text = ngettext('%(count)d free', '%(count)d free', row.free)
        parts.append(text % {'count': row.free})
    return '; '.join(parts) or None


class VGPUFlavorsTable(our_tables.OrderedTable):
    rules = rows.RULES

    name = tables.Column(
        'name',
        verbose_name=_('Flavor'),
        sortable=False,
        classes=(our_tables.LONG,),
    )
    words = tables.Column(
        'words',
        verbose_name=_('vGPUs and GPUs'),
        sortable=False,
        classes=(our_tables.LONG,),
    )
    available = tables.Column(
        describe_availability,
        verbose_name=_('Availability'),
        sortable=False,
        empty_value=_('Unknown'),
    )
    vcpus = tables.Column(
        lambda row: row.size.vcpus, verbose_name=_('vCPUs'), sortable=False
    )
    ram = tables.Column(
        lambda row: row.size.ram_mib,
        verbose_name=_('RAM (MiB)'),
        sortable=False,
    )
    disk = tables.Column(
        lambda row: row.size.disk_gib,
        verbose_name=_('Root Disk (GiB)'),
        sortable=False,
    )

    def get_object_id(self, datum: rows.Row) -> str:
        return datum.id

    def get_object_display(self, datum: rows.Row) -> str:
        return datum.name

    class Meta:
        name = 'vgpu_flavors'
        verbose_name = _('vGPU Flavors')
        template = 'nova_vgpu_dashboard/_table.html'
        footer = False
