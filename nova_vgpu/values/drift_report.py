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

"""What was found on a host, beside what is declared for it."""

import dataclasses

from nova_vgpu.values import host
from nova_vgpu.values import plan
from nova_vgpu.values import step
from nova_vgpu.values import usage


@dataclasses.dataclass(frozen=True, slots=True)
class DriftReport:
    """A host, what is declared for it, and what an apply would do first.

    There are no ``gpu_steps`` if the configuration has to be corrected.
    ``last_apply`` is when the host was last changed by one, in seconds since
    the epoch.
    """

    plan: plan.Plan
    host: host.Host
    usage: usage.Usage
    gpu_steps: tuple[step.GPUSteps, ...] = ()
    last_apply: float | None = None

    @property
    def steps(self) -> tuple[step.Step, ...]:
        return tuple(s for of_gpu in self.gpu_steps for s in of_gpu.steps)

    @property
    def refusals(self) -> tuple[step.Refusal, ...]:
        return tuple(r for of_gpu in self.gpu_steps for r in of_gpu.refusals)
