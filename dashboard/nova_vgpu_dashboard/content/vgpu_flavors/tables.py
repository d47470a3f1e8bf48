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
from horizon import tables

from nova_vgpu_dashboard import tables as our_tables
from nova_vgpu_dashboard.content.vgpu_flavors import rows


class VGPUFlavorsTable(our_tables.OrderedTable):
    rules = rows.RULES

    name = tables.Column(
        'name',
        verbose_name=_('Flavor'),
        sortable=False,
        classes=(our_tables.LONG,),
    )
    vgpus = tables.Column('vgpus', verbose_name=_('vGPUs'), sortable=False)
    types = tables.Column(
        lambda row: ', '.join(row.types) or None,
        verbose_name=_('vGPU Type'),
        sortable=False,
        empty_value=_('Any'),
        classes=(our_tables.LONG,),
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
