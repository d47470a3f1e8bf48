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

"""``nova-vgpu config``: configuration from what the host has."""

import argparse

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.cmd import base


class Generate(base.Command):
    """Print the part of nova.conf that makes GPUs serve types.

    A type is an id or a name that "type list" shows. Without an address it is
    for all GPUs that offer it, and for those of its model that show no types
    yet:

      nova-vgpu config generate --type T4-2Q --type 41:00.0=A40-8Q

    Other GPUs are not used. The lines go to standard output, and no file is
    written; what else has to be done goes to standard error.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--type',
            metavar='[GPU=]TYPE',
            action='append',
            required=True,
            help='The type to serve, on one GPU (its PCI address in any '
            'spelling) or on all that offer the type. May be repeated.',
        )
        parser.add_argument(
            '--for',
            dest='reader',
            choices=[reader.value for reader in values.Reader],
            default=values.Reader.NOVA_VGPU.value,
            help="The driver that reads it: this project's (the default), "
            "Nova's own with mediated devices, or Nova with virtual functions "
            'as PCI devices, for GPUs without mediated devices.',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        from nova_vgpu.generate import nova_conf
        from nova_vgpu.generate import type_requests

        host = self.read_host()
        requested = [_parse_request(host, text) for text in parsed_args.type]
        fragment = nova_conf.generate(
            host,
            type_requests.grant(host, requested),
            values.Reader(parsed_args.reader),
            self.source.read_modes(host),
        )
        for warning in fragment.warnings:
            self.say(f'warning: {warning}')
        for problem in fragment.problems:
            self.say(f'{problem.severity.value}: {problem}')
        print('\n'.join(fragment.lines), file=self.app.stdout)
        return 0


def _parse_request(host: values.Host, text: str) -> values.TypeRequest:
    """``TYPE`` or ``GPU=TYPE``.

    :raises NovaVGPUError: if it is neither, or the GPU does not exist.
    """
    gpu_text, given, type_text = text.rpartition('=')
    type_text = type_text.strip()
    if not type_text:
        raise exception.UsageError(
            f'--type {text}: the type is missing. Use TYPE or GPU=TYPE.'
        )
    if not given:
        return values.TypeRequest(type_text)
    (gpu,) = base.select_gpus(host, gpu_text.strip())
    return values.TypeRequest(type_text, gpu)
