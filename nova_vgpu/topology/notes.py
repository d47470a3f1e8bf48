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

"""What the reader of a topology has to know beside the matrix."""

import collections
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator

from nova_vgpu import values
from nova_vgpu.knowledge.vendors import nvidia
from nova_vgpu.topology import matrix

_QEMU = 0x1B36  # Red Hat, whose ids QEMU's PCIe ports have


def find_notes(
    topology: values.Topology, sharing: Collection[values.PciAddress] = ()
) -> tuple[str, ...]:
    """The notes on a topology, a sentence or two each.

    :param sharing: the GPUs that offer vGPU types.
    """
    return tuple(_Notes(topology).find(sharing))


class _Notes:
    """The notes on one topology."""

    def __init__(self, topology: values.Topology) -> None:
        self._topology = topology
        self._labels = matrix.label_devices(topology)
        self._gpus = [d for d in topology.devices if d.is_gpu]

    def find(self, sharing: Collection[values.PciAddress]) -> Iterator[str]:
        yield from self._note_nvlinks()
        yield from self._note_vgpus(sharing)
        yield from self._note_bridges()
        yield from self._note_nodes()
        yield from self._note_groups()

    def _name(self, devices: Iterable[values.PcieDevice]) -> str:
        return ', '.join(self._labels[device.address] for device in devices)

    def _note_nvlinks(self) -> Iterator[str]:
        read = self._topology.nvlinks
        gpus = [g for g in self._gpus if g.vendor == nvidia.VENDOR.pci_id]
        unknown = [gpu for gpu in gpus if read.of(gpu.address) is None]
        if len(gpus) == 1 or not unknown:
            return
        if read.unknown_because:
            yield (
                f'NVLink is not shown: {read.unknown_because}. All distances '
                'are those of PCIe.'
            )
        else:
            yield (
                f'NVLink of {self._name(unknown)} is not shown: NVML knows '
                "only GPUs that NVIDIA's driver has. Run the command before "
                'they are bound to vfio-pci.'
            )

    def _note_vgpus(
        self, sharing: Collection[values.PciAddress]
    ) -> Iterator[str]:
        shared = [gpu for gpu in self._gpus if gpu.address in sharing]
        if len(shared) > 1:
            yield (
                f'The distances are for whole GPUs. vGPUs of '
                f'{self._name(shared)} reach each other over NVLink only, '
                "and only with NVIDIA's C-series types that have all of the "
                'frame buffer of a GPU.'
            )

    def _note_bridges(self) -> Iterator[str]:
        bridges = {
            bridge.address: bridge
            for device in self._topology.devices
            for bridge in device.bridges
        }.values()
        if any(bridge.redirects is None for bridge in bridges):
            yield (
                'ACS is unknown: only root can read the configuration space '
                'of the PCIe ports. Run the command as root.'
            )
        virtual = [b for b in bridges if b.vendor == _QEMU]
        if virtual:
            yield (
                f'{virtual[0].address} is a port of QEMU, so this is a '
                'virtual machine. The distances are what its hypervisor '
                'shows, not those of the hardware.'
            )

    def _note_nodes(self) -> Iterator[str]:
        unknown = [d for d in self._topology.devices if d.numa_node is None]
        if unknown and self._topology.numa_nodes > 1:
            yield (
                f'The NUMA node of {self._name(unknown)} is unknown; SYS is '
                'assumed between host bridges.'
            )

    def _note_groups(self) -> Iterator[str]:
        members = collections.defaultdict(list)
        for device in self._topology.devices:
            for group in dict.fromkeys(device.iommu_groups):
                members[group].append(device)
        if self._gpus and not members:
            yield (
                'There are no IOMMU groups: the IOMMU is off, and servers '
                'cannot get whole devices. Turn it on in the firmware and on '
                "the kernel's command line."
            )
        for group, devices in sorted(members.items()):
            if len(devices) > 1:
                yield (
                    f'{self._name(devices)} are in IOMMU group {group}: they '
                    'can only be assigned to one server together.'
                )
