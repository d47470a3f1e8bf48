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

"""Whose a trait of a provider is.

Custom traits of this project are known by their names. Standard ones are not:
an operator may have set ``HW_GPU_API_VULKAN`` by hand. They are this project's
if they follow from the type that the provider served before, which a trait of
the provider names; everything else is somebody else's and stays.
"""

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.knowledge import traits


def find_stale(
    gpu: values.PhysicalGPU, present: frozenset[str], wanted: frozenset[str]
) -> frozenset[str]:
    """The traits that this project once set and does not want any more."""
    ours = {t for t in present if t.startswith(traits.OWN_PREFIXES)}
    for vgpu_type in gpu.types:
        served = traits.custom('VGPU_TYPE', capabilities.short_name(vgpu_type))
        if served in present:
            ours.update(capabilities.traits_of(gpu, vgpu_type))
    return (present & ours) - wanted - {traits.OWNER}
