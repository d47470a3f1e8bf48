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

"""What the doctor is given, and what it finds.

Unknown values are None or empty.
"""

from collections.abc import Iterable
import dataclasses

from nova_vgpu.values import declaration as declarations
from nova_vgpu.values import host_hardware
from nova_vgpu.values import planning


@dataclasses.dataclass(frozen=True, slots=True)
class Evidence:
    """A source and the value found there.

    ``source`` is a file, an option or a function of NVML.
    """

    source: str
    value: str

    def __str__(self) -> str:
        return f'{self.source}: {self.value}'


@dataclasses.dataclass(frozen=True, slots=True)
class UdevCall:
    """A udev rule that calls mdevctl, and whether mdevctl exists."""

    rule: str
    program: str
    is_there: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Environment:
    """The environment that a host's files describe.

    ``iommus`` and ``iommu_groups`` are their numbers. ``mdevctl`` is its path.
    ``vgpu_managers`` are the ids of its processes; None if processes are
    hidden. The dwords are those that NVIDIA's driver was
    loaded with, ``modprobe_dwords`` those that it would be loaded with.
    """

    command_line: Evidence | None = None
    iommus: int | None = None
    iommu_groups: int | None = None
    mdevctl: tuple[str, ...] = ()
    udev_calls: tuple[UdevCall, ...] = ()
    vgpu_managers: tuple[int, ...] | None = None
    driver_version: Evidence | None = None
    loaded_dwords: Evidence | None = None
    loaded_dwords_per_gpu: Evidence | None = None
    modprobe_dwords: tuple[Evidence, ...] = ()
    faults: tuple[host_hardware.ReadFault, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class DoctorInput:
    """A host, its plan and its environment.

    ``surroundings`` and ``modes`` are None if the host is not this machine.
    ``post_copy`` is where nova.conf permits post-copy migration, None if it
    does not. ``remembered`` are the stored names of type ids.
    """

    host: host_hardware.Host
    declaration: declarations.Declaration = dataclasses.field(
        default_factory=declarations.Declaration
    )
    plan: planning.Plan = dataclasses.field(default_factory=planning.Plan)
    surroundings: Environment | None = None
    modes: host_hardware.ModesRead | None = None
    post_copy: Evidence | None = None
    remembered: tuple[tuple[str, str], ...] = ()

    def is_wanted(self, asked: host_hardware.PhysicalGPU) -> bool:
        """Whether the GPU is to serve vGPUs, if that is known.

        Without a configuration every GPU is included.
        """
        return not self.declaration.types or bool(
            self.plan.assignments_of(asked.name)
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One finding about the host.

    ``code`` is stable, for machines. ``subject`` is the GPU, the option or
    the part of the host concerned. ``text`` says what was found and ``cure``
    what to do; a note may have no cure.
    """

    severity: planning.Severity
    code: str
    subject: str
    text: str
    evidence: tuple[Evidence, ...] = ()
    cure: str = ''


def describe(text: str, evidence: Iterable[str], cure: str) -> str:
    """A finding for people: the text, what was seen, and the cure."""
    lines = [text, *(f'Seen: {line}' for line in evidence)]
    if cure:
        lines.append(f'Cure: {cure}')
    return '\n'.join(lines)
