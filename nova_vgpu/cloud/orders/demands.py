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

"""What the servers of a flavor have: types, and how many vGPUs of each.

By the flavor alone: if it fits several types, it is not known which of them a
server has, unless its GPU is looked up.
"""

import collections
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.gpus import provider_traits
from nova_vgpu.cloud.orders import flavors as cloud_flavors
from nova_vgpu.cloud.orders import vgpu_requests
from nova_vgpu.knowledge import capabilities

#: In place of the name of a type.
SEVERAL = 'several'


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """A type, as far as it is known: None, or :data:`SEVERAL` if not."""

    name: str | None
    framebuffer_mib: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Demand:
    kind: Kind
    resource_class: str
    vgpus: int


Demands = Mapping[str, tuple[Demand, ...]]


def find(
    flavors: Iterable[cloud_flavors.Flavor], gpus: Iterable[fleet.GPU]
) -> Demands:
    """What flavors ask for, by their names; nothing if it is not a vGPU."""
    kinds = fleet.list_kinds(gpus)
    classes = vgpu_requests.list_classes(kinds)
    return {
        flavor.name: _add_up(
            vgpu_requests.list_requests(flavor, classes), kinds
        )
        for flavor in flavors
    }


def _add_up(
    requests: Iterable[vgpu_requests.VGPURequest], gpus: Sequence[fleet.GPU]
) -> tuple[Demand, ...]:
    """One demand for all groups that ask for the same."""
    vgpus: collections.Counter[tuple[Kind, str]] = collections.Counter()
    for request in requests:
        kind = _find_kind(request, gpus)
        vgpus[kind, request.resource_class] += request.vgpus
    return tuple(Demand(*of, number) for of, number in vgpus.items())


def _find_kind(
    request: vgpu_requests.VGPURequest, gpus: Sequence[fleet.GPU]
) -> Kind:
    found = [gpu.facts for gpu in gpus if request.is_served_by(gpu)]
    if not found:
        return _find_former(request)
    types = {facts.name for facts in found}
    sizes = {facts.framebuffer_mib for facts in found}
    if len(types) == 1:
        # Some providers may lack the trait of the size.
        sizes.discard(None)
    return Kind(
        types.pop() if len(types) == 1 else SEVERAL,
        sizes.pop() if len(sizes) == 1 else None,
    )


def _find_former(request: vgpu_requests.VGPURequest) -> Kind:
    """The type that no GPU has any more, by what the flavor asks for."""
    name = provider_traits.read(
        request.group.required
    ).name or vgpu_requests.type_of_class(request.resource_class)
    parsed = capabilities.parse_type_name(name or '')
    return Kind(name, parsed.framebuffer_mib if parsed else None)
