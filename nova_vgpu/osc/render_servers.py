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

"""``openstack vgpu render`` for those who create servers by a template."""

import argparse

from nova_vgpu.cloud.nodes import heat
from nova_vgpu.cloud.nodes import magnum
from nova_vgpu.cloud.nodes import server_order
from nova_vgpu.cloud.nodes import server_request
from nova_vgpu.cloud.nodes import terraform
from nova_vgpu.osc import base
from nova_vgpu.osc import render


class _RenderServers(base.Command):
    """What the commands have in common."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        render.add_flavor_options(parser)
        for option, metavar, text in (
            ('--name', '<name>', 'Name of the servers, without a number.'),
            ('--network', '<name>', 'Name of the network of the servers.'),
            (
                '--availability-zone',
                '<zone>',
                'Availability zone of the servers.',
            ),
        ):
            parser.add_argument(option, metavar=metavar, help=text)
        parser.add_argument(
            '--root-volume',
            metavar='<GiB>',
            type=int,
            help='Boot from a new volume of this size.',
        )
        render.add_directory_options(parser)
        return parser

    def read_order(
        self, parsed_args: argparse.Namespace
    ) -> server_order.ServersOrder:
        return server_order.read_order(
            self.cloud,
            server_request.ServersRequest(
                render.make_choice(parsed_args),
                parsed_args.name,
                parsed_args.image,
                parsed_args.network,
                parsed_args.nodes,
                parsed_args.key_name,
                parsed_args.availability_zone,
                parsed_args.root_volume,
            ),
            not parsed_args.no_fit_check,
        )


class RenderTerraform(_RenderServers):
    """Render servers with GPUs for Terraform's provider for OpenStack.

    The servers are alike. User data is a variable of the file, as it may have
    secrets; another value is for new servers only. Nothing is changed in the
    cloud, and servers that do not fit into it now are refused.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        order = self.read_order(parsed_args)
        found = (terraform.render(order),)
        render.give_out(self, parsed_args, found, order.found.warnings)


class RenderHeat(_RenderServers):
    """Render servers with GPUs as a template of Heat.

    The servers are alike. Their number and the user data are parameters. The
    user data is hidden among those of the stack, but Heat puts it into the
    template of a nested stack, which the project can read. Nothing is changed
    in the cloud, and servers that do not fit into it now are refused.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        order = self.read_order(parsed_args)
        found = (heat.render(order),)
        render.give_out(self, parsed_args, found, order.found.warnings)


class RenderMagnum(base.Command):
    """Render the command that creates a node group with GPUs in Magnum.

    The command has the labels and the taint of nodes with GPUs. Magnum accepts
    them, but its drivers of 2026 ignore them: comments have the commands to
    label and taint the nodes. Nothing is changed in the cloud, and nodes that
    do not fit into it now are refused.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        render.add_flavor_options(parser, has_key=False)
        parser.add_argument(
            '--cluster',
            metavar='<cluster>',
            help='Name or UUID of the cluster in Magnum.',
        )
        render.add_pool_options(parser)
        render.add_directory_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        order = magnum.read_order(
            self.cloud,
            magnum.NodeGroupRequest(
                render.make_choice(parsed_args),
                parsed_args.cluster,
                parsed_args.image,
                parsed_args.pool,
                parsed_args.nodes,
                parsed_args.max_nodes,
                parsed_args.root_volume,
                not parsed_args.no_taint,
            ),
            not parsed_args.no_fit_check,
        )
        found = (magnum.render(order),)
        render.give_out(self, parsed_args, found, order.found.warnings)
