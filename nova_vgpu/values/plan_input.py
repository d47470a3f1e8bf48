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

"""Everything that a plan is made of."""

import dataclasses

from nova_vgpu.values import declaration as declarations
from nova_vgpu.values import environment
from nova_vgpu.values import host as hosts
from nova_vgpu.values import problem

#: Ids of types and their names, in the order of the ids.
TypeNames = tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class PlanInput:
    """A loaded configuration, and the host that it is for.

    ``modes`` is what NVML tells of the GPUs; a mode that is not known there
    makes no difference to the plan.
    """

    configuration: 'Configuration'
    host: hosts.Host
    modes: environment.ModesRead


@dataclasses.dataclass(frozen=True, slots=True)
class Configuration:
    """What is declared, and what is stored about this host.

    ``problems`` were found while nova.conf and the stored files were read.
    ``type_names`` is what ids of types meant on this host so far. ``seen``
    are declared addresses that were those of GPUs of this host before.
    """

    declaration: declarations.Declaration = dataclasses.field(
        default_factory=declarations.Declaration
    )
    problems: tuple[problem.Problem, ...] = ()
    type_names: TypeNames = ()
    seen: frozenset[str] = frozenset()

    def plan_input(
        self, host: hosts.Host, modes: environment.ModesRead
    ) -> PlanInput:
        """The one way to the input of a plan, so that all plans are alike."""
        return PlanInput(self, host, modes)
