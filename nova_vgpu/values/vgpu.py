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

"""vGPU types that a GPU offers, and vGPUs that exist."""

import dataclasses

from nova_vgpu.values import pci


@dataclasses.dataclass(frozen=True, order=True, slots=True)
class Resolution:
    """Pixels of one display, ``5120x2880``."""

    width: int
    height: int

    def __str__(self) -> str:
        return f'{self.width}x{self.height}'


@dataclasses.dataclass(frozen=True, slots=True)
class TypeFacts:
    """A driver's facts about a type; None if unknown."""

    framebuffer_mib: int | None = None
    max_instances: int | None = None
    heads: int | None = None
    max_resolution: Resolution | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class VGPUType:
    """One kind of vGPU. The same on every function of a GPU that offers it.

    ``id`` is the driver's handle, ``nvidia-558``, also where the driver shows
    the bare number (vendor-specific VFIO), so that one configuration fits both
    frameworks. Ids change between driver releases; ``name`` does not, but not
    every driver gives one.
    """

    id: str
    name: str | None = None
    facts: TypeFacts = TypeFacts()

    def __str__(self) -> str:
        return f'{self.id} ({self.name})' if self.name else self.id


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    """How many more vGPUs of a type one function can have now."""

    type: VGPUType
    available: int


@dataclasses.dataclass(frozen=True, slots=True)
class VGPU:
    """A vGPU that exists: an mdev, or a virtual function with its type set.

    ``function`` is the node device name of the PCI function (or virtual
    parent) that it is on. ``uuid`` is None in the vendor-specific VFIO
    framework, where the virtual function itself is the device.
    """

    function: str
    type_id: str
    uuid: str | None = None

    @property
    def name(self) -> str:
        return self.uuid or self.function


@dataclasses.dataclass(frozen=True, slots=True)
class VirtualFunction:
    """An SR-IOV virtual function of a GPU."""

    address: pci.PciAddress
    driver: str | None = None
    offers: tuple[Offer, ...] = ()
    vgpus: tuple[VGPU, ...] = ()
    # The driver's directory "nvidia" of the vendor-specific VFIO framework
    # exists.
    vendor_vfio: bool = False
    # Used very often, for each of hundreds of functions.
    name: str = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, 'name', self.address.node_device_name)
