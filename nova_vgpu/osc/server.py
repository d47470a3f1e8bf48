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

"""``openstack vgpu server``: the servers with vGPUs."""

import argparse
import datetime

from cliff import lister

from nova_vgpu.cloud.usage import server_reader
from nova_vgpu.cloud.usage import servers
from nova_vgpu.osc import base

_Field = base.Field[servers.VGPUUser]
_SERVER: tuple[_Field, ...] = (
    base.Field('Server', lambda user: base.Known(user.name)),
    base.Field('Project', lambda user: base.Known(user.project_name)),
)
_VGPUS: tuple[_Field, ...] = (
    base.Field('Type', lambda user: base.Known(user.type)),
    base.Field('vGPUs', lambda user: user.vgpus),
)
_BY_FLAVOR: tuple[_Field, ...] = (
    *_SERVER,
    base.Field('Flavor', lambda user: base.Known(user.flavor)),
    *_VGPUS,
)
_BY_GPU: tuple[_Field, ...] = (
    *_SERVER,
    base.Field('Host', lambda user: user.gpu and user.gpu.host),
    base.Field('GPU', lambda user: user.gpu and user.gpu.address),
    *_VGPUS,
    base.Field('Flavor', lambda user: base.Known(user.flavor), True),
    base.Field('Resource Class', lambda user: user.resource_class, True),
    base.Field('Server ID', lambda user: user.uuid, True),
    base.Field('Project ID', lambda user: base.Known(user.project), True),
    base.Field('Provider ID', lambda user: user.gpu and user.gpu.uuid, True),
)


class ListServers(base.Command, lister.Lister):
    """List the servers that have vGPUs.

    Without options, they are listed with what their flavors ask for; "several"
    is a flavor that fits more than one type. With --long, --host or --type,
    Placement is asked which GPUs they have, by one request for each GPU that
    is in use: a server with vGPUs of several GPUs then has a row for each. An
    allocation that is not that of a running server has no name: the server is
    being built or moved, or the allocation was left over.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--host',
            metavar='<host>',
            help='Only servers on this compute node, with or without its '
            'domain. Shows the GPUs.',
        )
        parser.add_argument(
            '--project',
            metavar='<project>',
            help='Only servers of this project (name or ID).',
        )
        parser.add_argument(
            '--type',
            metavar='<type>',
            help='Only servers with vGPUs of this type, for example A40-8Q. '
            'Shows the GPUs.',
        )
        parser.add_argument(
            '--long', action='store_true', help='List additional columns.'
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        now = datetime.datetime.now(datetime.UTC)
        project, is_long = parsed_args.project, parsed_args.long
        wanted = parsed_args.host, parsed_args.type
        is_by_flavor = not is_long and wanted == (None, None)
        if is_by_flavor:
            found = server_reader.list_by_flavor(self.cloud, now, project)
        else:
            found = server_reader.list_by_gpu(
                self.cloud, now, project, *wanted
            )
        base.tell_if_none(self, found.has_gpus)
        base.tell_unknown(
            self, found.unknown, '--long lists them if they have vGPUs.'
        )
        fields = _BY_FLAVOR if is_by_flavor else _BY_GPU
        return base.make_rows(fields, found.users, is_long)
