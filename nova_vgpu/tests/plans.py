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

"""Plans for tests, of no more than a test is about."""

from nova_vgpu import values
from nova_vgpu.plan import mapper
from nova_vgpu.publish import providers


def make_plan(
    declaration: values.Declaration,
    host: values.Host,
    problems: tuple[values.Problem, ...] = (),
    type_names: values.TypeNames = (),
    seen: frozenset[str] = frozenset(),
    modes: values.ModesRead | None = None,
) -> values.Plan:
    """The plan for a host; what is not given is not known."""
    configuration = values.Configuration(
        declaration, problems, type_names, seen
    )
    return mapper.make_plan(
        configuration.plan_input(host, modes or values.ModesRead())
    )


def list_providers(plan: values.Plan, node: str) -> list[values.Provider]:
    """The providers of the GPUs that serve."""
    served = providers.Target(plan, node).served
    return [provider for _, provider in served.values()]
