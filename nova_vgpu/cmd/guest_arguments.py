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

"""The options of ``nova-vgpu guest cloud-init``."""

import argparse

from nova_vgpu.guest import licences
from nova_vgpu.guest import setup

OUTPUT = '--output'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _add_sources(parser)
    _add_driver(parser)
    _add_licence(parser)
    _add_runtime(parser)
    _add_output(parser)


def _add_sources(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--facts',
        metavar='FILE',
        help='The facts of a guest with such a GPU, in JSON.',
    )
    parser.add_argument(
        '--flavor',
        metavar='NAME',
        help='Flavor whose section [guest_flavor_NAME] is read as well.',
    )
    parser.add_argument(
        '--project',
        metavar='ID',
        help='Project whose section [guest_project_ID] is read as well. It '
        'counts before that of the flavor.',
    )


def _add_driver(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--driver',
        choices=setup.DRIVERS,
        help='The kind of driver: for vGPUs, for whole GPUs, or none if the '
        'image or the kernel has it.',
    )
    parser.add_argument(
        '--driver-source',
        metavar='URL|PACKAGE',
        help='Where the driver is from: the URL of a .run or .deb, or the '
        'name of a package.',
    )
    parser.add_argument(
        '--driver-sha256',
        metavar='SHA256',
        help='The SHA-256 of the file at the URL. No other is installed.',
    )
    parser.add_argument(
        '--driver-version',
        metavar='VERSION',
        help='The version of the driver, if it is not in the name of the '
        'file. A package gets this version and keeps it; without it, one for '
        "vGPUs gets that of the host's branch.",
    )
    parser.add_argument(
        '--host-driver',
        metavar='VERSION',
        help="The version of the host's vGPU manager, which the driver of a "
        'vGPU has to fit.',
    )
    parser.add_argument(
        '--repository',
        metavar="'URI SUITE COMPONENT...'",
        help='A repository of APT for the driver and the container toolkit.',
    )
    parser.add_argument(
        '--repository-key',
        metavar='FILE',
        help='The public key of the repository, ASCII-armored.',
    )


def _add_licence(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--vgpu-type', metavar='TYPE', help='The type of the vGPU: A40-8Q.'
    )
    parser.add_argument(
        '--licence',
        choices=tuple(licences.PRODUCTS),
        help='The product for which a whole GPU with the driver for vGPUs is '
        'licensed. A vGPU has that of its type.',
    )
    parser.add_argument(
        '--licence-token',
        dest='licence_token_file',
        metavar='FILE',
        help='The file with the client configuration token.',
    )
    parser.add_argument(
        '--licence-server',
        dest='licence_servers',
        metavar='HOST[:PORT]',
        action='append',
        help='The legacy licence server, for drivers before branch 525; twice '
        'for a backup.',
    )


def _add_runtime(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--container-runtime',
        choices=setup.RUNTIMES,
        help="What to make NVIDIA's container runtime the default of.",
    )
    parser.add_argument(
        '--cdi',
        action='store_const',
        const=True,
        help='Enable the Container Device Interface there.',
    )
    parser.add_argument(
        '--gpu-cluster',
        action='store_const',
        const=True,
        help="The guest is a node of Kubernetes: install what NVIDIA's device "
        'plugin needs, by default with containerd.',
    )
    parser.add_argument(
        '--device-plugin',
        metavar='IMAGE|none',
        help="The image of NVIDIA's device plugin, which a node of Kubernetes "
        'gets as a static Pod; none if the cluster deploys it.',
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        OUTPUT,
        metavar='FILE',
        help='Write the user data to this file, with mode 0600. User data '
        'that exists is replaced; any other file is not.',
    )
    parser.add_argument(
        '--show-secrets',
        dest='show',
        action='store_true',
        help='Print user data that is secret also to a terminal.',
    )
