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

"""The models of whole GPUs that flavors can ask for, and what is left."""

import collections
from collections.abc import Iterable
from collections.abc import Sequence

from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.gpus import provider_traits
from nova_vgpu.cloud.gpus import types
from nova_vgpu.cloud.gpus import whole_gpu_fleet
from nova_vgpu.cloud.orders import flavors as cloud_flavors
from nova_vgpu.cloud.orders import whole_gpu_order
from nova_vgpu.knowledge import whole_gpu_names


def list_models(
    gpus: Iterable[fleet.GPU],
    flavors: Sequence[cloud_flavors.Flavor] = (),
) -> tuple[types.TypeUsage, ...]:
    """One entry for each model, in the order of their names.

    An entry has the model and no types. A GPU of a resource class that does
    not follow from its model cannot be asked for, and is left out.

    :param gpus: those that serve vGPUs are left out.
    """
    by_class = collections.defaultdict(list)
    for gpu in filter(whole_gpu_fleet.is_gpu, gpus):
        for stock in gpu.stocks:
            by_class[stock.resource_class].append((gpu, stock))
    asked = {
        flavor.name: whole_gpu_order.list_devices(flavor) for flavor in flavors
    }
    found = []
    for resource_class, stocks in by_class.items():
        names = whole_gpu_names.find_by_class(resource_class)
        if names is None or names.resource_class != resource_class:
            continue
        found.append(
            types.summarise(
                provider_traits.Facts(model=names.title),
                resource_class,
                stocks,
                (name for name, devices in asked.items() if names in devices),
            )
        )
    return tuple(sorted(found, key=lambda usage: usage.facts.model or ''))
