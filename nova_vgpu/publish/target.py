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

"""What Placement is to hold for a compute node, and who asks for it."""

from collections.abc import Mapping
import dataclasses
import enum
import functools

from nova_vgpu import values
from nova_vgpu.publish import providers


class Mode(enum.Enum):
    """Who publishes, and so how much of the tree may be changed.

    DRIVER is the driver within nova-compute. The providers of GPUs are its
    own, by whatever driver of Nova they were made; Nova creates traits and
    resource classes.

    TRAITS and FULL are ``provider sync`` beside a nova-compute, which owns
    the tree, and without one. With FULL the providers that this project made
    are its own. On others, if the operator insists, nothing is changed but
    the traits and the inventory of the declared class.

    HAND_BACK is ``provider hand-back``: for Nova's own driver.
    """

    DRIVER = 'driver'
    TRAITS = 'traits'
    FULL = 'full'
    HAND_BACK = 'hand-back'


#: A GPU that serves, and its provider.
Served = tuple[values.PhysicalGPU, values.Provider]


# No slots: what follows from the plan is computed once.
@dataclasses.dataclass(frozen=True)
class Target:
    """What to bring Placement to: the plan, below a node.

    ``create_root`` makes the node's own provider if it is missing, and
    ``force`` goes on although Nova looks after the tree; both are for the
    mode FULL. ``guests`` tell where the vGPUs of servers are.
    """

    plan: values.Plan
    node: str
    mode: Mode = Mode.TRAITS
    create_root: bool = False
    force: bool = False
    guests: tuple[values.Guest, ...] = ()

    @functools.cached_property
    def served(self) -> Mapping[str, Served]:
        """The GPUs that serve, by the names of their providers."""
        return {
            provider.name: (assigned.gpu, provider)
            for assigned in self.plan.assignments
            if (provider := providers.make_provider(assigned, self.node))
        }

    @functools.cached_property
    def awaited(self) -> frozenset[str]:
        """Names of providers whose GPUs are to serve, able to or not."""
        return frozenset(
            providers.name_of(self.node, device)
            for device in providers.list_awaited(self.plan)
        )

    @functools.cached_property
    def devices(self) -> Mapping[str, values.PhysicalGPU]:
        """All GPUs of the host by their names."""
        return {gpu.name: gpu for gpu in self.plan.gpus}

    @functools.cached_property
    def former(self) -> Mapping[str, str]:
        """The provider of the GPU for each that Nova's driver may have made.

        Of the virtual functions of GPUs that serve.
        """
        return {
            former: name
            for name, (gpu, _) in self.served.items()
            for former in providers.list_names(gpu, self.node) - {name}
        }

    @functools.cached_property
    def classes(self) -> frozenset[str]:
        """The resource classes that types are declared with."""
        return frozenset(t.resource_class for t in self.plan.types)
