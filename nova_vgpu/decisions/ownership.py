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

"""Which traits of a provider are this project's to take away.

Nothing is remembered between two runs but what Placement itself holds. Custom
traits of ours are told by their prefix. A standard trait tells nobody who set
it: it is ours if it follows from the type that the provider served before,
which its trait ``CUSTOM_VGPU_TYPE_*`` names. All others are foreign and stay,
also standard ones that an operator set by hand, and so does ``OWNER_NOVA``.
"""

from collections.abc import Iterable

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.knowledge import traits


def find_stale(
    gpu: values.PhysicalGPU, there: Iterable[str], wanted: Iterable[str]
) -> frozenset[str]:
    """Those of a provider's traits that are ours and not wanted any more."""
    found = frozenset(there)
    ours = {trait for trait in found if trait.startswith(traits.OWN_PREFIXES)}
    for trait in sorted(ours):
        if trait.startswith(traits.TYPE_PREFIX):
            ours.update(_follow_from(gpu, trait))
    ours.discard(traits.OWNER)
    return found & ours - frozenset(wanted)


def is_foreign(trait: str) -> bool:
    """Whether a trait by itself says that somebody else was here."""
    return trait != traits.OWNER and not trait.startswith(
        (*traits.OWN_PREFIXES, traits.GPU_PREFIX)
    )


def _follow_from(gpu: values.PhysicalGPU, trait: str) -> tuple[str, ...]:
    """The traits that we gave the provider along with that of its type."""
    for vgpu_type in gpu.types:
        if capabilities.trait_of_type(vgpu_type) == trait:
            return capabilities.traits_of(gpu, vgpu_type)
    gone = capabilities.type_of_trait(trait)
    return capabilities.traits_of(gpu, gone) if gone else ()
