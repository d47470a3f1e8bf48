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

"""Which providers, and which of their traits, are this project's to change.

A provider below a compute node is a GPU's only if two of these say so: its
name, its resource class, the trait of its type. Everything else belongs to
Nova (memory encryption, PCI devices), to Cyborg or to an operator, and is not
touched.

Nothing is remembered between two runs but what Placement itself holds. Custom
traits of ours are told by their prefix. The owner of a standard trait is
unknown: it is ours if it follows from the type that the provider served
before, which its trait ``CUSTOM_VGPU_TYPE_*`` names. All others are foreign
and stay, also standard ones that an operator set by hand, and so does
``OWNER_NOVA``.
"""

from collections.abc import Collection
from collections.abc import Container
from collections.abc import Iterable

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.knowledge import traits
from nova_vgpu.publish import providers
from nova_vgpu.publish import target as publish_target

_VGPU = 'VGPU'
#: What a root has that a nova-compute looks after.
_NOVAS = frozenset({'VCPU', 'PCPU', 'MEMORY_MB', 'DISK_GB'})
_OWNER_PREFIX = 'OWNER_'


def is_own(
    target: publish_target.Target,
    held: values.PlacementProvider,
    tree: values.PlacementTree,
) -> bool:
    """Whether a provider that no GPU serves is for us to take away."""
    if target.mode is not publish_target.Mode.DRIVER:
        return providers.is_ours(held)
    return held.parent == tree.providers[0].uuid and is_of_gpu(
        held, tree.node, target.classes, target.devices
    )


def find_novas(
    target: publish_target.Target, tree: values.PlacementTree
) -> tuple[str, ...]:
    """The providers that say that Nova looks after the tree."""
    root = tree.root
    if root is None:
        return ()
    found = []
    if any(i.resource_class in _NOVAS for i in root.inventories):
        found.append(root.name)
    names: set[str] = set()
    for gpu in target.devices.values():
        names |= providers.list_names(gpu, tree.node)
    found += [
        held.name
        for held in tree.providers[1:]
        if held.name in names and not providers.is_ours(held)
    ]
    return tuple(found)


def is_of_gpu(
    held: values.PlacementProvider,
    node: str,
    classes: Collection[str],
    devices: Container[str] = (),
) -> bool:
    """Whether a provider below a node is certainly that of a GPU.

    :param classes: the resource classes that types are declared with.
    :param devices: names of the GPUs of the host; for parents of mdevs that
        are not PCI devices, whose names could be anything.
    """
    device = held.name.removeprefix(f'{node}_')
    if device == held.name or _has_other_owner(held.traits):
        return False
    offered = {inventory.resource_class for inventory in held.inventories}
    signs = (
        device in devices
        or values.PciAddress.parse_node_device_name(device) is not None,
        not offered.isdisjoint({_VGPU, *classes}),
        any(trait.startswith(traits.TYPE_PREFIX) for trait in held.traits),
    )
    return sum(signs) > 1


def _has_other_owner(found: Collection[str]) -> bool:
    return traits.TRACKED_BY_NOVA in found or any(
        trait.startswith(_OWNER_PREFIX) and trait != traits.OWNER
        for trait in found
    )


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
    """Whether a trait is certainly not ours."""
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
