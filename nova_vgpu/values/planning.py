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

"""What a plan is made of, and the plan: which GPU serves which type.

Requests for types come before the configuration; problems come with the plan.
"""

import dataclasses
import enum

from nova_vgpu.values import declaration as declarations
from nova_vgpu.values import host_hardware
from nova_vgpu.values import live_migration


class Severity(enum.Enum):
    """The severity of a problem.

    An invalid configuration stops the service (FATAL). Hardware that is not
    ready is an ERROR for the GPU concerned, and the others still serve.
    WARNING should be checked; NOTE is for information.
    """

    FATAL = 'fatal'
    ERROR = 'error'
    WARNING = 'warning'
    NOTE = 'note'


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """One problem.

    ``code`` is stable, for machines. ``subject`` is the GPU or the option
    concerned. ``message`` says what was found, ``cure`` what to do.
    """

    severity: Severity
    code: str
    subject: str
    message: str
    cure: str

    def __str__(self) -> str:
        return f'{self.message} {self.cure}'


#: Ids of types and their names, in the order of the ids.
TypeNames = tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class PlanInput:
    """A loaded configuration, and the host that it is for.

    ``modes`` is what NVML tells of the GPUs; a mode that is not known there
    makes no difference to the plan.
    """

    configuration: 'Configuration'
    host: host_hardware.Host
    modes: host_hardware.ModesRead


@dataclasses.dataclass(frozen=True, slots=True)
class Configuration:
    """What is declared, and what is stored about this host.

    ``problems`` were found while nova.conf and the stored files were read.
    ``type_names`` is what ids of types meant on this host so far. ``seen``
    are declared addresses that were those of GPUs of this host before.
    ``migration_settings`` are options of Nova's for live migrations.
    """

    declaration: declarations.Declaration = dataclasses.field(
        default_factory=declarations.Declaration
    )
    problems: tuple[Problem, ...] = ()
    type_names: TypeNames = ()
    seen: frozenset[str] = frozenset()
    migration_settings: live_migration.MigrationSettings = (
        live_migration.UNKNOWN_SETTINGS
    )

    def plan_input(
        self, host: host_hardware.Host, modes: host_hardware.ModesRead
    ) -> PlanInput:
        """The one way to the input of a plan, so that all plans are alike."""
        return PlanInput(self, host, modes)


class Reason(enum.Enum):
    """Why a GPU serves the type that it serves."""

    LISTED = 'listed'
    FIRST_TYPE = 'first type'


@dataclasses.dataclass(frozen=True, slots=True)
class Capacity:
    """How many vGPUs of its type a GPU can serve, and what limits it.

    ``existing`` are existing vGPUs of the type, ``room`` how many more the
    functions can have now; ``total`` is never more than the two, and never
    less than ``existing`` unless these are VFs that the kernel provisioned.
    """

    total: int
    existing: int
    room: int
    bound: str


@dataclasses.dataclass(frozen=True, slots=True)
class Share:
    """The part of a divided GPU that is for a type.

    ``label`` is the type in names of providers. ``count`` is the number of
    vGPUs, ``functions`` are those that may have them.
    """

    declared: declarations.DeclaredType
    label: str
    count: int
    functions: frozenset[str]


@dataclasses.dataclass(frozen=True, slots=True)
class Assignment:
    """One GPU and a declared type that it is to serve.

    A GPU that is divided among types has several of them. Each has its
    ``share`` then, and the others ``beside`` it.

    ``type`` is None while the GPU does not offer what was declared, or cannot
    be read. ``functions`` are the node device names of those functions that
    may have vGPUs: all of the GPU's, or the VFs that the operator listed.
    ``pci_devices`` are VFs, enabled or not, that Nova's PCI tracker assigns
    with their types: they are never among the functions.
    ``modes`` are those of the GPU, as far as they are known. ``listed_share``
    is the number that is written with the address of the GPU. ``vf_numbers``
    are, in order, the GPUs whose driver enables VFs when it is loaded, and how
    many each is to have: one option of its module sets them all.
    """

    gpu: host_hardware.PhysicalGPU
    declared: declarations.DeclaredType
    reason: Reason
    functions: frozenset[str]
    listed_share: int | None = None
    share: Share | None = None
    beside: tuple[Share, ...] = ()
    type: host_hardware.VGPUType | None = None
    capacity: Capacity | None = None
    pci_devices: frozenset[str] = frozenset()
    modes: host_hardware.GPUModes = dataclasses.field(
        default_factory=host_hardware.GPUModes
    )
    vf_numbers: tuple[tuple[str, int], ...] = ()

    @property
    def serves(self) -> bool:
        return self.capacity is not None and self.capacity.total > 0

    @property
    def device(self) -> str:
        """What the provider stands for: the GPU, or its share for a type."""
        if self.share is None:
            return self.gpu.name
        return f'{self.gpu.name}_{self.share.label}'


@dataclasses.dataclass(frozen=True, slots=True)
class LeftAlone:
    """A GPU that the plan does not touch, and why."""

    gpu: host_hardware.PhysicalGPU
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
    problems: tuple[Problem, ...] = ()
    unreadable: frozenset[str] = frozenset()
    types: tuple[declarations.DeclaredType, ...] = ()

    @property
    def gpus(self) -> tuple[host_hardware.PhysicalGPU, ...]:
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

    def problems_of(self, *severities: Severity) -> tuple[Problem, ...]:
        return tuple(p for p in self.problems if p.severity in severities)


@dataclasses.dataclass(frozen=True, slots=True)
class Provider:
    """A resource provider of Placement: one per physical GPU that serves.

    A GPU that is divided has one for each of its types.
    """

    name: str
    parent: str
    resource_class: str
    total: int
    traits: tuple[str, ...] = ()


class Reader(enum.Enum):
    """The driver that is to read a generated configuration."""

    NOVA_VGPU = 'nova-vgpu'
    NOVA = 'nova'
    PCI = 'pci'


@dataclasses.dataclass(frozen=True, slots=True)
class TypeRequest:
    """A type for one GPU, or without one for all GPUs that offer it.

    ``type`` is what the operator wrote: an id or a name.
    """

    type: str
    gpu: host_hardware.PhysicalGPU | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class MatchedRequest:
    """A GPU and the type that it is to serve.

    ``type`` is None while the GPU shows no types; its model is then known to
    offer one of this name.
    """

    gpu: host_hardware.PhysicalGPU
    name: str
    type: host_hardware.VGPUType | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Fragment:
    """A part of nova.conf, line by line.

    ``declaration`` is the meaning of the lines for this project; None if they
    are only for Nova. ``problems`` are those of its plan, ``warnings`` further
    ones.
    """

    lines: tuple[str, ...]
    declaration: declarations.Declaration | None = None
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
