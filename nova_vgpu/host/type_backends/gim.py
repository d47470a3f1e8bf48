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

"""The back-end for AMD's SR-IOV with GIM, whose settings are only read.

::

    <GPU>/accelerator_partition_profile         a table with one line
    <GPU>/accelerator_partition_profile_config  "profiles:" and a table
    <GPU>/memory_partition_mode                 "memory_partition_mode: NPS1"

GIM enables virtual functions when it is loaded, as many as its module option
says; the kernel refuses a write to ``sriov_numvfs`` with ENOENT. A
partition changes by a command of AMD SMI while no server has a function. The
files are for root alone. A GPU that cannot be partitioned has a sentence in
them. (amd/MxGPU-Virtualization, gim_shim/sysfs/gim_monitor.c.)
"""

import dataclasses
import re

from nova_vgpu import values
from nova_vgpu.host import files

#: The driver.
DRIVERS = frozenset({'gim'})

_CURRENT = 'accelerator_partition_profile'
_POSSIBLE = 'accelerator_partition_profile_config'
_MEMORY = 'memory_partition_mode'
#: What is read here.
FILES = frozenset({_CURRENT, _POSSIBLE, _MEMORY})

# The index of a partition, and its name.
_ROW = re.compile(r'^([0-9]{1,2})\s+([SDTQC]PX)\s', re.ASCII | re.MULTILINE)
_MODE = re.compile(r'^memory_partition_mode: (NPS[1248])$', re.MULTILINE)


class GimPartitions:
    """The partitions of GPUs."""

    def __init__(self, tree: files.Files) -> None:
        self._tree = tree

    def complete(self, gpu: values.PhysicalGPU) -> values.PhysicalGPU:
        """The GPU with its partitions, if its driver divides GPUs.

        What cannot be read is not reported as a fault: it matters only if a
        partition is declared.
        """
        if (
            gpu.address is None
            or gpu.sriov is None
            or gpu.driver not in DRIVERS
        ):
            return gpu
        current = _ROW.search(self._read(gpu.address, _CURRENT))
        memory = _MODE.search(self._read(gpu.address, _MEMORY))
        possible = self._read(gpu.address, _POSSIBLE)
        _, _, rows = possible.partition('\nprofiles:')
        partitions = values.Partitions(
            f'{current[2]}/{memory[1]}' if current and memory else None,
            tuple(name for _, name in sorted(_list_rows(rows))),
        )
        return dataclasses.replace(
            gpu, vf_profiles=values.VFProfiles(partitions=partitions)
        )

    def _read(self, gpu: values.PciAddress, name: str) -> str:
        return read(self._tree, str(gpu), name)


def read(tree: files.Files, gpu: str, name: str) -> str:
    """The text of one of the files; empty if it cannot be read.

    :raises ValueError: for any other file.
    """
    if name not in FILES:
        raise ValueError(f'{name} is not about partitions')
    address = values.PciAddress.parse(gpu)
    try:
        return tree.read(*files.PCI, str(address), name)
    except files.Unreadable:
        return ''


def _list_rows(text: str) -> list[tuple[int, str]]:
    return [(int(index), name) for index, name in _ROW.findall(text)]
