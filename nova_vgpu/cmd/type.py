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

"""``nova-vgpu type``: the types that GPUs offer."""

import argparse
from collections.abc import Mapping
import typing

from nova_vgpu import values
from nova_vgpu.cmd import base
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import capacity
from nova_vgpu.plan import type_matching


class ListTypes(base.Lister):
    """List the vGPU types that each GPU offers.

    "Free" is how many more vGPUs of the type fit now; a vGPU of another size
    on the same GPU makes it 0. "vGPUs" is how many exist, "Max" the maximum of
    one GPU, "MiB" the frame buffer of each. Put the id or the name into
    [devices]enabled_vgpu_types; names do not change with driver upgrades.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        base.add_gpu_filter(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        host = self.read_host()
        names = type_matching.list_type_names(host)
        modes = self.source.read_modes(host)
        rows = [
            _row(gpu, vgpu_type, names, modes.of(gpu.address))
            for gpu in base.select_gpus(host, parsed_args.gpu)
            for vgpu_type in sorted(
                type_matching.list_types(gpu, names), key=_in_order
            )
        ]
        if not host.gpus:
            self.say(base.NO_GPUS)
        elif not rows:
            self.say('No GPU offers types; "nova-vgpu gpu list" shows why.')
        return (
            'GPU',
            'ID',
            'Name',
            'Free',
            'vGPUs',
            'Max',
            'MiB',
        ), rows


def _in_order(vgpu_type: values.VGPUType) -> tuple[str, int, str]:
    """nvidia-36 comes before nvidia-155."""
    prefix, _, number = vgpu_type.id.rpartition('-')
    if number.isdecimal():
        return prefix, int(number), ''
    return vgpu_type.id, 0, ''


def _row(
    gpu: values.PhysicalGPU,
    vgpu_type: values.VGPUType,
    names: Mapping[str, str],
    modes: values.GPUModes,
) -> tuple[typing.Any, ...]:
    counted = capacity.plan_capacity(
        gpu, vgpu_type, gpu.functions, None, names, modes
    )
    facts = capabilities.facts_of(gpu, vgpu_type)
    return (
        str(gpu),
        vgpu_type.id,
        vgpu_type.name or '-',
        max(counted.total - counted.existing, 0),
        counted.existing,
        base.Known(facts.max_instances),
        base.Known(facts.framebuffer_mib),
    )
