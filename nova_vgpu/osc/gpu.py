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

"""``openstack vgpu gpu``: the GPUs of the cloud."""

import argparse
from collections.abc import Sequence
import typing

from cliff import columns
from cliff import lister
from cliff import show

from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.gpus import selection
from nova_vgpu.cloud.gpus import whole_gpu_fleet
from nova_vgpu.cloud.usage import consumers
from nova_vgpu.osc import base

_FIELDS: tuple[base.Field[fleet.GPU], ...] = (
    base.Field('Host', lambda gpu: gpu.host),
    base.Field('GPU', lambda gpu: gpu.address),
    base.Field('Model', lambda gpu: base.Known(gpu.facts.model)),
    base.Field('Types', lambda gpu: _types(gpu)),
    base.Field('Used', lambda gpu: gpu.used),
    base.Field('Total', lambda gpu: gpu.total),
    base.Field('State', lambda gpu: gpu.state.value),
    base.Field('Role', lambda gpu: whole_gpu_fleet.find_role(gpu).value, True),
    base.Field('Free', lambda gpu: gpu.free, True),
    base.Field('Reserved', lambda gpu: gpu.reserved, True),
    base.Field('Resource Classes', lambda gpu: _classes(gpu), True),
    base.Field('UUID', lambda gpu: gpu.uuid, True),
)


class ListGPUs(base.Command, lister.Lister):
    """List the GPUs of the cloud that serve vGPUs or are passed through.

    "Types" are the vGPU types, or "passthrough" for a GPU that a server gets
    as a whole. "State" is "free" if the GPU has room for another server,
    "full" if not, and "fenced" if what is not in use is reserved: the GPU left
    the configuration or does not work.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        base.add_filters(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        gpus = base.filter_gpus(self, parsed_args, self.cloud.list_every_gpu())
        return base.make_rows(_FIELDS, gpus, parsed_args.long)


class ShowGPU(base.Command, show.ShowOne):
    """Show a GPU of the cloud, and the servers that use it."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'gpu',
            metavar='<gpu>',
            help='PCI address, name or UUID of its resource provider.',
        )
        parser.add_argument(
            '--host',
            metavar='<host>',
            help='The compute node, if several have this PCI address.',
        )
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], base.Row]:
        gpu = self.cloud.read_inventory(
            selection.find_gpu(
                self.cloud.list_every_gpu(), parsed_args.gpu, parsed_args.host
            )
        )
        servers = WholeServers if whole_gpu_fleet.is_gpu(gpu) else Servers
        fields = {
            'host': gpu.host,
            'gpu': gpu.address,
            'provider': gpu.name,
            'uuid': gpu.uuid,
            'model': base.Known(gpu.facts.model),
            'role': whole_gpu_fleet.find_role(gpu).value,
            'types': base.Words(gpu.facts.types),
            'framebuffer_mib': base.Known(gpu.facts.framebuffer_mib),
            'series': base.Known(gpu.facts.series),
            'resource_classes': _classes(gpu),
            'total': gpu.total,
            'used': gpu.used,
            'reserved': gpu.reserved,
            'free': gpu.free,
            'state': gpu.state.value,
            'servers': servers(self.cloud.list_consumers(gpu)),
            'traits': base.Words(sorted(gpu.traits)),
        }
        return tuple(fields), tuple(fields.values())


class Servers(columns.FormattableColumn[Sequence[consumers.Consumer]]):
    """Servers: some lines each for people, a list for machines."""

    unit = 'vGPUs'

    def human_readable(self) -> str:
        return '\n'.join(_describe(found, self.unit) for found in self._value)

    def machine_readable(self) -> typing.Any:
        return [_encode(found, found.vgpus, 0) for found in self._value]


class WholeServers(Servers):
    """Servers that have the GPU as a whole."""

    unit = 'GPUs'

    def machine_readable(self) -> typing.Any:
        return [_encode(found, 0, found.vgpus) for found in self._value]


def _encode(
    consumer: consumers.Consumer, vgpus: int, gpus: int
) -> dict[str, typing.Any]:
    return {
        'uuid': consumer.uuid,
        'vgpus': vgpus,
        'name': consumer.name,
        'project': consumer.project,
        'gpus': gpus,
    }


def _describe(consumer: consumers.Consumer, unit: str) -> str:
    name, kind = consumer.name, 'server'
    if name is None:
        name, kind = 'Not a server on this host', 'consumer'
    return (
        f'{name}, {unit}: {consumer.vgpus}\n'
        f'  {kind} {consumer.uuid}\n'
        f'  project {consumer.project}'
    )


class NoTypes(base.Words):
    """In place of types, what the GPU is for; an empty list for machines."""

    def human_readable(self) -> str:
        return 'passthrough'


def _types(gpu: fleet.GPU) -> base.Words:
    if whole_gpu_fleet.is_gpu(gpu):
        return NoTypes(())
    return base.Words(gpu.facts.types)


def _classes(gpu: fleet.GPU) -> base.Words:
    return base.Words([stock.resource_class for stock in gpu.stocks])
