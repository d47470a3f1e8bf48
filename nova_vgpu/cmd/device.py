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

"""``nova-vgpu device``: vGPUs and the functions that can have them."""

import argparse
from collections.abc import Iterator
from collections.abc import Mapping
import typing

from nova_vgpu import values
from nova_vgpu.cmd import base
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import function_states
from nova_vgpu.plan import type_matching

_Row = tuple[typing.Any, ...]


class ListDevices(base.Lister):
    """List vGPUs, and virtual functions that have or can have one.

    State: "vGPU" is a vGPU that exists; "taken" is a function with a vGPU on
    it, "free" a function where one can be created now, "full" one where the
    GPU's other vGPUs leave no room, and "no types" one that shows no types
    (yet).
    """

    table_columns = ('Device', 'Parent', 'State', 'Type')

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        base.add_gpu_filter(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        host = self.read_host()
        names = type_matching.list_type_names(host)
        rows = [
            row
            for gpu in base.select_gpus(host, parsed_args.gpu)
            for row in _rows(gpu, names)
        ]
        return (
            'Device',
            'Parent',
            'State',
            'Type',
            'GPU',
            'Kind',
            'Type ID',
        ), rows


def _rows(gpu: values.PhysicalGPU, names: Mapping[str, str]) -> Iterator[_Row]:
    for vgpu in gpu.vgpus:
        yield _mdev_row(gpu, str(gpu), vgpu, names)
    for vf in gpu.vfs:
        address = str(vf.address)
        if vf.vendor_vfio and vf.vgpus:
            # The function itself is the vGPU.
            vgpu = vf.vgpus[0]
            of_type = _type(vgpu, names), str(gpu), 'VF', vgpu.type_id
            yield (address, str(gpu), 'vGPU', *of_type)
            continue
        state = function_states.find_state(vf).value
        yield (address, str(gpu), state, '-', str(gpu), 'VF', '-')
        for vgpu in vf.vgpus:
            yield _mdev_row(gpu, address, vgpu, names)


def _mdev_row(
    gpu: values.PhysicalGPU,
    parent: str,
    vgpu: values.VGPU,
    names: Mapping[str, str],
) -> _Row:
    of_type = _type(vgpu, names), str(gpu), 'mdev', vgpu.type_id
    return (vgpu.name, parent, 'vGPU', *of_type)


def _type(vgpu: values.VGPU, names: Mapping[str, str]) -> str:
    return capabilities.short_name(
        values.VGPUType(vgpu.type_id, names.get(vgpu.type_id))
    )
