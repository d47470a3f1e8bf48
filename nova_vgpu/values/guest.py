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

"""Guests of the host and the devices that they use."""

import dataclasses

from nova_vgpu.values import pci


@dataclasses.dataclass(frozen=True, slots=True)
class GuestVGPU:
    """A vGPU that a guest uses, by the name of :class:`VGPU`.

    ``type_name`` is the type that its alias names, if it does.
    """

    name: str
    type_name: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Guest:
    """A guest, running or not.

    ``uuid`` is that of Nova's server. ``mdevs`` are the UUIDs of its mediated
    devices, ``functions`` the PCI functions that are passed through to it;
    ``vgpus`` are all of the former and those of the latter that are vGPUs.
    ``accelerators`` are those of its mediated devices whose alias shows that
    Cyborg manages them.
    """

    uuid: str
    name: str
    running: bool
    mdevs: frozenset[str] = frozenset()
    functions: frozenset[pci.PciAddress] = frozenset()
    vgpus: tuple[GuestVGPU, ...] = ()
    accelerators: frozenset[str] = frozenset()
