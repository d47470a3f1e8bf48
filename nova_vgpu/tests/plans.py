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
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests import hosts

#: The functions of :func:`vfio`.
VFIO_NAMES = [f'pci_0000_c8_00_{function}' for function in (4, 5, 6, 7)]


def vfio(*created: str) -> simulation.GPU:
    """A GPU whose functions are vGPUs (vendor-specific VFIO)."""
    return hosts.gpu('c8:00.0', boards.L40S, *created, vfs=4, vendor_vfio=True)


def t4(*created: str) -> simulation.GPU:
    """A GPU that has its mdevs itself."""
    return hosts.gpu('84:00.0', boards.T4, *created)


def plan_types(card: simulation.GPU, *types: str) -> values.Plan:
    """The plan for one GPU, if these types are enabled."""
    declaration = values.Declaration(
        tuple(values.DeclaredType(name, f'vgpu_{name}') for name in types)
    )
    return make_plan(declaration, hosts.make_host(card))


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
