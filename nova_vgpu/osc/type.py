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

"""``openstack vgpu type``: the vGPU types of the cloud."""

import argparse

from cliff import lister

from nova_vgpu.cloud.gpus import types
from nova_vgpu.osc import base

_FIELDS: tuple[base.Field[types.TypeUsage], ...] = (
    base.Field('Type', lambda found: base.Known(found.name)),
    base.Field('MiB', lambda found: base.Known(found.facts.framebuffer_mib)),
    base.Field('GPUs', lambda found: found.gpus),
    base.Field('Hosts', lambda found: found.hosts),
    base.Field('Total', lambda found: found.total),
    base.Field('Used', lambda found: found.used),
    base.Field('Free', lambda found: found.free),
    base.Field('Largest Block', lambda found: found.largest),
    base.Field('Reserved', lambda found: found.reserved, True),
    base.Field('Model', lambda found: base.Known(found.facts.model), True),
    base.Field('Series', lambda found: base.Known(found.facts.series), True),
    base.Field('Resource Class', lambda found: found.resource_class, True),
    base.Field('Flavors', lambda found: base.Words(found.flavors), True),
)


class ListTypes(base.Command, lister.Lister):
    """List the vGPU types of the cloud, and how many vGPUs are left of each.

    "MiB" is the frame buffer of one vGPU. "Largest Block" is the largest
    number of free vGPUs on one host. "Flavors" are those that can get the
    type, also as one of several.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        base.add_filters(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        gpus = base.filter_gpus(self, parsed_args, self.cloud.list_gpus())
        flavors = self.cloud.list_flavors() if parsed_args.long else ()
        found = types.list_types(gpus, flavors)
        return base.make_rows(_FIELDS, found, parsed_args.long)
