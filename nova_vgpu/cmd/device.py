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

"""``nova-vgpu device``: vGPUs and the functions that can hold them."""

import argparse
from collections.abc import Iterator
from collections.abc import Mapping
import typing

from nova_vgpu import values
from nova_vgpu.cmd import base
from nova_vgpu.decisions import resolution

_Row = tuple[typing.Any, ...]


class ListDevices(base.Lister):
    """List vGPUs, and virtual functions that hold one or could.

    State: "vGPU" is a vGPU that exists; "free" is a function that would take
    one now; "full" one that would not, because the GPU's vGPUs leave no room;
    "no types" one whose types are not there (yet).
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        base.add_gpu_filter(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        host = self.read_host()
        names = resolution.list_type_names(host)
        rows = [
            row
            for gpu in base.select_gpus(host, parsed_args.gpu)
            for row in _rows(gpu, names)
        ]
        return (
            'Device',
            'GPU',
            'Kind',
            'State',
            'Type',
            'Name',
        ), rows


def _rows(gpu: values.PhysicalGPU, names: Mapping[str, str]) -> Iterator[_Row]:
    for vgpu in gpu.vgpus:
        yield _vgpu_row(gpu, vgpu, names)
    for vf in gpu.vfs:
        for vgpu in vf.vgpus:
            yield _vgpu_row(gpu, vgpu, names, vf)
        if not vf.vgpus:
            yield (str(vf.address), str(gpu), 'VF', _state(vf), '-', '-')


def _vgpu_row(
    gpu: values.PhysicalGPU,
    vgpu: values.VGPU,
    names: Mapping[str, str],
    vf: values.VirtualFunction | None = None,
) -> _Row:
    device = vgpu.uuid or (str(vf.address) if vf else vgpu.name)
    parent = f'{gpu} VF {vf.address}' if vf and vgpu.uuid else str(gpu)
    return (
        device,
        parent,
        'mdev' if vgpu.uuid else 'VF',
        'vGPU',
        vgpu.type_id,
        names.get(vgpu.type_id, '-'),
    )


def _state(vf: values.VirtualFunction) -> str:
    if any(offer.available for offer in vf.offers):
        return 'free'
    return 'full' if vf.offers or vf.vendor_vfio else 'no types'
