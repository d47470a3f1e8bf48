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

"""Guests of the host, as far as they have devices of it."""

import dataclasses

from nova_vgpu.values import pci


@dataclasses.dataclass(frozen=True, slots=True)
class Guest:
    """A guest, running or not.

    ``uuid`` is that of Nova's server. ``mdevs`` are the UUIDs of its mediated
    devices, ``functions`` the PCI functions that are passed through to it.
    """

    uuid: str
    name: str
    running: bool
    mdevs: frozenset[str] = frozenset()
    functions: frozenset[pci.PciAddress] = frozenset()
