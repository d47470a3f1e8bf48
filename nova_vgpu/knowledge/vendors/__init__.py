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

"""The vendors of GPUs, one module each, and what a vendor tells.

Every module of this package whose name does not start with an underscore is a
vendor, with an instance of a subclass of :class:`Vendor` under the name
``VENDOR``: adding one means adding a module. A new kind of trait needs a
prefix in :mod:`nova_vgpu.knowledge.traits` as well. Each answer may be
"unknown".
"""

import abc
from collections.abc import Iterable
import dataclasses
import functools
import importlib
import pkgutil

from nova_vgpu import values

VFS_OFF_CURE = 'Enable them: write how many to sriov_numvfs of {gpu}.'
NO_TYPES_CURE = (
    'Install the driver for vGPU hosts and not the one for bare metal, and '
    'check that the model supports vGPUs.'
)
# Base classes of PCI: VGA, 3D and other display controllers; AMD Instinct.
_DISPLAY_CONTROLLER = 0x03
_PROCESSING_ACCELERATOR = 0x12


@dataclasses.dataclass(frozen=True, slots=True)
class TypeName:
    """The parts of a name such as ``NVIDIA A100-2-10C``.

    ``brand`` is the driver's prefix (GRID, NVIDIA), which is not part of the
    type. ``slices`` is None unless the type is backed
    by a MIG instance. ``series`` is empty for types without a letter.
    """

    model: str
    framebuffer_mib: int
    series: str = ''
    slices: int | None = None
    variant: str = ''
    suffix: str = ''
    brand: str = ''

    @property
    def short(self) -> str:
        """The name without its brand: ``A100-2-10C``."""
        mib = self.framebuffer_mib
        parts = [self.model]
        if self.slices is not None:
            parts.append(str(self.slices))
        size = str(mib // 1024)
        parts.append(f'{size}{self.series}{self.variant}{self.suffix}')
        return '-'.join(parts)


@dataclasses.dataclass(frozen=True, slots=True)
class VFProfile:
    """What each virtual function of a GPU gets, such as ``B60-1of4``.

    Either the GPU has ``count`` equal functions, or each has ``vram_mib``.
    """

    model: str
    count: int | None = None
    vram_mib: int | None = None

    @property
    def name(self) -> str:
        """The usual spelling."""
        if self.vram_mib is not None:
            return f'{self.model}-{self.vram_mib // 1024}G'
        return f'{self.model}-1of{self.count}'


@dataclasses.dataclass(frozen=True, slots=True)
class MigShape:
    """The GPU instance of a type that is backed by MIG.

    It has ``slices`` of the GPU's ``gpu_slices``, and ``memory_slices`` of its
    ``gpu_memory_slices``. Up to ``vgpus`` vGPUs of the type share it.
    """

    slices: int
    gpu_slices: int
    memory_slices: int
    gpu_memory_slices: int
    vgpus: int


class Vendor(abc.ABC):
    """Facts about one vendor's GPUs."""

    #: As written in traits and tables.
    name: str
    #: The vendor's id in PCI configuration space.
    pci_id: int
    #: The prefix of the ids of its mdev types, before the hyphen.
    type_prefixes: tuple[str, ...] = ()
    #: Whether the virtual functions of its GPUs have vGPU types.
    has_types_on_vfs = False
    #: The driver of its GPUs that provisions virtual functions, if there is.
    vf_driver: str | None = None
    #: How the name of a VF profile is written, for messages.
    vf_profile_form = ''
    #: The cure for virtual functions that are not enabled on ``{gpu}``.
    vfs_off_cure = VFS_OFF_CURE
    #: The cure for virtual functions that show no types.
    no_types_cure = NO_TYPES_CURE

    def parse_type_name(self, text: str) -> TypeName | None:
        """Parse a type's name; None if it is not one of this vendor."""
        return None

    def parse_vf_profile(self, text: str) -> VFProfile | None:
        """Parse the name of a VF profile; None if there are none."""
        return None

    def vram_mib(self, ids: values.PciIds) -> int | None:
        """The memory of a GPU for which VF profiles can be declared."""
        return None

    def vf_numbers(self, ids: values.PciIds) -> tuple[int, ...]:
        """How many VFs a GPU can have enabled; empty if unknown."""
        return ()

    def model_name(self, ids: values.PciIds) -> str | None:
        """The model of the GPU, by its PCI ids."""
        return None

    def find_model(self, text: str) -> str | None:
        """The name of the model that is meant, in its usual spelling."""
        return None

    def list_models(self, device: int | None = None) -> Iterable[str]:
        """All models that are known, or those with a device id."""
        return ()

    def makes_vgpus(self, ids: values.PciIds) -> bool:
        """Whether the model supports typed vGPUs with some driver."""
        return False

    def complete(
        self, vgpu_type: values.VGPUType, ids: values.PciIds
    ) -> values.TypeFacts:
        """The type's facts, completed from the vendor's catalogue."""
        return vgpu_type.facts

    def may_have(self, name: TypeName) -> bool:
        """Whether a GPU of the type's model can have it; True if unknown."""
        return True

    def mig_shape(self, name: TypeName) -> MigShape | None:
        """The GPU instance of a type; None if it has none or is unknown."""
        return None

    def refuses_ecc(
        self, model: str | None, driver_version: str | None
    ) -> str | None:
        """Why vGPUs do not start while ECC is on; None if they do."""
        return None

    def heeds_ecc(self, vgpu_type: str) -> bool | None:
        """Whether vGPUs of a type, given by name, use ECC."""
        return None

    def mixes_sizes(self, ids: values.PciIds) -> bool | None:
        """Whether the GPU can have time-sliced vGPUs of several sizes."""
        return None

    def licence_of(self, vgpu_type: str) -> str | None:
        """The licence that guests need for a type, given by name."""
        return None

    def offers_cuda(self, vgpu_type: str) -> bool | None:
        """Whether CUDA works on a type, given by name; None if unknown."""
        return None

    def traits(
        self, vgpu_type: values.VGPUType, ids: values.PciIds
    ) -> Iterable[str]:
        """Traits beyond those of the facts."""
        return ()

    def whole_traits(self, ids: values.PciIds) -> Iterable[str]:
        """Traits of a whole GPU, beyond its vendor."""
        return ()


@functools.cache
def list_vendors() -> tuple[Vendor, ...]:
    """Every vendor with a module, in order of module name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = (
        importlib.import_module(f'{__name__}.{name}')
        for name in names
        if not name.startswith('_')
    )
    return tuple(module.VENDOR for module in modules)


def get_by_pci_id(pci_id: int) -> Vendor | None:
    return next((v for v in list_vendors() if v.pci_id == pci_id), None)


def get_by_type_id(type_id: str) -> Vendor | None:
    """The vendor whose driver uses ids like this one."""
    prefix, hyphen, _ = type_id.casefold().partition('-')
    if not hyphen:
        return None
    return next((v for v in list_vendors() if prefix in v.type_prefixes), None)


def is_gpu(vendor_id: int, pci_class: int) -> bool:
    """Whether a PCI function is a GPU of a known vendor."""
    return get_by_pci_id(vendor_id) is not None and (
        pci_class >> 16 in (_DISPLAY_CONTROLLER, _PROCESSING_ACCELERATOR)
    )
