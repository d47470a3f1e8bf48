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

"""The plan: which GPU serves which type, and the providers of that."""

import dataclasses
import enum

from nova_vgpu.values import declaration
from nova_vgpu.values import environment
from nova_vgpu.values import gpu
from nova_vgpu.values import problem
from nova_vgpu.values import vgpu


class Reason(enum.Enum):
    """Why a GPU serves the type that it serves."""

    LISTED = 'listed'
    FIRST_TYPE = 'first type'


@dataclasses.dataclass(frozen=True, slots=True)
class Capacity:
    """How many vGPUs of its type a GPU can serve, and what limits it.

    ``existing`` are existing vGPUs of the type, ``room`` how many more the
    functions can have now; ``total`` is never more than the two,
    and never less than ``existing``.
    """

    total: int
    existing: int
    room: int
    bound: str


@dataclasses.dataclass(frozen=True, slots=True)
class Assignment:
    """One GPU and a declared type that it is to serve.

    A GPU may have several of them, each with its share: its own functions and
    its own capacity.

    ``type`` is None while the GPU does not offer what was declared, or cannot
    be read. ``functions`` are the node device names of those functions that
    may have vGPUs: all of the GPU's, or the VFs that the operator listed.
    ``pci_devices`` are VFs, enabled or not, that Nova's PCI tracker assigns
    with their types: they are never among the functions.
    ``modes`` are those of the GPU, as far as they are known.
    """

    gpu: gpu.PhysicalGPU
    declared: declaration.DeclaredType
    reason: Reason
    functions: frozenset[str]
    type: vgpu.VGPUType | None = None
    capacity: Capacity | None = None
    pci_devices: frozenset[str] = frozenset()
    modes: environment.GPUModes = dataclasses.field(
        default_factory=environment.GPUModes
    )

    @property
    def serves(self) -> bool:
        return self.capacity is not None and self.capacity.total > 0


@dataclasses.dataclass(frozen=True, slots=True)
class LeftAlone:
    """A GPU that the plan does not touch, and why."""

    gpu: gpu.PhysicalGPU
    why: str


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """The effect of a configuration on a host.

    ``unreadable`` are the names of devices that could not be read in full; a
    GPU that is among these may be missing in the rest. ``types`` are all that
    are declared, also those that no GPU serves.
    """

    assignments: tuple[Assignment, ...] = ()
    left_alone: tuple[LeftAlone, ...] = ()
    problems: tuple[problem.Problem, ...] = ()
    unreadable: frozenset[str] = frozenset()
    types: tuple[declaration.DeclaredType, ...] = ()

    @property
    def gpus(self) -> tuple[gpu.PhysicalGPU, ...]:
        """All GPUs of the host, also those that are left alone."""
        gpus = {a.gpu.name: a.gpu for a in self.assignments}
        gpus |= {left.gpu.name: left.gpu for left in self.left_alone}
        return tuple(gpus.values())

    def assignments_of(self, gpu: str) -> tuple[Assignment, ...]:
        """All that a GPU is to serve, by the name of the GPU."""
        return tuple(a for a in self.assignments if a.gpu.name == gpu)

    @property
    def serving(self) -> frozenset[str]:
        """The names of the GPUs that serve something."""
        return frozenset(a.gpu.name for a in self.assignments if a.serves)

    def problems_of(
        self, *severities: problem.Severity
    ) -> tuple[problem.Problem, ...]:
        return tuple(p for p in self.problems if p.severity in severities)


@dataclasses.dataclass(frozen=True, slots=True)
class Provider:
    """A resource provider of Placement: one per physical GPU that serves."""

    name: str
    parent: str
    resource_class: str
    total: int
    traits: tuple[str, ...] = ()
