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

"""``nova-vgpu topology``: how GPUs and network cards are connected."""

import argparse
from collections.abc import Iterable
from collections.abc import Sequence
import dataclasses
import os
import typing

from cliff import columns

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.cloud import names
from nova_vgpu.cmd import base
from nova_vgpu.host import files
from nova_vgpu.host import state
from nova_vgpu.topology import distance
from nova_vgpu.topology import islands
from nova_vgpu.topology import matrix
from nova_vgpu.topology import notes
from nova_vgpu.topology import picture

_OPTION = '--svg'
_SVG = '<svg'


class Numbers(columns.FormattableColumn[tuple[int, ...]]):
    """Several numbers: a list for machines."""

    def human_readable(self) -> str:
        return ','.join(map(str, self._value)) or '-'

    def machine_readable(self) -> typing.Any:
        return list(self._value)


class ShowTopology(base.Lister):
    """Show how far GPUs and network cards are from each other.

    The matrix has the words of "nvidia-smi topo -m", and needs no driver:

      X     the device itself
      NV#   # NVLinks, directly or by NVSwitches; only NVML knows them
      PIX   at most one PCIe switch
      PXB   several PCIe switches below one root port
      PHB   one PCIe host bridge, which is part of the processor
      NODE  several host bridges of one NUMA node
      SYS   the interconnect between NUMA nodes

    Below it are the devices with their IOMMU groups, whether ACS redirects
    peer-to-peer requests to the root complex ("redirects") or not ("direct"),
    and the traits for [pci]device_spec that let a flavor ask for devices that
    reach each other. Run it as root: others cannot read ACS.

    Virtual functions are where their card is and are not listed. The ports of
    a network card are one device. The distances are for whole GPUs, not for
    vGPUs: those have no peer-to-peer over PCIe.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            _OPTION,
            metavar='FILE',
            help='Also write a picture of the PCIe tree to this file. An SVG '
            'file that exists is replaced; any other file is not.',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        if parsed_args.svg is not None:
            _require_target(parsed_args.svg)
        host = self.read_host()
        topology = _make_printable(self.source.read_topology(host))
        for fault in topology.faults:
            self.say(f'warning: {fault}')
        if not any(device.is_gpu for device in topology.devices):
            self.say(base.NO_GPUS)
            topology = values.Topology()
        sharing = {gpu.address for gpu in host.gpus if gpu.address}
        sharing -= {gpu.address for gpu in host.gpus if not gpu.types}
        for note in notes.find_notes(topology, sharing):
            self.say(f'note: {note}')
        if parsed_args.svg is not None:
            _write_picture(parsed_args.svg, topology)
        self._topology = topology
        return _make_rows(topology)

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Iterable[typing.Any],
    ) -> int:
        if parsed_args.formatter != 'table' or parsed_args.columns:
            return super().produce_output(parsed_args, column_names, data)
        if self._topology.devices:
            for line in matrix.write(self._topology, parsed_args.max_width):
                print(line, file=self.app.stdout)
        return 0


def _make_rows(topology: values.Topology) -> base.Rows:
    labels = matrix.label_devices(topology)
    rows = [
        (
            labels[device.address],
            device.kind.value,
            str(device.address),
            device.name,
            device.driver,
            base.Known(device.numa_node),
            Numbers(device.iommu_groups),
            matrix.describe_acs(topology, device),
            base.Words(matrix.list_redirected(topology, device)),
            base.Words(islands.list_traits(topology, device.address)),
            *(
                str(distance.connect(topology, device, other))
                for other in topology.devices
            ),
        )
        for device in topology.devices
    ]
    return (
        'Device',
        'Kind',
        'Address',
        'Name',
        'Driver',
        'NUMA node',
        'IOMMU groups',
        'ACS',
        'Redirected',
        'Traits',
        *labels.values(),
    ), rows


def _make_printable(topology: values.Topology) -> values.Topology:
    """Ports of network cards can have names with control characters."""
    return dataclasses.replace(
        topology,
        devices=tuple(
            dataclasses.replace(device, name=names.printable(device.name))
            for device in topology.devices
        ),
    )


def _require_target(path: str) -> None:
    """Refuse a file that is not a picture, before anything is done.

    :raises NovaVGPUError: with the reason.
    """
    directory, name = os.path.split(path)
    if not files.is_directory(directory or '.'):
        raise exception.UsageError(
            f'{_OPTION} {path}: the directory does not exist.'
        )
    present = _open_directory(directory).read(name)
    if present is not None and not present.startswith(_SVG):
        raise exception.UsageError(
            f'{_OPTION} {path}: the file exists and is not an SVG picture. '
            'Give another name, or delete the file.'
        )


def _write_picture(path: str, topology: values.Topology) -> None:
    directory, name = os.path.split(path)
    drawn = picture.draw(topology, 'PCIe topology')
    _open_directory(directory).replace(name, f'{drawn}\n')


def _open_directory(directory: str) -> state.StateDirectory:
    return state.StateDirectory(directory or '.', _OPTION)
