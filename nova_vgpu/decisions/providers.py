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

"""From the plan to Placement's resource providers."""

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities


def make_provider(
    assigned: values.Assignment, node: str
) -> values.Provider | None:
    """The provider of one GPU, below the compute node's; None if idle."""
    if not assigned.serves or not assigned.type or not assigned.capacity:
        return None
    return values.Provider(
        name=f'{node}_{assigned.gpu.name}',
        parent=node,
        resource_class=assigned.declared.resource_class,
        total=assigned.capacity.total,
        traits=tuple(
            sorted(
                {
                    *capabilities.traits_of(assigned.gpu, assigned.type),
                    *assigned.declared.traits,
                }
            )
        ),
    )


def list_providers(
    plan: values.Plan, node: str
) -> tuple[values.Provider, ...]:
    """One provider per GPU that serves."""
    made = (make_provider(assigned, node) for assigned in plan.assignments)
    return tuple(provider for provider in made if provider is not None)
