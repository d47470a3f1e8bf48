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

"""What a flavor asks for of vGPUs.

A resource class is one of vGPUs if it is Nova's own, if a GPU has it, or if it
is named after a type. Any other custom class is one if the trait of a type is
required together with it, and no other class of the group is one.
"""

from collections.abc import Iterable
from collections.abc import Set
import dataclasses

from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.knowledge import capabilities
from nova_vgpu.knowledge import traits

_VGPU = 'VGPU'
_CUSTOM = 'CUSTOM_'


@dataclasses.dataclass(frozen=True, slots=True)
class VGPURequest:
    """vGPUs of one resource class, that one GPU has to have."""

    group: flavors.Group
    resource_class: str
    vgpus: int

    def is_served_by(self, gpu: fleet.GPU) -> bool:
        """Whether the GPU has such vGPUs, however many."""
        return self.resource_class in gpu.classes and self.group.asks_for(
            gpu, self.resource_class
        )


def list_classes(gpus: Iterable[fleet.GPU]) -> frozenset[str]:
    """The resource classes that GPUs have."""
    return frozenset(name for gpu in gpus for name in gpu.classes)


def list_requests(
    flavor: flavors.Flavor, classes: Set[str]
) -> tuple[VGPURequest, ...]:
    """What a flavor asks for, in the order of its groups.

    :param classes: those that GPUs have.
    """
    return tuple(
        VGPURequest(group, name, amount)
        for group in flavor.groups
        for name, amount in _list_amounts(group, classes)
    )


def _list_amounts(
    group: flavors.Group, classes: Set[str]
) -> list[tuple[str, int]]:
    amounts = [(name, amount) for name, amount in group.amounts if amount]
    known = [
        (name, amount)
        for name, amount in amounts
        if is_vgpu_class(name, classes)
    ]
    if known or not _names_type(group):
        return known
    return [pair for pair in amounts if pair[0].startswith(_CUSTOM)]


def is_vgpu_class(name: str, classes: Set[str]) -> bool:
    """Whether a resource class is one of vGPUs, by itself."""
    return (
        name in classes
        or _VGPU in name.split('_')
        or type_of_class(name) is not None
    )


def type_of_class(resource_class: str) -> str | None:
    """The type that a class such as CUSTOM_A40_8Q is named after."""
    name = resource_class.removeprefix(_CUSTOM)
    if name == resource_class:
        return None
    found = capabilities.type_of_trait(f'{traits.TYPE_PREFIX}{name}')
    return found.id if found else None


def _names_type(group: flavors.Group) -> bool:
    return any(
        trait.startswith(traits.TYPE_PREFIX) for trait in group.required
    )
