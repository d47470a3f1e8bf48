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
from collections.abc import Container
from collections.abc import Sequence
import dataclasses

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.cmd import base


class Generate(base.Command):
    """Print the part of nova.conf that makes GPUs serve servers.

    A type is an id or a name that "type list" shows. Without an address it is
    for all GPUs that offer it, and for those of its model that show no types
    yet:

      nova-vgpu config generate --type T4-2Q --type 41:00.0=A40-8Q

    A whole GPU is named by its address or by its PCI ids. It is checked
    first: IOMMU group, display, driver, and that it does not serve vGPUs in
    the configuration of this host:

      nova-vgpu config generate --passthrough 84:00.0
      nova-vgpu config generate --passthrough 10de:20b5 --type A40-8Q

    Other GPUs are not used. The lines go to standard output, and no file is
    written; what else has to be done goes to standard error.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--type',
            metavar='[GPU=]TYPE',
            action='append',
            default=[],
            help='The type to serve, on one GPU (its PCI address in any '
            'spelling) or on all that offer the type. May be repeated.',
        )
        parser.add_argument(
            '--passthrough',
            metavar='GPU|VENDOR:DEVICE',
            action='append',
            default=[],
            help='The GPU to give to a server as a whole, or all GPUs with '
            'these PCI ids. May be repeated.',
        )
        parser.add_argument(
            '--for',
            dest='reader',
            choices=[reader.value for reader in values.Reader],
            default=values.Reader.NOVA_VGPU.value,
            help="The driver that reads the types: this project's (the "
            "default), Nova's own with mediated devices, or Nova with virtual "
            'functions as PCI devices, for GPUs without mediated devices. '
            'Lines for whole GPUs are the same for all of them.',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        if not parsed_args.type and not parsed_args.passthrough:
            raise exception.UsageError(
                'Nothing is requested: give --type, --passthrough, or both.'
            )
        host = self.read_host()
        types = [_parse_request(host, text) for text in parsed_args.type]
        whole = [_parse_whole(host, text) for text in parsed_args.passthrough]
        fragment = None
        if types:
            reader = values.Reader(parsed_args.reader)
            fragment = self._generate_types(host, types, whole, reader)
        if whole:
            fragment = self._generate_whole(host, whole, fragment)
        if fragment is not None:
            self._print(fragment)
        return 0

    def _generate_types(
        self,
        host: values.Host,
        types: Sequence[values.TypeRequest],
        whole: Sequence[values.PassthroughRequest],
        reader: values.Reader,
    ) -> values.Fragment:
        from nova_vgpu.generate import nova_conf
        from nova_vgpu.generate import type_requests

        taken = {gpu.name for request in whole for gpu in request.gpus}
        _refuse_both(types, taken)
        # A type for all GPUs that offer it is for the others.
        others = tuple(gpu for gpu in host.gpus if gpu.name not in taken)
        return nova_conf.generate(
            host,
            type_requests.grant(dataclasses.replace(host, gpus=others), types),
            reader,
            self.source.read_modes(host),
        )

    def _generate_whole(
        self,
        host: values.Host,
        whole: Sequence[values.PassthroughRequest],
        types: values.Fragment | None,
    ) -> values.Fragment:
        """With requested types, those count in place of nova.conf's."""
        from nova_vgpu.generate import whole_gpu_lines
        from nova_vgpu.plan import mapper

        if types is None:
            configuration = self.load_configuration()
        else:
            configuration = values.Configuration(
                types.declaration or values.Declaration()
            )
        plan = mapper.make_plan(
            configuration.plan_input(host, values.ModesRead())
        )
        source = self.source
        read = source.add_processes(host, source.read_isolation(host))
        return whole_gpu_lines.generate(whole, read, plan, types)

    def _print(self, fragment: values.Fragment) -> None:
        for warning in fragment.warnings:
            self.say(f'warning: {warning}')
        for problem in fragment.problems:
            self.say(f'{problem.severity.value}: {problem}')
        print('\n'.join(fragment.lines), file=self.app.stdout)


def _refuse_both(
    types: Sequence[values.TypeRequest], taken: Container[str]
) -> None:
    """Refuse a GPU that is named for a type and as a whole.

    :raises UsageError: with every such GPU.
    """
    both = [of for of in types if of.gpu and of.gpu.name in taken]
    if both:
        raise exception.UsageError(
            '\n'.join(
                f'GPU {of.gpu} is requested for vGPUs (--type) and as a whole '
                '(--passthrough). It can serve one of the two: remove one '
                'request.'
                for of in both
            )
        )


def _parse_whole(host: values.Host, text: str) -> values.PassthroughRequest:
    """``GPU`` or ``VENDOR:DEVICE``.

    :raises NoSuchDevice: if the host does not have such a GPU.
    """
    from nova_vgpu.knowledge import whole_gpu_names

    ids = whole_gpu_names.parse_ids(text)
    if ids is None:
        (gpu,) = base.select_gpus(host, text.strip())
        return values.PassthroughRequest((gpu,))
    gpus = tuple(gpu for gpu in host.gpus if str(gpu.ids) == str(ids))
    if not gpus:
        found = sorted({str(gpu.ids) for gpu in host.gpus if gpu.ids})
        raise exception.NoSuchDevice(
            f'No GPU of this host has the PCI ids {ids}. PCI ids of its GPUs: '
            f'{", ".join(found) or "none"}.'
        )
    return values.PassthroughRequest(gpus, by_ids=True)


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
