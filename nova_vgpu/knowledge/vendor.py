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

"""The interface of a GPU vendor's module.

A vendor is one module in :mod:`nova_vgpu.knowledge.vendors` with an instance
of a subclass under the name ``VENDOR``. Each answer may be "unknown".
"""

import abc
from collections.abc import Iterable
import dataclasses

from nova_vgpu import values
from nova_vgpu.knowledge import type_name

VFS_OFF_CURE = 'Enable them: write how many to sriov_numvfs of {gpu}.'
NO_TYPES_CURE = (
    'Install the driver for vGPU hosts and not the one for bare metal, and '
    'check that the model supports vGPUs.'
)


@dataclasses.dataclass(frozen=True, slots=True)
class MigShape:
    """The GPU instance of a type that is backed by MIG.

    It has ``slices`` of the GPU's ``gpu_slices``, and is shared by up to
    ``vgpus`` vGPUs of the type.
    """

    slices: int
    gpu_slices: int
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
    #: The cure for virtual functions that are not enabled on ``{gpu}``.
    vfs_off_cure = VFS_OFF_CURE
    #: The cure for virtual functions that show no types.
    no_types_cure = NO_TYPES_CURE

    def parse_type_name(self, text: str) -> type_name.TypeName | None:
        """Parse a type's name; None if it is not one of this vendor."""
        return None

    def model_name(self, ids: values.PciIds) -> str | None:
        """The model of the GPU, by its PCI ids."""
        return None

    def makes_vgpus(self, ids: values.PciIds) -> bool:
        """Whether the model supports typed vGPUs with some driver."""
        return False

    def complete(
        self, vgpu_type: values.VGPUType, ids: values.PciIds
    ) -> values.TypeFacts:
        """The type's facts, completed from the vendor's catalogue."""
        return vgpu_type.facts

    def may_have(self, name: type_name.TypeName) -> bool:
        """Whether a GPU of the type's model can have it; True if unknown."""
        return True

    def mig_shape(self, name: type_name.TypeName) -> MigShape | None:
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

    def licence_of(self, vgpu_type: str) -> str | None:
        """The licence that guests need for a type, given by name."""
        return None

    def traits(
        self, vgpu_type: values.VGPUType, ids: values.PciIds
    ) -> Iterable[str]:
        """Traits beyond those of the facts."""
        return ()
