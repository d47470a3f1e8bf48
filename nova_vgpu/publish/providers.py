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

"""The providers of GPUs: what a plan wants, and whose each one is.

A provider below a compute node is a GPU's only if two of these say so: its
name, its resource class, the trait of its type. Everything else belongs to
Nova (memory encryption, PCI devices), to Cyborg or to an operator, and is not
touched.
"""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import enum
import functools
import uuid

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.knowledge import traits

_NAMESPACE = uuid.UUID('8d0c1f4e-7c0b-5d57-9f3a-6b1d2f5a9c37')
_VGPU = 'VGPU'
#: Resource classes of a root that a nova-compute manages.
_NOVAS = frozenset({'VCPU', 'PCPU', 'MEMORY_MB', 'DISK_GB'})
_OWNER_PREFIX = 'OWNER_'

#: A GPU that serves, and its provider.
Served = tuple[values.Assignment, values.Provider]


class Mode(enum.Enum):
    """Who publishes, and so how much of the tree may be changed.

    DRIVER is the driver within nova-compute. The providers of GPUs are its
    own, by whatever driver of Nova they were created; Nova creates traits and
    resource classes.

    TRAITS and FULL are ``provider sync`` beside a nova-compute, which manages
    the tree, and without one. With FULL the providers that this project
    created are its own. On others, with ``--force``, nothing is changed but
    the traits and the inventory of the declared class.

    HAND_BACK is ``provider hand-back``: for Nova's own driver.
    """

    DRIVER = 'driver'
    TRAITS = 'traits'
    FULL = 'full'
    HAND_BACK = 'hand-back'


# No slots: what follows from the plan is computed once.
@dataclasses.dataclass(frozen=True)
class Target:
    """What Placement is to hold: the plan, below a node.

    ``create_root`` creates the node's own provider if it is missing, and
    ``force`` changes a tree that Nova manages; both are for the mode FULL.
    ``guests`` tell where the vGPUs of servers are.
    """

    plan: values.Plan
    node: str
    mode: Mode = Mode.TRAITS
    create_root: bool = False
    force: bool = False
    guests: tuple[values.Guest, ...] = ()

    @functools.cached_property
    def served(self) -> Mapping[str, Served]:
        """What serves, by the names of the providers."""
        return {
            provider.name: (assigned, provider)
            for assigned in self.plan.assignments
            if (provider := make_provider(assigned, self.node))
        }

    @functools.cached_property
    def _assigned(self) -> frozenset[str]:
        return frozenset(a.device for a in self.plan.assignments)

    @functools.cached_property
    def _expected(self) -> frozenset[str]:
        """GPUs of which it is not known what they serve.

        Listed GPUs are among them although they are not on the bus.
        """
        listed = (
            _parse(entry.address)
            for declared in self.plan.types
            for entry in declared.listed
        )
        known = {assigned.gpu.name for assigned in self.plan.assignments}
        return self.plan.unreadable.union(
            address.node_device_name for address in listed if address
        ) - (known - self.plan.unreadable)

    def is_awaited(self, name: str) -> bool:
        """Whether the GPU of a provider is to serve, able to or not."""
        device = name.removeprefix(f'{self.node}_')
        gpu, _ = values.split_device(device, self.devices)
        return device in self._assigned or gpu in self._expected

    @functools.cached_property
    def devices(self) -> Mapping[str, values.PhysicalGPU]:
        """All GPUs of the host by their names."""
        return {gpu.name: gpu for gpu in self.plan.gpus}

    @functools.cached_property
    def _by_function(self) -> Mapping[str, str]:
        """The GPUs that serve, by their names and those of their functions."""
        return {
            device: assigned.gpu.name
            for assigned, _ in self.served.values()
            for device in (assigned.gpu.name, *list_functions(assigned.gpu))
        }

    def find_successors(self, name: str) -> tuple[values.Assignment, ...]:
        """What takes over from a provider that is not to be there any more.

        The provider is one of a GPU that serves: Nova's driver made it of a
        virtual function, or the GPU was divided in another way. All that the
        GPU is to serve takes over, able to or not.
        """
        device = name.removeprefix(f'{self.node}_')
        if device == name or device in self._assigned:
            return ()
        gpu = self._by_function.get(
            values.split_device(device, self.devices)[0]
        )
        return self.plan.assignments_of(gpu) if gpu else ()

    @functools.cached_property
    def classes(self) -> frozenset[str]:
        """The resource classes that types are declared with."""
        return frozenset(t.resource_class for t in self.plan.types)

    @functools.cached_property
    def traits(self) -> frozenset[str]:
        """The traits that types are declared with."""
        return frozenset(trait for t in self.plan.types for trait in t.traits)


def make_provider(
    assigned: values.Assignment, node: str
) -> values.Provider | None:
    """The provider of a GPU or its share, below the compute node's.

    None if it serves nothing.
    """
    if not assigned.serves or not assigned.type or not assigned.capacity:
        return None
    return values.Provider(
        name=name_of(node, assigned.device),
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


def name_of(node: str, device: str) -> str:
    """The provider of a device, as Nova names it."""
    return f'{node}_{device}'


def list_names(gpu: values.PhysicalGPU, node: str) -> frozenset[str]:
    """What Nova may call the providers of a GPU: one, or one per function."""
    devices = {gpu.name, *list_functions(gpu)}
    return frozenset(name_of(node, device) for device in devices)


def list_names_of(assigned: values.Assignment, node: str) -> frozenset[str]:
    """The same for a GPU, or the share of one, that serves a type."""
    if assigned.share is None:
        return list_names(assigned.gpu, node)
    # Functions with one type only: Nova's driver divides in no other way.
    shared = {f for other in assigned.beside for f in other.functions}
    own = {assigned.device, *assigned.functions} - shared - {assigned.gpu.name}
    return frozenset(name_of(node, device) for device in own)


def list_functions(gpu: values.PhysicalGPU) -> frozenset[str]:
    """The node device names of the virtual functions that a GPU can have.

    Those that are off now are among them: Nova may have created providers of
    them.
    """
    addresses = {vf.address for vf in gpu.vfs}
    if gpu.sriov is not None and gpu.address is not None:
        addresses.update(gpu.sriov.addresses(gpu.address))
    return frozenset(address.node_device_name for address in addresses)


def uuid_of(parent: str | None, name: str, for_nova: bool = False) -> str:
    """The UUID of a provider that this project creates.

    It follows from the place and the name of the provider. So a provider that
    was created by a request whose answer got lost is recognised, and so is
    one that Nova created, which has a random UUID.

    :param for_nova: whether Nova manages the provider: it is created by the
        driver, or for Nova's own driver.
    """
    place = f'{parent or ""}/{name}'
    return str(
        uuid.uuid5(_NAMESPACE, f'for Nova: {place}' if for_nova else place)
    )


def find_or_make(
    tree: values.PlacementTree, name: str, for_nova: bool = True
) -> values.PlacementProvider:
    """A provider below the root as it is, or as it will be created."""
    root = tree.root.uuid if tree.root else uuid_of(None, tree.node)
    return tree.find(name) or values.PlacementProvider(
        uuid_of(root, name, for_nova), name, 0, root
    )


def is_ours(held: values.PlacementProvider) -> bool:
    """Whether a command of this project created the provider."""
    return held.uuid == uuid_of(held.parent, held.name)


def is_own(
    target: Target, held: values.PlacementProvider, tree: values.PlacementTree
) -> bool:
    """Whether a provider without a GPU that serves may be deleted."""
    if target.mode is not Mode.DRIVER:
        return is_ours(held)
    return held.parent == tree.providers[0].uuid and is_of_gpu(
        held, tree.node, target.classes, target.devices
    )


def find_novas(target: Target, tree: values.PlacementTree) -> tuple[str, ...]:
    """The providers that show that Nova manages the tree."""
    root = tree.root
    if root is None:
        return ()
    found = []
    if any(i.resource_class in _NOVAS for i in root.inventories):
        found.append(root.name)
    names: set[str] = set()
    for gpu in target.devices.values():
        names |= list_names(gpu, tree.node)
    found += [
        held.name
        for held in tree.providers[1:]
        if held.name in names and not is_ours(held)
    ]
    return tuple(found)


def is_of_gpu(
    held: values.PlacementProvider,
    node: str,
    classes: Collection[str],
    devices: Collection[str] = (),
) -> bool:
    """Whether a provider below a node is certainly that of a GPU.

    :param classes: the resource classes that types are declared with.
    :param devices: names of the GPUs of the host; for parents of mdevs that
        are not PCI devices, whose names could be anything.
    """
    offered = [inventory.resource_class for inventory in held.inventories]
    return is_named_as_gpu(
        held.name, node, held.traits, offered, classes, devices
    )


def is_named_as_gpu(
    name: str,
    node: str,
    found: Collection[str],
    offered: Iterable[str],
    classes: Collection[str] = (),
    devices: Collection[str] = (),
) -> bool:
    """The same for a provider of which only this is known.

    :param found: its traits.
    :param offered: the resource classes of its inventories.
    """
    device = name.removeprefix(f'{node}_')
    if device == name or has_other_owner(found):
        return False
    gpu, _ = values.split_device(device, devices)
    signs = (
        gpu in devices
        or values.PciAddress.parse_node_device_name(gpu) is not None,
        not {_VGPU, *classes}.isdisjoint(offered),
        any(trait.startswith(traits.TYPE_PREFIX) for trait in found),
    )
    return sum(signs) > 1


def has_other_owner(found: Collection[str]) -> bool:
    """Whether traits show that a provider is not one of a vGPU driver's."""
    return traits.TRACKED_BY_NOVA in found or any(
        trait.startswith(_OWNER_PREFIX) and trait != traits.OWNER
        for trait in found
    )


def _parse(text: str) -> values.PciAddress | None:
    try:
        return values.PciAddress.parse(text)
    except values.MalformedAddress:
        return None
