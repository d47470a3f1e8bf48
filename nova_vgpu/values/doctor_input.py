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

"""The input of the doctor."""

import dataclasses

from nova_vgpu.values import declaration as declarations
from nova_vgpu.values import environment as around
from nova_vgpu.values import finding
from nova_vgpu.values import gpu
from nova_vgpu.values import host as hosts
from nova_vgpu.values import plan as plans


@dataclasses.dataclass(frozen=True, slots=True)
class DoctorInput:
    """A host, its plan and its environment.

    ``surroundings`` and ``modes`` are None if the host is not this machine.
    ``post_copy`` is where nova.conf permits post-copy migration, None if it
    does not. ``remembered`` are the stored names of type ids.
    """

    host: hosts.Host
    declaration: declarations.Declaration = dataclasses.field(
        default_factory=declarations.Declaration
    )
    plan: plans.Plan = dataclasses.field(default_factory=plans.Plan)
    surroundings: around.Environment | None = None
    modes: around.ModesRead | None = None
    post_copy: finding.Evidence | None = None
    remembered: tuple[tuple[str, str], ...] = ()

    def is_wanted(self, asked: gpu.PhysicalGPU) -> bool:
        """Whether the GPU is to serve vGPUs, if that is known.

        Without a configuration every GPU is included.
        """
        return not self.declaration.types or bool(
            self.plan.assignments_of(asked.name)
        )
