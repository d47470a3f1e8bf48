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

"""A compute host and its GPUs."""

import dataclasses

from nova_vgpu.values import gpu
from nova_vgpu.values import pci


@dataclasses.dataclass(frozen=True, slots=True)
class ReadFault:
    """A part of a device that could not be read.

    ``device`` is the node device name if known, ``source`` the file or XML.
    """

    device: str
    source: str
    reason: str

    def __str__(self) -> str:
        return f'{self.device}: {self.source}: {self.reason}'


@dataclasses.dataclass(frozen=True, slots=True)
class Host:
    """The GPUs of a host in order of address, and what could not be read.

    ``other_functions`` are the PCI addresses of devices that are not GPUs, to
    distinguish them from addresses without a device.
    """

    gpus: tuple[gpu.PhysicalGPU, ...] = ()
    other_functions: frozenset[pci.PciAddress] = frozenset()
    faults: tuple[ReadFault, ...] = ()
    #: Ids and names of types that no GPU names itself.
    type_names: tuple[tuple[str, str], ...] = ()
