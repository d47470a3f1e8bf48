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

"""``openstack vgpu render``: what others need to create nodes with GPUs."""

import argparse

from nova_vgpu.cloud.nodes import capo
from nova_vgpu.cloud.nodes import documents
from nova_vgpu.cloud.nodes import node_gpus
from nova_vgpu.cloud.nodes import node_order
from nova_vgpu.cloud.nodes import node_request
from nova_vgpu.osc import base
from nova_vgpu.osc import output_files


class RenderCAPO(base.Command):
    """Render GPU nodes for Cluster API, and what makes their GPUs usable.

    Three files: "machines.yaml" has the templates and the machine deployment
    for the management cluster (Cluster API with its provider for OpenStack),
    "gpu-operator-values.yaml" the values for the chart of NVIDIA's GPU
    operator, "smoke-test.yaml" a DaemonSet that uses every GPU of every node
    once. They are printed in one stream, or written into a directory.

    Nothing is changed in the cloud or in a cluster. Nodes that do not fit into
    the cloud now are refused. Secrets are named, and never read.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_flavor_options(parser)
        _add_cluster_options(parser)
        _add_driver_options(parser)
        _add_output_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        order = node_order.read_order(
            self.cloud,
            _make_request(parsed_args),
            not parsed_args.no_fit_check,
        )
        found = capo.render(order)
        if parsed_args.only is not None:
            name = capo.PARTS[parsed_args.only]
            found = tuple(each for each in found if each.name == name)
        give_out(self, parsed_args, found, order.found.warnings)


def give_out(
    command: base.Command,
    parsed_args: argparse.Namespace,
    found: tuple[documents.Document, ...],
    warnings: tuple[str, ...],
) -> None:
    """Print the files, or write them where the user wants them."""
    for warning in warnings:
        print(warning, file=command.app.stderr)
    if parsed_args.output is None:
        for each in found:
            command.app.stdout.write(each.text)
        return
    for path in output_files.write(
        parsed_args.output, found, parsed_args.overwrite
    ):
        print(f'Written: {path}', file=command.app.stderr)


def _make_request(
    parsed_args: argparse.Namespace,
) -> node_request.ClusterRequest:
    return node_request.ClusterRequest(
        make_choice(parsed_args),
        parsed_args.cluster,
        parsed_args.image,
        parsed_args.kubernetes_version,
        parsed_args.pool,
        parsed_args.nodes,
        parsed_args.max_nodes,
        node_request.ControlPlane(
            parsed_args.control_plane_nodes, parsed_args.control_plane_flavor
        ),
        node_request.DriverRequest(
            parsed_args.driver_in_image,
            parsed_args.driver_image,
            parsed_args.pull_secret,
            parsed_args.licence_secret,
        ),
        parsed_args.key_name,
        parsed_args.failure_domain,
        parsed_args.root_volume,
        not parsed_args.no_taint,
        parsed_args.smoke_image,
        node_request.APIVersion(parsed_args.api),
    )


def make_choice(parsed_args: argparse.Namespace) -> node_gpus.FlavorChoice:
    return node_gpus.FlavorChoice(
        parsed_args.flavor,
        parsed_args.type,
        parsed_args.passthrough,
        parsed_args.count,
    )


def add_flavor_options(
    parser: argparse.ArgumentParser, has_key: bool = True
) -> None:
    parser.add_argument(
        'flavor',
        metavar='<flavor>',
        nargs='?',
        help='Name or ID of the flavor of the nodes. In place of it, --type '
        'or --passthrough finds the flavor that brings just that.',
    )
    for option, metavar, text in (
        ('--type', '<type>', 'vGPU type of the nodes, for example A40-8Q.'),
        (
            '--passthrough',
            '<model>',
            'Model of the whole GPUs of the nodes, for example A40.',
        ),
        ('--image', '<image>', 'Name or ID of the image of the nodes.'),
    ):
        parser.add_argument(option, metavar=metavar, help=text)
    if has_key:
        parser.add_argument(
            '--key-name', metavar='<key>', help='Key pair of the nodes.'
        )
    parser.add_argument(
        '--count',
        metavar='<number>',
        type=int,
        default=1,
        help='With --type or --passthrough: number of vGPUs, or of whole '
        'GPUs, of each node (default: 1).',
    )
    parser.add_argument(
        '--nodes',
        metavar='<number>',
        type=int,
        default=1,
        help='Number of nodes with GPUs (default: 1).',
    )
    parser.add_argument(
        '--no-fit-check',
        action='store_true',
        help='Do not ask Placement whether the nodes fit: for accounts '
        'without the role "admin", and for nodes that exist already. The '
        'output says so.',
    )


def _add_cluster_options(parser: argparse.ArgumentParser) -> None:
    for option, metavar, text in (
        ('--cluster', '<name>', 'Name of the cluster in Cluster API.'),
        (
            '--kubernetes-version',
            '<version>',
            'Version of Kubernetes in the image, for example v1.34.2.',
        ),
        (
            '--control-plane-flavor',
            '<flavor>',
            'Flavor of the control plane, with --control-plane-nodes. It may '
            'bring GPUs, too.',
        ),
        (
            '--failure-domain',
            '<zone>',
            'Availability zone of the nodes with GPUs.',
        ),
    ):
        parser.add_argument(option, metavar=metavar, help=text)
    parser.add_argument(
        '--control-plane-nodes',
        metavar='<number>',
        type=int,
        default=0,
        help='Number of nodes of the control plane (default: 0, the cluster '
        'has one already).',
    )
    add_pool_options(parser)
    parser.add_argument(
        '--api',
        choices=[each.value for each in node_request.APIVersion],
        default=node_request.APIVersion.V1BETA2.value,
        help='Version of the kinds of Cluster API and its provider (default: '
        f'{node_request.APIVersion.V1BETA2.value}, which needs CAPO 0.15 and '
        'Cluster API 1.11, or newer).',
    )


def add_pool_options(parser: argparse.ArgumentParser) -> None:
    for option, metavar, text in (
        (
            '--max-nodes',
            '<number>',
            'Let the autoscaler choose between --nodes and so many.',
        ),
        ('--root-volume', '<GiB>', 'Boot from a new volume of this size.'),
    ):
        parser.add_argument(option, metavar=metavar, type=int, help=text)
    parser.add_argument(
        '--pool',
        metavar='<name>',
        default=node_request.DEFAULT_POOL,
        help='Name of these nodes within the cluster (default: '
        f'{node_request.DEFAULT_POOL}).',
    )
    parser.add_argument(
        '--no-taint',
        action='store_true',
        help='Let pods without a GPU run on these nodes, too.',
    )


def _add_driver_options(parser: argparse.ArgumentParser) -> None:
    for option, metavar, text in (
        (
            '--driver-image',
            '<image>',
            'Image of the driver for the GPU operator, with its tag but '
            'without the name of a distribution: the operator adds that. '
            'Required for vGPUs.',
        ),
        (
            '--pull-secret',
            '<name>',
            'Name of the Secret to pull --driver-image with.',
        ),
        (
            '--licence-secret',
            '<name>',
            'Name of the Secret with gridd.conf and the token of the licence '
            'server. Required for vGPUs.',
        ),
    ):
        parser.add_argument(option, metavar=metavar, help=text)
    parser.add_argument(
        '--driver-in-image',
        action='store_true',
        help='The image of the nodes has the driver and its licence '
        'configuration: the operator installs none.',
    )
    parser.add_argument(
        '--smoke-image',
        metavar='<image>',
        default=node_request.DEFAULT_SMOKE_IMAGE,
        help='Image that adds vectors with CUDA, and has the program '
        '"sleep" (default: '
        f'{node_request.DEFAULT_SMOKE_IMAGE}).',
    )


def _add_output_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--only',
        choices=list(capo.PARTS),
        help='Render this part only, for example to pipe it into kubectl.',
    )
    add_directory_options(parser)


def add_directory_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '-o',
        '--output',
        metavar='<directory>',
        help='Write files into this directory instead of printing them.',
    )
    parser.add_argument(
        '--overwrite',
        action='store_true',
        help='Replace files that exist in the directory.',
    )
