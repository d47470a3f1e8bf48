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

"""Physical GPUs."""

import dataclasses
import enum
import itertools

from nova_vgpu.values import pci
from nova_vgpu.values import vgpu

#: The prefixes of libvirt's names for mdev parents that are not GPUs.
_OTHER_DEVICES = ('css_', 'ap_', 'matrix_')


class Framework(enum.Enum):
    """The three ways in which a host shares a GPU."""

    MDEV = 'mdev'
    MDEV_ON_VFS = 'mdev on VFs'
    VENDOR_VFIO = 'vendor VFIO'


@dataclasses.dataclass(frozen=True, slots=True)
class PhysicalGPU:
    """A GPU of the host, or another parent of mdevs.

    ``address`` and ``ids`` are None for the kernel's sample parents (mtty),
    which are not PCI devices. ``offers`` and ``vgpus`` are those of the GPU's
    own function; ``all_offers`` and ``all_vgpus`` include its VFs'.
    ``named_types`` is for a GPU whose free capacity was not read.
    """

    name: str
    address: pci.PciAddress | None = None
    ids: pci.PciIds | None = None
    driver: str | None = None
    sriov: pci.Sriov | None = None
    vfs: tuple[vgpu.VirtualFunction, ...] = ()
    offers: tuple[vgpu.Offer, ...] = ()
    vgpus: tuple[vgpu.VGPU, ...] = ()
    named_types: tuple[vgpu.VGPUType, ...] = ()

    def __str__(self) -> str:
        """The GPU's name for operators: its PCI address if it has one."""
        return str(self.address) if self.address else self.name

    @property
    def is_other_device(self) -> bool:
        """Whether this parent of mdevs is not a GPU.

        Channel I/O and cryptographic adapters of IBM Z have mdevs too.
        """
        return self.address is None and self.name.startswith(_OTHER_DEVICES)

    @property
    def framework(self) -> Framework | None:
        """The framework that this GPU uses now; None if it shows none."""
        if self.offers or self.vgpus:
            return Framework.MDEV
        if any(vf.vendor_vfio for vf in self.vfs):
            return Framework.VENDOR_VFIO
        if any(vf.offers or vf.vgpus for vf in self.vfs):
            return Framework.MDEV_ON_VFS
        return None

    @property
    def functions(self) -> frozenset[str]:
        """The names of all functions of the GPU, its own included."""
        return frozenset((self.name, *(vf.name for vf in self.vfs)))

    @property
    def all_offers(self) -> tuple[vgpu.Offer, ...]:
        on_vfs = itertools.chain.from_iterable(vf.offers for vf in self.vfs)
        return (*self.offers, *on_vfs)

    @property
    def all_vgpus(self) -> tuple[vgpu.VGPU, ...]:
        on_vfs = itertools.chain.from_iterable(vf.vgpus for vf in self.vfs)
        return (*self.vgpus, *on_vfs)

    @property
    def types(self) -> tuple[vgpu.VGPUType, ...]:
        """Every type that any function of the GPU names, each once."""
        by_id = {named.id: named for named in self.named_types}
        for offer in self.all_offers:
            by_id.setdefault(offer.type.id, offer.type)
        return tuple(by_id.values())
